#include "proxy/upstream_watch.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::proxy {
namespace {

constexpr Instant at(Micros since) { return Instant{} + since; }

TEST(UpstreamWatchTest, SaysTheFirstFailureThenCountsThenTheReturn) {
  UpstreamWatch watch;
  EXPECT_EQ(watch.answered("main", at(0s)), std::nullopt);
  EXPECT_EQ(watch.failed("main", "refused", at(1s)), "upstream main: refused");
  for (int i = 1; i <= 500; ++i) {
    EXPECT_EQ(watch.failed("main", "refused", at(1s + i * 10ms)), std::nullopt);
  }
  EXPECT_EQ(watch.failed("main", "no route", at(11s)),
            "upstream main: no route (501 failures since the last line, 10 s ago)");
  EXPECT_EQ(watch.failed("main", "no route", at(12s)), std::nullopt);
  EXPECT_EQ(watch.answered("main", at(13s)),
            "upstream main answers again, after 503 failures in 12.0 s");
  EXPECT_EQ(watch.answered("main", at(14s)), std::nullopt);
}

TEST(UpstreamWatchTest, OneThatFailsNowAndThenIsNoFloodEither) {
  UpstreamWatch watch;
  int lines = 0;
  for (int i = 0; i < 1'000; ++i) {  // 100 s.
    const Instant now = at(i * 100ms);
    const bool fails = i % 2 == 0;
    const auto line = fails ? watch.failed("main", "reset", now) : watch.answered("main", now);
    if (line) ++lines;
  }
  EXPECT_LE(lines, 2 * 11);
  EXPECT_GE(lines, 10);
}

TEST(UpstreamWatchTest, UpstreamsAreSaidEachByItself) {
  UpstreamWatch watch;
  EXPECT_TRUE(watch.failed("a", "refused", at(0s)));
  EXPECT_TRUE(watch.failed("b", "refused", at(0s)));
  EXPECT_EQ(watch.answered("a", at(1s)), "upstream a answers again, after 1 failure in 1.0 s");
  EXPECT_EQ(watch.failed("b", "refused", at(2s)), std::nullopt);
}

}  // namespace
}  // namespace hg::proxy
