#include "gate/bucket.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "gate/limits.h"

namespace hg::gate {
namespace {

constexpr Instant kStart{1000s};

TEST(BucketTest, WaitsExactlyUntilTheMissingTokenIsBack) {
  struct Row {
    const char* why;
    Tokens level, need;
    Micros wait;
  };
  const Row rows[] = {
      {"full: what is there is ready now", 200'000, 200'000, 0s},
      {"empty: 40,000 come back each second", 0, 20'000, 500ms},
      {"a debt is paid before anything else", -40'000, 40'000, 2s},
      {"one token is 25 us away", 0, 1, 25us},
      {"several calls together may need more than the capacity", 0, 400'000, 10s},
  };
  for (const Row& row : rows) {
    const Bucket bucket(token_limits(200'000, 40'000), row.level * kMicro, kStart);
    EXPECT_EQ(bucket.wait_for(row.need * kMicro, kStart), row.wait) << row.why;
    if (row.need > 200'000) continue;
    EXPECT_GE(bucket.level(kStart + row.wait), row.need * kMicro) << row.why;
    if (row.wait == 0s) continue;
    EXPECT_LT(bucket.level(kStart + row.wait - 1us), row.need * kMicro) << row.why;
  }
}

TEST(BucketTest, RefillsWithoutLossInStepsOfAnySize) {
  // 0.37 requests a second, looked at 100,000 times: floors alone would lose most of it.
  const BucketLimits limits = request_limits(50, 370'001);
  Bucket in_steps(limits, 0, kStart);
  const Bucket at_once(limits, 0, kStart);
  Rng rng(7);
  Instant now = kStart;
  for (int i = 0; i < 100'000; ++i) {
    now = now + Micros{rng.integer(0, 900)};
    in_steps.refill(now);
    ASSERT_EQ(in_steps.level(now), at_once.level(now));
    ASSERT_EQ(in_steps.wait_for(limits.capacity, now), at_once.wait_for(limits.capacity, now));
  }
}

TEST(BucketTest, CapsRefillsAndRefundsAtTheCapacity) {
  Bucket bucket(token_limits(100, 10), 0, kStart);
  EXPECT_EQ(bucket.level(kStart + 10s), 100 * kMicro);
  EXPECT_EQ(bucket.level(kStart + 10'000h), 100 * kMicro) << "no overflow after a year";
  bucket.draw(-1'000 * kMicro, kStart);
  EXPECT_EQ(bucket.level(kStart), 100 * kMicro);
}

TEST(BucketTest, KeepsTheLevelWhenTheLimitsChangeAndClampsToALowerCapacity) {
  Bucket bucket(token_limits(100, 10), 50 * kMicro, kStart);
  bucket.configure(token_limits(400, 20), kStart + 1s);
  EXPECT_EQ(bucket.level(kStart + 1s), 60 * kMicro) << "the time before counts at the old rate";
  EXPECT_EQ(bucket.level(kStart + 2s), 80 * kMicro);
  bucket.configure(token_limits(30, 20), kStart + 2s);
  EXPECT_EQ(bucket.level(kStart + 2s), 30 * kMicro);
}

TEST(BucketTest, StaysExactAtTheLargestNumbers) {
  Bucket bucket(token_limits(kTokensMax, kTokensMax), 0, kStart);
  bucket.draw(kTokensMax * kMicro, kStart);
  EXPECT_EQ(bucket.wait_for(kTokensMax * kMicro, kStart), 2s);
  EXPECT_EQ(bucket.level(kStart + 1'999'999us), (kTokensMax * kMicro) / kMicro * 999'999);
  for (int i = 0; i < 20; ++i) bucket.draw(kTokensMax * kMicro, kStart);
  EXPECT_EQ(bucket.level(kStart), -kDebtMax) << "a debt is bounded";

  const Bucket slow(request_limits(kRequestsMax, 1), 0, kStart);
  EXPECT_EQ(slow.wait_for(kRequestsMax * kMicro, kStart), kWaitMax);
  const Bucket fast(request_limits(kRequestsMax, kRequestRateMax), 0, kStart);
  EXPECT_EQ(fast.wait_for(kRequestsMax * kMicro, kStart), 125s);
}

}  // namespace
}  // namespace hg::gate
