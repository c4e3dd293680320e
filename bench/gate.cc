// What one decision of the gate costs, alone and with a queue.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "gate/pool.h"

namespace {

using hg::Instant;
using hg::Micros;
using namespace std::chrono_literals;

hg::gate::PoolConfig config() {
  hg::gate::PoolConfig config;
  config.limits.c_burst = 200'000;
  config.limits.r_tok = 40'000;
  config.limits.k_inflight = 100'000'000;
  config.limits.c_req = 1'000'000;
  config.limits.r_qps = 1'000'000'000;
  config.seed = config.limits;
  return config;
}

hg::gate::AcquireRequest request(std::int64_t number, hg::Tokens tokens) {
  hg::gate::AcquireRequest request;
  request.id = fmt::format("bench-1.{}.0", number);
  request.shim = "bench-1";
  request.alias = "main/bench";
  request.estimate = tokens;
  request.charge = tokens;
  request.hold_left = 3600s;
  return request;
}

// Admit and settle, one call at a time, with so many waiters behind a blocked head.
void acquire_and_settle(benchmark::State& state) {
  Instant now{1h};
  hg::gate::Pool pool(config(), hg::gate::Birth::created_full, now);
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    (void)pool.acquire(request(++number, i == 0 ? 400'000 : 20'000), now);
  }
  for (auto _ : state) {
    now = now + 1us;
    const hg::gate::AcquireRequest ask = request(++number, 1);
    benchmark::DoNotOptimize(pool.acquire(ask, now));
    if (state.range(0) > 0) {
      (void)pool.leave(ask.id, hg::gate::Pool::Leaving::gone, now);
      continue;
    }
    hg::gate::SettleRequest settle;
    settle.id = ask.id;
    benchmark::DoNotOptimize(pool.settle(settle, now));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(acquire_and_settle)->Arg(0)->Arg(10)->Arg(500)->Arg(5'000);

}  // namespace
