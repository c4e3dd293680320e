// rate_headers.h: what a provider's answer says of its limits: how much, how much is left, when it
// is full again.
//
// One reading for each thing that is limited and each window, whatever the provider calls it; names
// that are not known give nothing. A reading says what was said: a limit that was not told is
// absent. Nothing here decides; the planner does. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/headers.h"
#include "base/time.h"

namespace hg::wire {

enum class RateUnit : std::uint8_t {
  requests,
  tokens,         // Of all kinds, or of a kind that is not told.
  input_tokens,   // Prompt tokens as the provider counts them (Anthropic: without cache reads).
  output_tokens,  // Generated ones.
  plan,           // A subscription's window, in parts of a whole: `used_ppm` alone is told.
};

[[nodiscard]] const char* to_string(RateUnit unit);

struct RateReading {
  RateUnit unit = RateUnit::requests;
  std::optional<Micros> window;  // Over which the limit holds, where the provider says or means it.
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> remaining;  // May be rounded (Anthropic: to thousands).
  std::optional<Micros> reset;            // Until it is full again, from `wall` on.
  std::optional<std::int64_t> used_ppm;   // Of a plan's window; may pass 1,000,000.
  bool rejected = false;                  // A plan's window that refuses now.

  friend bool operator==(const RateReading&, const RateReading&) = default;
};

// In a fixed order (by unit, then by window), of several limits of one unit and window the
// tightest; `wall` resolves instants. Values that do not parse are as if they were not there, and
// so is a reading without any value. What is bought beside the usual limit (Anthropic's priority
// tier) is not read: past it a call is served from the usual one.
[[nodiscard]] std::vector<RateReading> read_rate_headers(const Headers& headers, WallTime wall);

}  // namespace hg::wire
