// rate_note.h: what a provider's answer said of one of its limits, and when. A value.
#pragma once
#include "base/time.h"
#include "wire/rate_headers.h"

namespace hg::proxy {

struct RateNote {
  wire::RateReading reading;
  WallTime at;
};

}  // namespace hg::proxy
