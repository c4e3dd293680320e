// local_schedule.h: a shim without its store. tidy: allow(dead) because remote stores come later.
//
// How a shim paces itself while the store cannot be reached.
//
// Its share of the pool's admissions over the last five minutes (told in every reply), but at least
// 0.1 / shims, times 0.9 of r_tok and r_qps, evenly spaced. Kept warm at all times, by what the
// store admits too, so that its loss starts no burst: the first call after it waits out the space
// of the last one before. A shim that was never told a share leaves a fixed gap between calls.
// It never says "go unpaced", and it queues nobody: callers wait in the order they like until
// `next_at`, and tell `sent`. Pure. Thread-safety: none; one object a shim and pool.
#pragma once
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "gate/types.h"

namespace hg::gate {

class LocalSchedule {
 public:
  // `minimum_gap`: from the shim's configuration, for a pool that never told a share.
  explicit LocalSchedule(Micros minimum_gap);

  // From every reply of the store, with the limits last seen.
  void told(std::int64_t share_ppm, std::int64_t shims, const Limits& limits);

  // When the next call may go while the store is away; the past if it may go now.
  [[nodiscard]] Instant next_at() const { return next_at_; }

  // A call of this charge went, admitted by the store or (not before next_at) by this schedule.
  void sent(Tokens charge, Instant now);

 private:
  [[nodiscard]] Micros gap_after(Tokens charge) const;

  struct Rates {
    double tokens_per_second;    // > 0: this shim's part, with the margin taken off.
    double requests_per_second;  // > 0.
  };
  Micros minimum_gap_;
  std::optional<Rates> rates_;  // Nothing until a share was told.
  Instant next_at_{Micros::min()};
};

}  // namespace hg::gate
