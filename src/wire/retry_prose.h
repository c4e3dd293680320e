// retry_prose.h: when to come back, as a sentence for people says it.
//
// Spans ("try again in 6m12.5s", "please wait 41 seconds", "resets in 3 days 21 hours",
// "replenished in 01:12:00") and instants ("will reset at 2026-09-11 18:55:29", "regain access on
// 2026-10-01 at 00:00 UTC"). A time of day without a date is none: nobody says in which zone. Pure.
#pragma once
#include <optional>
#include <string_view>

#include "base/time.h"

namespace hg::wire {

// `lower` is in small letters; the first span found counts, else the first instant; one in the
// past is zero. `zone` is how far the writer's clock is ahead of UTC, for instants that name none.
[[nodiscard]] std::optional<Micros> delay_in_prose(std::string_view lower, WallTime wall,
                                                   Micros zone = Micros{0});

}  // namespace hg::wire
