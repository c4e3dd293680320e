#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "base/headers.h"
#include "base/pattern.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/time.h"
#include "base/units.h"

namespace hg {
namespace {

TEST(UnitsTest, DivisionRoundsTheSameWayBelowZero) {
  struct Row {
    const char* why;
    std::int64_t dividend, divisor, floored, ceiled;
  };
  const Row rows[] = {
      {"exact", 6, 3, 2, 2},
      {"above zero", 7, 3, 2, 3},
      {"below zero, where C++ would round toward zero", -7, 3, -3, -2},
      {"zero", 0, 3, 0, 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(floor_div(row.dividend, row.divisor), row.floored) << row.why;
    EXPECT_EQ(ceil_div(row.dividend, row.divisor), row.ceiled) << row.why;
  }
}

TEST(TimeTest, WallTimeReadsAsRfc3339) {
  EXPECT_EQ(to_rfc3339(WallTime{Micros{0}}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(to_rfc3339(WallTime{Micros{1'767'225'600'123'999}}), "2026-01-01T00:00:00.123Z");
}

TEST(RngTest, OneSeedGivesOneSequence) {
  Rng first(7);
  Rng second(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.next(), second.next());
  EXPECT_NE(Rng(7).next(), Rng(8).next());
}

TEST(RngTest, DistributionsHaveTheMeansTheyPromise) {
  Rng rng(1);
  double exponential_sum = 0;
  double normal_sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    exponential_sum += rng.exponential(3.0);
    normal_sum += rng.normal(5.0, 2.0);
    const std::int64_t die = rng.integer(1, 6);
    ASSERT_GE(die, 1);
    ASSERT_LE(die, 6);
  }
  EXPECT_NEAR(exponential_sum / kDraws, 3.0, 0.05);
  EXPECT_NEAR(normal_sum / kDraws, 5.0, 0.05);
}

TEST(TextTest, TrimAndCompareAsHttpDoes) {
  EXPECT_EQ(trim(" \tabc \t"), "abc");
  EXPECT_EQ(trim("  "), "");
  EXPECT_TRUE(iequals("Retry-After", "retry-after"));
  EXPECT_FALSE(iequals("retry-after", "retry-afte"));
}

TEST(TextTest, ControlCharactersCannotBreakALogLine) {
  EXPECT_EQ(escape_controls("a\nb\r\x1b[31m"), "a\\nb\\r\\x1b[31m");
}

TEST(TextTest, IntegersParseWholeOrNotAtAll) {
  EXPECT_EQ(parse_integer("-42"), -42);
  for (const char* bad : {"", "4 ", "+4", "4.0", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(bad)) << bad;
  }
}

TEST(TextTest, ThousandsAreSeparated) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1'234'567), "1,234,567");
  EXPECT_EQ(with_thousands(-1'000), "-1,000");
}

TEST(HeadersTest, KeepOrderDuplicatesAndCase) {
  Headers headers;
  headers.add("X-A", "1");
  headers.add("Accept", "b");
  headers.add("x-a", "2");
  ASSERT_EQ(headers.all().size(), 3U);
  EXPECT_EQ(headers.all()[2], Header("x-a", "2"));
  EXPECT_EQ(headers.find("x-A"), "1");
  headers.set("X-A", "3");
  ASSERT_EQ(headers.all().size(), 2U);
  EXPECT_EQ(headers.all()[0], Header("X-A", "3"));
  headers.remove("accept");
  EXPECT_FALSE(headers.has("Accept"));
}

TEST(HeadersTest, ManyNamesAreRemovedAtOnce) {
  Headers headers;
  for (const char* name : {"TE", "Accept", "te", "Upgrade", "Test"}) headers.add(name, "1");
  const std::array<std::string_view, 3> names = {"te", "upgrade", "Absent"};
  headers.remove(names);
  ASSERT_EQ(headers.all().size(), 2U);
  EXPECT_EQ(headers.all()[0].name, "Accept");
  EXPECT_EQ(headers.all()[1].name, "Test");
}

TEST(HeadersTest, ListsJoinAllFieldsOfTheName) {
  Headers headers;
  headers.add("Connection", "close, X-Hop");
  headers.add("connection", " ,upgrade");
  const std::vector<std::string_view> expected = {"close", "X-Hop", "upgrade"};
  EXPECT_EQ(headers.list("Connection"), expected);
}

TEST(PatternTest, StarsStandForAnyRun) {
  EXPECT_TRUE(matches_pattern("claude-opus-4*", "claude-opus-4-7"));
  EXPECT_TRUE(matches_pattern("*PerDay*", "GenerateRequestsPerDayPerProject"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "axxbyybzc"));
  EXPECT_TRUE(matches_pattern("RESOURCE_EXHAUSTED", "resource_exhausted"));
  EXPECT_FALSE(matches_pattern("a", "ab"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("a*b", "a"));
}

}  // namespace
}  // namespace hg
