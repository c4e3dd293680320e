// Server and client over a stream whose Nth operation fails, N = 1, 2, 3, ... until none does:
// whatever step fails, nothing hangs, nothing stays open, and no half answer passes for a whole
// one.
#include <gtest/gtest.h>

#include <array>
#include <boost/beast/_experimental/test/stream.hpp>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "net/client.h"
#include "net/dial.h"
#include "net/server.h"
#include "net/stream_over.h"
#include "net/test_loop.h"

namespace hg::net {

using TestStream = boost::beast::test::stream;

template <>
struct Carrier<TestStream> {
  static void shutdown_send(TestStream& stream) { stream.close(); }
  static void close(TestStream& stream) { stream.close(); }
  static void reset(TestStream& stream) { stream.close(); }
  static std::size_t read_now(TestStream&, std::span<char>) { return 0; }
  static std::size_t write_now(TestStream&, const Stream::Parts&) { return 0; }
  static bool is_stale(TestStream&) { return false; }
  static std::string peer(const TestStream&) { return "test"; }
};

namespace {

constexpr std::size_t kStepsMax = 60;  // More than any exchange here has.

std::string remote_text(TestStream& remote) { return std::string(remote.str()); }

// Runs what is ready until nothing is.
void settle(TestLoop& loop) {
  loop.io.restart();
  loop.io.poll();
}

// ---- The server

// How the handlers of one connection ended.
struct HandlerLog {
  int started = 0;
  int ended = 0;
  int told_gone = 0;
};

Task<void> serve_one(ServerExchange& exchange, HandlerLog& log) {
  ++log.started;
  auto on_gone = [&log] { ++log.told_gone; };
  exchange.on_gone(on_gone);
  const auto body = co_await exchange.read_body(1000);
  if (body) {
    ResponseHead head(200);
    const auto sent = co_await exchange.send_head(std::move(head), BodyFraming::chunked());
    if (sent) {
      const auto first = co_await exchange.send_some(*body);
      const auto second = co_await exchange.send_some("-tail");
      if (first && second) co_await exchange.finish();
    }
  }
  ++log.ended;
}

constexpr std::string_view kRequests =
    "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
    "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    "4\r\nbody\r\n0\r\n\r\n";
constexpr std::string_view kAnswers =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n5\r\n-tail\r\n0\r\n\r\n"
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    "4\r\nbody\r\n5\r\n-tail\r\n0\r\n\r\n";

class EveryStepTest : public testing::TestWithParam<boost::system::errc::errc_t> {
 protected:
  // read_max_bytes: how much one read gives at most.
  bool serve(std::size_t failing_step, std::size_t read_max_bytes, bool client_leaves) {
    TestLoop loop;
    HandlerLog log;
    Handler handler = [&](ServerExchange& exchange) { return serve_one(exchange, log); };
    Server server(loop.executor(), ServerConfig(), handler);
    const auto code = boost::system::error_code(GetParam(), boost::system::system_category());
    boost::beast::test::fail_count failures(failing_step, code);
    TestStream stream(loop.io, failures);
    stream.read_size(read_max_bytes);
    TestStream remote = boost::beast::test::connect(stream);
    stream.append(kRequests);
    server.adopt(std::make_unique<StreamOver<TestStream>>(std::move(stream)));
    settle(loop);
    if (client_leaves) remote.close();
    settle(loop);
    const std::string heard = remote_text(remote);
    EXPECT_EQ(log.started, log.ended) << failing_step;
    EXPECT_EQ(server.stats().connections, 0u) << failing_step;
    EXPECT_TRUE(kAnswers.starts_with(heard)) << failing_step << ": " << heard;
    loop.run(server.stop(0s));
    return heard == kAnswers;
  }
};

TEST_P(EveryStepTest, OfTheServerMayFail) {
  for (const std::size_t read_max_bytes : {std::size_t{7}, std::size_t{10'000}}) {
    std::size_t step = 1;
    while (step < 200 && !serve(step, read_max_bytes, true)) ++step;
    EXPECT_LT(step, 200u) << "it never succeeded";
    EXPECT_GT(step, 8u);  // Heads, bodies and pieces of two exchanges.
  }
}

// ---- The client

class TestDial final : public Dial {
 public:
  explicit TestDial(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  Task<Result<std::unique_ptr<Stream>>> connect(Micros) override {
    if (!stream_) co_return fail(Errc::unavailable, "no more streams");
    co_return std::move(stream_);
  }
  void abandon() override {}

 private:
  std::unique_ptr<Stream> stream_;
};

struct Fetched {
  bool ok = false;
  std::string body;
  Progress progress = Progress::not_sent;
};

Task<Fetched> fetch_piecewise(Client& client, const RequestHead& head, std::string_view body) {
  Fetched fetched;
  const Url url = *parse_url("http://test");
  ClientExchange exchange = client.start(url);
  const auto sent = co_await exchange.send(head, body);
  if (sent) {
    const auto answer = co_await exchange.read_head(5s);
    std::array<char, 3> buffer;
    while (answer) {
      const auto count = co_await exchange.read_some(buffer, 5s);
      if (!count) break;
      fetched.ok = *count == 0;
      if (fetched.ok) break;
      fetched.body.append(buffer.data(), *count);
    }
  }
  fetched.progress = exchange.progress();
  co_return fetched;
}

constexpr std::string_view kAnswer =
    "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4\r\nbody\r\n5\r\n-tail\r\n0\r\n\r\n";

TEST_P(EveryStepTest, OfTheClientMayFail) {
  const RequestHead head("POST", "/");
  const auto code = boost::system::error_code(GetParam(), boost::system::system_category());
  for (const std::size_t read_max_bytes : {std::size_t{7}, std::size_t{10'000}}) {
    bool succeeded = false;
    std::size_t step = 1;
    for (; step < kStepsMax && !succeeded; ++step) {
      TestLoop loop;
      boost::beast::test::fail_count failures(step, code);
      TestStream stream(loop.io, failures);
      stream.read_size(read_max_bytes);
      TestStream remote = boost::beast::test::connect(stream);
      stream.append(kAnswer);
      remote.close();  // So that a read after the answer ends instead of waiting.
      int dials = 0;
      Dialer dialer = [&](const Url&) -> std::shared_ptr<Dial> {
        ++dials;
        return std::make_shared<TestDial>(
            dials == 1 ? std::make_unique<StreamOver<TestStream>>(std::move(stream)) : nullptr);
      };
      Client client(loop.executor(), loop.clock, ClientConfig(), dialer);
      const Fetched fetched = loop.run(fetch_piecewise(client, head, "abc"));
      EXPECT_EQ(dials, 1) << step;
      EXPECT_EQ(client.stats().open, 0u) << step;
      EXPECT_TRUE(std::string_view("body-tail").starts_with(fetched.body)) << step;
      if (fetched.ok) {
        EXPECT_EQ(fetched.body, "body-tail") << step;
      }
      EXPECT_EQ(fetched.ok, fetched.progress == Progress::ended) << step;
      succeeded = fetched.ok;
      client.close_idle();
      loop.run_dry();
    }
    EXPECT_TRUE(succeeded);
    EXPECT_GT(step, 2u);
  }
}

// Says `answer` as often as it hears `question`; closes its stream after `count` answers.
Task<void> answer_questions(TestStream* remote, std::string question,
                            std::deque<std::string> answers) {
  std::string heard;
  while (!answers.empty()) {
    char bytes[100];
    const auto [ec, count] = co_await remote->async_read_some(asio::buffer(bytes), as_result);
    if (ec) break;
    heard.append(bytes, count);
    if (heard.find(question) == std::string::npos) continue;
    heard.clear();
    const std::string answer = answers.front();
    answers.pop_front();
    const auto [write_ec, written] = co_await asio::async_write(*remote, asio::buffer(answer),
                                                                as_result);
    if (write_ec) break;
  }
  remote->close();
}

// What the second of two requests on one connection came to.
struct Second {
  bool reused = false;
  Fetched fetched;
  std::uint64_t replays = 0;
};

Second ask_twice(boost::beast::test::fail_count& failures) {
  constexpr std::string_view kFirst = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  TestLoop loop;
  TestStream streams[2] = {TestStream(loop.io, failures), TestStream(loop.io)};
  streams[0].read_size(9);
  TestStream remotes[2] = {boost::beast::test::connect(streams[0]),
                           boost::beast::test::connect(streams[1])};
  TaskGroup upstream(loop.executor());
  const std::deque<std::string> both = {std::string(kFirst), std::string(kAnswer)};
  const std::deque<std::string> one = {std::string(kAnswer)};
  upstream.spawn("first", answer_questions(&remotes[0], "abc", both));
  upstream.spawn("second", answer_questions(&remotes[1], "abc", one));
  int dials = 0;
  Dialer dialer = [&](const Url&) -> std::shared_ptr<Dial> {
    std::unique_ptr<Stream> stream;
    if (dials < 2) stream = std::make_unique<StreamOver<TestStream>>(std::move(streams[dials]));
    ++dials;
    return std::make_shared<TestDial>(std::move(stream));
  };
  Client client(loop.executor(), loop.clock, ClientConfig(), dialer);
  const RequestHead head("POST", "/");
  Second second;
  const Fetched first = loop.run(fetch_piecewise(client, head, "abc"));
  settle(loop);
  second.reused = first.ok && client.stats().idle == 1;
  if (second.reused) second.fetched = loop.run(fetch_piecewise(client, head, "abc"));
  second.replays = client.stats().replays;
  EXPECT_EQ(client.stats().open, 0u);
  client.close_idle();
  for (TestStream& remote : remotes) remote.close();
  loop.run_dry();
  return second;
}

TEST_P(EveryStepTest, OfAReusedConnectionMayFailAndIsReplayedOnlyBeforeAnAnswer) {
  const auto code = boost::system::error_code(GetParam(), boost::system::system_category());
  int replayed = 0;
  int failed = 0;
  int direct = 0;
  for (std::size_t step = 1; step < kStepsMax; ++step) {
    boost::beast::test::fail_count failures(step, code);
    const Second second = ask_twice(failures);
    if (!second.reused) continue;
    EXPECT_LE(second.replays, 1u) << step;
    if (!second.fetched.ok) {
      ++failed;
      EXPECT_EQ(second.replays, 0u) << step;
      continue;
    }
    EXPECT_EQ(second.fetched.body, "body-tail") << step;
    ++(second.replays == 1 ? replayed : direct);
  }
  EXPECT_GT(direct, 0);
  EXPECT_GT(failed, 0);  // Amid an answer, nothing is sent again.
  // Only its write can fail before an answer: its read has been pending since it was idle.
  EXPECT_EQ(replayed, GetParam() == boost::system::errc::io_error ? 0 : 1);
}

INSTANTIATE_TEST_SUITE_P(Codes, EveryStepTest,
                         testing::Values(boost::system::errc::connection_reset,
                                         boost::system::errc::broken_pipe,
                                         boost::system::errc::io_error));

}  // namespace
}  // namespace hg::net
