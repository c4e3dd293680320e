// What nobody may make large: memory of the shim while peers are slow, endless, huge or many.
// docs/limits.md states the numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "proxy/shim_bench.h"

namespace hg::proxy {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMemoryMeansNothing = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kMemoryMeansNothing = true;
#else
constexpr bool kMemoryMeansNothing = false;
#endif
#else
constexpr bool kMemoryMeansNothing = false;
#endif

// Resident memory of this process: agent, shim and provider together.
std::int64_t resident_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

class ShimBoundsTest : public ShimBench {
 protected:
  ShimBoundsTest() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }

  // The next call goes well, and nothing is in flight.
  void expect_all_is_well() {
    until("nothing is in flight", [&] { return shim_->stats().calls_now == 0 && leases() == 0; });
    EXPECT_EQ(view().inflight, 0);
    provider_.script.clear();
    const auto next = call_anthropic(anthropic_body(true));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->head.status, 200);
  }

  // Reads what an agent's answer brings until `bytes` of it have come; answers the highest memory
  // seen above `before`.
  std::int64_t read_watching_memory(RawAgent& agent, std::size_t bytes, std::int64_t before) {
    std::int64_t most = 0;
    const std::size_t wanted = heard_ + bytes;
    int turns = 0;
    until("all bytes", [&] {
      heard_ += agent.read_available().size();
      if (++turns % 512 == 0) most = std::max(most, resident_kib() - before);
      return heard_ >= wanted;
    });
    return std::max(most, resident_kib() - before);
  }

  // Long enough for every buffer on the way to fill: turns of the loop that find nothing to do.
  void until_nothing_moves() {
    for (int idle = 0; idle < 50;) {
      loop_.io.restart();
      idle = loop_.io.poll() == 0 ? idle + 1 : 0;
    }
  }

  // An agent asks for `answer` of `bytes` and reads nothing for a while, then a part of it, and so
  // on: as many parts as there are `pauses`.
  void read_late(Scripted answer, std::size_t bytes, std::int64_t kib_max, std::size_t pauses = 1) {
    provider_.script.push_back(std::move(answer));
    heard_ = 0;
    const std::int64_t before = resident_kib();
    RawAgent agent(loop_, shim_port_);
    agent.write(raw_request("/v1/messages", anthropic_body(true)));
    until("it has begun", [&] { return provider_.under_way == 1; });
    std::int64_t most = 0;
    for (std::size_t part = 1; part <= pauses; ++part) {
      until_nothing_moves();
      EXPECT_EQ(provider_.under_way, 1) << "nobody took the bytes, so they were not sent";
      const std::size_t left = heard_ < bytes ? bytes - heard_ : 0;
      const std::size_t wanted = part == pauses ? left : bytes / pauses;
      most = std::max(most, read_watching_memory(agent, wanted, before));
    }
    if (!kMemoryMeansNothing) {
      EXPECT_LT(most, kib_max) << "KiB above the start";
    }
    RecordProperty("kib", static_cast<int>(most));
  }

  // A stream of `repeats` times 60 KB, to an agent that reads it in as many parts as `pauses`.
  void read_slowly(std::size_t repeats, std::size_t pauses);
  // So many connections, cut at random moments; no growth from `warm` of them on.
  void cut_at_random(int connections, int warm);

  std::size_t heard_ = 0;  // Bytes of the present answer, its head included.
};

// The same for as long as a leak needs to show: `make soak`.
class ShimBoundsSoakTest : public ShimBoundsTest {
 protected:
  ShimBoundsSoakTest() { patience_ = 600s; }
};

