// The fairness of the gate, with the shipped call and pool on the virtual clock: calls of 8,000 and
// of 130,000 tokens, Poisson arrivals, tokens split evenly between the two kinds, a bucket of
// 200,000 refilled at 40,000 a second, a hold cap of 100 s, an hour.
//
// How waits are counted: one for every attempt that the gate ruled on; an attempt that reached its
// hold cap counts with the whole of it (100 s). Such a call comes back after retry-after x
// (1..1.25), as Claude Code does, with the seniority that it had earned, up to ten times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/paced_world.h"

namespace hg::sim {
namespace {

constexpr Tokens kSmall = 8'000;
constexpr Tokens kLarge = 130'000;
constexpr Tokens kCapacity = 200'000;
constexpr std::int64_t kRate = 40'000;

gate::PoolConfig pool_config() {
  gate::PoolConfig config;
  config.limits.c_burst = kCapacity;
  config.limits.r_tok = kRate;
  config.limits.k_inflight = 100'000'000;  // Not what is tested here.
  config.limits.c_req = 10'000;
  config.limits.r_qps = 1'000'000'000;
  config.seed = config.limits;
  return config;
}

// A provider that takes whatever the gate lets through.
ProviderModel ample_provider() {
  ProviderModel model;
  model.burst_tokens = 100'000'000;
  model.tokens_per_second = 1'000'000;
  model.burst_requests = 100'000;
  model.requests_per_second = 1'000;
  model.load_slope = 0;
  return model;
}

WorldPlan fair_world(double load, int returns, std::uint64_t seed) {
  WorldPlan plan;
  plan.seed = seed;
  plan.shims = 4;
  plan.chars_per_token = 4.89;  // kappa is right: sizes are exact.
  plan.pool = pool_config();
  plan.provider = ample_provider();
  for (const Tokens tokens : {kSmall, kLarge}) {
    CallStream stream;
    stream.name = tokens == kSmall ? "small" : "large";
    stream.tokens = tokens;
    stream.calls_per_second = load * kRate / 2 / static_cast<double>(tokens);
    stream.returns = returns;
    plan.streams.push_back(stream);
  }
  return plan;
}

struct Waits {
  std::vector<Micros> small, large;

  void add(const WorldResult& result) {
    const std::vector<Micros>& more_small = result.sources.at("small").waits;
    const std::vector<Micros>& more_large = result.sources.at("large").waits;
    small.insert(small.end(), more_small.begin(), more_small.end());
    large.insert(large.end(), more_large.begin(), more_large.end());
  }
};

void report(const std::string& name, const std::vector<Micros>& waits) {
  const auto seconds = [&](double share) {
    return std::to_string(to_seconds(percentile(waits, share)));
  };
  testing::Test::RecordProperty(name + "_p50_s", seconds(0.5));
  testing::Test::RecordProperty(name + "_p95_s", seconds(0.95));
  testing::Test::RecordProperty(name + "_p99_s", seconds(0.99));
}

WorldResult play(const WorldPlan& plan) {
  PacedWorld world(plan);
  world.run_for(3600s);
  const WorldResult result = world.result();
  for (const std::string& anomaly : result.anomalies) ADD_FAILURE() << anomaly;
  EXPECT_LE(result.provider.accepted_prompt, kCapacity + kRate * 3600)
      << "no more than bucket and refill";
  return result;
}

TEST(FairnessTest, AboveTheRateLargeCallsWaitNoLongerThanSmallOnes) {
  for (const int returns : {10, 0}) {
    Waits all;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const WorldResult result = play(fair_world(1.3, returns, seed));
      Waits waits;
      waits.add(result);
      all.add(result);
      EXPECT_LE(to_seconds(percentile(waits.large, 0.95)),
                1.1 * to_seconds(percentile(waits.small, 0.95)))
          << "seed " << seed;
      // And of those that got through, too: the cap hides nothing.
      const auto& small = result.sources.at("small").admitted_waits;
      const auto& large = result.sources.at("large").admitted_waits;
      EXPECT_LE(to_seconds(percentile(large, 0.95)), 1.1 * to_seconds(percentile(small, 0.95)))
          << "seed " << seed;
      EXPECT_GE(static_cast<double>(result.provider.accepted_prompt), 0.99 * kRate * 3600)
          << "the queue is never empty, so nothing is left unused";
    }
    report("returns_" + std::to_string(returns) + "_small", all.small);
    report("returns_" + std::to_string(returns) + "_large", all.large);
  }
}

TEST(FairnessTest, BelowTheRateNobodyWaitsLong) {
  Waits all;
  int within = 0;
  constexpr int kSeeds = 10;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const WorldResult result = play(fair_world(0.9, 10, seed));
    Waits waits;
    waits.add(result);
    all.add(result);
    const bool small_well = percentile(waits.small, 0.99) <= Micros{40s};
    const bool large_well = percentile(waits.large, 0.99) <= Micros{40s};
    within += small_well && large_well ? 1 : 0;
  }
  EXPECT_LE(percentile(all.small, 0.99), Micros{40s});
  EXPECT_LE(percentile(all.large, 0.99), Micros{40s});
  EXPECT_EQ(within, kSeeds);
  report("small", all.small);
  report("large", all.large);
}

