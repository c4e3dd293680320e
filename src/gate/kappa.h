// kappa.h: characters per token of a pool, learned from calls whose real size is known.
//
// Integer arithmetic, as everywhere in the gate. Pure; any thread.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace hg::gate {

inline constexpr Tokens kKappaLeastTokens = 1'000;        // Smaller calls are mostly framing.
inline constexpr std::int64_t kKappaLowest = 2'000'000;   // Observations are clamped to 2 and 8,
inline constexpr std::int64_t kKappaHighest = 8'000'000;  // in millionths.
inline constexpr std::int64_t kKappaDivisor = 20;         // alpha = 0.05.

// kappa after a call of `chars` characters of text that the provider counted as `text_tokens`
// (parts priced flat taken off before). Unchanged for calls that say too little.
[[nodiscard]] constexpr std::int64_t fold_kappa(std::int64_t kappa_micro, std::int64_t chars,
                                                Tokens text_tokens) {
  if (chars <= 0 || text_tokens < kKappaLeastTokens) return kappa_micro;
  const std::int64_t seen = std::clamp(chars * kMicro / text_tokens, kKappaLowest, kKappaHighest);
  return kappa_micro + floor_div(seen - kappa_micro, kKappaDivisor);
}

}  // namespace hg::gate
