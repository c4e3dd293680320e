#include "net/chunk_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace hg::net {

namespace {

constexpr std::size_t kSizeDigitsMax = 13;  // 2^52 bytes: no overflow, and more than any body.
constexpr std::size_t kOverheadBytesMax = std::size_t{16} * 1024;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<ChunkDecoder::Step> ChunkDecoder::step(std::string_view input) {
  HG_ASSERT(at_ != At::ended);
  Step step;
  while (step.consumed < input.size()) {
    if (at_ == At::data) {
      const std::size_t rest = input.size() - step.consumed;
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest));
      step.data = input.substr(step.consumed, take);
      step.consumed += take;
      left_ -= take;
      if (left_ == 0) at_ = At::data_cr;
      return step;
    }
    const auto taken = framing_byte(input[step.consumed]);
    if (!taken) return std::unexpected(taken.error());
    ++step.consumed;
    if (at_ == At::ended) {
      step.ended = true;
      return step;
    }
  }
  return step;
}

Result<void> ChunkDecoder::framing_byte(char c) {
  const auto expect = [&](char wanted, At next) -> Result<void> {
    if (c != wanted) return fail(Errc::protocol, "a line of the chunked coding ends wrongly");
    at_ = next;
    return {};
  };
  switch (at_) {
    case At::size: return size_byte(c);
    case At::extension:
      if (c == '\r') at_ = At::size_lf;
      return overhead_byte(c);
    case At::size_lf:
      overhead_bytes_ = 0;
      digits_ = 0;
      return expect('\n', left_ == 0 ? At::trailer_start : At::data);
    case At::data_cr: return expect('\r', At::data_lf);
    case At::data_lf: return expect('\n', At::size);
    case At::trailer_start: at_ = c == '\r' ? At::last_lf : At::trailer; return overhead_byte(c);
    case At::trailer:
      if (c == '\r') at_ = At::trailer_lf;
      return overhead_byte(c);
    case At::trailer_lf: return expect('\n', At::trailer_start);
    case At::last_lf: return expect('\n', At::ended);
    case At::data:
    case At::ended: break;
  }
  HG_ASSERT(false);
}

Result<void> ChunkDecoder::size_byte(char c) {
  const int digit = hex_value(c);
  if (digit >= 0) {
    if (++digits_ > kSizeDigitsMax) return fail(Errc::protocol, "a chunk size of too many digits");
    left_ = (digits_ == 1 ? 0 : left_ * 16) + static_cast<std::uint64_t>(digit);
    return {};
  }
  if (digits_ == 0) return fail(Errc::protocol, "a chunk without a size");
  if (c == '\r') {
    at_ = At::size_lf;
    return {};
  }
  if (c == ';' || c == ' ' || c == '\t') {
    at_ = At::extension;
    return overhead_byte(c);
  }
  return fail(Errc::protocol, "a chunk size that is no hexadecimal number");
}

// Of an extension or a trailer: dropped, but not without bound, and never a bare LF.
Result<void> ChunkDecoder::overhead_byte(char c) {
  if (c == '\n' || c == '\0') return fail(Errc::protocol, "a bare LF or NUL in the chunked coding");
  if (++overhead_bytes_ > kOverheadBytesMax) {
    return fail(Errc::protocol, "chunk extensions or trailers of more than 16 KiB");
  }
  return {};
}

std::string chunk_prefix(std::size_t size) { return fmt::format("{:x}\r\n", size); }

}  // namespace hg::net