// A pool with an empty bucket, driven by hand.
class BlockedPool : public testing::Test {
 protected:
  gate::AcquireReply ask(const std::string& shim, const std::string& id, Tokens tokens) {
    gate::AcquireRequest request;
    request.id = id;
    request.shim = shim;
    request.alias = "a";
    request.estimate = tokens;
    request.charge = tokens;
    request.hold_left = 100s;
    return pool.acquire(request, now);
  }

  void settle(const std::string& id) {
    gate::SettleRequest request;
    request.id = id;
    EXPECT_TRUE(pool.settle(request, now));
  }

  Instant now{1000s};
  gate::Pool pool{pool_config(), gate::Birth::restored_empty, now};
};

TEST_F(BlockedPool, AWaiterWhoseShimWasKilledBlocksTheQueueForAtMostEightSeconds) {
  // The head needs 130,000: 3.25 s. Its shim says nothing more from the start.
  EXPECT_EQ(ask("dead-1", "dead-1.1.1", kLarge).verdict, gate::Verdict::denied);
  const Instant killed = now;
  Instant next_beat = now;
  Instant first;
  for (; now < killed + 30s; now = now + 50ms) {
    if (now >= next_beat) {
      pool.renew("alive-1", {}, 30s, now);
      next_beat = now + 2s;
    }
    pool.step(now);
    if (ask("alive-1", "alive-1.1.1", kLarge).verdict == gate::Verdict::admitted) {
      first = now;
      break;
    }
  }
  EXPECT_LE(first - killed, Micros{8s});
}

TEST(FairnessTest, AKilledShimStopsTheOthersForAtMostEightSeconds) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    WorldPlan plan = fair_world(1.3, 10, seed);
    plan.deaths.push_back({0, 300s});
    PacedWorld world(plan);
    world.run_for(299s);
    std::int64_t admitted = world.result().admitted;
    Instant last = world.now();
    Micros longest{0};
    while (world.now() < Instant{1000s} + 400s) {
      world.run_for(100ms);
      const std::int64_t more = world.result().admitted;
      if (more == admitted) continue;
      admitted = more;
      longest = std::max(longest, world.now() - last);
      last = world.now();
    }
    EXPECT_LE(longest, Micros{8s}) << "seed " << seed;
    for (const std::string& anomaly : world.result().anomalies) ADD_FAILURE() << anomaly;
  }
}

TEST_F(BlockedPool, AnOversizeCallGoesAloneAgainstAFullBucketAndItsDebtIsPaid) {
  constexpr Tokens kOversize = 300'000;
  EXPECT_EQ(ask("big-1", "big-1.1.1", kOversize).verdict, gate::Verdict::denied);
  const Instant asked = now;
  Instant went;
  int small_before = 0;
  int sequence = 0;
  std::string waiting;
  // Small calls keep asking, one after the other, every 100 ms.
  const auto small_asks = [&] {
    if (waiting.empty()) waiting = "small-1." + std::to_string(++sequence) + ".1";
    if (ask("small-1", waiting, kSmall).verdict != gate::Verdict::admitted) return false;
    settle(waiting);
    waiting.clear();
    return true;
  };
  for (; now < asked + 60s; now = now + 100ms) {
    if (ask("big-1", "big-1.1.1", kOversize).verdict == gate::Verdict::admitted) {
      went = now;
      break;
    }
    if (small_asks()) ++small_before;
  }
  EXPECT_EQ(went - asked, Micros{5s}) << "when the bucket is full";
  EXPECT_EQ(small_before, 0) << "nobody takes the tokens that it waits for";
  EXPECT_EQ(pool.view(now).tokens, -100'000 * kMicro);
  Instant paid;
  for (; now < went + 60s; now = now + 100ms) {
    pool.renew("big-1", {}, 30s, now);
    if (small_asks()) {
      paid = now;
      break;
    }
  }
  EXPECT_EQ(paid - went, Micros{2'700ms}) << "2.5 s of debt and 0.2 s for its own 8,000";
}

}  // namespace
}  // namespace hg::sim
