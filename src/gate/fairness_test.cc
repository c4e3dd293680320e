// Large and small calls share a pool: neither starves the other (a small event loop; `sim` measures
// the same over the whole of a call's life).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gate/pool.h"
#include "gate/testing.h"

namespace hg::gate {
namespace {

using testing::call;
using testing::kStart;
using testing::roomy_config;

struct Waits {
  std::vector<double> small, large;  // Seconds; a call whose hold ended waited its whole hold.
  int small_timeouts = 0;
  int large_timeouts = 0;
  double admitted_tokens = 0;
};

double percentile(std::vector<double> waits, double part) {
  if (waits.empty()) return 0;
  std::ranges::sort(waits);
  const auto at = static_cast<std::size_t>(part * static_cast<double>(waits.size() - 1));
  return waits[at];
}

// One shim with heartbeats; calls of 8,000 and 130,000 tokens, tokens split evenly, Poisson. The
// store is played as the real one is: it wakes the head at its moment, and steps at next_event.
Waits play(double load, Micros length, std::uint64_t seed) {
  constexpr Tokens kSmall = 8'000;
  constexpr Tokens kLarge = 130'000;
  constexpr Micros kHold = 100s;
  enum class What { arrive_small, arrive_large, end, timeout, heartbeat };
  struct Event {
    Instant at;
    What what;
    std::string id;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  const PoolConfig config = roomy_config();
  Pool pool(config, Birth::created_full, kStart);
  Rng rng(seed);
  const double half = load * static_cast<double>(config.limits.r_tok) / 2;
  const auto gap = [&](Tokens size) {
    return Micros{
        static_cast<std::int64_t>(rng.exponential(static_cast<double>(size) / half) * 1e6)};
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  events.push({kStart + gap(kSmall), What::arrive_small, ""});
  events.push({kStart + gap(kLarge), What::arrive_large, ""});
  events.push({kStart + 2s, What::heartbeat, ""});

  struct Held {
    Instant since;
    Tokens size;
  };
  std::map<std::string, Held> held;
  Waits waits;
  std::optional<Wake> wake;
  int sequence = 0;
  const auto ask = [&](const std::string& id, Instant now) {
    const Held& waiter = held.at(id);
    const AcquireReply reply = pool.acquire(call(id, waiter.size, kHold - (now - waiter.since)),
                                            now);
    if (reply.verdict != Verdict::admitted) return;
    (waiter.size == kSmall ? waits.small : waits.large).push_back(to_seconds(now - waiter.since));
    waits.admitted_tokens += static_cast<double>(waiter.size);
    events.push({now + Micros{rng.integer(1'000'000, 20'000'000)}, What::end, id});
    held.erase(id);
  };
  const Instant last = kStart + length;
  for (;;) {
    Instant next = events.top().at;
    if (wake && wake->at < next) next = wake->at;
    const std::optional<Instant> stepping = pool.next_event();
    if (stepping && *stepping < next) next = *stepping;
    if (next > last) break;
    if (wake && wake->at <= next) {
      const std::string id = wake->id;
      wake.reset();
      if (held.contains(id)) ask(id, next);
    } else if (events.top().at > next) {
      pool.step(next);
    } else {
      const Event event = events.top();
      events.pop();
      switch (event.what) {
        case What::arrive_small:
        case What::arrive_large: {
          const Tokens size = event.what == What::arrive_small ? kSmall : kLarge;
          const std::string id = "shim." + std::to_string(++sequence);
          held.emplace(id, Held{next, size});
          events.push({next + gap(size), event.what, ""});
          events.push({next + kHold, What::timeout, id});
          ask(id, next);
          break;
        }
        case What::end: pool.settle({event.id}, next); break;
        case What::timeout: {
          const auto found = held.find(event.id);
          if (found == held.end()) break;
          const bool small = found->second.size == kSmall;
          (small ? waits.small : waits.large).push_back(to_seconds(kHold));
          (small ? waits.small_timeouts : waits.large_timeouts) += 1;
          pool.leave(event.id, Pool::Leaving::timed_out, next);
          held.erase(found);
          break;
        }
        case What::heartbeat:
          pool.renew("shim", {}, 30s, next);
          events.push({next + 2s, What::heartbeat, ""});
          break;
      }
    }
    if (std::optional<Wake> told = pool.take_wake()) wake = told;
    if (wake && wake->at < next) wake->at = next;
  }
  return waits;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Several hours, each with its own seed, read together: one hour at 0.9 of the rate has few busy
// periods, so its 99th percentile alone says more about the seed than about the rule.
Waits play_hours(double load, int hours) {
  Waits all;
  for (int hour = 1; hour <= hours; ++hour) {
    const Waits waits = play(load, 1h, static_cast<std::uint64_t>(hour));
    append(all.small, waits.small);
    append(all.large, waits.large);
    all.small_timeouts += waits.small_timeouts;
    all.large_timeouts += waits.large_timeouts;
    all.admitted_tokens += waits.admitted_tokens;
  }
  return all;
}

TEST(FairnessTest, LargeCallsWaitNoLongerThanSmallOnesWhenTooMuchIsAsked) {
  const Waits waits = play_hours(1.3, 4);
  EXPECT_LE(percentile(waits.large, 0.95), 1.1 * percentile(waits.small, 0.95));
  EXPECT_LE(percentile(waits.large, 0.5), 1.1 * percentile(waits.small, 0.5));
  const double small_lost = waits.small_timeouts / static_cast<double>(waits.small.size());
  const double large_lost = waits.large_timeouts / static_cast<double>(waits.large.size());
  EXPECT_LE(large_lost, small_lost * 1.1) << "nor does their hold end more often";
  EXPECT_GE(waits.admitted_tokens, 0.99 * 4 * 3600 * 40'000) << "and nothing is left unused";
}

TEST(FairnessTest, NobodyWaitsLongBelowTheRate) {
  const Waits waits = play_hours(0.9, 12);
  EXPECT_LE(percentile(waits.small, 0.99), 40);
  EXPECT_LE(percentile(waits.large, 0.99), 40);
  EXPECT_EQ(waits.small_timeouts + waits.large_timeouts, 0);
}

}  // namespace
}  // namespace hg::gate
