// codings.h: content codings as the emulated provider meets them: zstd in requests (Codex logged in
// to ChatGPT), gzip in answers; and the date that HTTP writes.
//
// Pure; any thread.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace hg::lab {

// The body without its coding: "", identity or zstd. Errc::invalid for another or broken data,
// Errc::too_large past `bytes_max`.
[[nodiscard]] Result<std::string> unpack_body(std::string_view coding, std::string body,
                                              std::size_t bytes_max);

// Packs one answer, piece by piece.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(GzipWriter&&) noexcept;
  GzipWriter& operator=(GzipWriter&&) noexcept;

  // What has to be sent so that a reader has all of `bytes`.
  [[nodiscard]] std::string write(std::string_view bytes);
  // The end of the stream. Nothing is written after it.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether an Accept-Encoding field takes gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

// "Mon, 30 Nov 2026 17:13:35 GMT" (RFC 9110, 5.6.7).
[[nodiscard]] std::string http_date(WallTime wall);

}  // namespace hg::lab
