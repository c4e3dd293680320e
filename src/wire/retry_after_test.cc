#include "wire/retry_after.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::wire {
namespace {

constexpr WallTime kNow{Micros{1'789'108'049'000'000}};  // 2026-09-11T06:27:29Z.

struct Row {
  const char* why;
  std::string_view text;
  std::optional<Micros> delay;
};

TEST(RetryAfterTest, TakesEveryFormThatProvidersSend) {
  const Row rows[] = {
      {"delta seconds", "30", 30s},
      {"zero", "0", 0s},
      {"a day, as Azure says", "86400", 86'400s},
      {"with the field's blanks", " 7\t", 7s},
      {"a fraction", "34.07", 34'070'000us},
      {"a long fraction rounds up", "0.5000000001", 500'001us},
      {"Go duration of minutes", "6m0s", 360s},
      {"Go duration with a fraction", "2m59.56s", 179'560'000us},
      {"Go milliseconds", "120ms", 120ms},
      {"Go seconds", "1s", 1s},
      {"Go hours", "1h2m", 3'720s},
      {"Google's RetryInfo", "34.07s", 34'070'000us},
      {"HTTP date", "Fri, 11 Sep 2026 06:28:29 GMT", 60s},
      {"HTTP date of old servers", "Friday, 11-Sep-26 06:28:29 GMT", 60s},
      {"HTTP date of C programs", "Fri Sep 11 06:28:29 2026", 60s},
      {"HTTP date of C programs, one digit", "Fri Oct  2 06:27:29 2026", 1'814'400s},
      {"RFC 3339", "2026-09-11T06:27:39Z", 10s},
      {"RFC 3339 with a fraction", "2026-09-11T06:27:39.25Z", 10'250ms},
      {"RFC 3339 with an offset", "2026-09-11T08:27:39+02:00", 10s},
      {"RFC 3339 behind UTC", "2026-09-11T01:27:39-05:00", 10s},
      {"epoch seconds", "1789108054", 5s},
      {"epoch seconds with a fraction", "1789108054.5", 5'500ms},
      {"epoch milliseconds", "1789108054250", 5'250ms},
      {"a date in the past is zero", "Fri, 11 Sep 2026 06:27:28 GMT", 0s},
      {"an instant in the past is zero", "2020-01-01T00:00:00Z", 0s},
      {"epoch in the past is zero", "1789108048", 0s},
      {"leap day", "2028-02-29T06:27:29Z", 46'310'400s},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(parse_retry_after(row.text, kNow), row.delay) << row.why << ": " << row.text;
  }
}

TEST(RetryAfterTest, TheWholeTextMustBeUnderstood) {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "+5",
                           "5 s",
                           "30 seconds",
                           "soon",
                           "NaN",
                           "inf",
                           "1e3",
                           "0x10",
                           "5,0",
                           ".5",
                           "5.",
                           "1.2.3",
                           "2m59.56",
                           "0s6m",
                           "1s1s",
                           "s",
                           "5d",
                           "10msx",
                           "99999999999999999999",
                           "9999999999999999999999s",
                           "2026-09-11",
                           "2026-09-11T06:27:29",
                           "2026-13-11T06:27:29Z",
                           "2026-02-30T06:27:29Z",
                           "2026-09-11T24:27:29Z",
                           "2026-09-11T06:27:29.Z",
                           "2026-09-11T06:27:29ZZ",
                           "Fri, 11 Sep 2026 06:28:29",
                           "Fri, 11 Sep 2026 06:28:29 CET",
                           "Fri, 31 Feb 2026 06:28:29 GMT",
                           "Foo, 11 Sep 2026 06:28:29 GMT",
                           "Fri, 11 Sep 2026 06:28:29 GMT and more",
                           "17891080542500000"}) {
    EXPECT_EQ(parse_retry_after(text, kNow), std::nullopt) << text;
  }
}

TEST(RetryAfterTest, MillisecondsByHeaderName) {
  EXPECT_EQ(parse_retry_after_ms("125"), 125ms);
  EXPECT_EQ(parse_retry_after_ms("0"), 0ms);
  EXPECT_EQ(parse_retry_after_ms("12.5"), 12'500us);
  for (const char* text : {"", "-1", "1s", "x", "1 2"}) {
    EXPECT_EQ(parse_retry_after_ms(text), std::nullopt) << text;
  }
}

TEST(RetryAfterTest, GoDurations) {
  EXPECT_EQ(parse_go_duration("7.66s"), 7'660ms);
  EXPECT_EQ(parse_go_duration("2ms"), 2ms);
  EXPECT_EQ(parse_go_duration("7m12s"), 432s);
  EXPECT_EQ(parse_go_duration("1h2m3.5s"), 3'723'500ms);
  EXPECT_EQ(parse_go_duration("1500us"), 1'500us);
  EXPECT_EQ(parse_go_duration("1ns"), 1us) << "never told too short";
  EXPECT_EQ(parse_go_duration("1.5h"), 5'400s);
  EXPECT_EQ(parse_go_duration("30"), std::nullopt) << "a unit is needed";
}

TEST(RetryAfterTest, NoCutOfAnHttpDateIsTakenForSomethingElse) {
  const std::string date = "Fri, 11 Sep 2026 06:28:29 GMT";
  for (std::size_t length = 0; length < date.size(); ++length) {
    EXPECT_EQ(parse_retry_after(date.substr(0, length), kNow), std::nullopt) << length;
  }
}

}  // namespace
}  // namespace hg::wire
