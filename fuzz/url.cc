// A URL is refused, or read into parts that say the same URL again.
#include <string_view>

#include "base/assert.h"
#include "net/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto url = hg::net::parse_url(text);
  if (!url) return 0;
  HG_ASSERT(!url->host.empty());
  HG_ASSERT(url->scheme == hg::net::Scheme::unix_socket || url->port != 0);
  const auto again = hg::net::parse_url(url->text());
  HG_ASSERT(again && *again == *url);
  return 0;
}
