#include "sim/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace hg::sim {
namespace {

constexpr Instant kStart{1000s};

TEST(SchedulerTest, RunsInOrderOfTimeThenOfScheduling) {
  Scheduler scheduler(kStart);
  std::vector<int> order;
  scheduler.after(2s, [&] { order.push_back(3); });
  scheduler.after(1s, [&] { order.push_back(1); });
  scheduler.after(1s, [&] { order.push_back(2); });
  scheduler.run_until(kStart + 5s);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(scheduler.now(), kStart + 5s);
}

TEST(SchedulerTest, AnActionMaySchedule) {
  Scheduler scheduler(kStart);
  std::vector<Instant> at;
  scheduler.after(1s, [&] {
    scheduler.at(kStart, [&] { at.push_back(scheduler.now()); });  // Past: at once.
    scheduler.after(1s, [&] { at.push_back(scheduler.now()); });
  });
  scheduler.run_until(kStart + 1500ms);
  EXPECT_EQ(at, (std::vector<Instant>{kStart + 1s}));
  EXPECT_EQ(scheduler.pending(), 1U);
  scheduler.run_until(kStart + 2s);
  EXPECT_EQ(at.size(), 2U);
}

TEST(SchedulerTest, ACancelledEventDoesNotRunAndCancellingTwiceIsHarmless) {
  Scheduler scheduler(kStart);
  bool ran = false;
  std::optional<Scheduler::Event> event = scheduler.after(1s, [&] { ran = true; });
  std::optional<Scheduler::Event> copy = event;
  scheduler.cancel(event);
  EXPECT_FALSE(event);
  scheduler.cancel(copy);
  scheduler.run_until(kStart + 2s);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace hg::sim
