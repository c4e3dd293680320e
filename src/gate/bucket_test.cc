#include "gate/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

// The same arithmetic in doubles, as a Lua script has to do it.
class DoubleBucket {
 public:
  DoubleBucket(double capacity, double rate, double per)
      : capacity_(capacity), rate_(rate), per_(per) {}

  void refill(double elapsed) {
    if (elapsed >= time_to(capacity_)) {
      level_ = capacity_;
      rest_ = 0;
      return;
    }
    const double whole = std::floor(elapsed / 1e6);
    const double gained = (elapsed - whole * 1e6) * rate_ + rest_;
    level_ += whole * rate_ * (1e6 / per_) + std::floor(gained / per_);
    rest_ = std::fmod(gained, per_);
    EXPECT_LT(gained, 9007199254740992.0);
  }

  [[nodiscard]] double time_to(double need) const {
    const double missing = need - level_;
    if (missing <= 0) return 0;
    const double whole = std::floor(missing / rate_);
    if (whole >= std::floor(1e15 / per_)) return 1e15;
    const double part = std::fmod(missing, rate_) * per_ - rest_;
    EXPECT_LT(part, 9007199254740992.0);
    return std::max(0.0, whole * per_ + std::ceil(part / rate_));
  }

  void draw(double amount) {
    level_ = std::clamp(level_ - amount, -4e15, capacity_);
    if (level_ == capacity_) rest_ = 0;
  }

  [[nodiscard]] double level() const { return level_; }

 private:
  double capacity_, rate_, per_;
  double level_ = 0;
  double rest_ = 0;
};

TEST(BucketTest, DoublesGiveTheSameDigitsOverTheWholeRange) {
  Rng rng(3);
  const auto up_to = [&rng](std::int64_t most) {  // All orders of magnitude.
    const double log_most = std::log(static_cast<double>(most));
    return std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::exp(rng.uniform(0, log_most + 0.1))), 1, most);
  };
  for (int round = 0; round < 3'000; ++round) {
    const bool requests = rng.chance(0.5);
    const BucketLimits limits = requests
                                    ? request_limits(up_to(kRequestsMax), up_to(kRequestRateMax))
                                    : token_limits(up_to(kTokensMax), up_to(kTokensMax));
    Bucket bucket(limits, 0, kStart);
    DoubleBucket doubles(static_cast<double>(limits.capacity), static_cast<double>(limits.rate),
                         static_cast<double>(limits.per));
    Instant now = kStart;
    for (int step = 0; step < 20; ++step) {
      const Micros elapsed{up_to(1'000'000'000'000)};
      now = now + elapsed;
      bucket.refill(now);
      doubles.refill(static_cast<double>(elapsed.count()));
      const std::int64_t amount = (rng.chance(0.3) ? -1 : 1) * up_to(kTokensMax) * kMicro;
      bucket.draw(amount, now);
      doubles.draw(static_cast<double>(amount));
      ASSERT_EQ(static_cast<double>(bucket.level(now)), doubles.level());
      const std::int64_t need = up_to(2 * kTokensMax) * kMicro;
      ASSERT_EQ(static_cast<double>(bucket.wait_for(need, now).count()),
                doubles.time_to(static_cast<double>(need)));
    }
  }
}

}  // namespace
}  // namespace hg::gate
