// content_coding.h: one content coding of HTTP, undone piece by piece: gzip, deflate, br, zstd.
//
// Reads hostile bytes: windows are bounded (deflate 32 KiB, zstd 8 MiB as RFC 9659 allows, br
// 16 MiB, each grown as the stream uses it), output is handed on in small pieces and stops when the
// taker says so. Pure; one owner.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace hg::proxy {

class ContentCoding {
 public:
  // Takes a piece, which lives until it returns; false: no more, please.
  using Sink = std::function<bool(std::string_view)>;

  enum class Fed : std::uint8_t {
    all,     // Everything fed was read; a piece that came was taken.
    full,    // The sink wanted no more.
    broken,  // Not this coding, or damaged, or in need of a larger window than allowed.
  };

  virtual ~ContentCoding() = default;

  // Gives `sink` what these bytes unpack to, as far as they allow. Not to be called again after
  // `full` or `broken`. What follows the end of the stream is another one (gzip members, zstd
  // frames) or else ignored.
  [[nodiscard]] virtual Fed feed(std::string_view bytes, const Sink& sink) = 0;

  // By the name in a Content-Encoding field, whatever its case; null for one that is unknown.
  [[nodiscard]] static std::unique_ptr<ContentCoding> by_name(std::string_view name);
  [[nodiscard]] static bool known(std::string_view name);
};

}  // namespace hg::proxy
