#include "base/time.h"

#include <fmt/core.h>

namespace hg {

std::string to_rfc3339(WallTime at) {
  namespace chrono = std::chrono;
  const chrono::sys_time<Micros> point{at.since_epoch};
  const auto day = chrono::floor<chrono::days>(point);
  const chrono::year_month_day date{day};
  const chrono::hh_mm_ss<chrono::milliseconds> clock{
      chrono::floor<chrono::milliseconds>(point - day)};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace hg