void ShimBoundsTest::read_slowly(std::size_t repeats, std::size_t pauses) {
  start();
  Scripted stream = anthropic_stream();
  const std::string delta =
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"" +
      std::string(60'000, 'x') + "\"}}\n\n";
  stream.pieces = {delta};
  stream.repeats = repeats;
  stream.last = anthropic_stream().pieces[2] + anthropic_stream().pieces[3];
  const std::size_t size = delta.size() * stream.repeats + stream.last.size();
  read_late(std::move(stream), size, 16 * 1024, pauses);
  expect_all_is_well();
}

TEST_F(ShimBoundsTest, ASlowReaderOf200MegabytesCostsAChunkOrTwo) { read_slowly(3'500, 1); }

TEST_F(ShimBoundsSoakTest, ASlowReaderOf2GigabytesCostsNoMore) { read_slowly(35'000, 20); }

TEST_F(ShimBoundsTest, AnEndlessLineIsPassedOnAndNotKept) {
  start();
  Scripted line = anthropic_stream();
  line.pieces = {std::string(64 * 1024, 'x')};
  line.repeats = 800;
  line.last = "\n\n" + anthropic_stream().pieces[3];
  const std::size_t size = line.repeats * line.pieces[0].size() + line.last.size();
  read_late(std::move(line), size, 16 * 1024);
  expect_all_is_well();
}

TEST_F(ShimBoundsTest, AHugeErrorIsPassedOnAndNotKept) {
  start();
  Scripted error = overload(400);
  error.pieces = {std::string(64 * 1024, 'e')};
  error.repeats = 1'600;
  read_late(std::move(error), std::size_t{1'600} * 64 * 1024, 16 * 1024);
  expect_all_is_well();
}

TEST_F(ShimBoundsTest, AHugeAnswerThatIsNoStreamIsPassedOnAndNotKept) {
  start();
  Scripted answer = chat_answer();
  answer.pieces = {std::string(64 * 1024, ' ')};
  answer.repeats = 1'000;
  read_late(std::move(answer), std::size_t{1'000} * 64 * 1024, 16 * 1024);
  expect_all_is_well();
}

TEST_F(ShimBoundsTest, TwoThousandHeldCallsCostLittleAndAllGo) {
  constexpr std::size_t kHeld = 2'000;
  start(10'500);
  auto release = std::make_shared<net::Event>(loop_.executor());
  Scripted slow = anthropic_stream();
  slow.before_head = release;
  provider_.script.push_back(slow);
  RawAgent first(loop_, shim_port_);
  first.write(raw_request("/v1/messages", anthropic_body(true, std::string(40'000, 'x'))));
  until("the bucket is empty", [&] { return provider_.under_way == 1; });
  const std::string body = anthropic_body(true, std::string(4'000, 'x'));
  const std::string bytes = raw_request("/v1/messages", body);
  const std::int64_t before = resident_kib();
  std::vector<std::unique_ptr<RawAgent>> agents;
  for (std::size_t i = 1; i <= kHeld; ++i) {
    agents.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
    agents.back()->write(bytes);
    if (i % 100 == 0) until("they are held", [&] { return shim_->stats().held_now == i; });
  }
  EXPECT_EQ(waiters(), kHeld);
  const double each = static_cast<double>(resident_kib() - before) / kHeld;
  const double beyond = each - static_cast<double>(body.size()) / 1024;
  RecordProperty("bytes_each_beyond_body", static_cast<int>(beyond * 1024));
  if (!kMemoryMeansNothing) {
    EXPECT_LT(beyond, 24) << "KiB, the agent's own part included";
  }
  for (const auto& agent : agents) agent->reset();
  until("the queue is empty", [&] { return waiters() == 0 && shim_->stats().held_now == 0; });
  release->notify();
  until("all are gone", [&] { return shim_->stats().calls_now == 0; });
  EXPECT_EQ(shim_->stats().body_bytes_now, 0U);
  EXPECT_EQ(view().inflight, 0);
}

void ShimBoundsTest::cut_at_random(int connections, int warm) {
  start(100'000'000);
  Rng rng(7);
  const std::string bytes = raw_request("/v1/messages",
                                        anthropic_body(true, std::string(2'000, 'x')));
  std::vector<std::unique_ptr<RawAgent>> agents;
  std::int64_t after_warmup = 0;
  for (int i = 0; i < connections; ++i) {
    agents.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
    const auto size = static_cast<std::int64_t>(bytes.size());
    const bool whole = rng.chance(0.8);
    agents.back()->write(
        bytes.substr(0, whole ? bytes.size() : static_cast<std::size_t>(rng.integer(1, size))));
    loop_.io.restart();
    for (std::int64_t turns = rng.integer(0, 60); turns > 0; --turns) loop_.io.poll_one();
    const auto victim = static_cast<std::size_t>(
        rng.integer(0, static_cast<std::int64_t>(agents.size()) - 1));
    if (rng.chance(0.5)) {
      agents[victim]->reset();
    } else {
      agents[victim]->close();
    }
    agents.erase(agents.begin() + static_cast<std::ptrdiff_t>(victim));
    provider_.seen.clear();
    if (i == warm) after_warmup = resident_kib();
  }
  agents.clear();
  until("all are gone",
        [&] { return shim_->stats().calls_now == 0 && shim_server_->stats().connections == 0; });
  if (!kMemoryMeansNothing) {
    EXPECT_LT(resident_kib() - after_warmup, 16 * 1024);
  }
  expect_all_is_well();
}

TEST_F(ShimBoundsTest, AThousandConnectionsCutAtRandomLeaveNothing) { cut_at_random(1'000, 500); }

TEST_F(ShimBoundsSoakTest, TenThousandConnectionsCutAtRandomLeaveNothing) {
  cut_at_random(10'000, 1'000);
}

}  // namespace
}  // namespace hg::proxy
