// The only file that reads the machine's clocks.
#include "base/time.h"

namespace hg {

Instant OsClock::now() const {
  return {std::chrono::duration_cast<Micros>(std::chrono::steady_clock::now().time_since_epoch())};
}

WallTime OsClock::wall() const {
  return {std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch())};
}

}  // namespace hg
