// url.h: where an upstream is, as configuration says it.
//
// Pure. URLs come from files, flags and variables of the operator; never from the text of a request
// (a host made of request text would let a caller choose where a key goes).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hg::net {

enum class Scheme : std::uint8_t { http, https, unix_socket };

struct Url {
  Scheme scheme = Scheme::http;
  std::string host;  // Lower case; an IPv6 address without its brackets; "localhost" for unix.
  std::uint16_t port = 0;   // Always set for http and https.
  std::string path;         // Base path without a trailing slash: "", "/api". Empty for unix.
  std::string socket_path;  // For unix: absolute.

  // What a Host header says: "api.example.com", "127.0.0.1:8080", "[::1]:8080".
  [[nodiscard]] std::string authority() const;
  // Scheme, host and port, or scheme and socket: equal for upstreams that may share connections.
  [[nodiscard]] std::string origin() const;
  // Origin and path.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Url&, const Url&) = default;
};

// "https://api.example.com/base", "http://[::1]:8080", "unix:///run/user/1000/hg.sock". Refuses
// (Errc::invalid) user names, queries, fragments, backslashes, blanks, control characters and
// percent-encoding in the authority.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

// The target to ask an upstream for: its base path and the target of the request, whose own bytes
// stay as they are. A base that ends with the segments that the target starts with is not said
// twice: "/api/v1" and "/v1/messages" make "/api/v1/messages". A "/v1" gives way to another version
// at the end of the base: "/paas/v4" and "/v1/chat" make "/paas/v4/chat". Always starts with "/".
[[nodiscard]] std::string join_target(std::string_view base_path, std::string_view target);

}  // namespace hg::net
