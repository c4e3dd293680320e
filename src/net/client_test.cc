// The client against an upstream that says what the test tells it to, over real loopback sockets.
#include "net/client.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "net/dial.h"
#include "net/test_loop.h"
#include "net/test_peer.h"

namespace hg::net {
namespace {

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

// What came of one exchange.
struct Outcome {
  Errc code = Errc::internal;  // Of the failure, where there is one.
  bool ok = false;
  int status = 0;
  std::string body;
  std::string detail;
  Progress progress = Progress::not_sent;
  bool reused = false;
};

class ClientTest : public testing::Test {
 protected:
  using Script = std::function<Task<void>(TestPeer&)>;

  void SetUp() override {
    acceptor_.listen();
    url_ = *parse_url("http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()));
  }

  void TearDown() override {
    stop_upstream();
    loop_.run_dry();
    client_.close_idle();
    loop_.run_dry();
    EXPECT_EQ(client_.stats().open, 0u);
    EXPECT_EQ(client_.stats().idle, 0u);
  }

  void stop_upstream() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& peer : peers_) peer->close();
    peers_.clear();
  }

  // Plays one script a connection, in order; the connection stays open after its script.
  void upstream(std::vector<Script> scripts) {
    upstream_.spawn("upstream", play(this, std::move(scripts)));
  }

  static Task<void> play(ClientTest* test, std::vector<Script> scripts) {
    for (const Script& script : scripts) {
      TestPeer::Socket socket(test->loop_.executor());
      const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
      if (ec) co_return;
      test->peers_.push_back(std::make_shared<TestPeer>(std::move(socket)));
      const std::shared_ptr<TestPeer> peer = test->peers_.back();
      co_await script(*peer);
    }
  }

  // Hears a request's head, says `bytes`.
  static Script answers(std::string bytes) {
    return [bytes](TestPeer& peer) -> Task<void> {
      co_await peer.hear("\r\n\r\n");
      co_await peer.send(bytes);
    };
  }

  static Script answers_and_closes(std::string bytes) {
    return [bytes](TestPeer& peer) -> Task<void> {
      co_await peer.hear("\r\n\r\n");
      co_await peer.send(bytes);
      peer.close();
    };
  }

  Task<Outcome> ask_task(RequestHead head, std::string body, Micros within) {
    Outcome outcome;
    ClientExchange exchange = client_.start(url_);
    auto note = [&](const Error& error) {
      outcome.code = error.code;
      outcome.detail = error.detail;
      outcome.progress = exchange.progress();
      outcome.reused = exchange.reused();
    };
    const auto sent = co_await exchange.send(head, body);
    if (!sent) {
      note(sent.error());
      co_return outcome;
    }
    const auto answer = co_await exchange.read_head(within);
    if (!answer) {
      note(answer.error());
      co_return outcome;
    }
    outcome.status = answer->status;
    std::array<char, 4096> buffer;
    for (;;) {
      const auto count = co_await exchange.read_some(buffer, within);
      if (!count) {
        note(count.error());
        co_return outcome;
      }
      if (*count == 0) break;
      outcome.body.append(buffer.data(), *count);
    }
    outcome.ok = true;
    outcome.progress = exchange.progress();
    outcome.reused = exchange.reused();
    co_return outcome;
  }

  Outcome ask(Micros within = 5s) {
    return loop_.run(ask_task(RequestHead("GET", "/"), "", within));
  }

