// Fairness over real sockets: calls of 8,000 and of 130,000 tokens through one shim, against a
// provider that holds nobody. Two minutes a load; the waits are printed.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <string>

#include "lab/fairness.h"
#include "lab/socket_test_util.h"
#include "net/server.h"
#include "proxy/call_log.h"
#include "proxy/shim.h"
#include "store/memory_store.h"

namespace hg {
namespace {

// Provider and shim on loopback, with one pool that all calls draw on.
class Gated {
 public:
  explicit Gated(const lab::FairnessConfig& config)
      : provider_(io_.get_executor(), clock_, lab::fairness_provider(config)),
        store_(io_.get_executor(), clock_),
        upstream_(io_.get_executor(), clock_, net::ClientConfig()),
        shim_(io_.get_executor(), clock_, store_, upstream_, wire::Profiles::built_in(),
              shim_config(config, provider_.listen(0).value()), log_),
        server_(io_.get_executor(), net::ServerConfig(),
                [this](net::ServerExchange& exchange) { return shim_.handle(exchange); }) {}

  ~Gated() {
    const auto stop = [this]() -> net::Task<bool> {
      co_await server_.stop(0s);
      co_await shim_.stop();
      co_await provider_.stop(0s);
      co_return true;
    };
    EXPECT_TRUE(lab::run(io_, stop()));
    store_.close();
    upstream_.close_idle();
  }

  Result<lab::FairnessReport> play(lab::FairnessConfig config) {
    const auto whole = [&]() -> net::Task<Result<lab::FairnessReport>> {
      const Result<void> started = co_await shim_.start();
      if (!started) co_return std::unexpected(started.error());
      const Result<std::uint16_t> port = server_.listen_loopback(0);
      if (!port) co_return std::unexpected(port.error());
      config.base_url = fmt::format("http://127.0.0.1:{}", *port);
      Result<lab::FairnessReport> report = co_await lab::run_fairness(io_.get_executor(), clock_,
                                                                      config);
      co_return report;
    };
    auto report = lab::run(io_, whole(), 400s);
    if (!report) return fail(Errc::timed_out, "the run did not end");
    return std::move(*report);
  }

 private:
  static proxy::ShimConfig shim_config(const lab::FairnessConfig& config, std::uint16_t port) {
    proxy::Upstream upstream;
    upstream.name = "emulated";
    upstream.url = lab::loopback(port);
    upstream.profile = "emulated";
    proxy::PoolRule pool;
    pool.name = "fairness";
    pool.upstream = upstream.name;
    gate::Limits limits;
    limits.c_burst = config.capacity;
    limits.r_tok = config.tokens_per_second;
    limits.k_inflight = 100 * config.capacity;
    limits.c_req = 10'000;
    limits.r_qps = 1'000 * kMicro;
    pool.limits = limits;
    proxy::ShimConfig shim;
    shim.upstreams.push_back(upstream);
    shim.pools.push_back(pool);
    shim.hold_cap = config.drain_within;
    return shim;
  }

  boost::asio::io_context io_;
  OsClock clock_;
  proxy::CallLog log_;
  lab::EmulatedProvider provider_;
  store::MemoryStore store_;
  net::Client upstream_;
  proxy::Shim shim_;
  net::Server server_;
};

lab::FairnessReport play(double load) {
  lab::FairnessConfig config;
  config.load = load;
  Gated gated(config);
  const Result<lab::FairnessReport> report = gated.play(config);
  if (!report) {
    ADD_FAILURE() << report.error().detail;
    return {};
  }
  fmt::print("asked for {} x the rate, over real sockets:\n{}", load, lab::to_text(*report));
  EXPECT_EQ(report->small.refused + report->large.refused, 0);
  EXPECT_GT(report->small.answered, 100);
  EXPECT_GT(report->large.answered, 5);
  return *report;
}

TEST(FairnessSoakTest, OverTheRateLargeCallsWaitNoLongerThanSmallOnes) {
  const lab::FairnessReport report = play(1.3);
  EXPECT_LE(report.large.p95_s, 1.1 * report.small.p95_s);
}

TEST(FairnessSoakTest, UnderTheRateNobodyWaitsLong) {
  const lab::FairnessReport report = play(0.9);
  EXPECT_LE(report.small.p99_s, 40.0);
  EXPECT_LE(report.large.p99_s, 40.0);
}

}  // namespace
}  // namespace hg
