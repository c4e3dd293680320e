// http.h: heads of HTTP/1.x messages as values, and how a body is delimited.
//
// Pure. Heads keep order, duplicates and case of their fields, so that what a peer wrote can be
// passed on as it was. They come from framing_guard.h, which refuses ambiguous ones, and go out
// through to_bytes. Content codings (gzip, ...) are no business of this module.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/headers.h"

namespace hg::net {

struct RequestHead {
  std::string method;     // As written: "POST".
  std::string target;     // As written: "/v1/messages?beta=true".
  int minor_version = 1;  // 1 or 0: HTTP/1.1 or HTTP/1.0.
  Headers headers;

  RequestHead() = default;
  RequestHead(std::string request_method, std::string request_target)
      : method(std::move(request_method)), target(std::move(request_target)) {}
};

struct ResponseHead {
  int status = 0;
  std::string reason;  // As written; may be empty.
  int minor_version = 1;
  Headers headers;

  ResponseHead() = default;
  explicit ResponseHead(int response_status);  // With the standard reason.

  [[nodiscard]] ResponseHead status_line() const;  // The same without fields.
};

// How the end of a body is known.
enum class BodyKind : std::uint8_t { none, length, chunked, until_close };

struct BodyFraming {
  BodyKind kind = BodyKind::none;
  std::uint64_t length = 0;  // For BodyKind::length.

  static BodyFraming none() { return BodyFraming(); }
  static BodyFraming of_length(std::uint64_t bytes);
  static BodyFraming chunked();
  static BodyFraming until_close();

  friend bool operator==(const BodyFraming&, const BodyFraming&) = default;
};

// "Too Many Requests" for 429; "" for unknown ones.
[[nodiscard]] std::string_view standard_reason(int status);

// The head as it goes over the wire, with the empty line. A line break or NUL inside a field
// becomes a space, so that no value can start a field of its own.
[[nodiscard]] std::string to_bytes(const RequestHead& head);
[[nodiscard]] std::string to_bytes(const ResponseHead& head);

// The pieces of a request's head, for those who write one as they go: its first line (HTTP/1.1),
// and a field.
[[nodiscard]] std::string request_line(std::string_view method, std::string_view target);
void append_field(std::string& out, std::string_view name, std::string_view value);

// How long all fields are when they are written.
[[nodiscard]] std::size_t size_of(const Headers& headers);

// Removes what concerns one connection only (RFC 9110, 7.6.1): Connection and the fields that it
// names, Keep-Alive, Proxy-Connection, Proxy-Authorization, Proxy-Authenticate, TE, Trailer,
// Transfer-Encoding, Upgrade. Content-Length, Expect and all others stay.
void remove_hop_by_hop(Headers& headers);

// Whether the sender of such a head keeps its connection open after the message.
[[nodiscard]] bool keeps_alive(int minor_version, const Headers& headers);

// Whether a response to this method with this status has no body, whatever its fields say.
[[nodiscard]] bool never_has_body(std::string_view request_method, int status);

}  // namespace hg::net
