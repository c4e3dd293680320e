// The framing guard: bytes that arrive one by one end a head where the whole does, and a head that
// passes has one framing only, also for whoever reads it after us.
#include <string_view>

#include "base/assert.h"
#include "net/framing_guard.h"

namespace {

void heads(std::string_view bytes) {
  std::size_t scanned_whole = 0;
  const auto whole = hg::net::find_head_end(bytes, scanned_whole);

  std::size_t scanned = 0;
  for (std::size_t count = 1; count <= bytes.size(); ++count) {
    const auto piece = hg::net::find_head_end(bytes.substr(0, count), scanned);
    HG_ASSERT(scanned <= count);
    if (!piece) {
      HG_ASSERT(!whole || whole->has_value());
      break;
    }
    if (piece->has_value()) {
      HG_ASSERT(whole && *whole == *piece);
      break;
    }
  }
  if (!whole || !whole->has_value()) return;

  const std::string_view head = bytes.substr(0, **whole);
  if (const auto request = hg::net::guard_request(head); request) {
    const auto& headers = request->head.headers;
    HG_ASSERT(!(headers.has("content-length") && headers.has("transfer-encoding")));
    // What we would send on is framed as what we read.
    const auto again = hg::net::guard_request(hg::net::to_bytes(request->head));
    HG_ASSERT(again && again->body == request->body);
  }
  for (const std::string_view method : {"GET", "HEAD", "POST"}) {
    const auto response = hg::net::guard_response(head, method);
    if (!response) HG_ASSERT(!response.error().detail.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  heads(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