  TestLoop loop_;
  asio::ip::tcp::acceptor acceptor_{loop_.io,
                                    asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  TaskGroup upstream_{loop_.executor()};
  std::vector<std::shared_ptr<TestPeer>> peers_;
  Client client_{loop_.executor(), loop_.clock, ClientConfig()};
  Url url_;
};

TEST_F(ClientTest, SendsHeadsAsGivenButForFraming) {
  std::string heard;
  upstream({[&](TestPeer& peer) -> Task<void> {
    heard = co_await peer.hear("abc");
    co_await peer.send(std::string(kOk));
  }});
  RequestHead head("POST", "/v1/messages?beta=true");
  head.headers.add("x-api-KEY", "k");
  head.headers.add("Host", "somewhere.else");
  head.headers.add("content-length", "99");
  head.headers.add("Connection", "close");
  head.headers.add("Transfer-Encoding", "chunked");
  head.headers.add("Expect", "100-continue");
  head.headers.add("X", "1");
  head.headers.add("x", "2");
  const Outcome outcome = loop_.run(ask_task(head, "abc", 5s));
  EXPECT_TRUE(outcome.ok) << outcome.detail;
  EXPECT_EQ(heard, "POST /v1/messages?beta=true HTTP/1.1\r\nx-api-KEY: k\r\nHost: " +
                       url_.authority() + "\r\ncontent-length: 3\r\nX: 1\r\nx: 2\r\n\r\nabc");
}

TEST_F(ClientTest, AddsWhatARequestNeeds) {
  std::vector<std::string> heard;
  Script note = [&](TestPeer& peer) -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      heard.push_back(co_await peer.hear("\r\n\r\n"));
      co_await peer.send(std::string(kOk));
    }
  };
  upstream({note});
  EXPECT_TRUE(loop_.run(ask_task(RequestHead("GET", "/"), "", 5s)).ok);
  EXPECT_TRUE(loop_.run(ask_task(RequestHead("POST", "/"), "", 5s)).ok);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0], "GET / HTTP/1.1\r\nHost: " + url_.authority() + "\r\n\r\n");
  EXPECT_EQ(heard[1],
            "POST / HTTP/1.1\r\nHost: " + url_.authority() + "\r\nContent-Length: 0\r\n\r\n");
}

