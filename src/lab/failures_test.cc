#include "lab/failures.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::lab {
namespace {

// The words of the faults of the first `calls` calls, "-" for none.
std::string played(std::string_view plan, int calls) {
  Result<FailurePlan> parsed = FailurePlan::parse(plan);
  if (!parsed) return parsed.error().detail;
  Rng rng(1);
  std::string words;
  for (int i = 0; i < calls; ++i) {
    const std::optional<OrderedFault> fault = parsed->next(rng);
    words += (i > 0 ? " " : "") + std::string(fault ? to_string(fault->fault) : "-");
  }
  return words;
}

TEST(FailurePlanTest, FailsTheCallsThatItNames) {
  EXPECT_EQ(played("", 2), "- -");
  EXPECT_EQ(played("429:2,529:1", 4), "429 429 529 -");
  EXPECT_EQ(played("503@2, drop@4-5", 6), "- 503 - drop drop -");
  EXPECT_EQ(played("cut%3", 6), "- - cut - - cut");
  EXPECT_EQ(played("silence~1", 2), "silence silence");
  EXPECT_EQ(played("silence~0", 2), "- -");
}

TEST(FailurePlanTest, CountedPartsWaitForAListedOne) {
  EXPECT_EQ(played("429:2,stream@1", 4), "stream 429 429 -");
}

TEST(FailurePlanTest, CarriesTheRetryAfterOfThePlan) {
  FailurePlan plan = FailurePlan::parse("429=7:1,429-bare:1").value();
  Rng rng(1);
  EXPECT_EQ(plan.next(rng)->seconds, Micros(7s));
  EXPECT_FALSE(plan.next(rng)->seconds);
}

TEST(FailurePlanTest, EveryKindHasItsWordAndMayCarrySeconds) {
  Rng rng(1);
  for (const char* word : {"429", "429-bare", "529", "503", "500", "quota", "stream", "stream-429",
                           "stream-begun", "stream-late", "drop", "cut", "silence", "stall"}) {
    FailurePlan plan = FailurePlan::parse(std::string(word) + "=70:1").value();
    const std::optional<OrderedFault> fault = plan.next(rng);
    ASSERT_TRUE(fault) << word;
    EXPECT_STREQ(to_string(fault->fault), word);
    EXPECT_EQ(fault->seconds, Micros(70s));
  }
}

TEST(FailurePlanTest, SaysWhatIsAllowed) {
  for (const char* bad : {"429", "418:1", "429:0", "429:x", "drop@5-3", "cut%0", "drop~2",
                          "429=-1:1", "429:1,,429:1"}) {
    const Result<FailurePlan> plan = FailurePlan::parse(bad);
    ASSERT_FALSE(plan) << bad;
    EXPECT_TRUE(plan.error().detail.contains("one of 429,")) << plan.error().detail;
  }
}

}  // namespace
}  // namespace hg::lab
