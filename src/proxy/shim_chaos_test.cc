// Everybody misbehaves at random: tokens are conserved, and nothing is left.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "proxy/shim_bench.h"

namespace hg::proxy {
namespace {

constexpr std::size_t kAgents = 40;  // At once; ten of them fit under the in-flight cap.
constexpr int kSteps = 1500;

class ShimChaosTest : public ShimBench, public testing::WithParamInterface<std::uint64_t> {
 protected:
  // What the provider does with the next request.
  Scripted any_answer(Rng& rng) {
    if (rng.chance(0.2)) return overload(rng.chance(0.5) ? 429 : 529);
    Scripted answer = anthropic_stream();
    if (rng.chance(0.1)) answer.reset_before_head = true;
    if (rng.chance(0.1)) {
      answer.reset_before_piece = static_cast<std::size_t>(rng.integer(0, 3));
    }
    if (rng.chance(0.3)) {
      events_.push_back(std::make_shared<net::Event>(loop_.executor()));
      answer.before_head = events_.back();
    }
    if (rng.chance(0.3)) {
      events_.push_back(std::make_shared<net::Event>(loop_.executor()));
      answer.before_piece[static_cast<std::size_t>(rng.integer(0, 3))] = events_.back();
    }
    return answer;
  }

  void some_turns(Rng& rng) {
    loop_.io.restart();
    for (std::int64_t i = rng.integer(0, 30); i > 0; --i) loop_.io.poll_one();
  }

  std::vector<std::shared_ptr<net::Event>> events_;
  std::vector<std::unique_ptr<RawAgent>> agents_;
};

// What the line says that the call cost in the end; the pool counts cached tokens in full.
Tokens cost_of(const boost::json::object& line) {
  const auto settled = line.find("settled_by");
  if (settled == line.end() || settled->value() == "refund") return 0;
  if (settled->value() == "estimate") return line.at("charge").as_int64();
  const boost::json::value& usage = line.at("usage");
  return usage.at("uncached").as_int64() + usage.at("cached").as_int64();
}

INSTANTIATE_TEST_SUITE_P(Seeds, ShimChaosTest, testing::Values(1, 2, 3));

TEST_P(ShimChaosTest, TokensAreConservedAndNothingIsLeft) {
  Rng rng(GetParam());
  PoolRule rule;
  rule.name = "p";
  rule.limits = gate::Limits{.c_burst = 10'000'000,
                             .r_tok = 1,
                             .k_inflight = 20'000,
                             .c_req = 1'000'000,
                             .r_qps = 1'000'000};
  rule.weights.emplace();
  config_.pools = {rule};
  start();
  const Instant began = loop_.clock.now();
  const std::string bytes = raw_request("/v1/messages",
                                        anthropic_body(true, std::string(8'000, 'x')));
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t what = rng.integer(0, 3);
    if (what <= 1 && agents_.size() < kAgents) {
      provider_.script.push_back(any_answer(rng));
      agents_.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
      agents_.back()->write(bytes);
    } else if (what == 2 && !agents_.empty()) {
      const auto last = static_cast<std::int64_t>(agents_.size()) - 1;
      const auto at = agents_.begin() + rng.integer(0, last);
      if (rng.chance(0.5)) (*at)->reset();
      agents_.erase(at);
    } else if (!events_.empty()) {
      events_.back()->notify();
      events_.pop_back();
    }
    some_turns(rng);
  }
  // Now all go on to their end.
  provider_.script.clear();
  for (const auto& event : events_) event->notify();
  until("all calls are over", [&] {
    return shim_->stats().calls_now == 0 && provider_.under_way == 0 && leases() == 0 &&
           waiters() == 0 && shim_->stats().calls == lines().size();
  });
  Tokens cost = 0;
  for (const boost::json::object& line : lines()) cost += cost_of(line);
  const Tokens refilled = (loop_.clock.now() - began).count() / kMicro;
  EXPECT_GT(lines().size(), 300U);
  EXPECT_GT(cost, 10'000) << "nothing happened";
  EXPECT_LE(std::abs(cost - refilled - drawn()), 2) << "after " << lines().size() << " calls";
}

}  // namespace
}  // namespace hg::proxy
