// The shim before the emulated provider, which packs what its client accepts: the parts of two
// modules that may not know each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <string>

#include "cli/compose.h"
#include "cli/config.h"
#include "lab/emulated_provider.h"
#include "lab/socket_test_util.h"
#include "net/client.h"
#include "net/server.h"
#include "proxy/call_log.h"
#include "proxy/own_answer.h"
#include "proxy/shim.h"
#include "store/memory_store.h"
#include "wire/profiles.h"

namespace hg {
namespace {

class Gated {
 public:
  explicit Gated(lab::ProviderConfig config)
      : provider_(io_.get_executor(), clock_, std::move(config)),
        provider_port_(provider_.listen(0).value()),
        store_(io_.get_executor(), clock_),
        client_(io_.get_executor(), clock_, net::ClientConfig()),
        shim_(io_.get_executor(), clock_, store_, client_, wire::Profiles::built_in(),
              shim_config(provider_port_), log_),
        server_(io_.get_executor(), proxy::shim_server_config(wire::Profiles::built_in()),
                [this](net::ServerExchange& exchange) { return shim_.handle(exchange); }),
        shim_port_(server_.listen_loopback(0).value()) {}

  ~Gated() {
    const auto stop = [this]() -> net::Task<bool> {
      co_await server_.stop(0s);
      co_await shim_.stop();
      co_await provider_.stop(0s);
      co_return true;
    };
    EXPECT_TRUE(lab::run(io_, stop()));
    store_.close();
    client_.close_idle();
  }

  enum class Way : std::uint8_t { direct, gated };
  net::FetchedResponse ask(Way way, std::string_view body) {
    net::RequestHead head("POST", "/v1/chat/completions");
    head.headers.add("Content-Type", "application/json");
    head.headers.add("Authorization", "Bearer key");
    head.headers.add("Accept-Encoding", "gzip, deflate");
    const net::Url url = lab::loopback(way == Way::direct ? provider_port_ : shim_port_);
    const auto answer = lab::run(io_, client_.fetch(url, head, body, 20s, 1 << 20));
    EXPECT_TRUE(answer && *answer);
    return answer && *answer ? **answer : net::FetchedResponse();
  }

  proxy::UsageTotals totals() const { return log_.totals(); }

 private:
  static proxy::ShimConfig shim_config(std::uint16_t port) {
    cli::UpstreamSettings upstream;
    upstream.name = "emulated";
    upstream.url = fmt::format("http://127.0.0.1:{}", port);
    upstream.profile = "openai";  // Which has to be asked for a stream's usage.
    cli::Config config;
    config.upstreams.push_back(upstream);
    return cli::make_shim_config(config, wire::Profiles::built_in()).value();
  }

  boost::asio::io_context io_;
  OsClock clock_;
  lab::EmulatedProvider provider_;
  std::uint16_t provider_port_;
  store::MemoryStore store_;
  net::Client client_;
  proxy::CallLog log_;
  proxy::Shim shim_;
  net::Server server_;
  std::uint16_t shim_port_;
};

TEST(CodedStreamTest, AnAgentThatDidNotAskForUsageSeesNoneInGzipEither) {
  lab::ProviderConfig config;
  config.gzip = true;
  config.model.base = 2ms;
  config.model.micros_per_uncached_token = 0;
  config.model.micros_per_output_token = 20;
  Gated gated(std::move(config));
  const std::string body =
      R"({"model":"m","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"Hi"}]})";
  const std::string asking =
      R"({"model":"m","stream":true,"max_tokens":40,"stream_options":{"include_usage":true},)"
      R"("messages":[{"role":"user","content":"Hi"}]})";
  // The provider does pack, also what answers the question.
  const net::FetchedResponse packed = gated.ask(Gated::Way::direct, asking);
  EXPECT_EQ(packed.head.headers.find("content-encoding"), "gzip");

  const net::FetchedResponse answer = gated.ask(Gated::Way::gated, body);
  EXPECT_EQ(answer.head.status, 200) << answer.body;
  EXPECT_FALSE(answer.head.headers.has("content-encoding"));
  EXPECT_NE(answer.body.find("\"delta\""), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("data: [DONE]"), std::string::npos) << answer.body;
  EXPECT_EQ(answer.body.find("\"choices\":[]"), std::string::npos) << answer.body;
  EXPECT_EQ(answer.body.find("\"usage\":{"), std::string::npos) << answer.body;
  EXPECT_GT(gated.totals().uncached, 0) << "and yet it is known";
  EXPECT_GT(gated.totals().output, 0);

  // One that asks gets what it asked for, as it came.
  const net::FetchedResponse told = gated.ask(Gated::Way::gated, asking);
  EXPECT_EQ(told.head.headers.find("content-encoding"), "gzip");
  EXPECT_TRUE(told.body.starts_with("\x1f\x8b"));
}

}  // namespace
}  // namespace hg