TEST_F(ClientTest, ReadsEachFramingAndReusesWhatItCan) {
  struct Row {
    const char* why;
    const char* bytes;
    const char* body;
    bool reusable;
  };
  const Row rows[] = {
      {"a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", true},
      {"no bytes", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true},
      {"204", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
      {"chunks",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: u\r\n\r\n",
       "hello", true},
      {"after interim answers",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
       "hello", true},
      {"the upstream closes",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "hello", false},
      {"more than it said", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n",
       "hello", false},
      {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
  };
  for (const Row& row : rows) {
    upstream({answers(row.bytes)});
    const Outcome outcome = ask();
    EXPECT_TRUE(outcome.ok) << row.why << ": " << outcome.detail;
    EXPECT_EQ(outcome.body, row.body) << row.why;
    EXPECT_EQ(outcome.progress, Progress::ended) << row.why;
    EXPECT_EQ(client_.stats().idle, row.reusable ? 1u : 0u) << row.why;
    EXPECT_EQ(client_.stats().open, 0u) << row.why;
    client_.close_idle();
  }
  upstream({answers_and_closes("HTTP/1.1 200 OK\r\n\r\nuntil the end")});
  EXPECT_EQ(ask().body, "until the end");
  EXPECT_EQ(client_.stats().idle, 0u);
}

TEST_F(ClientTest, TellsACutFromAnEnd) {
  struct Row {
    const char* why;
    const char* bytes;
    Errc code;
    Progress progress;
  };
  const Row rows[] = {
      {"nothing", "", Errc::closed, Progress::sent},
      {"half a head", "HTTP/1.1 200 OK\r\nConte", Errc::closed, Progress::sent},
      {"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Errc::closed,
       Progress::answering},
      {"amid a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell",
       Errc::closed, Progress::answering},
      {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
       Errc::closed, Progress::answering},
      {"half a last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
       Errc::closed, Progress::answering},
      {"no chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", Errc::protocol,
       Progress::answering},
      {"no HTTP", "hello\r\n\r\n", Errc::protocol, Progress::sent},
      {"an upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n", Errc::protocol, Progress::sent},
      {"length and chunked",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Errc::protocol,
       Progress::sent},
  };
  for (const Row& row : rows) {
    upstream({answers_and_closes(row.bytes)});
    const Outcome outcome = ask();
    EXPECT_FALSE(outcome.ok) << row.why;
    EXPECT_EQ(outcome.code, row.code) << row.why << ": " << outcome.detail;
    EXPECT_EQ(outcome.progress, row.progress) << row.why;
    EXPECT_EQ(client_.stats().idle, 0u) << row.why;
  }
}

TEST_F(ClientTest, AResetIsNoEnd) {
  upstream({[](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    peer.reset();
  }});
  const Outcome outcome = ask();
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(outcome.code, Errc::closed);
}

TEST_F(ClientTest, RefusesAnEndlessHead) {
  upstream({answers("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'))});
  const Outcome outcome = ask();
  EXPECT_EQ(outcome.code, Errc::too_large);
}

TEST_F(ClientTest, DeliversEachByteBeforeItWaitsForTheNext) {
  Event go(loop_.executor());
  upstream({[&](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na");
    co_await go.wait_for(1h);
    co_await peer.send("bc\r\n0\r\n\r\n");
  }});
  auto read = [&]() -> Task<std::vector<std::string>> {
    std::vector<std::string> pieces;
    ClientExchange exchange = client_.start(url_);
    const RequestHead head("GET", "/");
    const auto sent = co_await exchange.send(head, "");
    const auto answer = co_await exchange.read_head(5s);
    if (!sent || !answer) co_return pieces;
    std::array<char, 100> buffer;
    for (;;) {
      const auto count = co_await exchange.read_some(buffer, 5s);
      if (!count || *count == 0) break;
      pieces.emplace_back(buffer.data(), *count);
      go.notify();  // The upstream goes on only after the first byte was delivered.
    }
    co_return pieces;
  };
  EXPECT_EQ(loop_.run(read()), (std::vector<std::string>{"a", "bc"}));
}

// ---- Deadlines and giving up

TEST_F(ClientTest, EndsAtItsDeadlines) {
  upstream({answers("")});
  Outcome outcome = ask(2ms);
  EXPECT_EQ(outcome.code, Errc::timed_out);
  EXPECT_EQ(outcome.progress, Progress::sent);
  upstream({answers("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")});
  outcome = ask(2ms);
  EXPECT_EQ(outcome.code, Errc::timed_out);
  EXPECT_EQ(outcome.progress, Progress::answering);
  EXPECT_EQ(outcome.body, "hell");
}

TEST_F(ClientTest, GoesOnAfterADeadline) {
  Event go(loop_.executor());
  upstream({[&](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await go.wait_for(1h);
    co_await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    co_await go.wait_for(1h);
    co_await peer.send("llo");
  }});
  auto read = [&]() -> Task<std::string> {
    ClientExchange exchange = client_.start(url_);
    const RequestHead head("GET", "/");
    const auto sent = co_await exchange.send(head, "");
    if (!sent) co_return sent.error().detail;
    std::string log;
    for (;;) {
      const auto answer = co_await exchange.read_head(1ms);
      if (answer) break;
      log += to_string(answer.error().code);
      log += ' ';
      go.notify();
      const auto later = co_await exchange.read_head(5s);
      if (later) break;
    }
    std::array<char, 100> buffer;
    for (;;) {
      const auto count = co_await exchange.read_some(buffer, 2ms);
      if (count && *count == 0) break;
      if (count) {
        log.append(buffer.data(), *count);
        continue;
      }
      log += to_string(count.error().code);
      if (count.error().code != Errc::timed_out) break;
      go.notify();
      const auto rest = co_await exchange.read_some(buffer, 5s);
      if (rest) log.append(buffer.data(), *rest);
    }
    co_return log;
  };
  EXPECT_EQ(loop_.run(read()), "timed_out hetimed_outllo");
  EXPECT_EQ(client_.stats().idle, 1u);
}

TEST_F(ClientTest, CloseEndsWhatWaits) {
  const char* rows[] = {"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"};
  for (const char* bytes : rows) {
    std::string upstream_heard;
    upstream({[&](TestPeer& peer) -> Task<void> {
      co_await peer.hear("\r\n\r\n");
      co_await peer.send(bytes);
      upstream_heard = co_await peer.hear_all();
    }});
    auto ask_and_close = [&]() -> Task<Errc> {
      ClientExchange exchange = client_.start(url_);
      const RequestHead head("GET", "/");
      const auto sent = co_await exchange.send(head, "");
      if (!sent) co_return Errc::internal;
      asio::steady_timer timer(loop_.io);
      timer.expires_after(1ms);
      auto close = [&](const boost::system::error_code&) { exchange.close(); };
      timer.async_wait(close);
      const auto answer = co_await exchange.read_head(1h);
      if (!answer) co_return answer.error().code;
      std::array<char, 100> buffer;
      for (;;) {
        const auto count = co_await exchange.read_some(buffer, 1h);
        if (!count) co_return count.error().code;
      }
    };
    EXPECT_EQ(loop_.run(ask_and_close()), Errc::cancelled) << bytes;
    loop_.io.restart();
    while (upstream_heard.empty()) loop_.io.run_one();
    EXPECT_EQ(client_.stats().open, 0u);
  }
}

TEST_F(ClientTest, SaysWhyThereIsNoConnection) {
  stop_upstream();
  const Outcome refused = ask();
  EXPECT_EQ(refused.code, Errc::unavailable);
  EXPECT_EQ(refused.progress, Progress::not_sent);
  EXPECT_NE(refused.detail.find(url_.authority()), std::string::npos) << refused.detail;
  url_ = *parse_url("unix:///nonexistent/hg.sock");
  EXPECT_EQ(ask().code, Errc::unavailable);
  url_ = *parse_url("http://name.invalid");
  // Final where there is a name service to say so.
  const Outcome unknown = ask();
  EXPECT_TRUE(unknown.code == Errc::unavailable || unknown.code == Errc::misconfigured);
  EXPECT_NE(unknown.detail.find("looking up name.invalid"), std::string::npos) << unknown.detail;
}

TEST(DialTest, OnlyAHostThatDoesNotExistIsBeyondWaiting) {
  const Url url = *parse_url("https://api.example");
  const Error gone = lookup_error(url, Named::upstream, asio::error::host_not_found);
  EXPECT_EQ(gone.code, Errc::misconfigured);
  EXPECT_NE(gone.detail.find("looking up api.example"), std::string::npos) << gone.detail;
  EXPECT_NE(gone.detail.find("Correct the upstream's url"), std::string::npos) << gone.detail;
  const Error proxy = lookup_error(url, Named::proxy, asio::error::host_not_found);
  EXPECT_NE(proxy.detail.find("HTTPS_PROXY"), std::string::npos) << proxy.detail;
  for (const auto code : {asio::error::host_not_found_try_again, asio::error::no_recovery}) {
    EXPECT_EQ(lookup_error(url, Named::upstream, code).code, Errc::unavailable);
  }
}

TEST_F(ClientTest, CloseEndsConnecting) {
  // A full backlog makes connecting hang.
  acceptor_.close();
  acceptor_ = asio::ip::tcp::acceptor(loop_.io);
  acceptor_.open(asio::ip::tcp::v4());
  acceptor_.bind(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  acceptor_.listen(0);
  url_.port = acceptor_.local_endpoint().port();
  std::vector<TestPeer> fill;
  for (int i = 0; i < 4; ++i) {
    fill.emplace_back(loop_.executor());
    fill.back().socket().async_connect(acceptor_.local_endpoint(), [](auto) {});
  }
  auto connect_and_close = [&]() -> Task<Errc> {
    ClientExchange exchange = client_.start(url_);
    asio::steady_timer timer(loop_.io);
    timer.expires_after(2ms);
    auto close = [&](const boost::system::error_code&) { exchange.close(); };
    timer.async_wait(close);
    const RequestHead head("GET", "/");
    const auto sent = co_await exchange.send(head, "");
    co_return sent ? Errc::internal : sent.error().code;
  };
  EXPECT_EQ(loop_.run(connect_and_close()), Errc::cancelled);
  ClientConfig config;
  config.connect_within = 2ms;
  Client hasty(loop_.executor(), loop_.clock, config);
  auto connect = [&]() -> Task<Errc> {
    ClientExchange exchange = hasty.start(url_);
    const RequestHead head("GET", "/");
    const auto sent = co_await exchange.send(head, "");
    co_return sent ? Errc::internal : sent.error().code;
  };
  EXPECT_EQ(loop_.run(connect()), Errc::timed_out);
  fill.clear();
}

// ---- The pool

TEST_F(ClientTest, AConnectionThatItsUpstreamEndsLeavesThePool) {
  Event go(loop_.executor());
  upstream({[&](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send(std::string(kOk));
    co_await go.wait_for(1h);
    peer.close();
  }});
  EXPECT_TRUE(ask().ok);
  EXPECT_EQ(client_.stats().idle, 1u);
  go.notify();
  loop_.io.restart();
  while (client_.stats().idle > 0) loop_.io.run_one();
}

TEST_F(ClientTest, IsNotFooledByAnEndThatTheLoopHasNotSeenYet) {
  upstream({answers(std::string(kOk)), answers(std::string(kOk))});
  EXPECT_TRUE(ask().ok);
  peers_[0]->close();  // The kernel knows; the loop has not run.
  const Outcome outcome = ask();
  EXPECT_TRUE(outcome.ok) << outcome.detail;
  EXPECT_FALSE(outcome.reused);
  EXPECT_EQ(client_.stats().replays, 0u);
}

TEST_F(ClientTest, ReplaysOnceOnAConnectionThatWasStale) {
  // The first connection ends when the second request has arrived: no byte of an answer came.
  std::string second;
  Script stale = [&](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send(std::string(kOk));
    co_await peer.hear("\r\n\r\n");
    peer.close();
  };
  Script fresh = [&](TestPeer& peer) -> Task<void> {
    second = co_await peer.hear("body");
    co_await peer.send(std::string(kOk));
  };
  upstream({stale, fresh});
  EXPECT_TRUE(ask().ok);
  const Outcome outcome = loop_.run(ask_task(RequestHead("POST", "/x"), "body", 5s));
  EXPECT_TRUE(outcome.ok) << outcome.detail;
  EXPECT_TRUE(second.starts_with("POST /x ")) << second;
  EXPECT_TRUE(second.ends_with("\r\n\r\nbody")) << second;
  EXPECT_EQ(client_.stats().replays, 1u);
}

TEST_F(ClientTest, DoesNotReplayTwiceNorAfterAByteNorOnANewConnection) {
  Script stale = [](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send(std::string(kOk));
    co_await peer.hear("\r\n\r\n");
    peer.close();
  };
  upstream({stale, answers_and_closes("")});
  EXPECT_TRUE(ask().ok);
  EXPECT_EQ(ask().code, Errc::closed);
  EXPECT_EQ(client_.stats().replays, 1u);

  Script half = [](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send(std::string(kOk));
    co_await peer.hear("\r\n\r\n");
    co_await peer.send("H");
    peer.close();
  };
  upstream({half});
  EXPECT_TRUE(ask().ok);
  EXPECT_EQ(ask().code, Errc::closed);
  EXPECT_EQ(client_.stats().replays, 1u);

  upstream({answers_and_closes("")});
  EXPECT_EQ(ask().code, Errc::closed);
  EXPECT_EQ(client_.stats().replays, 1u);
}

TEST_F(ClientTest, ClosesConnectionsThatAreTooOldOrIdleTooLong) {
  ManualClock clock;
  Client client(loop_.executor(), clock, ClientConfig());
  const RequestHead head("GET", "/");
  Script twice = [](TestPeer& peer) -> Task<void> {
    for (int i = 0; i < 8; ++i) {
      co_await peer.hear("\r\n\r\n");
      co_await peer.send(std::string(kOk));
    }
  };
  upstream({twice});
  auto ask_one = [&] { return loop_.run(client.fetch(url_, head, "", 5s, 100)).has_value(); };
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(ask_one());
    clock.advance(59s);
  }
  EXPECT_EQ(client.stats().connects, 1u);
  // 354 s: past the age, though never idle for long.
  upstream({twice});
  peers_[0]->close();
  EXPECT_TRUE(ask_one());
  EXPECT_EQ(client.stats().connects, 2u);
  clock.advance(60s);
  peers_[1]->close();
  upstream({twice});
  EXPECT_TRUE(ask_one());
  EXPECT_EQ(client.stats().connects, 3u);
  client.close_idle();
}

// ---- Uploads

TEST_F(ClientTest, HearsARefusalAlthoughTheUpstreamReadsNoMore) {
  Script refuse = [](TestPeer& peer) -> Task<void> {
    co_await peer.hear("\r\n\r\n");
    co_await peer.send(
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
    peer.socket().shutdown(asio::socket_base::shutdown_both);
  };
  upstream({refuse});
  const std::string body(20'000'000, 'x');
  const Outcome outcome = loop_.run(ask_task(RequestHead("POST", "/"), body, 5s));
  EXPECT_EQ(outcome.status, 413) << outcome.detail;
  EXPECT_EQ(client_.stats().idle, 0u);
}

TEST_F(ClientTest, GivesUpOnAnUpstreamThatTakesNothing) {
  ClientConfig config;
  config.write_silence = 20ms;
  Client client(loop_.executor(), loop_.clock, config);
  upstream({answers("")});
  const std::string body(50'000'000, 'x');
  const RequestHead head("POST", "/");
  auto upload = [&]() -> Task<Outcome> {
    Outcome outcome;
    ClientExchange exchange = client.start(url_);
    const auto sent = co_await exchange.send(head, body);
    outcome.ok = sent.has_value();
    if (!sent) outcome.code = sent.error().code;
    outcome.progress = exchange.progress();
    co_return outcome;
  };
  const Outcome outcome = loop_.run(upload());
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(outcome.code, Errc::timed_out);
  EXPECT_EQ(outcome.progress, Progress::sending);
}

TEST_F(ClientTest, FetchBoundsTheAnswer) {
  upstream({answers("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'x'))});
  const RequestHead head("GET", "/");
  const auto response = loop_.run(client_.fetch(url_, head, "", 5s, 1000));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::too_large);
}

}  // namespace
}  // namespace hg::net
