// The decision: who may go, in which order, and what the others are told.
#include "gate/pool.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

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

// A pool without a token at kStart; the call that took them has ended.
Pool drained_pool(const PoolConfig& config = roomy_config()) {
  Pool pool(config, Birth::created_full, kStart);
  const Tokens all = config.limits.c_burst;
  EXPECT_EQ(pool.acquire(call("drain.1", all), kStart).verdict, Verdict::admitted);
  EXPECT_TRUE(pool.settle(used("drain.1", all), kStart));
  return pool;
}

// Keeps the shims alive while time passes, as a store and its shims do. Answers the last wake.
std::optional<Wake> live_on(Pool& pool, const std::vector<std::string>& shims, Instant from,
                            Instant to) {
  std::optional<Wake> last;
  for (Instant now = from; now <= to; now = now + 500ms) {
    for (const std::string& shim : shims) pool.renew(shim, {}, 30s, now);
    if (std::optional<Wake> wake = pool.take_wake()) last = wake;
  }
  return last;
}

std::vector<std::string> order_of(const Pool& pool, Instant now) {
  std::vector<std::string> ids;
  for (const WaiterView& waiter : pool.view(now).waiters) ids.push_back(waiter.id);
  return ids;
}

// --- Idempotence ---------------------------------------------------------------------------------

