// What one decision of the gate costs, alone and with a queue.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

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

// A pool in the middle of its work: so many leases and as many waiters behind a head that waits for
// in-flight tokens, spread over ten shims.
struct Busy {
  explicit Busy(std::int64_t size) : now(1h), pool(config(), hg::gate::Birth::created_full, now) {
    for (std::int64_t i = 0; i < size; ++i) {
      hg::gate::AcquireRequest lease = request(++number, 1);
      lease.shim = fmt::format("bench-{}", i % 10);
      lease.lease_ttl = 600s;
      (void)pool.acquire(lease, now);
    }
    for (std::int64_t i = 0; i < size; ++i) {
      hg::gate::AcquireRequest waiter = request(++number, 200'000);
      waiter.shim = fmt::format("bench-{}", i % 10);
      (void)pool.acquire(waiter, now);
    }
  }

  // Time passes, and every shim lives.
  void tick() {
    now = now + 1us;
    if (++ticks % 1'000'000 != 0) return;
    for (int shim = 0; shim < 10; ++shim) pool.renew(fmt::format("bench-{}", shim), {}, 600s, now);
  }

  Instant now;
  hg::gate::Pool pool;
  std::int64_t number = 0;
  std::int64_t ticks = 0;
};

// One call comes and ends: admitted and settled where nobody waits, else queued and gone again.
void one_call(benchmark::State& state) {
  Busy busy(state.range(0));
  for (auto _ : state) {
    busy.tick();
    const hg::gate::AcquireRequest ask = request(++busy.number, 1);
    benchmark::DoNotOptimize(busy.pool.acquire(ask, busy.now));
    if (state.range(0) > 0) {
      benchmark::DoNotOptimize(busy.pool.leave(ask.id, hg::gate::Pool::Leaving::gone, busy.now));
      continue;
    }
    hg::gate::SettleRequest settle;
    settle.id = ask.id;
    benchmark::DoNotOptimize(busy.pool.settle(settle, busy.now));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(one_call)->Arg(0)->Arg(10)->Arg(500)->Arg(5'000);

// A waiter asks again and is denied again: what a needless poll costs.
void ask_again(benchmark::State& state) {
  Busy busy(state.range(0));
  std::int64_t which = 0;
  for (auto _ : state) {
    busy.tick();
    hg::gate::AcquireRequest ask = request(state.range(0) + 1 + ++which % state.range(0), 200'000);
    ask.shim = fmt::format("bench-{}", (which % state.range(0)) % 10);
    benchmark::DoNotOptimize(busy.pool.acquire(ask, busy.now));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ask_again)->Arg(10)->Arg(500)->Arg(5'000);

// The heartbeat of a shim with a hundred leases.
void heartbeat(benchmark::State& state) {
  Busy busy(state.range(0));
  std::vector<hg::gate::LeaseRenewal> leases;
  for (std::int64_t i = 0; i < 100; ++i) {
    leases.push_back({fmt::format("beat.{}", i), "main/bench", 1, 1, 0, {}});
  }
  for (auto _ : state) {
    busy.tick();
    benchmark::DoNotOptimize(busy.pool.renew("beat", leases, 30s, busy.now));
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(heartbeat)->Arg(10)->Arg(500)->Arg(5'000);

// A full pool with a queue: a newcomer asks and queues, one call ends, the head is told, asks and
// is admitted. A hundred calls a second come and go, which is a large fleet's rate: so many ended
// ids are remembered.
void rounds_per_s(benchmark::State& state) {
  constexpr std::int64_t kInFlight = 50;
  hg::gate::PoolConfig busy = config();
  busy.limits.c_burst = 100'000'000;
  busy.limits.r_tok = 100'000'000;
  busy.limits.k_inflight = kInFlight;
  busy.seed = busy.limits;
  Instant now(1h);
  hg::gate::Pool pool(busy, hg::gate::Birth::created_full, now);
  std::int64_t number = 0;
  std::deque<std::string> at_provider;
  std::deque<hg::gate::AcquireRequest> waiting;
  const auto ask = [&](hg::gate::AcquireRequest asked) {
    const hg::gate::AcquireReply reply = pool.acquire(asked, now);
    if (reply.verdict == hg::gate::Verdict::admitted) {
      at_provider.push_back(asked.id);
    } else {
      waiting.push_back(std::move(asked));
    }
  };
  const auto newcomer = [&] {
    now = now + 1us;  // First come, first served: no two have one score.
    hg::gate::AcquireRequest asked = request(++number, 1);
    asked.shim = fmt::format("bench-{}", number % 10);
    ask(std::move(asked));
  };
  const auto round = [&] {
    now = now + 10ms;
    newcomer();
    hg::gate::SettleRequest settle;
    settle.id = std::move(at_provider.front());
    at_provider.pop_front();
    pool.settle(settle, now);
    benchmark::DoNotOptimize(pool.take_wake());
    hg::gate::AcquireRequest head = std::move(waiting.front());
    waiting.pop_front();
    ask(std::move(head));
    benchmark::DoNotOptimize(pool.next_event());
  };
  for (std::int64_t i = 0; i < kInFlight + state.range(0); ++i) newcomer();
  for (int i = 0; i < 10'000; ++i) round();
  for (auto _ : state) round();
  if (std::int64_t(waiting.size()) != state.range(0)) state.SkipWithError("the queue moved");
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(rounds_per_s)->Arg(10)->Arg(500)->Arg(10'000);

// Nothing but the passing of time and the question whom to wake.
void step(benchmark::State& state) {
  Busy busy(state.range(0));
  for (auto _ : state) {
    busy.tick();
    busy.pool.step(busy.now);
    benchmark::DoNotOptimize(busy.pool.take_wake());
    benchmark::DoNotOptimize(busy.pool.next_event());
  }
}
BENCHMARK(step)->Arg(10)->Arg(500)->Arg(5'000);

}  // namespace
