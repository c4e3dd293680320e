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
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
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
    std::string name;
    Instant seen_at;
    bool live = false;
    std::int64_t withheld_ppm = 0;  // Of the pool's rates; not 0: vanished.
    Instant withheld_until;
    AdmissionMeter admissions;
  };

  // Seen now: alive, and nothing is withheld for it any more. Answers it; stays until dropped.
  Shim& touch(std::string_view name, Instant now);

  void admitted(std::string_view name, Instant now);

  // The part of the admissions of the last five minutes, in millionths; 0 without any.
  [[nodiscard]] std::int64_t share_ppm(std::string_view name, Instant now) const;

  // The live shim that was silent for longest, if that is kShimLives; then `bury` it.
  [[nodiscard]] const Shim* silent(Instant now) const;
  enum class Had : std::uint8_t { nothing, calls };
  void bury(std::string_view name, Had had, Instant now);

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
  using BySeen = std::set<std::pair<Instant, std::string>>;
  static void move_to(BySeen& to, BySeen& from, const Shim& shim, Instant seen_at);

  void give_back(Shim& shim);

  StringMap<Shim> shims_;
  BySeen live_;      // (seen_at, name) of those alive.
  BySeen dead_;      // Of the others.
  BySeen withheld_;  // (withheld_until, name).
  std::int64_t withheld_sum_ = 0;
  AdmissionMeter admissions_;  // Of all together.
};

}  // namespace hg::gate
