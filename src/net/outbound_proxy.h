// outbound_proxy.h: the HTTP proxy that a site puts between its machines and the world, as the
// usual variables name it.
//
// Only https upstreams go through it, by CONNECT, so that it sees no request; plain http upstreams
// are local ones and are always reached directly. Pure, but for the one function that reads the
// environment.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/url.h"

namespace hg::net {

struct OutboundProxy {
  Url url;                                // Scheme http: the proxy itself.
  std::string credentials;                // "user:password" for Basic; secret; may be empty.
  std::vector<std::string> direct_hosts;  // Lower case: "example.com" (and all below it), "*".
};

// "http://[user:password@]host[:port]", "host:port"; and "a,.b.c, *.d" for those reached directly.
// Errc::invalid for anything else; the detail repeats no credentials.
[[nodiscard]] Result<OutboundProxy> parse_proxy(std::string_view proxy, std::string_view no_proxy);

// From HTTPS_PROXY, else ALL_PROXY, and NO_PROXY, each also in lower case, which wins. Nothing
// where none is set or it is empty.
[[nodiscard]] Result<std::optional<OutboundProxy>> proxy_from_environment();

// Whether this upstream is reached through the proxy.
[[nodiscard]] bool goes_through(const OutboundProxy& proxy, const Url& upstream);

// The request that opens the tunnel, with its empty line.
[[nodiscard]] std::string connect_request(const OutboundProxy& proxy, const Url& upstream);

}  // namespace hg::net
