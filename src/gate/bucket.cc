#include "gate/bucket.h"

#include <algorithm>

#include "gate/limits.h"

namespace hg::gate {

BucketLimits token_limits(Tokens capacity, std::int64_t tokens_per_second) {
  return {capacity * kMicro, tokens_per_second, 1};
}

BucketLimits request_limits(std::int64_t capacity, MicroRequests rate_per_second) {
  return {capacity * kMicro, rate_per_second, kMicro};
}

Bucket::Bucket(const BucketLimits& limits, std::int64_t level, Instant now)
    : limits_(limits), level_(std::min(level, limits.capacity)), updated_at_(now) {}

// From updated_at_ on. Whole multiples of the rate first: missing x per would
// leave the range in which doubles are exact.
Micros Bucket::time_to(std::int64_t need) const {
  const std::int64_t missing = need - level_;
  if (missing <= 0) return Micros{0};
  const std::int64_t whole = missing / limits_.rate;
  if (whole >= kWaitMax.count() / limits_.per) return kWaitMax;
  const std::int64_t part = (missing % limits_.rate) * limits_.per - rest_;
  return Micros{std::max<std::int64_t>(whole * limits_.per + ceil_div(part, limits_.rate), 0)};
}

void Bucket::refill(Instant now) {
  const Micros elapsed = now - updated_at_;
  if (elapsed <= Micros{0}) return;
  updated_at_ = now;
  if (elapsed >= time_to(limits_.capacity)) {
    // What fills the bucket is not multiplied, so it cannot overflow.
    level_ = limits_.capacity;
    rest_ = 0;
    return;
  }
  const std::int64_t whole = elapsed.count() / kMicro;
  const std::int64_t part = elapsed.count() % kMicro;
  const std::int64_t gained = part * limits_.rate + rest_;
  level_ += whole * limits_.rate * (kMicro / limits_.per) + gained / limits_.per;
  rest_ = gained % limits_.per;
}

std::int64_t Bucket::level(Instant now) const {
  Bucket later = *this;
  later.refill(now);
  return later.level_;
}

Micros Bucket::wait_for(std::int64_t need, Instant now) const {
  Bucket later = *this;
  later.refill(now);
  return later.time_to(need);
}

void Bucket::draw(std::int64_t amount, Instant now) {
  refill(now);
  level_ = std::clamp(level_ - amount, -kDebtMax, limits_.capacity);
  if (level_ == limits_.capacity) rest_ = 0;
}

void Bucket::configure(const BucketLimits& limits, Instant now) {
  refill(now);
  if (limits.per != limits_.per) rest_ = 0;
  limits_ = limits;
  level_ = std::min(level_, limits_.capacity);
  if (level_ == limits_.capacity) rest_ = 0;
}

}  // namespace hg::gate
