// timeline.h: the pool's own time: the store's, without its steps back and its absences.
//
// A step back of the store's clock (a failover to another machine), and a gap in which a busy pool
// saw no command (it was frozen or stopped, and so could not hear heartbeats), both go into the
// offset: nothing is refilled and nothing expires for them. Pure. Thread-safety: none.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace hg::gate {

// A pool with leases or waiters hears from every shim each 2 s; silence longer than this is its
// own.
inline constexpr Micros kAwayAfter{10'000'000};

class Timeline {
 public:
  explicit Timeline(Instant store_now) : last_(store_now) {}

  enum class Gap : std::uint8_t { none, away };
  enum class Busy : std::uint8_t { no, yes };

  // The moment of a command on the pool's time: never before that of the last one.
  struct Moment {
    Instant now;
    Gap gap = Gap::none;
  };
  Moment enter(Instant store_now, Busy busy) {
    const Instant now = store_now + offset_;
    if (now < last_) {
      offset_ += last_ - now;
      return {last_, Gap::none};
    }
    if (busy == Busy::yes && now - last_ > kAwayAfter) {
      offset_ -= now - last_;
      return {last_, Gap::away};
    }
    last_ = now;
    return {now, Gap::none};
  }

  // The pool's time at a moment of the store's, without a command: for looking only.
  [[nodiscard]] Instant look(Instant store_now) const {
    return std::max(last_, store_now + offset_);
  }

  [[nodiscard]] Instant to_store(Instant at) const { return at - offset_; }
  [[nodiscard]] Instant last() const { return last_; }

 private:
  Micros offset_{0};  // now = the store's time + offset.
  Instant last_;      // Of the last command, on the pool's time.
};

}  // namespace hg::gate
