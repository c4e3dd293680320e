// The server against a peer that writes raw bytes, over real loopback sockets.
#include "net/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "net/test_loop.h"
#include "net/test_peer.h"

namespace hg::net {
namespace {

constexpr std::size_t kBodyMax = 100;

// Answers with method, target and body; 413 or 400 if there is none.
Task<void> describe(ServerExchange& exchange) {
  auto body = co_await exchange.read_body(kBodyMax);
  if (!body) {
    ResponseHead head(body.error().code == Errc::too_large ? 413 : 400);
    co_await exchange.reply(std::move(head), body.error().detail);
    co_return;
  }
  const std::string text = exchange.head().method + " " + exchange.head().target + " " + *body;
  ResponseHead head(200);
  co_await exchange.reply(std::move(head), text);
}

// Streams "one", "two".
Task<void> stream_two(ServerExchange& exchange) {
  ResponseHead head(200);
  head.headers.add("X-A", "b");
  co_await exchange.send_head(std::move(head), BodyFraming::chunked());
  co_await exchange.send_some("one");
  co_await exchange.send_some("two");
  co_await exchange.finish();
}

class ServerTest : public testing::Test {
 protected:
  void serve(Handler handler, ServerConfig config = {}) {
    server_ = std::make_unique<Server>(loop_.executor(), config, std::move(handler));
    const auto port = server_->listen_loopback(0);
    ASSERT_TRUE(port) << port.error().detail;
    port_ = *port;
  }

  void TearDown() override {
    if (!server_) return;
    loop_.run(server_->stop(0s));
    loop_.run_dry();
    EXPECT_EQ(server_->stats().connections, 0u);
  }

  // What a peer hears that says `bytes` and then listens until the end.
  std::string ask(std::string bytes) {
    TestPeer peer(loop_.executor());
    loop_.run(peer.connect(port_));
    loop_.run(peer.send(std::move(bytes)));
    return loop_.run(peer.hear_all());
  }

  // A connected peer.
  TestPeer peer() {
    TestPeer made(loop_.executor());
    loop_.run(made.connect(port_));
    return made;
  }

