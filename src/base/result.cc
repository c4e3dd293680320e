#include "base/result.h"

namespace hg {

const char* to_string(Errc code) {
  switch (code) {
    case Errc::invalid: return "invalid";
    case Errc::too_large: return "too_large";
    case Errc::not_found: return "not_found";
    case Errc::conflict: return "conflict";
    case Errc::unavailable: return "unavailable";
    case Errc::misconfigured: return "misconfigured";
    case Errc::timed_out: return "timed_out";
    case Errc::closed: return "closed";
    case Errc::cancelled: return "cancelled";
    case Errc::protocol: return "protocol";
    case Errc::internal: return "internal";
  }
  return "unknown";
}

}  // namespace hg
