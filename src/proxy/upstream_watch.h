// upstream_watch.h: what to log of upstreams that fail, so that an outage under load is some lines
// and not thousands.
//
// The first failure is said at once, what follows is counted and said at most every 10 s an
// upstream, and its return once. Says nothing itself: it hands out the line. Pure; the names are
// those of the configuration, so that memory is bounded. Thread-safety: none.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace hg::proxy {

class UpstreamWatch {
 public:
  // The upstream gave no answer, for the reason `detail`. The line to log now, if any.
  [[nodiscard]] std::optional<std::string> failed(std::string_view upstream,
                                                  std::string_view detail, Instant now);

  // It answered, whatever it said. The line to log now: once after failures that were said.
  [[nodiscard]] std::optional<std::string> answered(std::string_view upstream, Instant now);

 private:
  struct State {
    std::optional<Instant> since;  // While it fails: the first failure.
    bool said = false;             // Of this outage: something was logged.
    std::int64_t failures = 0;     // Of this outage.
    std::int64_t unsaid = 0;       // Failures that no line has counted.
    std::optional<Instant> last_line;
  };
  std::map<std::string, State, std::less<>> states_;  // Of upstreams that ever failed.
};

}  // namespace hg::proxy