TEST(PoolTest, AnIdWithALeaseIsAdmittedAgainAndDrawsNothing) {
  Pool pool = full_pool();
  EXPECT_EQ(pool.acquire(call("a.1", 50'000), kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("a.1", 50'000), kStart).verdict, Verdict::admitted);
  const PoolView view = pool.view(kStart);
  EXPECT_EQ(view.tokens, 150'000 * kMicro);
  EXPECT_EQ(view.inflight, 50'000);
  EXPECT_EQ(view.leases.size(), 1U);
}

TEST(PoolTest, AnEndedIdAnswersEndedUntilItsTombstoneIsGone) {
  Pool pool = full_pool();
  AcquireRequest request = call("a.1", 1'000);
  request.lease_ttl = 30s;
  EXPECT_EQ(pool.acquire(request, kStart).verdict, Verdict::admitted);
  EXPECT_TRUE(pool.settle(used("a.1", 1'000), kStart));
  EXPECT_EQ(pool.acquire(request, kStart + 59s).verdict, Verdict::ended);
  EXPECT_FALSE(pool.settle(used("a.1", 1), kStart + 59s));
  EXPECT_FALSE(pool.overload("a.1", kStart + 59s));
  const LeaseRenewal late{"a.1", "pool/harness", 1'000, 1'000, 0, {}};
  pool.renew("a", std::span(&late, 1), 30s, kStart + 59s);
  EXPECT_TRUE(pool.idle()) << "a late heartbeat raises no ended call";
  EXPECT_EQ(pool.acquire(request, kStart + 60s).verdict, Verdict::admitted)
      << "2 x lease_ttl later it is forgotten";
}

TEST(PoolTest, ChargeAndEstimateAreThoseOfTheFirstAsk) {
  Pool pool = drained_pool();
  EXPECT_EQ(pool.acquire(call("a.1", 40'000), kStart).verdict, Verdict::denied);
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart + 500ms).verdict, Verdict::denied);
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart + 1s).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(kStart + 1s).inflight, 40'000);
  EXPECT_EQ(pool.view(kStart + 1s).tokens, 0);
}

TEST(PoolTest, SettlesOnce) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 100'000), kStart);
  EXPECT_TRUE(pool.settle(used("a.1", 40'000), kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 160'000 * kMicro);
  EXPECT_FALSE(pool.settle(refund("a.1"), kStart));
  EXPECT_FALSE(pool.settle(refund("never seen"), kStart));
  EXPECT_EQ(pool.view(kStart).tokens, 160'000 * kMicro);
}

// --- Score and head ------------------------------------------------------------------------------

TEST(PoolTest, WaitersAreServedByScoreAndTiesById) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("b.1", 8'000), kStart);
  (void)pool.acquire(call("a.1", 8'000), kStart);
  (void)pool.acquire(call("c.1", 8'000), kStart - 1us);
  EXPECT_EQ(order_of(pool, kStart), (std::vector<std::string>{"a.1", "b.1", "c.1"}))
      << "the same moment (a clock that steps back is held): by id";
}

TEST(PoolTest, ALargeCallCountsAsHavingWaitedItsRefillTime) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("small.1", 8'000), kStart);             // Counts from kStart - 0.2 s.
  (void)pool.acquire(call("large.1", 128'000), kStart + 2900ms);  // From kStart + 2.9 - 3.2 s.
  (void)pool.acquire(call("large.2", 128'000), kStart + 3100ms);  // From kStart + 3.1 - 3.2 s.
  EXPECT_EQ(order_of(pool, kStart + 3100ms),
            (std::vector<std::string>{"large.1", "small.1", "large.2"}));
}

TEST(PoolTest, TheHeadStartOfSizeIsTheClampedChargeAndAtMost15Seconds) {
  PoolConfig config = roomy_config();
  config.limits.r_tok = 10'000;  // 200,000 tokens would take 20 s.
  Pool pool = drained_pool(config);
  (void)pool.acquire(call("small.1", 1), kStart);
  live_on(pool, {"small", "huge"}, kStart, kStart + 14'500ms);
  (void)pool.acquire(call("huge.1", 5'000'000), kStart + 14'999ms);
  (void)pool.acquire(call("huge.2", 5'000'000), kStart + 15'001ms);
  EXPECT_EQ(order_of(pool, kStart + 15'001ms),
            (std::vector<std::string>{"huge.1", "small.1", "huge.2"}));
}

TEST(PoolTest, APriorityIsABoundedHeadStart) {
  PoolConfig config = roomy_config();
  config.limits.r_tok = 1;
  config.priority_head_start_max = 5s;
  Pool pool = drained_pool(config);
  AcquireRequest urgent = call("urgent.1", 8'000);
  urgent.head_start = 1h;
  (void)pool.acquire(call("old.1", 8'000), kStart);
  (void)pool.acquire(urgent, kStart + 5s - 1us);
  urgent.id = "urgent.2";
  (void)pool.acquire(urgent, kStart + 5s + 1us);
  EXPECT_EQ(order_of(pool, kStart + 6s),
            (std::vector<std::string>{"urgent.1", "old.1", "urgent.2"}));
}

TEST(PoolTest, SeniorityEarnedBeforeCounts) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 8'000), kStart);
  AcquireRequest returned = call("b.1", 8'000);
  returned.since = 40s;
  (void)pool.acquire(returned, kStart + 100ms);
  EXPECT_EQ(order_of(pool, kStart + 100ms), (std::vector<std::string>{"b.1", "a.1"}));
}

TEST(PoolTest, ANewCallerWithTheLowestScoreIsTheHead) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);  // Needs 5 s, counts from kStart - 5 s.
  AcquireRequest senior = call("b.1", 40'000);
  senior.since = 60s;
  EXPECT_EQ(pool.acquire(senior, kStart + 1s).verdict, Verdict::admitted)
      << "a blocked head behind it reserves nothing against it";
}

// --- The checks ----------------------------------------------------------------------------------

TEST(PoolTest, ChecksInOrderPausedTokReqInflightOut) {
  PoolConfig config = roomy_config();
  config.limits = {1'000, 1, 1'000, 1, 1, 1'000, 1};
  config.seed = config.limits;
  Pool pool(config, Birth::restored_empty, kStart);
  AcquireRequest request = call("a.1", 1'000, 0s);
  request.output = 1'000;
  (void)pool.pause(30s, kStart);
  EXPECT_EQ(pool.acquire(request, kStart).axis, Axis::paused);
  pool.resume(kStart);
  EXPECT_EQ(pool.acquire(request, kStart).axis, Axis::tok);

  // Tokens are back after 1,000 s, the request after 1,000,000 s.
  const Instant tokens_back = kStart + 1000s;
  EXPECT_EQ(pool.acquire(request, tokens_back).axis, Axis::req);
  const Instant requests_back = kStart + 1'000'000s;
  const LeaseRenewal other{"b.1", "x", 1, 0, 0, {}};
  pool.renew("b", std::span(&other, 1), 30s, requests_back);
  EXPECT_EQ(pool.acquire(request, requests_back).axis, Axis::inflight);
  // The other call wrote all that may be written for now, and ends.
  SettleRequest wrote = used("b.1", 0);
  wrote.usage.output = 1'000;
  EXPECT_TRUE(pool.settle(wrote, requests_back));
  EXPECT_EQ(pool.acquire(request, requests_back).axis, Axis::out);
  EXPECT_EQ(pool.acquire(request, requests_back + 1000s).axis, Axis::none);
}

TEST(PoolTest, NamesTheOutBucketWhenOnlyThatFails) {
  PoolConfig config = roomy_config();
  config.limits.c_out = 1'000;
  config.limits.r_out = 100;
  Pool pool = full_pool(config);
  AcquireRequest request = call("a.1", 10);
  request.output = 800;
  EXPECT_EQ(pool.acquire(request, kStart).verdict, Verdict::admitted);
  request.id = "a.2";
  const AcquireReply reply = pool.acquire(request, kStart);
  EXPECT_EQ(reply.verdict, Verdict::denied);
  EXPECT_EQ(reply.axis, Axis::out);
  EXPECT_EQ(reply.predicted_wait, 6s) << "600 of 800 are missing at 100 a second";
}

TEST(PoolTest, OthersLeaveWhatTheHeadNeeds) {
  // The head could go since the moment before, and is about to ask: 600 tokens are kept for it.
  struct Row {
    const char* why;
    Tokens charge, estimate;
    Axis axis;
  };
  PoolConfig config = roomy_config();
  config.limits = {1'000, 1, 1'000, 3, 1, {}, {}};
  const Row rows[] = {
      {"one of the 1,000 tokens would be missing for the head", 401, 0, Axis::tok},
      {"or of the in-flight tokens", 0, 401, Axis::inflight},
      {"what is left over may go", 400, 400, Axis::none},
  };
  for (const Row& row : rows) {
    Pool pool = full_pool(config);
    const LeaseRenewal busy{"busy.1", "x", 500, 0, 0, {}};
    pool.renew("busy", std::span(&busy, 1), 30s, kStart);
    EXPECT_EQ(pool.acquire(call("head.1", 600), kStart).axis, Axis::inflight) << row.why;
    EXPECT_EQ(pool.acquire(call("early.1", 1), kStart).axis, Axis::inflight) << row.why;
    EXPECT_TRUE(pool.settle({"busy.1"}, kStart));
    AcquireRequest other = call("other.1", row.charge);
    other.estimate = row.estimate;
    EXPECT_EQ(pool.acquire(other, kStart).axis, row.axis) << row.why;
    EXPECT_EQ(pool.acquire(call("head.1", 600), kStart).verdict, Verdict::admitted) << row.why;
  }
}

TEST(PoolTest, OthersLeaveTheHeadItsRequest) {
  PoolConfig config = roomy_config();
  config.limits.c_req = 2;
  config.limits.r_qps = 1;
  config.limits.k_inflight = 100;
  Pool pool = full_pool(config);
  const LeaseRenewal busy{"busy.1", "x", 100, 0, 0, {}};
  pool.renew("busy", std::span(&busy, 1), 30s, kStart);
  EXPECT_EQ(pool.acquire(call("head.1", 10), kStart).axis, Axis::inflight);
  EXPECT_TRUE(pool.settle({"busy.1"}, kStart));
  EXPECT_EQ(pool.acquire(call("other.1", 10), kStart).verdict, Verdict::admitted) << "2 are there";
  EXPECT_EQ(pool.acquire(call("other.2", 10), kStart).axis, Axis::req) << "the last is the head's";
  EXPECT_EQ(pool.acquire(call("head.1", 10), kStart).verdict, Verdict::admitted);
}

TEST(PoolTest, ChargeAndEstimateAreTwoNumbersAndNeitherStandsInForTheOther) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 50'000;
  Pool pool = full_pool(config);
  AcquireRequest cached = call("a.1", 40'000);
  cached.charge = 0;
  EXPECT_EQ(pool.acquire(cached, kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(kStart).tokens, 200'000 * kMicro);
  EXPECT_EQ(pool.view(kStart).inflight, 40'000);
  AcquireRequest weighty = call("a.2", 190'000);
  weighty.estimate = 10'000;
  EXPECT_EQ(pool.acquire(weighty, kStart).verdict, Verdict::admitted);
}

TEST(PoolTest, AnOversizeCallGoesAloneAgainstAFullBucketAndItsDebtIsPaid) {
  Pool pool = full_pool();
  EXPECT_EQ(pool.acquire(call("small.0", 1), kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("huge.1", 500'000), kStart).axis, Axis::tok) << "one token missing";
  // Small ones keep asking, and get none of what it waits for.
  for (int i = 1; i <= 20; ++i) {
    const AcquireReply reply = pool.acquire(call("small." + std::to_string(i), 1),
                                            kStart + i * 1us);
    EXPECT_EQ(reply.verdict, Verdict::denied);
  }
  EXPECT_EQ(pool.acquire(call("huge.1", 500'000), kStart + 25us).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(kStart + 25us).tokens, -300'000 * kMicro);
  // 300,000 of debt and one token more: nobody goes before.
  const Instant paid = kStart + 25us + 7'500'025us;
  const std::optional<Wake> wake = live_on(pool, {"small", "huge"}, kStart + 26us, paid - 1us);
  ASSERT_TRUE(wake.has_value());
  EXPECT_EQ(wake->id, "small.1");
  EXPECT_EQ(wake->at, paid);
  EXPECT_EQ(pool.acquire(call("small.1", 1), paid - 1us).verdict, Verdict::denied);
  EXPECT_EQ(pool.acquire(call("small.1", 1), paid).verdict, Verdict::admitted);
}

TEST(PoolTest, AnEstimateAboveTheInflightCapGoesAlone) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 10'000;
  Pool pool = full_pool(config);
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("huge.1", 50'000), kStart).axis, Axis::inflight);
  EXPECT_TRUE(pool.settle({"a.1"}, kStart));
  EXPECT_EQ(pool.acquire(call("huge.1", 50'000), kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.view(kStart).inflight, 50'000) << "the full estimate counts";
  EXPECT_EQ(pool.acquire(call("a.2", 1), kStart).axis, Axis::inflight);
}

TEST(PoolTest, NobodyPassesABlockedHead) {
  Pool pool = drained_pool();
  EXPECT_EQ(pool.acquire(call("head.1", 130'000), kStart).place, 0);
  for (int i = 1; i < 32; ++i) {
    const Instant now = kStart + i * 100ms;
    const std::string id = "other." + std::to_string(i);
    EXPECT_EQ(pool.acquire(call(id, 1), now).verdict, Verdict::denied) << i;
  }
  EXPECT_EQ(pool.acquire(call("head.1", 130'000), kStart + 3250ms).verdict, Verdict::admitted);
}

TEST(PoolTest, AdmitsAllOrNothing) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 100;
  Pool pool = full_pool(config);
  (void)pool.acquire(call("a.1", 100), kStart);
  const PoolView before = pool.view(kStart);
  EXPECT_EQ(pool.acquire(call("b.1", 100), kStart).axis, Axis::inflight);
  const PoolView after = pool.view(kStart);
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.requests, before.requests);
  EXPECT_EQ(after.inflight, before.inflight);
}

// --- Denials and predictions ---------------------------------------------------------------------

TEST(PoolTest, ADenialTellsThePlaceAndThePredictedWait) {
  Pool pool = drained_pool();
  const AcquireReply first = pool.acquire(call("a.1", 40'000), kStart);
  EXPECT_EQ(first.axis, Axis::tok);
  EXPECT_EQ(first.place, 0);
  EXPECT_EQ(first.predicted_wait, 1s);
  const AcquireReply second = pool.acquire(call("a.2", 20'000), kStart);
  EXPECT_EQ(second.place, 1);
  // Average of 40,000 and 20,000, once, and its own 20,000.
  EXPECT_EQ(second.predicted_wait, 1250ms);
  const AcquireReply third = pool.acquire(call("a.3", 40'000, 0s), kStart);
  EXPECT_EQ(third.place, 1) << "by size it stands before the second";
  EXPECT_EQ(pool.view(kStart).waiters.size(), 2U) << "who cannot wait is not queued";
}

TEST(PoolTest, PredictsTheRequestAxis) {
  PoolConfig config = roomy_config();
  config.limits.c_req = 1;
  config.limits.r_qps = 500'000;
  Pool pool = full_pool(config);
  EXPECT_EQ(pool.acquire(call("a.0", 1), kStart).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("a.1", 1), kStart).predicted_wait, 2s);
  EXPECT_EQ(pool.acquire(call("a.2", 1), kStart).predicted_wait, 4s);
}

TEST(PoolTest, PredictsInflightByWhatTheLastSixFullWindowsReleased) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 100;
  Pool pool = full_pool(config);
  (void)pool.acquire(call("a.0", 100), kStart);
  EXPECT_EQ(pool.acquire(call("b.1", 10, 0s), kStart).predicted_wait, 5s)
      << "nothing was released: the most";
  EXPECT_TRUE(pool.settle({"a.0"}, kStart));
  EXPECT_EQ(pool.acquire(call("a.1", 100), kStart + 1s).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("b.1", 10, 0s), kStart + 1s).predicted_wait, 5s)
      << "the present window does not count";
  // 100 tokens a minute were released: 1 token takes 0.6 s; 10 would take 6 s, but 5 is the most.
  EXPECT_EQ(pool.acquire(call("b.1", 1, 0s), kStart + 10s).predicted_wait, 600ms);
  EXPECT_EQ(pool.acquire(call("b.1", 10, 0s), kStart + 10s).predicted_wait, 5s);
}

// --- Liveness of waiters -------------------------------------------------------------------------

TEST(PoolTest, AWaiterWhoseShimIsSilentFor6SecondsBlocksNobody) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("dead.1", 200'000), kStart);
  (void)pool.acquire(call("b.1", 8'000), kStart + 100ms);
  const std::optional<Wake> before = live_on(pool, {"b"}, kStart + 500ms, kStart + 5s);
  EXPECT_EQ(pool.acquire(call("b.1", 8'000), kStart + 5s + 999'999us).verdict, Verdict::denied);
  pool.step(kStart + 6s);
  const std::optional<Wake> wake = pool.take_wake();
  ASSERT_TRUE(wake.has_value());
  EXPECT_EQ(*wake, (Wake{"b.1", "b", kStart + 6s}));
  EXPECT_EQ(pool.acquire(call("b.1", 8'000), kStart + 6s).verdict, Verdict::admitted);
}

TEST(PoolTest, AWaiterOfASilentShimIsTheHeadAgainWhenTheShimReturns) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  (void)pool.acquire(call("b.1", 200'000), kStart + 3s);
  live_on(pool, {"b"}, kStart + 3s, kStart + 6500ms);
  EXPECT_EQ(pool.acquire(call("b.2", 1, 0s), kStart + 6500ms).place, 2);
  (void)pool.take_wake();
  pool.renew("a", {}, 30s, kStart + 6600ms);
  const std::optional<Wake> wake = pool.take_wake();
  ASSERT_TRUE(wake.has_value());
  EXPECT_EQ(wake->id, "a.1");
}

TEST(PoolTest, AHeadThatCouldGoFor2SecondsAndDoesNotAskLosesItsReservationUntilItAsksAgain) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 40'000), kStart);  // Could go at 1 s.
  live_on(pool, {"a", "b"}, kStart + 500ms, kStart + 2999ms);
  EXPECT_EQ(pool.acquire(call("c.1", 100'000, 0s), kStart + 2'999'999us).verdict, Verdict::denied);
  EXPECT_EQ(pool.acquire(call("c.2", 100'000, 0s), kStart + 3s).verdict, Verdict::admitted);
}

TEST(PoolTest, ALapsedHeadKeepsItsPlaceWhenItAsksAgain) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 40'000), kStart);
  (void)pool.acquire(call("b.1", 190'000), kStart + 100ms);
  live_on(pool, {"a", "b"}, kStart + 500ms, kStart + 1500ms);
  // Time goes by in one piece; a.1 is lapsed, b.1 takes the bucket.
  live_on(pool, {"a", "b"}, kStart + 2s, kStart + 5s);
  EXPECT_EQ(pool.acquire(call("b.1", 190'000), kStart + 5s).verdict, Verdict::admitted);
  EXPECT_EQ(pool.acquire(call("a.1", 40'000), kStart + 5s).place, 0);
  (void)pool.acquire(call("c.1", 40'000), kStart + 5s);
  EXPECT_EQ(order_of(pool, kStart + 5s), (std::vector<std::string>{"a.1", "c.1"}));
}

TEST(PoolTest, ADeadHeadBlocksNobodyForLongerThan8Seconds) {
  // However its last sign of life and its moment fall together.
  for (Micros killed_at = 0s; killed_at <= 6s; killed_at += 250ms) {
    Pool pool = drained_pool();
    (void)pool.acquire(call("dead.1", 200'000), kStart);  // Could go at 5 s.
    (void)pool.acquire(call("b.1", 8'000), kStart);
    Instant freed;
    for (Instant now = kStart; now <= kStart + 20s; now = now + 50ms) {
      if (now.since_zero % 2s == 0s) pool.renew("b", {}, 30s, now);
      if (now <= kStart + killed_at) pool.renew("dead", {}, 30s, now);
      pool.step(now);
      if (pool.acquire(call("b.1", 8'000), now).verdict == Verdict::admitted) {
        freed = now;
        break;
      }
    }
    EXPECT_LE(freed - (kStart + killed_at), 8s) << killed_at.count();
    EXPECT_GT(freed, kStart + 5s) << "and until then its tokens are kept";
  }
}

TEST(PoolTest, AWaiterIsDroppedAtItsOwnDeadline) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 200'000, 3s), kStart);
  (void)pool.acquire(call("b.1", 8'000, 100s), kStart + 1s);
  ASSERT_EQ(pool.next_event(), kStart + 3s);
  pool.step(kStart + 3s);
  EXPECT_EQ(order_of(pool, kStart + 3s), std::vector<std::string>{"b.1"});
  EXPECT_EQ(pool.view(kStart + 3s).windows.back().timeouts, 1);
}

TEST(PoolTest, AWaiterThatLeavesFreesItsPlaceAtOnce) {
  Pool pool = drained_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  (void)pool.acquire(call("b.1", 8'000), kStart);
  EXPECT_TRUE(pool.leave("a.1", Pool::Leaving::gone, kStart + 1s));
  EXPECT_EQ(pool.take_wake(), (Wake{"b.1", "b", kStart + 1s}));
  EXPECT_FALSE(pool.leave("a.1", Pool::Leaving::gone, kStart + 1s));
  EXPECT_TRUE(pool.leave("b.1", Pool::Leaving::timed_out, kStart + 1s));
  EXPECT_EQ(pool.view(kStart + 1s).windows.back().timeouts, 1) << "only the hold that ended";
  EXPECT_TRUE(pool.idle());
}

// --- Waking --------------------------------------------------------------------------------------

TEST(PoolTest, TellsTheHeadItsMomentOnceAndAgainWhenItChanges) {
  PoolConfig config = roomy_config();
  Pool pool = drained_pool(config);
  (void)pool.acquire(call("b.1", 80'000), kStart);
  EXPECT_EQ(pool.take_wake(), (Wake{"b.1", "b", kStart + 2s}));
  EXPECT_EQ(pool.take_wake(), std::nullopt);
  pool.step(kStart + 1s);
  EXPECT_EQ(pool.take_wake(), std::nullopt) << "time alone changes nothing";

  config.limits.r_tok = 80'000;
  ASSERT_TRUE(pool.configure(1, config, kStart + 1s).has_value());
  EXPECT_EQ(pool.take_wake(), (Wake{"b.1", "b", kStart + 1500ms})) << "another rate";

  AcquireRequest senior = call("a.1", 160'000);
  senior.since = 60s;
  (void)pool.acquire(senior, kStart + 1s);
  EXPECT_EQ(pool.take_wake(), (Wake{"a.1", "a", kStart + 2500ms})) << "another head";
  (void)pool.acquire(senior, kStart + 1100ms);
  EXPECT_EQ(pool.take_wake(), (Wake{"a.1", "a", kStart + 2500ms})) << "it asked and is told anew";
}

TEST(PoolTest, ARefundBringsTheHeadsMomentForward) {
  Pool pool = full_pool();
  (void)pool.acquire(call("a.1", 200'000), kStart);
  (void)pool.acquire(call("b.1", 100'000), kStart);
  EXPECT_EQ(pool.take_wake(), (Wake{"b.1", "b", kStart + 2500ms}));
  EXPECT_TRUE(pool.settle(used("a.1", 160'000), kStart + 1s));
  EXPECT_EQ(pool.take_wake(), (Wake{"b.1", "b", kStart + 1500ms}));
}

TEST(PoolTest, AHeadThatWaitsForInflightTokensIsWokenByTheRelease) {
  PoolConfig config = roomy_config();
  config.limits.k_inflight = 100;
  const auto release_by = [&](const std::function<void(Pool&, Instant)>& release, Micros after) {
    Pool pool = full_pool(config);
    (void)pool.acquire(call("a.1", 100), kStart);
    (void)pool.acquire(call("b.1", 50), kStart);
    EXPECT_EQ(pool.take_wake(), std::nullopt) << "nobody knows when";
    live_on(pool, {"b"}, kStart, kStart + after - 1us);
    release(pool, kStart + after);
    return pool.take_wake();
  };
  const Wake at_3s{"b.1", "b", kStart + 3s};
  EXPECT_EQ(release_by([](Pool& pool, Instant now) { pool.settle({"a.1"}, now); }, 3s), at_3s);
  EXPECT_EQ(release_by([](Pool& pool, Instant now) { pool.overload("a.1", now); }, 3s), at_3s);
  EXPECT_EQ(release_by([](Pool& pool, Instant now) { pool.step(now); }, 30s),
            (Wake{"b.1", "b", kStart + 30s}))
      << "the lease ran out";
}

TEST(PoolTest, NextEventNamesWhatHappensByItselfAndIsNeverFarWhileBusy) {
  Pool pool = full_pool();
  EXPECT_EQ(pool.next_event(), std::nullopt) << "idle";
  (void)pool.acquire(call("a.1", 200'000), kStart);
  EXPECT_EQ(pool.next_event(), kStart + 5s) << "busy: never taken for a pool that was away";
  (void)pool.acquire(call("b.1", 40'000), kStart);
  EXPECT_EQ(pool.next_event(), kStart + 3s) << "the head can go at 1 s, and has 2 s";
}

}  // namespace
}  // namespace hg::gate
