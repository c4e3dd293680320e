// retry_after.h: when to come back, in every form that providers say it.
//
// Delta seconds (whole or with a fraction), milliseconds by header name, Go durations (6m0s,
// 2m59.56s, 120ms), HTTP dates, RFC 3339 instants, epoch seconds and milliseconds. Strict: the
// whole text must be one of these, or the answer is nothing. A date in the past is zero; never
// negative. Pure.
#pragma once
#include <optional>
#include <string_view>

#include "base/time.h"

namespace hg::wire {

// `value` of a retry-after or reset header; `wall` is the present, for absolute forms.
[[nodiscard]] std::optional<Micros> parse_retry_after(std::string_view value, WallTime wall);

// `value` of a retry-after-ms header.
[[nodiscard]] std::optional<Micros> parse_retry_after_ms(std::string_view value);

// "34s", "34.07s", "6m0s", "1h2m", "20ms".
[[nodiscard]] std::optional<Micros> parse_go_duration(std::string_view value);

}  // namespace hg::wire
