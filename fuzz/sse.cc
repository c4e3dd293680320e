// An event stream means the same however it is cut.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>
#include <vector>

#include "base/assert.h"
#include "wire/sse.h"

namespace {

struct Seen {
  std::vector<std::string> events;
  std::uint64_t comments = 0;
  std::uint64_t oversize = 0;

  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen parse(const std::vector<std::string_view>& pieces) {
  Seen seen;
  hg::wire::SseParser parser(
      [&](const hg::wire::SseEvent& event) {
        seen.events.push_back(std::string(event.type) + "\n" + std::string(event.data));
      },
      256);
  for (const std::string_view piece : pieces) parser.feed(piece);
  parser.finish();
  seen.comments = parser.comments();
  seen.oversize = parser.oversize_events();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::size_t step = input.ConsumeIntegralInRange<std::size_t>(1, 16);
  const std::string text = input.ConsumeRemainingBytesAsString();
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size(); at += step) {
    pieces.push_back(std::string_view(text).substr(at, step));
  }
  HG_ASSERT(parse({text}) == parse(pieces));
  return 0;
}
