// bucket.h: a token bucket that may go into debt: how much is there, when enough will be there.
//
// Counts in micro-units: micro-tokens or micro-requests. Refills without loss: what a floor cuts
// off is kept for the next time, so that many small steps give the same level as one long one.
// Pure: no clock, no randomness, no I/O, no logging; the caller passes `now`, which never goes
// back. gate.lua does the same arithmetic inside Valkey, and tests/vectors/*.json hold the two to
// one answer. Thread-safety: none; each Bucket belongs to one Pool.
#pragma once
#include <cstdint>

#include "base/time.h"
#include "base/units.h"

namespace hg::gate {

// What a provider lets through. The rate is a fraction of two whole numbers, units of `per`
// microseconds: tokens/s are micro-tokens per microsecond (per = 1), micro-requests/s are what they
// are in a million microseconds (per = kMicro).
struct BucketLimits {
  std::int64_t capacity = 1;  // Micro-units, >= 1.
  std::int64_t rate = 1;      // Micro-units each `per` microseconds, >= 1.
  std::int64_t per = 1;       // 1 or kMicro.

  friend bool operator==(const BucketLimits&, const BucketLimits&) = default;
};

[[nodiscard]] BucketLimits token_limits(Tokens capacity, std::int64_t tokens_per_second);
[[nodiscard]] BucketLimits request_limits(std::int64_t capacity, MicroRequests rate_per_second);

class Bucket {
 public:
  // Full or empty at `now`: full for a pool created on purpose, empty for one whose state was lost.
  Bucket(const BucketLimits& limits, std::int64_t level, Instant now);

  // The level at `now`, capped at the capacity; negative while a debt is being paid.
  [[nodiscard]] std::int64_t level(Instant now) const;

  // How long until `need` is there, 0 if it is, at most kWaitMax. `need` is not clamped to the
  // capacity: predictions ask for several calls' needs together.
  [[nodiscard]] Micros wait_for(std::int64_t need, Instant now) const;

  // Brings the level up to `now`; the other operations do it by themselves.
  void refill(Instant now);

  // Takes `amount` whatever the level, so the caller decides first. A negative amount is a refund,
  // capped at the capacity. No debt exceeds kDebtMax.
  void draw(std::int64_t amount, Instant now);

  // New limits from `now` on: the level is kept, a lower capacity clamps it.
  void configure(const BucketLimits& limits, Instant now);

  [[nodiscard]] const BucketLimits& limits() const { return limits_; }

 private:
  [[nodiscard]] Micros time_to(std::int64_t need) const;

  BucketLimits limits_;
  std::int64_t level_;     // At updated_at_; in [-kDebtMax, capacity].
  std::int64_t rest_ = 0;  // Of the last refill, in 1/per micro-units: in [0, per).
  Instant updated_at_;
};

}  // namespace hg::gate
