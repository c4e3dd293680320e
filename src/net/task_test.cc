#include "net/task.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "net/test_loop.h"

namespace hg::net {
namespace {

TEST(EventTest, KeepsANoticeThatCameBeforeTheWait) {
  TestLoop loop;
  Event event(loop.executor());
  event.notify();
  event.notify();
  EXPECT_EQ(loop.run(event.wait_for(1h)), Woken::notified);
  EXPECT_EQ(loop.run(event.wait_for(0s)), Woken::deadline);
}

TEST(EventTest, WakesItsWaiter) {
  TestLoop loop;
  Event event(loop.executor());
  asio::post(loop.io, [&] { event.notify(); });
  EXPECT_EQ(loop.run(event.wait_for(1h)), Woken::notified);
}

TEST(EventTest, EndsAtItsDeadline) {
  TestLoop loop;
  Event event(loop.executor());
  EXPECT_EQ(loop.run(event.wait_for(1ms)), Woken::deadline);
}

TEST(EventTest, WaitsLongerThanATimerCanCount) {
  TestLoop loop;
  Event event(loop.executor());
  asio::post(loop.io, [&] { event.notify(); });
  EXPECT_EQ(loop.run(event.wait_for(Micros::max())), Woken::notified);
}

TEST(EventTest, ForgetsANoticeWhenReset) {
  TestLoop loop;
  Event event(loop.executor());
  event.notify();
  event.reset();
  EXPECT_EQ(loop.run(event.wait_for(0s)), Woken::deadline);
}

// Takes a pointer: a spawned coroutine takes values.
Task<void> wait_twice(Event* event, std::vector<Woken>* log) {
  for (int i = 0; i < 2; ++i) {
    const Woken woken = co_await event->wait_for(1h);
    log->push_back(woken);
  }
  const bool slept = co_await sleep_for(1h);
  log->push_back(slept ? Woken::deadline : Woken::cancelled);
}

TEST(TaskGroupTest, CancelEndsThePresentWaitAndEachLaterOne) {
  TestLoop loop;
  Event event(loop.executor());
  std::vector<Woken> log;
  TaskGroup group(loop.executor());
  group.spawn("waiter", wait_twice(&event, &log));
  asio::post(loop.io, [&] { asio::post(loop.io, [&] { group.cancel(); }); });
  EXPECT_TRUE(loop.run(group.join(1h)));
  EXPECT_EQ(log, (std::vector<Woken>{Woken::cancelled, Woken::cancelled, Woken::cancelled}));
  loop.run_dry();
}

TEST(TaskGroupTest, CancelReachesATaskThatHasNotStarted) {
  TestLoop loop;
  Event event(loop.executor());
  std::vector<Woken> log;
  TaskGroup group(loop.executor());
  group.spawn("waiter", wait_twice(&event, &log));
  EXPECT_TRUE(log.empty());
  group.cancel();
  EXPECT_TRUE(loop.run(group.join(1h)));
  EXPECT_EQ(log.size(), 3u);
}

Task<void> fail_loudly() {
  throw std::runtime_error("on purpose");
  co_return;
}

Task<void> wait_once(Event* event, std::vector<Woken>* log) {
  const Woken woken = co_await event->wait_for(1h);
  log->push_back(woken);
}

TEST(TaskGroupTest, CancelsTasksThatEndInTheSameTurn) {
  TestLoop loop;
  std::vector<Woken> log;
  TaskGroup group(loop.executor());
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 100; ++i) {
    events.push_back(std::make_unique<Event>(loop.executor()));
    group.spawn("waiter", wait_once(events.back().get(), &log));
  }
  EXPECT_FALSE(loop.run(group.join(1ms)));
  for (const auto& event : events) event->notify();
  group.cancel();
  EXPECT_TRUE(loop.run(group.join(1h)));
  loop.run_dry();
  EXPECT_EQ(log.size(), 100U);
}

TEST(TaskGroupTest, SurvivesATaskThatThrows) {
  TestLoop loop;
  TaskGroup group(loop.executor());
  group.spawn("thrower", fail_loudly());
  EXPECT_EQ(group.size(), 1u);
  EXPECT_TRUE(loop.run(group.join(1h)));
  EXPECT_EQ(group.size(), 0u);
}

TEST(TaskGroupTest, JoinGivesUpAtItsDeadline) {
  TestLoop loop;
  Event event(loop.executor());
  std::vector<Woken> log;
  TaskGroup group(loop.executor());
  group.spawn("waiter", wait_twice(&event, &log));
  EXPECT_FALSE(loop.run(group.join(1ms)));
  group.cancel();
  EXPECT_TRUE(loop.run(group.join(1h)));
}

Task<bool> cancelled_wait_regardless(Event* event) {
  co_await event->wait_regardless();
  co_return true;
}

Task<void> wait_regardless_of_cancel(Event* event, bool* ended) {
  *ended = co_await cancelled_wait_regardless(event);
}

TEST(EventTest, WaitsRegardlessOfCancel) {
  TestLoop loop;
  Event event(loop.executor());
  bool ended = false;
  TaskGroup group(loop.executor());
  group.spawn("waiter", wait_regardless_of_cancel(&event, &ended));
  EXPECT_FALSE(loop.run(group.join(1ms)));
  group.cancel();
  EXPECT_FALSE(loop.run(group.join(1ms)));
  EXPECT_FALSE(ended);
  event.notify();
  EXPECT_TRUE(loop.run(group.join(1h)));
  EXPECT_TRUE(ended);
}

TEST(SleepTest, SleepsUntilTheClockSaysSo) {
  TestLoop loop;
  const Instant at = loop.clock.now() + 2ms;
  EXPECT_TRUE(loop.run(sleep_until(loop.clock, at)));
  EXPECT_GE(loop.clock.now(), at);
}

}  // namespace
}  // namespace hg::net
