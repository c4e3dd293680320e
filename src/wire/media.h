// media.h: what an image, a document or a recording inside a prompt is priced at, in tokens.
//
// A flat price a part, never the length of its base64. By the provider's published rule where the
// size can be read from the first bytes (PNG), else the ceiling of that rule, so that an estimate
// errs upward and settlement mends it. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "wire/dialect.h"

namespace hg::wire {

struct ImageSize {
  std::int64_t width = 0;  // Pixels, > 0.
  std::int64_t height = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// From the header of a PNG in base64; nothing for any other format or a size of zero.
[[nodiscard]] std::optional<ImageSize> png_size(std::string_view base64);

// `low_detail`: the caller asked for OpenAI's `"detail":"low"`.
[[nodiscard]] Tokens image_tokens(Dialect dialect, std::string_view model,
                                  const std::optional<ImageSize>& size, bool low_detail);

// By the length of their base64; 0 when the part names a file instead of holding it.
[[nodiscard]] Tokens document_tokens(std::int64_t base64_length);
[[nodiscard]] Tokens audio_tokens(std::int64_t base64_length);

}  // namespace hg::wire
