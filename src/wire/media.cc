#include "wire/media.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace hg::wire {
namespace {

// Anthropic's documentation of vision: a token a patch of 28 x 28 px, after the image was scaled
// down to the tier's longest edge and its number of tokens.
struct AnthropicTier {
  std::int64_t longest_edge;
  Tokens most;
};
constexpr std::int64_t kAnthropicPatch = 28;
constexpr AnthropicTier kStandardTier = {1'568, 1'568};
constexpr AnthropicTier kHighTier = {2'576, 4'784};  // Opus 4.7 and later, Sonnet 5, ...

// OpenAI's documentation of vision, patch models: 32 x 32 px a patch, a budget of patches, and a
// multiplier by model.
constexpr std::int64_t kPatch = 32;
struct PatchRule {
  std::string_view model;  // A prefix, without a gateway's "openai/".
  std::int64_t budget;
  std::int64_t multiplier_percent;
};
// Longer names first. Unknown models: the largest budget that is a default, and the multiplier
// that is reported for the newest family.
constexpr std::array<PatchRule, 8> kPatchRules = {{{"gpt-5-mini", 1'536, 162},
                                                   {"gpt-5-nano", 1'536, 246},
                                                   {"gpt-5.2", 1'536, 100},
                                                   {"gpt-5.3-codex", 1'536, 100},
                                                   {"gpt-4.1-mini", 1'536, 162},
                                                   {"gpt-4.1-nano", 1'536, 246},
                                                   {"o4-mini", 1'536, 172},
                                                   {"gpt-5.4", 2'500, 100}}};
constexpr PatchRule kUnknownPatchRule = {"", 2'500, 120};

// The same page, tile models: fitted into 2048 px, the shortest side to 768 px, tiles of 512 px.
struct TileRule {
  std::string_view model;
  Tokens base;
  Tokens tile;
};
constexpr std::int64_t kMostTiles = 8;  // 768 x 2048 px.
// "gpt-5" itself is matched exactly, because gpt-5.x and gpt-5-mini are patch models.
constexpr std::array<TileRule, 8> kTileRules = {{{"gpt-4o-mini", 2'833, 5'667},
                                                 {"gpt-4o", 85, 170},
                                                 {"gpt-4.1", 85, 170},
                                                 {"gpt-4.5", 85, 170},
                                                 {"computer-use", 65, 129},
                                                 {"o1", 75, 150},
                                                 {"o3", 75, 150},
                                                 {"gpt-5-2", 70, 140}}};
constexpr TileRule kGpt5 = {"gpt-5", 70, 140};

// A page of a PDF is its text (1,500 to 3,000 tokens, Anthropic's documentation) and its image (one
// of the standard tier at most); a page of text and a few drawings is about 64 KiB, and a request
// may hold 100 pages.
constexpr Tokens kTokensAPage = 3'000 + 1'568;
constexpr std::int64_t kBytesAPage = 64 * 1024;
constexpr std::int64_t kMostPages = 100;

// Ten tokens a second of speech (OpenAI's realtime price list), 16,000 bytes a second at the 128
// kbit/s of a common MP3; uncompressed audio errs upward.
constexpr std::int64_t kAudioBytesAToken = 1'600;
constexpr Tokens kAudioLeast = 100;

std::int64_t ceil_ratio(double value) { return static_cast<std::int64_t>(std::ceil(value)); }

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Claude models before Opus 4.7 and Sonnet 5, by their names: claude-3-5-sonnet-20241022,
// claude-sonnet-4-20250514, claude-haiku-4-5, claude-opus-4.6.
bool standard_tier(std::string_view model) {
  constexpr std::array<std::string_view, 11> kMarks = {"claude-2", "claude-3", "-4-0", "-4-1",
                                                       "-4-5",     "-4-6",     "-4.1", "-4.5",
                                                       "-4.6",     "-4-2025",  "-3-5"};
  return model.ends_with("-4") ||
         std::ranges::any_of(kMarks, [&](std::string_view mark) { return contains(model, mark); });
}

Tokens anthropic_image(std::string_view model, const std::optional<ImageSize>& size) {
  const AnthropicTier tier = standard_tier(model) ? kStandardTier : kHighTier;
  if (!size) return tier.most;
  double width = static_cast<double>(size->width);
  double height = static_cast<double>(size->height);
  const double longest = std::max(width, height);
  if (longest > static_cast<double>(tier.longest_edge)) {
    const double scale = static_cast<double>(tier.longest_edge) / longest;
    width *= scale;
    height *= scale;
  }
  const Tokens tokens = ceil_ratio(width / kAnthropicPatch) * ceil_ratio(height / kAnthropicPatch);
  return std::min(tokens, tier.most);
}

Tokens tile_image(const TileRule& rule, const std::optional<ImageSize>& size, bool low_detail) {
  if (low_detail) return rule.base;
  std::int64_t tiles = kMostTiles;
  if (size) {
    const double fit = std::min(1.0,
                                2048.0 / static_cast<double>(std::max(size->width, size->height)));
    const double width = static_cast<double>(size->width) * fit;
    const double height = static_cast<double>(size->height) * fit;
    const double shrink = std::min(1.0, 768.0 / std::min(width, height));
    tiles = ceil_ratio(width * shrink / 512.0) * ceil_ratio(height * shrink / 512.0);
  }
  return rule.base + std::min(tiles, kMostTiles) * rule.tile;
}

// Gemini: 258 tokens up to 384 pixels a side, else for each tile of 768 pixels.
constexpr Tokens kGeminiTile = 258;
constexpr Tokens kGeminiUnknown = 6 * kGeminiTile;

Tokens gemini_image(const std::optional<ImageSize>& size) {
  if (!size) return kGeminiUnknown;
  if (size->width <= 384 && size->height <= 384) return kGeminiTile;
  const Tokens tiles = ceil_ratio(static_cast<double>(size->width) / 768.0) *
                       ceil_ratio(static_cast<double>(size->height) / 768.0);
  return std::min(tiles, Tokens{64}) * kGeminiTile;
}

Tokens patch_image(const PatchRule& rule, const std::optional<ImageSize>& size) {
  std::int64_t patches = rule.budget;
  if (size) {
    const std::int64_t needed = ceil_ratio(static_cast<double>(size->width) / kPatch) *
                                ceil_ratio(static_cast<double>(size->height) / kPatch);
    patches = std::min(patches, needed);
  }
  return (patches * rule.multiplier_percent + 99) / 100;
}

std::optional<int> base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  if (c == '/' || c == '_') return 63;
  return std::nullopt;
}

}  // namespace

std::optional<ImageSize> png_size(std::string_view base64) {
  // Signature, length and type of the first chunk (IHDR), then width and height, big-endian.
  constexpr std::string_view kStart("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16);
  std::array<unsigned char, 24> bytes{};
  if (base64.size() < bytes.size() * 4 / 3) return std::nullopt;
  for (std::size_t group = 0; group * 3 < bytes.size(); ++group) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto digit = base64_digit(base64[group * 4 + i]);
      if (!digit) return std::nullopt;
      word = (word << 6U) | static_cast<std::uint32_t>(*digit);
    }
    bytes[group * 3] = static_cast<unsigned char>(word >> 16U);
    bytes[group * 3 + 1] = static_cast<unsigned char>(word >> 8U);
    bytes[group * 3 + 2] = static_cast<unsigned char>(word);
  }
  for (std::size_t i = 0; i < kStart.size(); ++i) {
    if (bytes[i] != static_cast<unsigned char>(kStart[i])) return std::nullopt;
  }
  const auto read = [&](std::size_t at) {
    return (std::int64_t{bytes[at]} << 24) | (std::int64_t{bytes[at + 1]} << 16) |
           (std::int64_t{bytes[at + 2]} << 8) | std::int64_t{bytes[at + 3]};
  };
  const ImageSize size{read(16), read(20)};
  constexpr std::int64_t kLargest = 0x7FFF'FFFF;  // The format's own limit.
  if (size.width < 1 || size.height < 1 || size.width > kLargest || size.height > kLargest) {
    return std::nullopt;
  }
  return size;
}

Tokens image_tokens(Dialect dialect, std::string_view model, const std::optional<ImageSize>& size,
                    bool low_detail) {
  // A gateway's name has the maker in front: "openai/gpt-4o".
  const std::size_t slash = model.rfind('/');
  if (slash != std::string_view::npos) model.remove_prefix(slash + 1);
  // Amazon's has it too, behind a region: "us.anthropic.claude-sonnet-4-5".
  if (dialect == Dialect::anthropic_messages || contains(model, "claude")) {
    return anthropic_image(model, size);
  }
  if (dialect == Dialect::gemini_generate || model.starts_with("gemini")) return gemini_image(size);
  for (const PatchRule& rule : kPatchRules) {
    if (model.starts_with(rule.model)) return patch_image(rule, size);
  }
  if (model == kGpt5.model) return tile_image(kGpt5, size, low_detail);
  for (const TileRule& rule : kTileRules) {
    if (model.starts_with(rule.model)) return tile_image(rule, size, low_detail);
  }
  return patch_image(kUnknownPatchRule, size);
}

Tokens document_tokens(std::int64_t base64_length) {
  const std::int64_t bytes = base64_length / 4 * 3;
  return std::clamp(bytes / kBytesAPage + 1, std::int64_t{1}, kMostPages) * kTokensAPage;
}

Tokens audio_tokens(std::int64_t base64_length) {
  return std::max(kAudioLeast, base64_length / 4 * 3 / kAudioBytesAToken);
}

}  // namespace hg::wire
