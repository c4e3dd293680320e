// framing_guard.h: from raw bytes to a head and the framing of its body, or a refusal.
//
// Stands between a peer and everything else, because two programs that disagree on where a message
// ends can be made to swap answers (request smuggling). So what RFC 9112 leaves to taste is
// refused: see the table in framing_guard_test.cc. Pure; looks at no byte twice more than needed.
// Errors: Errc::too_large (answer 431), Errc::protocol (answer 400); details hold no field value.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "net/http.h"

namespace hg::net {

inline constexpr std::size_t kHeadBytesMax = std::size_t{64} * 1024;

// Where the head at the front of `bytes` ends (just after its empty line); nothing while it is
// incomplete. An error as soon as it is certain that no good head can come of these bytes: a bare
// LF, a bare CR, a NUL, or more than `bytes_max` without an end. `scanned` is where an earlier call
// with fewer bytes may have stopped (0 at first); it is advanced.
[[nodiscard]] Result<std::optional<std::size_t>> find_head_end(
    std::string_view bytes, std::size_t& scanned, std::size_t bytes_max = kHeadBytesMax);

struct GuardedRequest {
  RequestHead head;
  BodyFraming body;        // none, length or chunked.
  bool keep_alive = true;  // The client wants to use its connection again.
  bool expects_continue = false;
};

// `head` ends with its empty line.
[[nodiscard]] Result<GuardedRequest> guard_request(std::string_view head);

struct GuardedResponse {
  ResponseHead head;
  BodyFraming body;
  bool keep_alive = true;  // The server keeps its connection (never so with until_close).
};

// `request_method` decides whether there is a body at all (HEAD).
[[nodiscard]] Result<GuardedResponse> guard_response(std::string_view head,
                                                     std::string_view request_method);

}  // namespace hg::net
