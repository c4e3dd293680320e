#include "gate/local_schedule.h"

#include <gtest/gtest.h>

#include "gate/testing.h"

namespace hg::gate {
namespace {

using testing::kStart;

constexpr Limits kLimits{200'000, 40'000, 1'000'000, 100, 10'000'000, {}, {}};

// Sends calls as soon as the schedule lets them, for a minute.
Tokens sent_in_a_minute(LocalSchedule& schedule, Tokens charge) {
  Tokens sent = 0;
  Instant now = std::max(schedule.next_at(), kStart);
  while (now < kStart + 60s) {
    schedule.sent(charge, now);
    sent += charge;
    now = schedule.next_at();
  }
  return sent;
}

TEST(LocalScheduleTest, SendsItsShareTimesNineTenthsEvenlySpaced) {
  LocalSchedule schedule(2500ms);
  schedule.told(250'000, 4, kLimits);
  schedule.sent(9'000, kStart);
  EXPECT_EQ(schedule.next_at(), kStart + 1s) << "9,000 tokens at 40,000 x 0.25 x 0.9 a second";
  EXPECT_NEAR(static_cast<double>(sent_in_a_minute(schedule, 4'500)), 59 * 9'000, 9'000);
}

TEST(LocalScheduleTest, SpacesSmallCallsByTheRequestRate) {
  LocalSchedule schedule(2500ms);
  schedule.told(1'000'000, 1, kLimits);
  schedule.sent(1, kStart);
  EXPECT_EQ(schedule.next_at(), kStart + 111'112us) << "10 requests x 0.9 a second, rounded up";
}

TEST(LocalScheduleTest, GivesAShimThatSentNothingATenthOfAnEqualShare) {
  LocalSchedule schedule(2500ms);
  schedule.told(0, 10, kLimits);
  schedule.sent(36'000, kStart);
  EXPECT_EQ(schedule.next_at(), kStart + 100s) << "40,000 x 0.9 x 0.1 / 10 = 360 tokens a second";
}

TEST(LocalScheduleTest, LeavesTheMinimumGapWhenNoShareWasEverSeen) {
  LocalSchedule schedule(2500ms);
  EXPECT_LT(schedule.next_at(), kStart) << "the first may go";
  schedule.sent(100'000, kStart);
  EXPECT_EQ(schedule.next_at(), kStart + 2500ms);
}

TEST(LocalScheduleTest, StartsNoBurstWhenTheStoreIsLost) {
  LocalSchedule schedule(2500ms);
  schedule.told(500'000, 2, kLimits);
  for (int i = 0; i < 20; ++i) schedule.sent(18'000, kStart + i * 10ms);  // Admitted by the store.
  EXPECT_EQ(schedule.next_at(), kStart + 190ms + 1s) << "one space after the last, no backlog";
}

TEST(LocalScheduleTest, NeverGoesUnpacedAtTheSmallestShare) {
  LocalSchedule schedule(2500ms);
  schedule.told(0, 1'000'000, Limits{1, 1, 1, 1, 1, {}, {}});
  schedule.sent(1'000'000'000, kStart);
  EXPECT_GT(schedule.next_at(), kStart + 24h);
}

}  // namespace
}  // namespace hg::gate
