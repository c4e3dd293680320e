// chunk_codec.h: the chunked transfer coding (RFC 9112, 7.1), cut anywhere.
//
// Pure. The decoder hands out the payload piece by piece without copying; chunk extensions and
// trailers are read, bounded and dropped. Strict: sizes in plain hexadecimal, CRLF only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hg::net {

class ChunkDecoder {
 public:
  struct Step {
    std::size_t consumed = 0;  // Bytes of the input that are done with; all of it when data is
                               // empty.
    std::string_view data;     // Payload, a part of the input; may be empty.
    bool ended = false;  // The last chunk and its trailers are over; nothing more belongs to us.
  };

  // One step: at most one piece of payload. Errc::protocol when these bytes are no chunks.
  // Not to be called after `ended`.
  [[nodiscard]] Result<Step> step(std::string_view input);

 private:
  enum class At : std::uint8_t {
    size,
    extension,
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_start,
    trailer,
    trailer_lf,
    last_lf,
    ended
  };
  Result<void> framing_byte(char c);
  Result<void> size_byte(char c);
  Result<void> overhead_byte(char c);

  At at_ = At::size;
  std::uint64_t left_ = 0;  // Bytes of the present chunk still to come; its size being read.
  std::size_t digits_ = 0;  // Of the size being read.
  std::size_t overhead_bytes_ = 0;  // Of extensions in this chunk, or of all trailers.
};

// What goes before the payload of one chunk; after it goes "\r\n". size > 0.
[[nodiscard]] std::string chunk_prefix(std::size_t size);

// After the last chunk.
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace hg::net
