// units.h: the integers that Headgate counts in, and the two operations on them that are easy to
// get wrong.
//
// Everything the gate decides with is a whole number below 2^53 in magnitude, so that Lua's doubles
// and C++ agree to the last digit. These are aliases, not types, because the arithmetic crosses
// units in every line (tokens/s x microseconds = micro-tokens); names carry the unit where a type
// does not.
#pragma once
#include <cstdint>

namespace hg {

using Tokens = std::int64_t;         // Whole tokens.
using MicroTokens = std::int64_t;    // 10^-6 token: what one token/s yields in a microsecond.
using MicroRequests = std::int64_t;  // 10^-6 request.

inline constexpr std::int64_t kMicro = 1'000'000;
inline constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;  // Doubles are exact up to here.

// Rounds toward minus infinity, as the gate does everywhere (C++ alone rounds toward zero). divisor
// > 0.
[[nodiscard]] constexpr std::int64_t floor_div(std::int64_t dividend, std::int64_t divisor) {
  const std::int64_t quotient = dividend / divisor;
  return dividend % divisor < 0 ? quotient - 1 : quotient;
}

// Rounds toward plus infinity: a wait is never told too short. divisor > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t dividend, std::int64_t divisor) {
  const std::int64_t quotient = dividend / divisor;
  return dividend % divisor > 0 ? quotient + 1 : quotient;
}

}  // namespace hg
