#include "proxy/side_decoder.h"

#include <array>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "base/text.h"

namespace hg::proxy {
namespace {

namespace zlib = boost::beast::zlib;

enum class Coding : std::uint8_t { identity, gzip, deflate, unknown };

Coding coding_of(std::string_view content_encoding) {
  const std::string_view name = trim(content_encoding);
  if (name.empty() || iequals(name, "identity")) return Coding::identity;
  if (iequals(name, "gzip") || iequals(name, "x-gzip")) return Coding::gzip;
  if (iequals(name, "deflate")) return Coding::deflate;
  return Coding::unknown;
}

// A gzip header may carry a file name and a comment; one longer than this is not one.
constexpr std::size_t kMaxWrapper = 64 * 1024;

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

}  // namespace

struct SideDecoder::State {
  Coding coding = Coding::identity;
  std::size_t left = 0;  // Bytes that may still come out.
  bool readable = true;
  bool ended = false;                      // The deflate stream is over; a checksum follows.
  std::optional<std::string> wrapper{""};  // What came of it; nothing once it is behind us.
  std::string held;                        // What came with the wrapper and belongs to the stream.
  zlib::inflate_stream inflater;

  using Sink = std::function<void(std::string_view)>;

  void give(std::string_view bytes, const Sink& sink) {
    if (bytes.size() > left) readable = false;
    const std::string_view fits = bytes.substr(0, left);
    left -= fits.size();
    if (!fits.empty()) sink(fits);
  }

  // Takes the wrapper off; answers the rest of `bytes` that belongs to the deflate stream.
  std::string_view unwrap(std::string_view bytes) {
    wrapper->append(bytes);
    const Wrapper seen = coding == Coding::gzip ? gzip_wrapper(*wrapper)
                                                : deflate_wrapper(*wrapper);
    if (seen.is == Wrapper::Is::whole) {
      held = wrapper->substr(seen.size);
      wrapper.reset();
      return held;
    }
    if (seen.is == Wrapper::Is::broken || wrapper->size() > kMaxWrapper) readable = false;
    return "";
  }

  void inflate(std::string_view bytes, const Sink& sink) {
    std::array<char, 16 * 1024> out;
    zlib::z_params params;
    params.next_in = bytes.data();
    params.avail_in = bytes.size();
    for (;;) {
      params.next_out = out.data();
      params.avail_out = out.size();
      boost::system::error_code ec;
      inflater.write(params, zlib::Flush::sync, ec);
      give(std::string_view(out.data(), out.size() - params.avail_out), sink);
      if (ec == zlib::error::end_of_stream)
        ended = true;
      else if (ec && ec != zlib::error::need_buffers)
        readable = false;
      const bool more = params.avail_out == 0 || params.avail_in > 0;
      if (ended || !readable || ec == zlib::error::need_buffers || !more) return;
    }
  }
};

SideDecoder::SideDecoder(std::string_view content_encoding, std::size_t limit)
    : state_(std::make_unique<State>()) {
  state_->coding = coding_of(content_encoding);
  state_->left = limit;
  state_->readable = state_->coding != Coding::unknown;
  if (state_->coding != Coding::identity) state_->inflater.reset(15);
}

SideDecoder::~SideDecoder() = default;
SideDecoder::SideDecoder(SideDecoder&&) noexcept = default;
SideDecoder& SideDecoder::operator=(SideDecoder&&) noexcept = default;

void SideDecoder::feed(std::string_view bytes, const std::function<void(std::string_view)>& sink) {
  if (!state_->readable || state_->ended || bytes.empty()) return;
  if (state_->coding == Coding::identity) {
    state_->give(bytes, sink);
    return;
  }
  if (state_->wrapper) bytes = state_->unwrap(bytes);
  if (state_->readable && !bytes.empty()) state_->inflate(bytes, sink);
}

bool SideDecoder::readable() const { return state_->readable; }

}  // namespace hg::proxy
