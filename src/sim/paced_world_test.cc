#include "sim/paced_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace hg::sim {
namespace {

gate::PoolConfig pool_of(const ProviderModel& provider, double share) {
  gate::PoolConfig config;
  config.limits.c_burst = static_cast<Tokens>(static_cast<double>(provider.burst_tokens) * share);
  config.limits.r_tok = static_cast<std::int64_t>(provider.tokens_per_second * share);
  config.limits.k_inflight = 50'000'000;
  config.limits.c_req = std::max<std::int64_t>(
      static_cast<std::int64_t>(provider.burst_requests * share), 1);
  config.limits.r_qps = static_cast<MicroRequests>(provider.requests_per_second * share * kMicro);
  config.seed = config.limits;
  return config;
}

AgentGroup group(std::string_view harness, int count, int turns, Micros hold_cap) {
  AgentGroup result;
  result.habits = *find_habits(harness);
  result.count = count;
  result.shape.turns = turns;
  result.hold_cap = hold_cap;
  return result;
}

// Fifty agents of six kinds that want about twice what the provider gives.
WorldPlan crowded(std::uint64_t seed, bool gated) {
  WorldPlan plan;
  plan.seed = seed;
  plan.gated = gated;
  plan.shims = 3;
  plan.provider.burst_tokens = 400'000;
  plan.provider.tokens_per_second = 30'000;
  plan.provider.burst_requests = 40;
  plan.provider.requests_per_second = 10;
  plan.provider.mishaps.overloaded = 0.01;
  plan.provider.mishaps.error_in_stream = 0.5;
  plan.pool = pool_of(plan.provider, 0.95);
  plan.pool.kappa_micro = 4'500'000;
  plan.chars_per_token = 4.5;
  plan.agents = {
      group("claude-code", 15, 8, 240s), group("codex", 10, 8, 240s),
      group("opencode", 10, 8, 240s),    group("mini-swe-agent", 10, 8, 30s),
      group("openai-sdk", 5, 8, 240s),
  };
  return plan;
}

TEST(PacedWorldTest, AFleetBehindTheGateLosesNothingAndSeesNoRefusal) {
  PacedWorld world(crowded(1, true));
  world.run_for(1800s);
  const WorldResult result = world.result();
  EXPECT_TRUE(world.quiet());
  std::int64_t done = 0;
  for (const auto& [name, source] : result.sources) {
    EXPECT_EQ(source.tasks_lost, 0) << name;
    EXPECT_EQ(source.refused_by_provider, 0) << name;
    done += source.tasks_done;
  }
  EXPECT_EQ(done, 50);
  EXPECT_GT(result.provider.refused_overloaded, 0) << "absorbed";
  EXPECT_EQ(result.provider.refused_tokens_limit, 0) << "95 % of the limit: never passed";
  EXPECT_TRUE(world.pool().idle());
  for (const std::string& anomaly : result.anomalies) ADD_FAILURE() << anomaly;
}

TEST(PacedWorldTest, TheSameFleetWithoutTheGateLosesTasks) {
  PacedWorld world(crowded(1, false));
  world.run_for(1800s);
  const WorldResult result = world.result();
  std::int64_t lost = 0;
  std::int64_t refused = 0;
  for (const auto& [name, source] : result.sources) {
    lost += source.tasks_lost;
    refused += source.refused_by_provider;
  }
  EXPECT_GT(lost, 5);
  EXPECT_GT(refused, 50);
}

TEST(PacedWorldTest, ABusyGateUsesTheLimit) {
  WorldPlan plan = crowded(2, true);
  for (AgentGroup& agents : plan.agents) {
    agents.shape.turns = 200;
    agents.stagger = 500ms;
  }
  PacedWorld world(plan);
  world.run_for(600s);
  EXPECT_GE(world.result().limit_used, 0.85);
  EXPECT_LE(world.result().limit_used, 1.0);
}

TEST(PacedWorldTest, KappaAndTheHitRateAreLearned) {
  WorldPlan plan = crowded(3, true);
  plan.chars_per_token = 3.9;
  plan.provider.tokens_per_second = 300'000;
  plan.provider.burst_tokens = 1'000'000;
  plan.pool = pool_of(plan.provider, 0.95);
  for (AgentGroup& agents : plan.agents) agents.shape.turns = 30;
  PacedWorld world(plan);
  world.run_for(1200s);
  const WorldResult result = world.result();
  EXPECT_NEAR(result.kappa, 3.9, 0.05);
  EXPECT_GT(result.hit_rate, 0.9) << "within the cache's lifetime nearly all of a prompt repeats";
}

TEST(PacedWorldTest, AnExhaustedQuotaIsToldAndPausesThePool) {
  WorldPlan plan = crowded(4, true);
  plan.provider.quota = 3'000'000;
  PacedWorld world(plan);
  world.run_for(900s);
  const WorldResult result = world.result();
  std::int64_t told = 0;
  for (const auto& [name, source] : result.sources) told += source.refused_by_provider;
  EXPECT_GT(told, 0) << "passed on";
  EXPECT_LT(result.provider.refused_quota, 40) << "one probe a minute, not one a call";
  EXPECT_GT(world.pool().view(world.now()).paused_for, Micros{0});
  for (const std::string& anomaly : result.anomalies) ADD_FAILURE() << anomaly;
}

TEST(PacedWorldTest, OneSeedGivesOneHistory) {
  const auto history = [](std::uint64_t seed) {
    PacedWorld world(crowded(seed, true));
    world.run_for(300s);
    const WorldResult result = world.result();
    return std::to_string(result.admitted) + "/" + std::to_string(result.provider.accepted_tokens);
  };
  EXPECT_EQ(history(5), history(5));
  EXPECT_NE(history(5), history(6));
}

// A short world in which everything is left to chance: limits, mishaps, harnesses, agents that
// leave, shims that are killed.
WorldPlan random_world(std::uint64_t seed) {
  Rng rng(seed);
  WorldPlan plan;
  plan.seed = rng.next();
  plan.shims = static_cast<int>(rng.integer(1, 4));
  ProviderModel& provider = plan.provider;
  provider.burst_tokens = rng.integer(20'000, 600'000);
  provider.tokens_per_second = rng.uniform(2'000, 100'000);
  provider.burst_requests = static_cast<double>(rng.integer(1, 50));
  provider.requests_per_second = rng.uniform(0.5, 20);
  if (rng.chance(0.3)) provider.max_inflight = rng.integer(50'000, 2'000'000);
  if (rng.chance(0.1)) provider.quota = rng.integer(500'000, 5'000'000);
  if (rng.chance(0.3)) provider.plan.steps = {{60s, rng.uniform(0.3, 1.5)}, {150s, 1.0}};
  if (rng.chance(0.2)) provider.plan.drift_amplitude = 0.4;
  if (rng.chance(0.3)) provider.tenants.tokens_per_second = provider.tokens_per_second * 0.3;
  if (rng.chance(0.6)) {
    provider.mishaps.overloaded = rng.uniform(0, 0.1);
    provider.mishaps.unavailable = rng.uniform(0, 0.05);
    provider.mishaps.stray_rate_limit = rng.uniform(0, 0.05);
    provider.mishaps.error_in_stream = rng.uniform();
    provider.mishaps.drop_before_answer = rng.uniform(0, 0.05);
    provider.mishaps.drop_in_answer = rng.uniform(0, 0.05);
  }
  provider.cached_ppm = rng.chance(0.5) ? 1'000'000 : rng.integer(0, 500'000);
  provider.output_ppm = rng.chance(0.7) ? 0 : rng.integer(0, 5'000'000);
  provider.refused_calls_count = rng.chance(0.2);
  provider.hint = static_cast<ProviderModel::Hint>(rng.integer(0, 2));

  plan.pool = pool_of(provider, rng.uniform(0.5, 1.3));
  plan.pool.limits.k_inflight = rng.integer(30'000, 5'000'000);
  plan.pool.weights.cached_ppm = provider.cached_ppm;
  plan.pool.weights.output_ppm = provider.output_ppm;
  plan.pool.refused_calls_count = provider.refused_calls_count;
  plan.pool.seed = plan.pool.limits;
  plan.chars_per_token = rng.uniform(3, 6);

  const int kinds = static_cast<int>(rng.integer(1, 4));
  for (int kind = 0; kind < kinds; ++kind) {
    const auto last = static_cast<std::int64_t>(all_habits().size()) - 1;
    const AgentHabits& habits = all_habits()[static_cast<std::size_t>(rng.integer(0, last))];
    AgentGroup agents = group(habits.name, static_cast<int>(rng.integer(1, 8)),
                              static_cast<int>(rng.integer(1, 15)),
                              Micros{1s} * rng.integer(5, 200));
    agents.stagger = Micros{1ms} * rng.integer(0, 5'000);
    agents.leaves = rng.chance(0.5) ? rng.uniform(0, 0.1) : 0;
    plan.agents.push_back(agents);
  }
  if (rng.chance(0.3)) {
    CallStream stream;
    stream.name = "stream";
    stream.calls_per_second = rng.uniform(0.05, 2);
    stream.tokens = rng.integer(100, 300'000);
    stream.until = 200s;
    stream.hold_cap = Micros{1s} * rng.integer(5, 100);
    stream.returns = static_cast<int>(rng.integer(0, 3));
    plan.streams.push_back(stream);
  }
  if (plan.shims > 1 && rng.chance(0.4)) {
    plan.deaths.push_back(
        {static_cast<int>(rng.integer(0, plan.shims - 1)), Micros{1s} * rng.integer(1, 200)});
  }
  return plan;
}

void expect_order(const WorldPlan& plan) {
  PacedWorld world(plan);
  for (int minutes = 0; minutes < 600 && !world.quiet(); ++minutes) world.run_for(60s);
  ASSERT_TRUE(world.quiet()) << "somebody still waits after ten hours";
  world.run_for(120s);  // Leases of killed shims run out, tombstones too, buckets fill.

  const WorldResult result = world.result();
  for (const std::string& anomaly : result.anomalies) ADD_FAILURE() << anomaly;
  EXPECT_EQ(result.admitted, result.ended) << "every admission ends once";
  EXPECT_EQ(world.provider().calls_open(), 0) << "every connection is closed";
  EXPECT_EQ(world.provider().inflight(), 0);
  std::int64_t expected_tasks = 0;
  std::int64_t tasks = 0;
  for (const AgentGroup& agents : plan.agents) expected_tasks += agents.count;
  for (const auto& [name, source] : result.sources) {
    if (name == "stream") continue;
    tasks += source.tasks_done + source.tasks_lost + source.tasks_left;
  }
  EXPECT_EQ(tasks, expected_tasks) << "nobody is forgotten";

  EXPECT_TRUE(world.pool().idle()) << "no lease and no waiter";
  world.pool().step(world.now());
  const Micros to_fill = Micros{1s} * (plan.pool.limits.c_burst / plan.pool.limits.r_tok + 3600);
  world.run_for(to_fill);
  const gate::PoolView view = world.pool().view(world.now());
  EXPECT_EQ(view.inflight, 0);
  EXPECT_EQ(view.tokens, plan.pool.limits.c_burst * kMicro) << "an idle bucket fills, no further";
  EXPECT_EQ(view.requests, plan.pool.limits.c_req * kMicro);
}

// An environment variable's number; nothing when it is unset or empty.
std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

TEST(PacedWorldTest, EverySeedKeepsTheBooksOfEverybody) {
  const std::optional<std::uint64_t> one = number_from("HG_SIM_SEED");
  const std::uint64_t first = one.value_or(1);
  const std::uint64_t last = one.value_or(number_from("HG_SIM_SEEDS").value_or(100));
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    expect_order(random_world(seed));
    ASSERT_FALSE(HasFailure()) << "make sim SEED=" << seed;
  }
}

}  // namespace
}  // namespace hg::sim
