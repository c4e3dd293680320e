#include "proxy/content_coding.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "base/text.h"

namespace hg::proxy {
namespace {

constexpr std::size_t kPiece = std::size_t{16} * 1024;

// RFC 9659: a decoder for HTTP takes windows of up to 8 MiB, an encoder makes no larger ones.
constexpr int kZstdWindowLog = 23;

// What zlib takes at once: its counters are 32 bits wide.
constexpr std::size_t kDeflatedMax = std::size_t{1} << 30U;

// zlib's names for a format: the window's size, and the wrapper as a number more or a sign.
constexpr int kGzipFormat = 15 + 16;
constexpr int kZlibFormat = 15;
constexpr int kRawFormat = -15;

constexpr char kGzipMagic = '\x1f';  // The first of two bytes.

// RFC 1950: 8 for deflate, a window of at most 32 KiB, both bytes a multiple of 31. Some servers
// send the raw stream under the same name.
bool begins_zlib(std::uint8_t method, std::uint8_t flags) {
  return (method & 15U) == 8 && method >> 4U <= 7 && (method * 256U + flags) % 31 == 0;
}

// gzip and deflate.
class Deflated final : public ContentCoding {
 public:
  enum class Kind : std::uint8_t { gzip, deflate };

  explicit Deflated(Kind kind) : kind_(kind) {
    if (kind_ == Kind::gzip) begin(kGzipFormat);
  }

  ~Deflated() override { inflateEnd(&stream_); }
  // zlib keeps the address of its stream.
  Deflated(const Deflated&) = delete;
  Deflated& operator=(const Deflated&) = delete;

  Fed feed(std::string_view bytes, const Sink& sink) override {
    if (part_ == Part::format && !bytes.empty()) {
      if (!first_byte_) {
        first_byte_ = static_cast<std::uint8_t>(bytes.front());
        bytes.remove_prefix(1);
        if (bytes.empty()) return Fed::all;
      }
      const bool wrapped = begins_zlib(*first_byte_, static_cast<std::uint8_t>(bytes.front()));
      begin(wrapped ? kZlibFormat : kRawFormat);
      const char first = static_cast<char>(*first_byte_);
      const Fed fed = inflate_all(std::string_view(&first, 1), sink);
      if (fed != Fed::all) return fed;
    }
    return inflate_all(bytes, sink);
  }

 private:
  enum class Part : std::uint8_t { format, stream, between, after, broken };

  void begin(int format) {
    part_ = inflateInit2(&stream_, format) == Z_OK ? Part::stream : Part::broken;
  }

  Fed inflate_all(std::string_view bytes, const Sink& sink) {
    while (!bytes.empty() && part_ != Part::after) {
      // A second member is one only if it says so; padding behind the first is none of ours.
      if (part_ == Part::between) {
        part_ = bytes.front() == kGzipMagic ? Part::stream : Part::after;
        continue;
      }
      if (part_ == Part::broken) return Fed::broken;
      const Fed fed = inflate_some(bytes, sink);
      if (fed != Fed::all) return fed;
    }
    return Fed::all;
  }

  // Takes from `bytes` what belongs to the stream, wrapper included.
  Fed inflate_some(std::string_view& bytes, const Sink& sink) {
    const std::size_t given = std::min(bytes.size(), kDeflatedMax);
    std::array<Bytef, kPiece> out;
    // zlib reads only; its type lacks the const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(given);
    for (;;) {
      stream_.next_out = out.data();
      stream_.avail_out = static_cast<uInt>(out.size());
      const int said = inflate(&stream_, Z_SYNC_FLUSH);
      const std::size_t made = out.size() - stream_.avail_out;
      const std::string_view piece(reinterpret_cast<const char*>(out.data()), made);
      if (made > 0 && !sink(piece)) return Fed::full;
      if (said == Z_STREAM_END) {
        part_ = kind_ == Kind::gzip ? Part::between : Part::after;
        inflateReset(&stream_);
        break;
      }
      // Z_BUF_ERROR: nothing left to do with these bytes.
      if (said != Z_OK && said != Z_BUF_ERROR) return Fed::broken;
      // Room left: all that was given is out.
      if (stream_.avail_out > 0) break;
    }
    bytes.remove_prefix(given - stream_.avail_in);
    return Fed::all;
  }

  Kind kind_;
  Part part_ = Part::format;                // deflate: until two bytes are here.
  std::optional<std::uint8_t> first_byte_;  // Of deflate.
  z_stream stream_{};
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

template <typename Coding, auto... arguments>
std::unique_ptr<ContentCoding> make() {
  return std::make_unique<Coding>(arguments...);
}

struct Named {
  std::string_view name;
  std::unique_ptr<ContentCoding> (*make)();
};

constexpr std::array<Named, 5> kNamed = {{
    {"gzip", make<Deflated, Deflated::Kind::gzip>},
    {"x-gzip", make<Deflated, Deflated::Kind::gzip>},
    {"deflate", make<Deflated, Deflated::Kind::deflate>},
    {"br", make<Brotli>},
    {"zstd", make<Zstd>},
}};

const Named* find_named(std::string_view name) {
  const auto* const found = std::find_if(
      kNamed.begin(), kNamed.end(), [&](const Named& named) { return iequals(named.name, name); });
  return found == kNamed.end() ? nullptr : found;
}

}  // namespace

std::unique_ptr<ContentCoding> ContentCoding::by_name(std::string_view name) {
  const Named* found = find_named(name);
  return found == nullptr ? nullptr : found->make();
}

bool ContentCoding::known(std::string_view name) { return find_named(name) != nullptr; }

}  // namespace hg::proxy
