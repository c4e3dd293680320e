// The chunked coding: the payload is the same however the bytes are cut, and never longer than
// they.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "net/chunk_codec.h"

namespace {

struct Decoded {
  std::string payload;
  bool ended = false;
  bool failed = false;
  std::size_t consumed = 0;

  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded decode(std::string_view bytes, std::size_t step_bytes) {
  hg::net::ChunkDecoder decoder;
  Decoded result;
  for (std::size_t at = 0; at < bytes.size() && !result.ended; at += step_bytes) {
    std::string_view piece = bytes.substr(at, step_bytes);
    while (!piece.empty() && !result.ended) {
      const auto step = decoder.step(piece);
      if (!step) {
        result.failed = true;
        result.consumed = 0;  // Where it was noticed depends on the cuts.
        return result;
      }
      HG_ASSERT(step->consumed > 0 || step->ended);
      HG_ASSERT(step->consumed <= piece.size());
      result.payload += step->data;
      result.consumed += step->consumed;
      result.ended = step->ended;
      piece.remove_prefix(step->consumed);
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::size_t step = input.ConsumeIntegralInRange<std::size_t>(1, 16);
  const std::string bytes = input.ConsumeRemainingBytesAsString();
  const Decoded whole = decode(bytes, bytes.size() + 1);
  HG_ASSERT(whole == decode(bytes, step));
  HG_ASSERT(whole.payload.size() <= bytes.size());
  return 0;
}
