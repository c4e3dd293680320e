// Server and client against each other, over real loopback sockets on ports that the kernel picks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "net/client.h"
#include "net/server.h"
#include "net/test_loop.h"

namespace hg::net {
namespace {

constexpr std::size_t kBodyMax = std::size_t{64} * 1024 * 1024;

Task<void> echo(ServerExchange& exchange) {
  auto body = co_await exchange.read_body(kBodyMax);
  if (!body) {
    ResponseHead head(body.error().code == Errc::too_large ? 413 : 400);
    co_await exchange.reply(std::move(head), body.error().detail);
    co_return;
  }
  ResponseHead head(200);
  head.headers.add("X-Method", exchange.head().method);
  head.headers.add("X-Target", exchange.head().target);
  co_await exchange.reply(std::move(head), *body);
}

// A relay as the shim is one. The client outlives the handler.
Handler relay_to(Client& outbound, const Url& upstream) {
  return [&outbound, upstream](ServerExchange& exchange) -> Task<void> {
    const auto body = co_await exchange.read_body(kBodyMax);
    if (!body) co_return;
    ClientExchange out = outbound.start(upstream);
    auto on_gone = [&] { out.close(); };
    exchange.on_gone(on_gone);
    const auto sent = co_await out.send(exchange.head(), *body);
    if (!sent) co_return;
    auto answer = co_await out.read_head(5s);
    if (!answer) co_return;
    co_await exchange.send_head(std::move(*answer), out.body_framing());
    std::array<char, kChunkBytes> chunk;
    for (;;) {
      const auto count = co_await out.read_some(chunk, 5s);
      if (!count) {
        exchange.abort();
        break;
      }
      if (*count == 0) {
        co_await exchange.finish();
        break;
      }
      co_await exchange.send_some(std::string_view(chunk.data(), *count));
    }
    exchange.on_gone(nullptr);
  };
}

class ServerClientTest : public testing::Test {
 protected:
  void serve(Handler handler, ServerConfig config = {}) {
    server_ = std::make_unique<Server>(loop_.executor(), config, std::move(handler));
    const auto port = server_->listen_loopback(0);
    ASSERT_TRUE(port) << port.error().detail;
    url_ = *parse_url("http://127.0.0.1:" + std::to_string(*port));
  }

  void TearDown() override {
    if (server_) loop_.run(server_->stop(0s));
    client_.close_idle();
    loop_.run_dry();
    EXPECT_EQ(client_.stats().open, 0u);
    if (server_) {
      EXPECT_EQ(server_->stats().connections, 0u);
    }
  }

  Result<FetchedResponse> fetch(const RequestHead& head, std::string_view body = {}) {
    return loop_.run(client_.fetch(url_, head, body, 5s, kBodyMax));
  }

