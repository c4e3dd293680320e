// Server and client against each other, over real loopback sockets on ports that the kernel picks.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace hg::net
