// shims.h: the shims of a pool: who was seen when, who counts as dead, whose share of the
// admissions is withheld because it vanished.
//
// A shim that falls silent while it has leases or waiters may have lost the way to the store and
// pace itself by its local schedule: what it may draw so is withheld from the others for ten
// minutes, or until it is seen again. A shim that has nothing to lose, or said farewell, has not
// vanished. Pure. Thread-safety: none. Every operation costs O(log n).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "gate/hooked_set.h"
#include "gate/string_map.h"
#include "gate/windows.h"

namespace hg::gate {

inline constexpr Micros kShimLives{6'000'000};   // Three heartbeats.
inline constexpr Micros kShimKept{660'000'000};  // Forgotten then: longer than anything is
                                                 // withheld.
inline constexpr Micros kWithheldFor{600'000'000};
inline constexpr std::int64_t kWithheldPpm = 900'000;  // Of the share: as the local schedule's 0.9.

class Shims {
 public:
  struct Shim {
    std::string_view name;  // The key in all().
    Instant seen_at;
    bool live = false;
    std::int64_t withheld_ppm = 0;  // Of the pool's rates; not 0: vanished.
    Instant withheld_until;
    AdmissionMeter admissions;
    SetHook by_seen;      // Among the living or the dead.
    SetHook by_withheld;  // While something is withheld for it.
  };

  // Seen now: alive, and nothing is withheld for it any more. `came`: it is new, or was dead. The
  // shim stays where it is until it is swept, long after its death.
  struct Touched {
    Shim& shim;
    bool came;
  };
  Touched touch(std::string_view name, Instant now);

  // Counted for all even when the shim is unknown: it was forgotten while a call of its waited,
  // and another shim asked for that call.
  void admitted(std::string_view name, Instant now);

  // The part of the admissions of the last five minutes, in millionths; 0 without any.
  [[nodiscard]] std::int64_t share_ppm(const Shim& shim, Instant now) const;

  // The live shim that was silent for longest, if that is kShimLives; then `bury` it.
  [[nodiscard]] Shim* silent(Instant now);
  enum class Had : std::uint8_t { nothing, calls };
  void bury(Shim& shim, Had had, Instant now);

  // Forgets shims long silent and what is withheld too long, at most `most` of them.
  void sweep(Instant now, int most);

  void farewell(std::string_view name);

  // Of all vanished shims, in millionths of the rates, at most 900,000.
  [[nodiscard]] std::int64_t withheld_ppm() const;

  [[nodiscard]] std::optional<Instant> next_death() const;
  [[nodiscard]] std::optional<Instant> next_release() const;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(shims_.size()); }
  [[nodiscard]] const StringMap<Shim>& all() const { return shims_; }

 private:
  struct BySeen {
    bool operator()(const Shim& left, const Shim& right) const {
      if (left.seen_at != right.seen_at) return left.seen_at < right.seen_at;
      return left.name < right.name;
    }
  };
  struct ByWithheld {
    bool operator()(const Shim& left, const Shim& right) const {
      if (left.withheld_until != right.withheld_until) {
        return left.withheld_until < right.withheld_until;
      }
      return left.name < right.name;
    }
  };
  using Seen = HookedSet<Shim, &Shim::by_seen, BySeen>;

  void give_back(Shim& shim);
  void die(Shim& shim);

  StringMap<Shim> shims_;
  Seen live_;
  Seen dead_;
  HookedSet<Shim, &Shim::by_withheld, ByWithheld> withheld_;
  std::int64_t withheld_sum_ = 0;
  AdmissionMeter admissions_;  // Of all together.
};

}  // namespace hg::gate