  TestLoop loop_;
  std::unique_ptr<Server> server_;
  Client client_{loop_.executor(), loop_.clock, ClientConfig()};
  Url url_;
};

TEST_F(ServerClientTest, EchoesABody) {
  serve(echo);
  const RequestHead head("POST", "/v1/messages?beta=true");
  const std::string body(300'000, 'x');
  const auto response = fetch(head, body);
  ASSERT_TRUE(response) << response.error().detail;
  EXPECT_EQ(response->head.status, 200);
  EXPECT_EQ(response->head.headers.find("X-Target"), "/v1/messages?beta=true");
  EXPECT_EQ(response->body, body);
}

TEST_F(ServerClientTest, ReusesItsConnection) {
  serve(echo);
  const RequestHead head("GET", "/");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(fetch(head));
  EXPECT_EQ(client_.stats().connects, 1u);
  EXPECT_EQ(client_.stats().reuses, 4u);
  EXPECT_EQ(server_->stats().accepted, 1u);
  EXPECT_EQ(server_->stats().requests, 5u);
}

TEST_F(ServerClientTest, SpeaksOverAUnixSocket) {
  serve(echo);
  std::string folder = testing::TempDir() + "hg_net_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/hg.sock";
  ASSERT_TRUE(server_->listen_unix(path));
  url_ = *parse_url("unix://" + path);
  for (int i = 0; i < 2; ++i) {
    const RequestHead head("POST", "/_headgate/pools");
    const auto response = fetch(head, "over a file");
    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(response->body, "over a file");
  }
  EXPECT_EQ(client_.stats().reuses, 1u);
  loop_.run(server_->stop(0s));
  std::filesystem::remove_all(folder);
}

TEST_F(ServerClientTest, ManyAtOnceGetTheirOwnAnswers) {
  serve(echo);
  constexpr int kAtOnce = 100;
  int right = 0;
  TaskGroup group(loop_.executor());
  auto ask = [&](int number) -> Task<void> {
    const std::string body = std::to_string(number) + std::string(20'000, 'x');
    const RequestHead head("POST", "/" + std::to_string(number));
    for (int i = 0; i < 5; ++i) {
      const auto response = co_await client_.fetch(url_, head, body, 5s, kBodyMax);
      const bool is_own = response && response->body == body &&
                          response->head.headers.find("X-Target") == head.target;
      if (is_own) ++right;
    }
  };
  for (int number = 0; number < kAtOnce; ++number) group.spawn("ask", ask(number));
  EXPECT_TRUE(loop_.run(group.join(30s)));
  EXPECT_EQ(right, 5 * kAtOnce);
  EXPECT_LE(client_.stats().connects, 100u);
}

// When the client leaves, the upstream is closed in the same turn.
TEST_F(ServerClientTest, ARelayPassesBytesCutsAndLeavingClients) {
  bool upstream_gone = false;
  bool upstream_waits = false;
  Event upstream_done(loop_.executor());
  Handler upstream_handler = [&](ServerExchange& exchange) -> Task<void> {
    ResponseHead head(200);
    co_await exchange.send_head(std::move(head), BodyFraming::chunked());
    co_await exchange.send_some("first");
    if (exchange.head().target == "/cut") {
      exchange.abort();
      co_return;
    }
    if (exchange.head().target == "/wait") {
      Event gone(loop_.executor());
      auto on_gone = [&] {
        upstream_gone = true;
        gone.notify();
      };
      exchange.on_gone(on_gone);
      upstream_waits = true;
      co_await gone.wait_for(1h);
      upstream_done.notify();
      co_return;
    }
    co_await exchange.finish();
  };
  Server upstream(loop_.executor(), ServerConfig(), upstream_handler);
  const auto upstream_port = upstream.listen_loopback(0);
  ASSERT_TRUE(upstream_port);
  const Url upstream_url = *parse_url("http://127.0.0.1:" + std::to_string(*upstream_port));

  Client outbound(loop_.executor(), loop_.clock, ClientConfig());
  serve(relay_to(outbound, upstream_url));

  const RequestHead plain("GET", "/");
  const auto whole = fetch(plain);
  ASSERT_TRUE(whole) << whole.error().detail;
  EXPECT_EQ(whole->body, "first");
  const RequestHead cut("GET", "/cut");
  const auto half = fetch(cut);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, Errc::closed);

  auto ask_and_leave = [&]() -> Task<void> {
    ClientExchange exchange = client_.start(url_);
    const RequestHead head("GET", "/wait");
    const auto sent = co_await exchange.send(head, "");
    const auto answer = co_await exchange.read_head(5s);
    std::array<char, 100> buffer;
    const auto count = co_await exchange.read_some(buffer, 5s);
    EXPECT_TRUE(sent && answer && count);
    exchange.close();
    co_await upstream_done.wait_for(5s);
  };
  loop_.run(ask_and_leave());
  EXPECT_TRUE(upstream_waits);
  EXPECT_TRUE(upstream_gone);
  EXPECT_EQ(outbound.stats().open, 0u);
  outbound.close_idle();
  loop_.run(upstream.stop(0s));
}

// What an upstream does with a request is written on its target: /LENGTH/CUT sends LENGTH bytes in
// pieces and resets after CUT of them, where CUT is less.
Task<void> stream_pieces(ServerExchange& exchange) {
  const auto body = co_await exchange.read_body(kBodyMax);
  if (!body) co_return;
  const std::string& target = exchange.head().target;
  const std::size_t slash = target.rfind('/');
  const auto length = static_cast<std::size_t>(*parse_integer(target.substr(1, slash - 1)));
  const auto cut = static_cast<std::size_t>(*parse_integer(target.substr(slash + 1)));
  ResponseHead head(200);
  const auto begun = co_await exchange.send_head(std::move(head), BodyFraming::chunked());
  if (!begun) co_return;
  const std::string piece(997, 'p');
  for (std::size_t done = 0; done < length;) {
    const std::size_t size = std::min(piece.size(), length - done);
    const auto sent = co_await exchange.send_some(std::string_view(piece).substr(0, size));
    if (!sent) co_return;
    done += size;
    if (done > cut) {
      exchange.abort();
      co_return;
    }
  }
  co_await exchange.finish();
}

// Hundreds of requests through a relay; upstreams cut answers and clients leave, at random places.
TEST_F(ServerClientTest, NothingStaysOpenInARelayWhereEverybodyLeavesAtWill) {
  Server upstream(loop_.executor(), ServerConfig(), stream_pieces);
  const auto upstream_port = upstream.listen_loopback(0);
  ASSERT_TRUE(upstream_port);
  const Url upstream_url = *parse_url("http://127.0.0.1:" + std::to_string(*upstream_port));
  Client outbound(loop_.executor(), loop_.clock, ClientConfig());
  serve(relay_to(outbound, upstream_url));

  struct Counts {
    int whole = 0;
    int cut = 0;
    int left = 0;
    int wrong = 0;
  } counts;
  auto ask = [&](Rng rng) -> Task<void> {
    const std::string body(static_cast<std::size_t>(rng.integer(0, 50'000)), 'b');
    for (int i = 0; i < 12; ++i) {
      const std::int64_t length = rng.integer(0, 60'000);
      const bool cuts = rng.chance(0.3) && length > 0;
      const std::int64_t cut = cuts ? rng.integer(0, length - 1) : length;
      const bool leaves = rng.chance(0.3);
      const std::int64_t leave_after = leaves ? rng.integer(-1, length) : length + 1;
      RequestHead head("POST", "/" + std::to_string(length) + "/" + std::to_string(cut));
      ClientExchange exchange = client_.start(url_);
      const auto sent = co_await exchange.send(head, body);
      if (leaves && leave_after < 0) {
        ++counts.left;
        continue;
      }
      std::int64_t heard = 0;
      bool ended = false;
      auto answer = co_await exchange.read_head(5s);
      std::array<char, 3000> buffer;
      while (sent && answer && heard <= leave_after) {
        const auto count = co_await exchange.read_some(buffer, 5s);
        ended = count && *count == 0;
        if (!count || *count == 0) break;
        heard += static_cast<std::int64_t>(*count);
      }
      const bool left = !ended && heard > leave_after;
      counts.left += left ? 1 : 0;
      counts.whole += ended ? 1 : 0;
      counts.cut += !ended && !left ? 1 : 0;
      // No cut passes for an end, and no end for a cut.
      const bool right = left || ended == (cut == length);
      counts.wrong += right && (!ended || heard == length) ? 0 : 1;
    }
  };
  Rng rng(20261130);
  TaskGroup group(loop_.executor());
  for (int i = 0; i < 60; ++i) group.spawn("ask", ask(rng.fork()));
  EXPECT_TRUE(loop_.run(group.join(60s)));
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_EQ(counts.whole + counts.cut + counts.left, 60 * 12);
  EXPECT_GT(counts.whole, 200);
  EXPECT_GT(counts.cut, 50);
  EXPECT_GT(counts.left, 50);
  loop_.run(server_->stop(5s));
  EXPECT_EQ(outbound.stats().open, 0u);
  EXPECT_EQ(client_.stats().open, 0u);
  outbound.close_idle();
  loop_.run(upstream.stop(5s));
  EXPECT_EQ(upstream.stats().connections, 0u);
}

// A program that ends without stopping first: the loop dies with everything under way.
TEST(UncleanEndTest, DestroysWhatIsUnderWayInAnyOrder) {
  for (const bool client_first : {true, false}) {
    auto loop = std::make_unique<TestLoop>();
    int told = 0;
    bool waiting = false;
    Handler handler = [&](ServerExchange& exchange) -> Task<void> {
      const auto body = co_await exchange.read_body(kBodyMax);
      if (!body) co_return;
      Event gone(loop->executor());
      auto on_gone = [&] {
        ++told;
        gone.notify();
      };
      exchange.on_gone(on_gone);
      waiting = true;
      co_await gone.wait_for(1h);
    };
    auto server = std::make_unique<Server>(loop->executor(), ServerConfig(), handler);
    const auto port = server->listen_loopback(0);
    ASSERT_TRUE(port);
    const Url url = *parse_url("http://127.0.0.1:" + std::to_string(*port));
    auto client = std::make_unique<Client>(loop->executor(), loop->clock, ClientConfig());
    auto group = std::make_unique<TaskGroup>(loop->executor());
    auto ask = [&]() -> Task<void> {
      const RequestHead head("POST", "/");
      const auto response = co_await client->fetch(url, head, "body", 1h, kBodyMax);
      EXPECT_FALSE(response);
    };
    for (int i = 0; i < 3; ++i) group->spawn("ask", ask());
    while (!waiting) loop->io.run_one();
    if (client_first) client.reset();
    server.reset();
    EXPECT_GT(told, 0);
    client.reset();
    group.reset();
    loop.reset();
  }
}

TEST_F(ServerClientTest, CancellingATaskEndsItsWaitsOnTheNetwork) {
  Handler silent = [&](ServerExchange& exchange) -> Task<void> {
    Event gone(loop_.executor());
    auto on_gone = [&] { gone.notify(); };
    exchange.on_gone(on_gone);
    co_await gone.wait_for(1h);
  };
  serve(silent);
  TaskGroup group(loop_.executor());
  std::vector<Errc> codes;
  auto ask = [&]() -> Task<void> {
    const RequestHead head("GET", "/");
    const auto response = co_await client_.fetch(url_, head, "", 1h, kBodyMax);
    codes.push_back(response ? Errc::internal : response.error().code);
  };
  for (int i = 0; i < 3; ++i) group.spawn("ask", ask());
  loop_.io.restart();
  while (server_->stats().requests < 2) loop_.io.run_one();
  group.cancel();
  EXPECT_TRUE(loop_.run(group.join(5s)));
  EXPECT_EQ(codes, std::vector<Errc>(3, Errc::cancelled));
}

}  // namespace
}  // namespace hg::net