  TestLoop loop_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

TEST_F(ServerTest, AnswersPipelinedRequestsInOrderAndLosesNoByte) {
  serve(describe);
  EXPECT_EQ(ask("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
                "\r\nPOST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                "2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
                "GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nPOST /1 abc"
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nGET /2 "
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nPOST /3 def"
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nGET /4 [end]");
}

TEST_F(ServerTest, ReadsARequestThatComesByteByByte) {
  serve(describe);
  TestPeer client = peer();
  const std::string bytes =
      "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2;x=y\r\nde\r\n1\r\nf\r\n0\r\nT: u\r\n\r\n";
  for (const char byte : bytes) EXPECT_TRUE(loop_.run(client.send(std::string(1, byte))));
  EXPECT_TRUE(loop_.run(client.hear("POST /1 def")).ends_with("\r\n\r\nPOST /1 def"));
}

TEST_F(ServerTest, ChunksAnAnswerOfUnknownLength) {
  serve(stream_two);
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n[end]");
}

TEST_F(ServerTest, SendsNoChunksToHttp10) {
  serve(stream_two);
  EXPECT_EQ(ask("GET / HTTP/1.0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nConnection: close\r\n\r\nonetwo[end]");
}

TEST_F(ServerTest, KeepsAnHttp10ConnectionThatAsksForIt) {
  serve(describe);
  EXPECT_EQ(ask("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\nGET /1 "
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nGET /2 [end]");
}

TEST_F(ServerTest, AnswersHeadWithTheFieldsOfGetAndNoBody) {
  serve(describe);
  EXPECT_EQ(ask("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n[end]");
  server_.reset();
  serve(stream_two);
  EXPECT_EQ(ask("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nConnection: close\r\n\r\n[end]");
}

TEST_F(ServerTest, SaysContinueOnceTheBodyIsWanted) {
  serve(describe);
  TestPeer client = peer();
  const std::string
      head = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
  loop_.run(client.send(head));
  EXPECT_EQ(loop_.run(client.hear("\r\n\r\n")), "HTTP/1.1 100 Continue\r\n\r\n");
  loop_.run(client.send("abc"));
  EXPECT_EQ(loop_.run(client.hear("abc")),
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nPOST /1 abc");
  // A client that did not wait gets no such word.
  loop_.run(client.send(head + "abc"));
  EXPECT_EQ(loop_.run(client.hear("abc")),
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nPOST /1 abc");
}

TEST_F(ServerTest, RefusesABodyOverTheLimitBeforeItIsSent) {
  serve(describe);
  const std::string heard = ask(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(heard.starts_with("HTTP/1.1 413 Content Too Large\r\n")) << heard;
  EXPECT_NE(heard.find("Connection: close"), std::string::npos);
}

TEST_F(ServerTest, ARefusalReachesAClientThatStillSends) {
  serve(describe);
  const std::string chunk = "fff\r\n" + std::string(0xfff, 'x') + "\r\n";
  std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 500; ++i) bytes += chunk;
  TestPeer client = peer();
  EXPECT_TRUE(loop_.run(client.send(bytes)));
  client.socket().shutdown(asio::socket_base::shutdown_send);
  const std::string heard = loop_.run(client.hear_all());
  EXPECT_TRUE(heard.starts_with("HTTP/1.1 413 ")) << heard;
  EXPECT_TRUE(heard.ends_with("[end]")) << heard;
}

TEST_F(ServerTest, AnswersWhatTheGuardRefuses) {
  serve(describe);
  struct Row {
    const char* why;
    std::string bytes;
    const char* status;
  };
  const Row rows[] = {
      {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", "HTTP/1.1 400 "},
      {"length and chunked",
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
       "HTTP/1.1 400 "},
      {"too large", "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x'), "HTTP/1.1 431 "},
      {"bad chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz",
       "HTTP/1.1 400 "},
  };
  for (const Row& row : rows) {
    TestPeer client = peer();
    loop_.run(client.send(row.bytes));
    client.socket().shutdown(asio::socket_base::shutdown_send);
    const std::string heard = loop_.run(client.hear_all());
    EXPECT_TRUE(heard.starts_with(row.status)) << row.why << ": " << heard;
    EXPECT_NE(heard.find("Connection: close"), std::string::npos) << row.why;
    EXPECT_TRUE(heard.ends_with("[end]")) << row.why << ": " << heard;
  }
  EXPECT_EQ(server_->stats().refused, 3u);
}

TEST_F(ServerTest, ReadsABodyOfEveryLengthAndNoMore) {
  serve(describe);
  TestPeer client = peer();
  for (std::size_t length = 0; length <= kBodyMax; ++length) {
    const std::string body(length, 'x');
    loop_.run(client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                          std::to_string(length) + "\r\n\r\n" + body));
    const std::string answer = "POST /a " + body;
    const std::string heard = loop_.run(client.hear(answer));
    EXPECT_NE(heard.find("Content-Length: " + std::to_string(answer.size()) + "\r\n"),
              std::string::npos)
        << length;
  }
}

TEST_F(ServerTest, TellsATruncatedBodyAndCanAnswerIt) {
  Errc code = Errc::internal;
  Handler handler = [&](ServerExchange& exchange) -> Task<void> {
    const auto body = co_await exchange.read_body(kBodyMax);
    code = body ? Errc::internal : body.error().code;
    ResponseHead head(400);
    co_await exchange.reply(std::move(head), "cut");
  };
  serve(handler);
  for (const char* bytes :
       {"Content-Length: 3\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n3\r\nab"}) {
    code = Errc::internal;
    TestPeer client = peer();
    loop_.run(client.send("POST / HTTP/1.1\r\nHost: a\r\n" + std::string(bytes)));
    client.socket().shutdown(asio::socket_base::shutdown_send);
    const std::string heard = loop_.run(client.hear_all());
    EXPECT_EQ(code, Errc::closed);
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 400 ")) << heard;
    EXPECT_TRUE(heard.ends_with("cut[end]")) << heard;
  }
}

TEST_F(ServerTest, ACutLooksLikeACut) {
  Handler handler = [](ServerExchange& exchange) -> Task<void> {
    ResponseHead head(200);
    co_await exchange.send_head(std::move(head), BodyFraming::chunked());
    co_await exchange.send_some("one");
    exchange.abort();
  };
  serve(handler);
  TestPeer client = peer();
  loop_.run(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  const std::string heard = loop_.run(client.hear_all());
  EXPECT_EQ(heard.find("0\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(heard.ends_with("[reset]")) << heard;
}

TEST_F(ServerTest, AHandlerThatFailsGivesAnAnswerOrAReset) {
  struct Row {
    const char* target;
    const char* start;
    const char* end;
  };
  Handler handler = [](ServerExchange& exchange) -> Task<void> {
    const std::string& target = exchange.head().target;
    if (target == "/none") co_return;
    if (target == "/throws") throw std::runtime_error("on purpose");
    ResponseHead head(200);
    if (target == "/short") {
      co_await exchange.send_head(std::move(head), BodyFraming::of_length(5));
      co_await exchange.send_some("abc");
      const auto finished = co_await exchange.finish();
      if (finished) throw std::runtime_error("a short answer was let pass");
      co_return;
    }
    if (target == "/long") {
      co_await exchange.send_head(std::move(head), BodyFraming::of_length(2));
      const auto sent = co_await exchange.send_some("abc");
      if (sent) throw std::runtime_error("a long answer was let pass");
      co_return;
    }
    co_await exchange.send_head(std::move(head), BodyFraming::chunked());
    co_await exchange.send_some("abc");
    if (target == "/throws-late") throw std::runtime_error("on purpose");
  };
  serve(handler);
  const Row rows[] = {
      {"/none", "HTTP/1.1 500 ", "[end]"}, {"/throws", "HTTP/1.1 500 ", "[end]"},
      {"/short", "", "[reset]"},           {"/long", "", "[reset]"},
      {"/throws-late", "", "[reset]"},     {"/unfinished", "", "[reset]"},
  };
  for (const Row& row : rows) {
    const std::string heard = ask("GET " + std::string(row.target) +
                                  " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(heard.starts_with(row.start)) << row.target << ": " << heard;
    EXPECT_TRUE(heard.ends_with(row.end)) << row.target << ": " << heard;
  }
}

// ---- Clients that go away

// Waits until its client is gone.
struct Watcher {
  TestLoop& loop;
  int waiting = 0;
  int told = 0;

  explicit Watcher(TestLoop& its_loop) : loop(its_loop) {}

  Task<void> handle(ServerExchange& exchange) {
    const auto body = co_await exchange.read_body(kBodyMax);
    if (!body) co_return;
    Event gone(loop.executor());
    auto on_gone = [this, &gone] {
      ++told;
      gone.notify();
    };
    exchange.on_gone(on_gone);
    ++waiting;
    co_await gone.wait_for(1h);
    --waiting;
  }
};

TEST_F(ServerTest, NoticesAClientThatGoesAwayWhileTheHandlerWaits) {
  Watcher watcher(loop_);
  Handler handler = [&](ServerExchange& exchange) { return watcher.handle(exchange); };
  serve(handler);
  struct Row {
    const char* why;
    const char* bytes;
    bool by_reset;
  };
  const Row rows[] = {
      {"end, no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false},
      {"reset, no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
      {"end, body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", false},
      {"reset, body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", true},
      {"end, with the next request behind",
       "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", false},
  };
  for (const Row& row : rows) {
    watcher.told = 0;
    TestPeer client = peer();
    loop_.run(client.send(row.bytes));
    loop_.io.restart();
    while (watcher.waiting == 0) loop_.io.run_one();
    if (row.by_reset) {
      client.reset();
    } else {
      client.close();
    }
    while (watcher.told == 0) loop_.io.run_one();
    // The handler goes on in the next handler of the loop: nothing else has to happen.
    while (watcher.waiting > 0 && loop_.io.poll_one() > 0) {
    }
    EXPECT_EQ(watcher.waiting, 0) << row.why;
    EXPECT_EQ(watcher.told, 1) << row.why;
  }
}

TEST_F(ServerTest, TellsAtOnceThatAClientIsGoneAlready) {
  bool told = false;
  Errc code = Errc::internal;
  Event go(loop_.executor());
  Handler handler = [&](ServerExchange& exchange) -> Task<void> {
    co_await go.wait_for(1h);
    auto on_gone = [&] { told = true; };
    exchange.on_gone(on_gone);
    ResponseHead head(200);
    const auto sent = co_await exchange.reply(std::move(head), "late");
    code = sent ? Errc::internal : sent.error().code;
  };
  serve(handler);
  TestPeer client = peer();
  loop_.run(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.io.restart();
  while (server_->stats().requests == 0) loop_.io.run_one();
  client.close();
  loop_.io.poll();
  go.notify();
  while (!told) loop_.io.run_one();
  loop_.io.poll();
  EXPECT_EQ(code, Errc::closed);
}

TEST_F(ServerTest, AnEmptyCallbackStopsTheWatching) {
  int told = 0;
  Event go(loop_.executor());
  bool ended = false;
  Handler handler = [&](ServerExchange& exchange) -> Task<void> {
    auto on_gone = [&] { ++told; };
    exchange.on_gone(on_gone);
    exchange.on_gone(nullptr);
    co_await go.wait_for(1h);
    EXPECT_TRUE(exchange.gone());
    ended = true;
  };
  serve(handler);
  TestPeer client = peer();
  loop_.run(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.io.restart();
  while (server_->stats().requests == 0) loop_.io.run_one();
  client.close();
  loop_.io.poll();
  go.notify();
  while (!ended) loop_.io.run_one();
  EXPECT_EQ(told, 0);
}

// ---- Limits

TEST_F(ServerTest, ASlowReaderSlowsTheHandler) {
  std::size_t taken_bytes = 0;
  Errc code = Errc::internal;
  bool ended = false;
  Handler handler = [&](ServerExchange& exchange) -> Task<void> {
    const std::string chunk(kChunkBytes, 'x');
    ResponseHead head(200);
    co_await exchange.send_head(std::move(head), BodyFraming::chunked());
    for (;;) {
      const auto sent = co_await exchange.send_some(chunk);
      if (!sent) {
        code = sent.error().code;
        break;
      }
      taken_bytes += chunk.size();
    }
    ended = true;
  };
  ServerConfig config;
  config.write_silence = 20ms;
  serve(handler, config);
  TestPeer client = peer();
  loop_.run(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.io.restart();
  while (!ended) loop_.io.run_one();
  EXPECT_EQ(code, Errc::timed_out);
  EXPECT_LT(taken_bytes, std::size_t{16} * 1024 * 1024);  // What the kernel's buffers hold.
}

TEST_F(ServerTest, ClosesConnectionsOverTheLimit) {
  ServerConfig config;
  config.connections_max = 1;
  serve(describe, config);
  TestPeer first = peer();
  loop_.run(first.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.run(first.hear("GET /1 "));
  TestPeer second = peer();
  EXPECT_EQ(loop_.run(second.hear_all()), "[end]");
  loop_.run(first.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(loop_.run(first.hear("GET /1 ")).ends_with("GET /1 "));
}

TEST_F(ServerTest, ClosesWhoeverIsSilentTooLong) {
  ServerConfig config;
  config.idle = 2ms;
  config.head_within = 2ms;
  config.body_silence = 2ms;
  serve(describe, config);
  EXPECT_EQ(ask(""), "[end]");
  EXPECT_EQ(ask("GET / HTTP/1.1\r\n"), "[end]");
  const std::string heard = ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na");
  EXPECT_TRUE(heard.starts_with("HTTP/1.1 400 ")) << heard;
}

// ---- Listening and stopping

TEST_F(ServerTest, ListensOnBothLoopbackAddresses) {
  serve(describe);
  asio::ip::tcp::socket socket(loop_.executor());
  boost::system::error_code ec;
  socket.connect(asio::ip::tcp::endpoint(asio::ip::address_v6::loopback(), port_), ec);
  if (ec) GTEST_SKIP() << "no ::1 on this machine";
  TestPeer client(std::move(socket));
  loop_.run(client.send("GET /6 HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(loop_.run(client.hear("GET /6 ")).starts_with("HTTP/1.1 200"));
}

TEST_F(ServerTest, SaysWhatIsWrongWithAnAddress) {
  serve(describe);
  Server other(loop_.executor(), ServerConfig(), describe);
  const auto taken = other.listen_loopback(port_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::conflict);
  const auto no_address = other.listen("localhost", 0);
  ASSERT_FALSE(no_address);
  EXPECT_EQ(no_address.error().code, Errc::invalid);
  loop_.run(other.stop(0s));
}

TEST_F(ServerTest, StopClosesIdleConnectionsAndLetsRequestsEnd) {
  Event go(loop_.executor());
  bool waiting = false;
  Handler handler = [&](ServerExchange& exchange) -> Task<void> {
    waiting = true;
    co_await go.wait_for(1h);
    ResponseHead head(200);
    co_await exchange.reply(std::move(head), "late");
  };
  serve(handler);
  TestPeer idle = peer();
  TestPeer busy = peer();
  loop_.run(busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.io.restart();
  while (!waiting || server_->stats().connections < 2) loop_.io.run_one();
  auto stop_while_busy = [&]() -> Task<std::string> {
    go.notify();
    co_await server_->stop(1h);
    co_return "stopped";
  };
  EXPECT_EQ(loop_.run(stop_while_busy()), "stopped");
  EXPECT_EQ(loop_.run(idle.hear_all()), "[end]");
  EXPECT_EQ(loop_.run(busy.hear_all()),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate[end]");
  TestPeer late(loop_.executor());
  loop_.run(late.connect(port_));
  EXPECT_EQ(loop_.run(late.hear_all()).substr(0, 1), "[");
}

TEST_F(ServerTest, AHardStopTellsTheHandlersAndResetsTheirClients) {
  Watcher watcher(loop_);
  Handler handler = [&](ServerExchange& exchange) { return watcher.handle(exchange); };
  serve(handler);
  TestPeer client = peer();
  loop_.run(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  loop_.io.restart();
  while (watcher.waiting == 0) loop_.io.run_one();
  loop_.run(server_->stop(1ms));
  EXPECT_EQ(watcher.told, 1);
  EXPECT_EQ(loop_.run(client.hear_all()), "[reset]");
}

class UnixSocketTest : public ServerTest {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hg_net_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/hg.sock";
  }
  void TearDown() override {
    ServerTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
  std::string path_;
};

TEST_F(UnixSocketTest, IsForThisUserAloneAndGoneAfterStop) {
  serve(describe);
  ASSERT_TRUE(server_->listen_unix(path_));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  loop_.run(server_->stop(0s));
  EXPECT_NE(::stat(path_.c_str(), &status), 0);
}

TEST_F(UnixSocketTest, ReplacesAStaleFileButNoLivingServer) {
  serve(describe);
  {
    // A socket whose owner died without removing it.
    asio::local::stream_protocol::acceptor dead(loop_.io,
                                                asio::local::stream_protocol::endpoint(path_));
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  ASSERT_TRUE(server_->listen_unix(path_));
  Server other(loop_.executor(), ServerConfig(), describe);
  const auto taken = other.listen_unix(path_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::conflict);
}

TEST_F(UnixSocketTest, DoesNotReplaceAFileThatIsNoSocket) {
  serve(describe);
  std::ofstream(path_) << "precious";
  EXPECT_FALSE(server_->listen_unix(path_));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace hg::net
