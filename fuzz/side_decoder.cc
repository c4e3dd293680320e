// Coded bytes, cut anywhere, unpack to the same text or are called unreadable; never past the
// limit.
#include "proxy/side_decoder.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace {

constexpr std::size_t kLimit = 1 << 20;

struct Unpacked {
  std::string text;
  bool readable = true;
};

Unpacked unpack(std::string_view coding, std::string_view coded, std::size_t step) {
  hg::proxy::SideDecoder decoder(coding, kLimit);
  Unpacked out;
  while (!coded.empty()) {
    decoder.feed(coded.substr(0, step), [&](std::string_view piece) { out.text.append(piece); });
    coded.remove_prefix(std::min(step, coded.size()));
  }
  out.readable = decoder.readable();
  HG_ASSERT(out.text.size() <= kLimit);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view coding = bytes[0] % 2 == 0 ? "gzip" : "deflate";
  const std::size_t step = static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) + 1;
  const std::string_view coded = bytes.substr(2);
  const Unpacked cut = unpack(coding, coded, step);
  const Unpacked whole = unpack(coding, coded, coded.size() + 1);
  HG_ASSERT(cut.readable == whole.readable);
  if (whole.readable) HG_ASSERT(cut.text == whole.text);
  return 0;
}
