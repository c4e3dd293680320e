// windows.h: counts of the last five minutes in windows of ten seconds.
//
// One ring a pool and one an alias. A ring costs nothing while nothing happens: windows are cleared
// when they are met again. Pure. Thread-safety: none.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "gate/types.h"

namespace hg::gate {

inline constexpr Micros kWindowLength{10'000'000};
inline constexpr std::int64_t kWindowsKept = 30;    // Five minutes.
inline constexpr std::int64_t kReleaseWindows = 6;  // The full ones that the wait prediction reads.

// The number of the window that `now` lies in.
[[nodiscard]] constexpr std::int64_t window_index(Instant now) {
  return floor_div(now.since_zero.count(), kWindowLength.count());
}

class WindowRing {
 public:
  // The window of `now`, empty if nothing happened in it yet.
  Window& at(Instant now);

  // In-flight tokens given back in the last six full windows (60 s).
  [[nodiscard]] Tokens released_lately(Instant now) const;

  // Those of the last five minutes in which something happened, oldest first.
  [[nodiscard]] std::vector<Window> list(Instant now) const;

 private:
  std::array<Window, kWindowsKept> ring_{};  // Window i lies at i mod 30 (index 0: unused yet).
};

// How many calls were admitted in the last five minutes (29 full windows and the present one).
class AdmissionMeter {
 public:
  void add(Instant now);
  [[nodiscard]] std::int64_t count(Instant now) const;

 private:
  void forget(std::int64_t index);

  std::array<std::int32_t, kWindowsKept> counts_{};
  std::int64_t total_ = 0;   // Of counts_.
  std::int64_t newest_ = 0;  // Window that was counted last; older ones reach back from it.
};

}  // namespace hg::gate
