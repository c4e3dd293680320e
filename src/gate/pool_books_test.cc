// The books: settlements, leases, kappa, windows, limits, pauses, time, shares.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gate/kappa.h"
#include "gate/limits.h"
#include "gate/pool.h"
#include "gate/testing.h"

namespace hg::gate {
namespace {

using testing::call;
using testing::kStart;
using testing::refund;
using testing::roomy_config;
using testing::used;

Pool full_pool(const PoolConfig& config = roomy_config()) {
  return Pool(config, Birth::created_full, kStart);
}

void beat(Pool& pool, const std::vector<std::string>& shims, Instant from, Instant to) {
  for (Instant now = from; now <= to; now = now + 1s) {
    for (const std::string& shim : shims) pool.renew(shim, {}, 30s, now);
  }
}

Window newest(const Pool& pool, Instant now) {
  const std::vector<Window> windows = pool.view(now).windows;
  return windows.empty() ? Window{} : windows.back();
}

// --- Settlement ----------------------------------------------------------------------------------

TEST(SettleTest, ReplacesTheChargeByTheTrueOneAtTheWeightsOfAdmission) {
  PoolConfig config = roomy_config();
  Pool pool = full_pool(config);
  AcquireRequest request = call("a.1", 100'000);
  request.weights = {250'000, 500'000};
  (void)pool.acquire(request, kStart);
  config.weights = {1'000'000, 0};
  ASSERT_TRUE(pool.configure(1, config, kStart).has_value());
  SettleRequest done = used("a.1", 10'000);
  done.usage.cached = 80'001;
  done.usage.output = 3;
  EXPECT_TRUE(pool.settle(done, kStart));
  // 10,000 + 20,000.25 + 1.5, floored once.
  EXPECT_EQ(pool.view(kStart).tokens, (200'000 - 30'001) * kMicro);
  EXPECT_EQ(newest(pool, kStart).accepted, 30'001);
}

TEST(SettleTest, AnAnswerThatBrokeOffForLoadIsSettledAndCountsAsAnOverload) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 100'000), kStart);
  SettleRequest done = used("a.1", 60'000);
  done.overloaded = true;
  EXPECT_TRUE(pool.settle(done, kStart));
  EXPECT_FALSE(pool.settle(done, kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 140'000 * kMicro);
  EXPECT_EQ(newest(pool, kStart).overloads, 1);
}

TEST(SettleTest, DebitsMoreThanWasChargedAlsoBelowZero) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 150'000), kStart);
  EXPECT_TRUE(pool.settle(used("a.1", 260'000), kStart));
  EXPECT_EQ(pool.view(kStart).tokens, -60'000 * kMicro);
}

TEST(SettleTest, RefundsNoFurtherThanTheCapacity) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 150'000), kStart);
  EXPECT_TRUE(pool.settle(used("a.1", 0), kStart + 3s));
  EXPECT_EQ(pool.view(kStart + 3s).tokens, 200'000 * kMicro);
}

TEST(SettleTest, AWholeRefundGivesBackChargeRequestAndOutput) {
  PoolConfig config = roomy_config();
  config.limits.c_out = 1'000;
  config.limits.r_out = 1;
  config.limits.c_req = 3;
  config.limits.r_qps = 1;
  Pool pool = full_pool(config);
  AcquireRequest request = call("a.1", 150'000);
  request.output = 400;
  (void)pool.acquire(request, kStart);
  EXPECT_EQ(pool.view(kStart).out, 600 * kMicro);
  EXPECT_EQ(pool.view(kStart).requests, 2 * kMicro);
  EXPECT_TRUE(pool.settle(refund("a.1"), kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 200'000 * kMicro);
  EXPECT_EQ(pool.view(kStart).requests, 3 * kMicro);
  EXPECT_EQ(pool.view(kStart).out, 1'000 * kMicro);
  EXPECT_EQ(newest(pool, kStart).accepted, 0);
}

TEST(SettleTest, AnEstimateLetsTheChargeStand) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 150'000), kStart);
  EXPECT_TRUE(pool.settle({"a.1"}, kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 50'000 * kMicro);
  EXPECT_EQ(newest(pool, kStart).accepted, 150'000);
}

TEST(SettleTest, TheOutputBucketIsSettledToo) {
  PoolConfig config = roomy_config();
  config.limits.c_out = 1'000;
  config.limits.r_out = 1;
  Pool pool = full_pool(config);
  AcquireRequest request = call("a.1", 10);
  request.output = 400;
  (void)pool.acquire(request, kStart);
  SettleRequest done = used("a.1", 10);
  done.usage.output = 1'500;
  EXPECT_TRUE(pool.settle(done, kStart));
  EXPECT_EQ(pool.view(kStart).out, -500 * kMicro);
}

TEST(SettleTest, AnOverloadEndsTheTryCountsItAndRefundsTheCharge) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 150'000), kStart);
  EXPECT_TRUE(pool.overload("a.1", kStart));
  EXPECT_FALSE(pool.overload("a.1", kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 200'000 * kMicro);
  EXPECT_EQ(newest(pool, kStart).overloads, 1);
  EXPECT_EQ(newest(pool, kStart).released_tokens, 150'000);
  EXPECT_EQ(pool.acquire(call("a.1", 150'000), kStart).verdict, Verdict::ended);
}

TEST(SettleTest, AnOverloadRefundsNothingWhereRefusedCallsCount) {
  PoolConfig config = roomy_config();
  config.refused_calls_count = true;
  Pool pool = full_pool(config);
  (void)pool.acquire(call("a.1", 150'000), kStart);
  EXPECT_TRUE(pool.overload("a.1", kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 50'000 * kMicro);
}

// --- Kappa ---------------------------------------------------------------------------------------

TEST(KappaTest, IsAnAverageOfClampedObservationsOfLargeTextCalls) {
  struct Row {
    const char* why;
    std::int64_t chars;
    Tokens tokens;
    std::int64_t kappa;
  };
  const Row rows[] = {
      {"a twentieth of the way to 4", 8'000, 2'000, 4'845'500},
      {"at most 8", 80'000, 2'000, 5'045'500},
      {"at least 2", 2'000, 2'000, 4'745'500},
      {"small calls say nothing", 3'996, 999, 4'890'000},
      {"no characters, no observation", 0, 2'000, 4'890'000},
      {"floored, below zero too: (4.889979 - 4.89) / 20", 4'889'979, 1'000'000, 4'889'998},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(fold_kappa(4'890'000, row.chars, row.tokens), row.kappa) << row.why;
  }
}

TEST(KappaTest, FlatPricedPartsAreSubtracted) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 3'500), kStart);
  SettleRequest done = used("a.1", 1'500);
  done.usage.cached = 2'000;
  done.flat_tokens = 1'500;
  done.text_chars = 8'000;
  EXPECT_TRUE(pool.settle(done, kStart));
  EXPECT_EQ(pool.kappa_micro(), 4'845'500);
}

TEST(KappaTest, StartsAtTheConfiguredValueAndSurvivesAnEditOfOtherThings) {
  PoolConfig config = roomy_config();
  config.kappa_micro = 3'000'000;
  Pool pool = full_pool(config);
  EXPECT_EQ(pool.kappa_micro(), 3'000'000);
  (void)pool.acquire(call("a.1", 2'000), kStart);
  SettleRequest done = used("a.1", 2'000);
  done.text_chars = 8'000;
  EXPECT_TRUE(pool.settle(done, kStart));
  EXPECT_EQ(pool.kappa_micro(), 3'050'000);
  config.limits.r_tok = 1;
  ASSERT_TRUE(pool.configure(1, config, kStart).has_value());
  EXPECT_EQ(pool.kappa_micro(), 3'050'000);
}

// --- Leases --------------------------------------------------------------------------------------

TEST(LeaseTest, RunsOutWithoutHeartbeatsAndGivesBackItsInflightTokensOnly) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 150'000), kStart);
  beat(pool, {"b"}, kStart, kStart + 29s);
  EXPECT_EQ(pool.view(kStart + 29s).inflight, 150'000);
  pool.step(kStart + 30s);
  EXPECT_EQ(pool.view(kStart + 30s).inflight, 0);
  EXPECT_TRUE(pool.idle());
  EXPECT_FALSE(pool.settle(refund("a.1"), kStart + 30s)) << "nobody knows what became of it";
}

TEST(LeaseTest, LivesAsLongAsItsOwnerRenewsIt) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 1'000), kStart);
  const LeaseRenewal renewal{"a.1", "pool/harness", 1'000, 1'000, 0, {}};
  for (Instant now = kStart; now < kStart + 1h; now = now + 2s) {
    pool.renew("a", std::span(&renewal, 1), 30s, now);
  }
  EXPECT_EQ(pool.view(kStart + 1h).inflight, 1'000);
  EXPECT_TRUE(pool.settle(used("a.1", 1'000), kStart + 1h));
}

TEST(LeaseTest, ALostOneIsRebuiltByItsOwnersHeartbeatAndSettlesDebitsOnly) {
  Pool pool(roomy_config(), Birth::restored_empty, kStart);
  const std::vector<LeaseRenewal> leases = {{"a.1", "x", 70'000, 50'000, 0, {}},
                                            {"a.2", "x", 70'000, 50'000, 0, {}},
                                            {"a.3", "x", 70'000, 50'000, 0, {}},
                                            {"a.4", "x", 70'000, 50'000, 0, {}}};
  pool.renew("a", leases, 30s, kStart);
  EXPECT_EQ(pool.view(kStart).inflight, 280'000);
  EXPECT_EQ(pool.view(kStart).tokens, 0) << "nothing is drawn for it";
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart).verdict, Verdict::admitted);
  EXPECT_TRUE(pool.settle(used("a.1", 10'000), kStart));
  EXPECT_TRUE(pool.settle(refund("a.2"), kStart));
  EXPECT_TRUE(pool.overload("a.3", kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 0) << "no refund of what may never have been drawn";
  EXPECT_TRUE(pool.settle(used("a.4", 80'000), kStart));
  EXPECT_EQ(pool.view(kStart).tokens, -30'000 * kMicro);
  EXPECT_TRUE(pool.idle());
}

TEST(LeaseTest, AHeartbeatTakesACallOutOfTheQueueThatItsOwnerKnowsAdmitted) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  (void)pool.acquire(call("a.2", 10'000), kStart);
  const LeaseRenewal renewal{"a.2", "pool/harness", 10'000, 10'000, 0, {}};
  pool.renew("a", std::span(&renewal, 1), 30s, kStart);
  EXPECT_TRUE(pool.view(kStart).waiters.empty());
  EXPECT_EQ(pool.view(kStart).inflight, 210'000);
}

TEST(LeaseTest, AHeartbeatReadsAHundredLeases) {
  Pool pool = full_pool();
  std::vector<LeaseRenewal> leases;
  leases.reserve(101);
  for (int i = 0; i < 101; ++i) leases.push_back({"a." + std::to_string(i), "x", 1, 1, 0, {}});
  pool.renew("a", leases, 30s, kStart);
  EXPECT_EQ(pool.view(kStart).leases.size(), kRenewMax);
}

TEST(LeaseTest, AStepDropsABoundedNumberInSortedOrder) {
  Pool pool = full_pool();
  for (int i = 0; i < 150; ++i) {
    const LeaseRenewal lease{"a." + std::to_string(1000 + i), "x", 1, 1, 0, {}};
    pool.renew("a", std::span(&lease, 1), 5s + i * 1us, kStart);
  }
  const Instant past = kStart + 6s;
  pool.step(past);
  PoolView view = pool.view(past);
  ASSERT_EQ(view.leases.size(), 50U);
  EXPECT_EQ(view.leases.front().id, "a.1100") << "the first to expire went first";
  EXPECT_EQ(view.inflight, 50);
  ASSERT_TRUE(pool.next_event().has_value());
  EXPECT_LE(*pool.next_event(), past) << "and the rest is due at once";
  pool.step(past);
  EXPECT_TRUE(pool.idle());
}

TEST(LeaseTest, AnEndedIdIsForgottenInTimeHoweverManyEndedWithIt) {
  Pool pool = full_pool();
  for (int i = 0; i < 250; ++i) {
    const std::string id = "a." + std::to_string(1000 + i);
    ASSERT_EQ(pool.acquire(call(id, 1), kStart).verdict, Verdict::admitted);
    ASSERT_TRUE(pool.settle(used(id, 1), kStart));
  }
  EXPECT_EQ(pool.acquire(call("a.1249", 1), kStart + 59s).verdict, Verdict::ended);
  EXPECT_EQ(pool.acquire(call("a.1249", 1), kStart + 60s).verdict, Verdict::admitted);
  ASSERT_TRUE(pool.settle(used("a.1249", 1), kStart + 60s));
  EXPECT_EQ(pool.acquire(call("a.1249", 1), kStart + 119s).verdict, Verdict::ended)
      << "and its new end is remembered for as long as the first";
}

// --- Configuration -------------------------------------------------------------------------------

TEST(ConfigureTest, KeepsLevelsClampsToALowerCapacityAndCountsVersions) {
  PoolConfig config = roomy_config();
  Pool pool = full_pool(config);
  (void)pool.acquire(call("a.1", 150'000), kStart);
  config.limits.c_burst = 400'000;
  EXPECT_EQ(pool.configure(1, config, kStart).value(), 2);
  EXPECT_EQ(pool.view(kStart).tokens, 50'000 * kMicro) << "an edit is no refill";
  config.limits.c_burst = 20'000;
  EXPECT_EQ(pool.configure(2, config, kStart).value(), 3);
  EXPECT_EQ(pool.view(kStart).tokens, 20'000 * kMicro);
  EXPECT_EQ(pool.version(), 3);
  EXPECT_EQ(pool.config(), config);
}

TEST(ConfigureTest, RefusesAnotherVersionThanTheOneExpected) {
  PoolConfig config = roomy_config();
  Pool pool = full_pool(config);
  config.limits.r_tok = 1;
  const Result<std::int64_t> refused = pool.configure(7, config, kStart);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_EQ(pool.config(), roomy_config());
}

TEST(ConfigureTest, NamesTheFieldAndWhatIsAllowed) {
  struct Row {
    const char* names;
    void (*spoil)(PoolConfig&);
  };
  const Row rows[] = {
      {"c_burst", [](PoolConfig& c) { c.limits.c_burst = 0; }},
      {"c_burst", [](PoolConfig& c) { c.limits.c_burst = kTokensMax + 1; }},
      {"r_tok", [](PoolConfig& c) { c.limits.r_tok = 0; }},
      {"k_inflight", [](PoolConfig& c) { c.limits.k_inflight = -1; }},
      {"c_req", [](PoolConfig& c) { c.limits.c_req = 0; }},
      {"r_qps", [](PoolConfig& c) { c.limits.r_qps = 0; }},
      {"r_qps", [](PoolConfig& c) { c.limits.r_qps = kRequestRateMax + 1; }},
      {"c_out", [](PoolConfig& c) { c.limits.c_out = 5; }},
      {"r_out", [](PoolConfig& c) { c.limits.r_out = 5; }},
      {"c_out", [](PoolConfig& c) { c.limits.c_out = 0, c.limits.r_out = 1; }},
      {"seed.r_tok", [](PoolConfig& c) { c.seed.r_tok = 0; }},
      {"cached_ppm", [](PoolConfig& c) { c.weights.cached_ppm = -1; }},
      {"output_ppm", [](PoolConfig& c) { c.weights.output_ppm = kWeightMaxPpm + 1; }},
      {"kappa", [](PoolConfig& c) { c.kappa_micro = 1'000'000; }},
      {"priority", [](PoolConfig& c) { c.priority_head_start_max = -1s; }},
  };
  for (const Row& row : rows) {
    PoolConfig config = roomy_config();
    row.spoil(config);
    const Result<void> checked = Pool::validate(config);
    ASSERT_FALSE(checked.has_value()) << row.names;
    EXPECT_EQ(checked.error().code, Errc::invalid);
    EXPECT_NE(checked.error().detail.find(row.names), std::string::npos) << checked.error().detail;
  }
  EXPECT_TRUE(Pool::validate(roomy_config()).has_value());
}

TEST(ConfigureTest, ALowerInflightCapWaitsUntilEnoughCallsHaveEnded) {
  PoolConfig config = roomy_config();
  Pool pool = full_pool(config);
  (void)pool.acquire(call("a.1", 600), kStart);
  (void)pool.acquire(call("a.2", 500), kStart);
  config.limits.k_inflight = 700;
  ASSERT_TRUE(pool.configure(1, config, kStart).has_value());
  EXPECT_EQ(pool.acquire(call("b.1", 1), kStart).axis, Axis::inflight);
  EXPECT_TRUE(pool.settle({"a.2"}, kStart));
  EXPECT_EQ(pool.acquire(call("b.1", 1), kStart).verdict, Verdict::admitted);
}

TEST(ConfigureTest, TheOutBucketIsSwitchedOnAndOff) {
  PoolConfig config = roomy_config();
  Pool pool = full_pool(config);
  config.limits.c_out = 10;
  config.limits.r_out = 1;
  ASSERT_TRUE(pool.configure(1, config, kStart).has_value());
  EXPECT_EQ(pool.view(kStart).out, 10 * kMicro);
  config.limits.c_out.reset();
  config.limits.r_out.reset();
  ASSERT_TRUE(pool.configure(2, config, kStart).has_value());
  EXPECT_EQ(pool.view(kStart).out, std::nullopt);
}

TEST(ConfigureTest, ARestoredPoolIsEmptyAndTheHighestVersionWins) {
  PoolConfig config = roomy_config();
  Pool pool(config, Birth::restored_empty, kStart, 5);
  EXPECT_EQ(pool.view(kStart).tokens, 0);
  EXPECT_EQ(pool.view(kStart).requests, 0);
  config.limits.r_tok = 10;
  EXPECT_FALSE(pool.restore(5, config, kStart));
  EXPECT_TRUE(pool.restore(9, config, kStart));
  EXPECT_EQ(pool.version(), 9);
  EXPECT_EQ(pool.config(), config);
  EXPECT_EQ(pool.view(kStart).tokens, 0) << "and fills nothing";
}

TEST(ConfigureTest, NumbersFromOutsideAreCutToTheirRange) {
  Pool pool = full_pool();
  AcquireRequest wild = call("a.1", std::numeric_limits<Tokens>::max(), Micros::max());
  wild.since = Micros::max();
  wild.head_start = Micros::max();
  wild.lease_ttl = Micros::min();
  wild.output = -5;
  EXPECT_EQ(pool.acquire(wild, kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(kStart).inflight, kTokensMax);
  EXPECT_EQ(pool.view(kStart).tokens, (200'000 - kTokensMax) * kMicro);
  SettleRequest done = used("b.1", std::numeric_limits<Tokens>::min());
  done.usage.cached = std::numeric_limits<Tokens>::max();
  done.text_chars = std::numeric_limits<std::int64_t>::max();
  (void)pool.acquire(call("b.1", -7), kStart);
  (void)pool.settle(done, kStart);
  EXPECT_GE(pool.view(kStart).tokens, -kDebtMax);
}

// --- Pause ---------------------------------------------------------------------------------------

TEST(PauseTest, NobodyPassesButOneProbeAMinuteAndEveryWaiterIsToldAtOnce) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.0", 200'000), kStart);
  (void)pool.acquire(call("a.1", 1'000), kStart);
  (void)pool.acquire(call("a.2", 1'000), kStart + 1us);
  const std::vector<Wake> told = pool.pause(150s, kStart + 1s);
  EXPECT_EQ(told, (std::vector<Wake>{{"a.1", "a", kStart + 61s}, {"a.2", "a", kStart + 61s}}));
  EXPECT_EQ(pool.view(kStart + 1s).paused_for, 150s);
  AcquireReply reply = pool.acquire(call("a.1", 1'000), kStart + 1s);
  EXPECT_EQ(reply.axis, Axis::paused);
  EXPECT_EQ(reply.pause_left, 60s);
  EXPECT_EQ(reply.predicted_wait, 60s);

  beat(pool, {"a"}, kStart + 2s, kStart + 60s);
  EXPECT_EQ(pool.acquire(call("a.1", 1'000), kStart + 61s - 1us).axis, Axis::paused);
  reply = pool.acquire(call("a.2", 1'000), kStart + 61s);
  EXPECT_EQ(reply.axis, Axis::paused) << "the probe is the head's";
  EXPECT_EQ(reply.pause_left, 60s);
  EXPECT_EQ(pool.acquire(call("a.1", 1'000), kStart + 61s).verdict, Verdict::admitted);
  reply = pool.acquire(call("a.2", 1'000), kStart + 62s);
  EXPECT_EQ(reply.axis, Axis::paused) << "one a minute";
  EXPECT_EQ(reply.pause_left, 59s);

  pool.resume(kStart + 63s);
  EXPECT_EQ(pool.acquire(call("a.2", 1'000), kStart + 63s).verdict, Verdict::admitted);
}

TEST(PauseTest, EndsByItselfAndWakesTheHeadThen) {
  Pool pool = full_pool();
  (void)pool.pause(30s, kStart);
  EXPECT_EQ(pool.acquire(call("a.1", 1'000), kStart).pause_left, 30s);
  EXPECT_EQ(pool.take_wake(), (Wake{"a.1", "a", kStart + 30s}));
  beat(pool, {"a"}, kStart, kStart + 29s);
  EXPECT_EQ(pool.acquire(call("a.1", 1'000), kStart + 30s).verdict, Verdict::admitted);
}

// --- Time ----------------------------------------------------------------------------------------

TEST(TimeTest, AStepBackOfTheClockIsHeld) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  pool.step(kStart + 1s);
  pool.step(kStart - 500s);
  EXPECT_EQ(pool.view(kStart - 500s).tokens, 40'000 * kMicro);
  pool.step(kStart - 499s);
  EXPECT_EQ(pool.view(kStart - 499s).tokens, 80'000 * kMicro) << "and goes on from there";
  (void)pool.acquire(call("a.2", 120'000), kStart - 499s);
  EXPECT_EQ(pool.take_wake(), (Wake{"a.2", "a", kStart - 498s})) << "told on the caller's clock";
}

TEST(TimeTest, ABusyPoolThatSawNothingForOver10SecondsWasAway) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  (void)pool.acquire(call("a.2", 100'000, 20s), kStart);
  const std::uint64_t epoch = pool.view(kStart).epoch;
  const Instant back = kStart + 1h;
  pool.step(back);
  PoolView view = pool.view(back);
  EXPECT_EQ(view.tokens, 0) << "no refill";
  EXPECT_EQ(view.leases.size(), 1U) << "no lease runs out";
  EXPECT_EQ(view.waiters.size(), 1U) << "no waiter is dropped";
  EXPECT_EQ(view.epoch, epoch + 1);
  EXPECT_EQ(pool.acquire(call("a.2", 100'000), back).predicted_wait, 2500ms);
  EXPECT_EQ(pool.take_wake(), (Wake{"a.2", "a", back + 2500ms}));
  pool.step(back + 1s);
  EXPECT_EQ(pool.view(back + 1s).tokens, 40'000 * kMicro);
}

TEST(TimeTest, TenSecondsOfSilenceAreStillTime) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  pool.step(kStart + 10s);
  EXPECT_EQ(pool.view(kStart + 10s).tokens, 200'000 * kMicro);
  EXPECT_EQ(pool.view(kStart + 10s).epoch, 1U);
}

TEST(TimeTest, AnIdlePoolIsNeverAway) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  EXPECT_TRUE(pool.settle({"a.1"}, kStart));
  EXPECT_EQ(pool.acquire(call("a.2", 200'000), kStart + 24h).verdict, Verdict::admitted);
}

// --- Windows -------------------------------------------------------------------------------------

TEST(WindowTest, CountsForThePoolAndForEachAliasInTensOfSeconds) {
  Pool pool = full_pool();
  AcquireRequest request = call("a.1", 200'000);
  request.alias = "p/one";
  (void)pool.acquire(request, kStart);
  request = call("a.2", 120'000);
  request.alias = "p/two";
  (void)pool.acquire(request, kStart);
  beat(pool, {"a"}, kStart, kStart + 2s);
  EXPECT_EQ(pool.acquire(request, kStart + 3s).verdict, Verdict::admitted);
  EXPECT_TRUE(pool.settle(used("a.1", 150'000), kStart + 10s));
  const PoolView view = pool.view(kStart + 10s);
  ASSERT_EQ(view.windows.size(), 2U);
  const Window first{100, 2, 1, 120'000, 0, 0, 0, 0};
  const Window second{101, 0, 0, 0, 0, 150'000, 0, 200'000};
  EXPECT_EQ(view.windows[0], first);
  EXPECT_EQ(view.windows[1], second);
  ASSERT_EQ(view.aliases.size(), 2U);
  EXPECT_EQ(view.aliases[0].alias, "p/one");
  EXPECT_EQ(view.aliases[0].windows, (std::vector<Window>{{100, 1, 0, 0, 0, 0, 0, 0}, second}));
  EXPECT_EQ(view.aliases[1].windows, (std::vector<Window>{{100, 1, 1, 120'000, 0, 0, 0, 0}}));
}

TEST(WindowTest, AreForgottenAfterFiveMinutes) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 1), kStart);
  EXPECT_TRUE(pool.settle({"a.1"}, kStart));
  EXPECT_EQ(pool.view(kStart + 299s).windows.size(), 1U);
  EXPECT_EQ(pool.view(kStart + 300s).windows.size(), 0U);
}

TEST(WindowTest, MadeUpAliasesDoNotFillTheMemory) {
  Pool pool = full_pool();
  for (int i = 0; i < 3'000; ++i) {
    AcquireRequest request = call("a." + std::to_string(i), 0);
    request.alias = std::to_string(i);
    (void)pool.acquire(request, kStart);
  }
  EXPECT_EQ(pool.view(kStart).aliases.size(), 1'001U);
}

// --- Shares --------------------------------------------------------------------------------------

TEST(ShareTest, IsThePartOfTheAdmissionsOfTheLastFiveMinutes) {
  Pool pool = full_pool();
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart).share_ppm, 1'000'000);
  EXPECT_EQ(pool.acquire(call("b.1", 1), kStart).share_ppm, 500'000);
  EXPECT_EQ(pool.acquire(call("b.2", 1), kStart).share_ppm, 666'666);
  const RenewReply reply = pool.renew("c", {}, 30s, kStart);
  EXPECT_EQ(reply.share_ppm, 0);
  EXPECT_EQ(reply.shims, 3);
  beat(pool, {"a", "b", "c"}, kStart, kStart + 299s);
  EXPECT_EQ(pool.renew("b", {}, 30s, kStart + 299s).share_ppm, 666'666);
  EXPECT_EQ(pool.renew("b", {}, 30s, kStart + 300s).share_ppm, 0);
}

TEST(ShareTest, OfAShimThatVanishedIsWithheldForTenMinutes) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 100'000), kStart);
  (void)pool.acquire(call("b.1", 100'000), kStart);
  EXPECT_TRUE(pool.settle({"b.1"}, kStart));
  beat(pool, {"b"}, kStart, kStart + 6s);  // a holds a lease, and falls silent.
  (void)pool.acquire(call("b.2", 200'000), kStart + 6s);
  EXPECT_TRUE(pool.view(kStart + 6s).shims[0].vanished);
  // Half of the admissions were a's; 0.9 of that may be drawn where the store does not see it.
  EXPECT_EQ(pool.view(kStart + 7s).tokens, 22'000 * kMicro);
  beat(pool, {"b"}, kStart + 6s, kStart + 605s);
  pool.step(kStart + 606s);
  EXPECT_FALSE(pool.view(kStart + 606s).shims[0].vanished);
}

TEST(ShareTest, IsGivenBackWhenTheShimIsSeenAgain) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 100'000), kStart);
  (void)pool.acquire(call("b.1", 100'000), kStart);
  beat(pool, {"b"}, kStart, kStart + 6s);
  (void)pool.acquire(call("b.2", 200'000), kStart + 6s);
  pool.renew("a", {}, 30s, kStart + 6s);
  EXPECT_EQ(pool.view(kStart + 7s).tokens, 40'000 * kMicro);
}

TEST(ShareTest, OfAShimWithoutCallsOrThatSaidFarewellIsNotWithheld) {
  Pool pool = full_pool();
  (void)pool.acquire(call("idle.1", 1), kStart);
  EXPECT_TRUE(pool.settle({"idle.1"}, kStart));
  (void)pool.acquire(call("gone.1", 1), kStart);
  pool.farewell("gone", kStart);
  (void)pool.acquire(call("b.1", 1), kStart);
  beat(pool, {"b"}, kStart, kStart + 20s);
  for (const ShimView& shim : pool.view(kStart + 20s).shims) {
    EXPECT_FALSE(shim.vanished) << shim.shim;
  }
}

TEST(ShareTest, ShimsAreForgotten) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 1), kStart);
  EXPECT_TRUE(pool.settle({"a.1"}, kStart));
  beat(pool, {"b"}, kStart, kStart + 661s);
  EXPECT_EQ(pool.renew("b", {}, 30s, kStart + 662s).shims, 1);
}

TEST(ShareTest, ACallThatOutlivedItsShimInTheQueueCanBeAdmittedForAnother) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 100;
  Pool pool = full_pool(config);
  (void)pool.acquire(call("b.1", 100), kStart);
  EXPECT_EQ(pool.acquire(call("a.1", 100, 1h), kStart).axis, Axis::inflight);
  const LeaseRenewal held{"b.1", "x", 100, 100, 0, {}};
  Instant now = kStart;
  for (; now < kStart + 670s; now = now + 5s) pool.renew("b", std::span(&held, 1), 30s, now);
  EXPECT_EQ(pool.view(now).shims.size(), 1U) << "shim a is forgotten";
  EXPECT_TRUE(pool.settle(used("b.1", 100), now));
  AcquireRequest adopted = call("a.1", 100, 1h);
  adopted.shim = "b";
  EXPECT_EQ(pool.acquire(adopted, now).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(now).leases.at(0).shim, "a");
}

}  // namespace
}  // namespace hg::gate
