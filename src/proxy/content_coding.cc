#include "proxy/content_coding.h"

#include <brotli/decode.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "base/text.h"

namespace hg::proxy {
namespace {

namespace zlib = boost::beast::zlib;

constexpr std::size_t kPiece = std::size_t{16} * 1024;

// A gzip header may carry a file name and a comment; one longer than this is not one.
constexpr std::size_t kMaxWrapper = std::size_t{64} * 1024;

// Checksum and length behind a gzip member (RFC 1952).
constexpr std::size_t kGzipTrailer = 8;

// RFC 9659: a decoder for HTTP takes windows of up to 8 MiB, an encoder makes no larger ones.
constexpr int kZstdWindowLog = 23;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

// Where the wrapper's next zero-terminated text ends; npos while it is not here whole.
std::size_t after_text(std::string_view bytes, std::size_t at) {
  const std::size_t zero = bytes.find('\0', at);
  return zero == std::string_view::npos ? zero : zero + 1;
}

struct Wrapper {
  enum class Is : std::uint8_t { whole, unfinished, broken };
  Is is = Is::unfinished;
  std::size_t size = 0;  // whole: where the raw deflate stream begins.
};

// RFC 1952, 2.3.
Wrapper gzip_wrapper(std::string_view bytes) {
  if (bytes.size() < 10) return {};
  if (byte_at(bytes, 0) != 0x1f || byte_at(bytes, 1) != 0x8b || byte_at(bytes, 2) != 8) {
    return {Wrapper::Is::broken, 0};
  }
  const std::uint8_t flags = byte_at(bytes, 3);
  std::size_t at = 10;
  if ((flags & 4) != 0) {  // Extra field.
    if (bytes.size() < at + 2) return {};
    at += 2U + byte_at(bytes, at) + (std::size_t{byte_at(bytes, at + 1)} << 8U);
  }
  for (const std::uint8_t flag : {std::uint8_t{8}, std::uint8_t{16}}) {  // File name, comment.
    if ((flags & flag) == 0) continue;
    if (at > bytes.size()) return {};
    at = after_text(bytes, at);
    if (at == std::string_view::npos) return {};
  }
  if ((flags & 2) != 0) at += 2;  // Checksum of the header.
  if (at > bytes.size()) return {};
  return {Wrapper::Is::whole, at};
}

// RFC 1950 where the two bytes say so; some servers send the raw stream under the same name.
Wrapper deflate_wrapper(std::string_view bytes) {
  if (bytes.size() < 2) return {};
  const int check = byte_at(bytes, 0) * 256 + byte_at(bytes, 1);
  const bool wrapped = (byte_at(bytes, 0) & 15) == 8 && check % 31 == 0;
  return {Wrapper::Is::whole, wrapped ? std::size_t{2} : std::size_t{0}};
}

// gzip and deflate: a wrapper around the same stream.
class Deflated final : public ContentCoding {
 public:
  enum class Kind : std::uint8_t { gzip, deflate };

  explicit Deflated(Kind kind) : kind_(kind) { inflater_.reset(15); }

  Fed feed(std::string_view bytes, const Sink& sink) override {
    while (!bytes.empty() && part_ != Part::after) {
      Fed fed = Fed::all;
      if (part_ == Part::wrapper) {
        fed = unwrap(bytes, sink);
      } else if (part_ == Part::stream) {
        fed = inflate(bytes, sink);
      } else {
        skip_trailer(bytes);
      }
      if (fed != Fed::all) return fed;
    }
    return Fed::all;
  }

 private:
  enum class Part : std::uint8_t { wrapper, stream, trailer, after };

  // Takes the wrapper off; what came with its end belongs to the stream.
  Fed unwrap(std::string_view& bytes, const Sink& sink) {
    wrapper_.append(bytes);
    bytes = {};
    // A second member is one only if it says so; padding behind the first is none of ours.
    if (members_ > 0 && wrapper_[0] != 0x1f) {
      part_ = Part::after;
      return Fed::all;
    }
    const Wrapper seen = kind_ == Kind::gzip ? gzip_wrapper(wrapper_) : deflate_wrapper(wrapper_);
    if (seen.is == Wrapper::Is::broken) return Fed::broken;
    if (seen.is == Wrapper::Is::unfinished) {
      return wrapper_.size() > kMaxWrapper ? Fed::broken : Fed::all;
    }
    const std::string whole = std::exchange(wrapper_, std::string());
    part_ = Part::stream;
    return feed(std::string_view(whole).substr(seen.size), sink);
  }

