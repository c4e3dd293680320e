#include "cli/demo_fairness.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/daemon.h"
#include "cli/exit_codes.h"
#include "cli/run_task.h"
#include "cli/wait_signal.h"
#include "lab/emulated_provider.h"
#include "lab/fairness.h"

namespace hg::cli {

namespace {

constexpr Tokens kInflight = 100'000'000;  // In flight nothing binds here.

Config gate_config(const lab::FairnessConfig& fairness, const std::string& provider) {
  Config config;
  config.listen_port = 0;
  config.hold_cap = fairness.drain_within;
  UpstreamSettings upstream;
  upstream.name = "emulated";
  upstream.url = provider;
  upstream.profile = "emulated";
  config.upstreams.push_back(upstream);
  PoolSettings pool;
  pool.name = "fairness";
  pool.c_burst = fairness.capacity;
  pool.r_tok = fairness.tokens_per_second;
  pool.k_inflight = kInflight;
  pool.c_req = 1'000;
  pool.r_qps = std::int64_t{1'000} * 1'000'000;
  config.pools.push_back(pool);
  return config;
}

}  // namespace

int run_fairness_demo(const FairnessOptions& options) {
  set_log_level(LogLevel::error);
  boost::asio::io_context context(1);
  const net::Executor executor = context.get_executor();
  const OsClock clock;
  lab::FairnessConfig fairness;
  fairness.load = options.load;
  fairness.duration = Micros(static_cast<std::int64_t>(options.seconds * 1e6));
  fairness.seed = options.seed;
  lab::EmulatedProvider provider(executor, clock, lab::fairness_provider(fairness));
  auto port = provider.listen(0);
  if (!port) {
    complain(port.error().detail);
    return kExitFailed;
  }
  const Config config = gate_config(fairness, fmt::format("http://127.0.0.1:{}", *port));
  Daemon daemon(executor, clock, wire::Profiles::built_in(), config);
  if (auto started = run_task(context, daemon.start("", "")); !started) {
    complain(started.error().detail);
    return kExitFailed;
  }
  fairness.base_url = daemon.base_url();
  fmt::print(
      "fairness: calls of {} and of {} tokens, half the tokens each, {:g} times the rate of "
      "{} tokens/s for {:g} s\n",
      fairness.small_tokens, fairness.large_tokens, options.load, fairness.tokens_per_second,
      options.seconds);
  std::fflush(stdout);
  // Nothing to tidy up: sockets close with the process.
  const SignalWatch signals(executor, [](int signal) { std::_Exit(kExitSignal + signal); });
  auto report = run_task(context, lab::run_fairness(executor, clock, fairness));
  run_task(context, daemon.stop(0s));
  run_task(context, provider.stop(0s));
  if (!report) {
    complain(report.error().detail);
    return kExitFailed;
  }
  fmt::print("{}\n", lab::to_text(*report));
  if (report->small.p95_s > 0) {
    fmt::print("95th percentile, large / small: {:.2f}\n",
               report->large.p95_s / report->small.p95_s);
  }
  const std::int64_t refused = report->small.refused + report->large.refused;
  if (refused > 0) complain(fmt::format("{} calls got no answer", refused));
  return refused > 0 ? kExitFailed : kExitOk;
}

}  // namespace hg::cli
