// refusal.h: what a provider's error means: its load, our quota, the caller's request, or nothing
// we know.
//
// Status alone cannot tell: 429 is used for load, for billing and for pacing. Order of belief
// (pitfalls: retries): explicit retry hint, then structured code, then text; text alone is never
// terminal. Which code means what is data in the provider profile. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/headers.h"
#include "base/time.h"
#include "wire/profiles.h"

namespace hg::wire {

enum class RefusalKind : std::uint8_t {
  none,      // Not a refusal: success, or a redirect.
  overload,  // For load: 429 pacing, 529, 503, an overload error inside a stream. Retried, never
             // shown.
  quota,     // An exhausted quota or an unpaid bill: passed on, pauses the pool.
  request,   // The caller's own mistake, or missing rights: passed on.
  server,    // A 5xx that says nothing of load: passed on.
  ours,      // Headgate's own 429, told by our header.
};

[[nodiscard]] const char* to_string(RefusalKind kind);

struct Refusal {
  RefusalKind kind = RefusalKind::none;
  std::string code;  // The structured code that decided, for logs; "" if status did.
  std::optional<Micros> retry_after;  // The provider's hint, in whatever form it came.
};

// `body` may be cut at 64 KiB. `wall` resolves HTTP dates and epoch seconds in hints.
[[nodiscard]] Refusal classify_response(const ProviderProfile& provider, int status,
                                        const Headers& headers, std::string_view body,
                                        WallTime wall);

// An error event inside a 200 stream (ResponseReader::error_event).
[[nodiscard]] Refusal classify_stream_error(const ProviderProfile& provider,
                                            std::string_view error_json, WallTime wall);

}  // namespace hg::wire