  // Takes from `bytes` what belongs to the stream.
  Fed inflate(std::string_view& bytes, const Sink& sink) {
    std::array<char, kPiece> out;
    zlib::z_params params;
    params.next_in = bytes.data();
    params.avail_in = bytes.size();
    for (;;) {
      params.next_out = out.data();
      params.avail_out = out.size();
      boost::system::error_code ec;
      inflater_.write(params, zlib::Flush::sync, ec);
      bytes = bytes.substr(bytes.size() - params.avail_in);
      const std::size_t made = out.size() - params.avail_out;
      if (made > 0 && !sink(std::string_view(out.data(), made))) return Fed::full;
      if (ec == zlib::error::end_of_stream) {
        end_stream();
        return Fed::all;
      }
      if (ec && ec != zlib::error::need_buffers) return Fed::broken;
      const bool more = params.avail_out == 0 || params.avail_in > 0;
      if (ec == zlib::error::need_buffers || !more) {
        bytes = {};
        return Fed::all;
      }
    }
  }

  void end_stream() {
    ++members_;
    part_ = kind_ == Kind::gzip ? Part::trailer : Part::after;
    trailer_left_ = kGzipTrailer;
  }

  void skip_trailer(std::string_view& bytes) {
    const std::size_t count = std::min(bytes.size(), trailer_left_);
    bytes.remove_prefix(count);
    trailer_left_ -= count;
    if (trailer_left_ > 0) return;
    part_ = Part::wrapper;
    inflater_.reset(15);
  }

  Kind kind_;
  Part part_ = Part::wrapper;
  std::size_t members_ = 0;
  std::size_t trailer_left_ = 0;
  std::string wrapper_;  // What came of it; empty once it is behind us.
  zlib::inflate_stream inflater_;
};

class Brotli final : public ContentCoding {
 public:
  Brotli() : decoder_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {}

  Fed feed(std::string_view bytes, const Sink& sink) override {
    if (!decoder_) return Fed::broken;
    if (BrotliDecoderIsFinished(decoder_.get()) == BROTLI_TRUE) return Fed::all;
    std::array<std::uint8_t, kPiece> out;
    const auto* next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    std::size_t in_left = bytes.size();
    for (;;) {
      std::uint8_t* next_out = out.data();
      std::size_t out_left = out.size();
      const BrotliDecoderResult result = BrotliDecoderDecompressStream(
          decoder_.get(), &in_left, &next_in, &out_left, &next_out, nullptr);
      const std::size_t made = out.size() - out_left;
      const std::string_view piece(reinterpret_cast<const char*>(out.data()), made);
      if (made > 0 && !sink(piece)) return Fed::full;
      if (result == BROTLI_DECODER_RESULT_ERROR) return Fed::broken;
      if (result != BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) return Fed::all;
    }
  }

 private:
  struct Destroy {
    void operator()(BrotliDecoderState* decoder) const { BrotliDecoderDestroyInstance(decoder); }
  };
  std::unique_ptr<BrotliDecoderState, Destroy> decoder_;
};

class Zstd final : public ContentCoding {
 public:
  Zstd() : decoder_(ZSTD_createDCtx()) {
    if (decoder_) ZSTD_DCtx_setParameter(decoder_.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
  }

  Fed feed(std::string_view bytes, const Sink& sink) override {
    if (!decoder_) return Fed::broken;
    std::array<char, kPiece> out;
    ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer piece = {out.data(), out.size(), 0};
      const std::size_t result = ZSTD_decompressStream(decoder_.get(), &piece, &in);
      if (ZSTD_isError(result) != 0) return Fed::broken;
      if (piece.pos > 0 && !sink(std::string_view(out.data(), piece.pos))) return Fed::full;
      // A full piece may not have been the last: what is left inside must come out now.
      const bool more = in.pos < in.size || piece.pos == piece.size;
      if (!more) return Fed::all;
    }
  }

 private:
  struct Destroy {
    void operator()(ZSTD_DCtx* decoder) const { ZSTD_freeDCtx(decoder); }
  };
  std::unique_ptr<ZSTD_DCtx, Destroy> decoder_;
};

}  // namespace

std::unique_ptr<ContentCoding> ContentCoding::by_name(std::string_view name) {
  if (iequals(name, "gzip") || iequals(name, "x-gzip")) {
    return std::make_unique<Deflated>(Deflated::Kind::gzip);
  }
  if (iequals(name, "deflate")) return std::make_unique<Deflated>(Deflated::Kind::deflate);
  if (iequals(name, "br")) return std::make_unique<Brotli>();
  if (iequals(name, "zstd")) return std::make_unique<Zstd>();
  return nullptr;
}

}  // namespace hg::proxy
