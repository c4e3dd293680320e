// wire_shapes.h: what the providers put on the wire: answers, event streams, rate headers and
// refusals, as recorded exchanges with the real ones show them.
//
// Pure functions from facts to bytes; the tests feed every one of them to wire's readers. Dates and
// ids come in as arguments.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/headers.h"
#include "base/time.h"
#include "base/units.h"
#include "lab/api.h"
#include "lab/script.h"
#include "sim/model_provider.h"

namespace hg::lab {

// Prompt parts do not overlap.
struct ProvidedUsage {
  Tokens uncached = 0;  // Neither read from the cache nor written to it.
  Tokens cache_written = 0;
  Tokens cache_read = 0;
  Tokens output = 0;
};

struct Reply {
  std::string id;  // Without its prefix ("msg_", "chatcmpl-").
  std::string model;
  std::int64_t created = 0;  // Epoch seconds.
  Answer answer;
  ProvidedUsage usage;
};

// A whole answer as one JSON body.
[[nodiscard]] std::string reply_body(Api api, const Reply& reply);

// A piece of a stream that is written at once, and how much of the output it completes.
struct StreamPiece {
  std::string bytes;
  Tokens output_done = 0;  // Output tokens sent by the end of this piece.
  bool carries_output = false;
};

// The whole event stream in order: the first piece is what comes with the first byte
// (message_start, the role chunk, response.created; Gemini has none), the last one ends it.
// `include_usage` is Chat Completions' option; text is cut into deltas of about `delta_bytes`.
[[nodiscard]] std::vector<StreamPiece> reply_stream(Api api, const Reply& reply, bool include_usage,
                                                    std::size_t delta_bytes);

// anthropic-ratelimit-* (remaining rounded to thousands, RFC 3339 resets) or x-ratelimit-* (Go
// durations); Gemini has none. The limit on output that Anthropic tells beside, a fifth of that on
// input, is never used up here.
void add_rate_headers(Api api, const sim::RateState& state, WallTime wall, Headers& headers);

// How a refusal looks. `rate_limit_bare` is a 429 with neither hint nor rate headers.
enum class RefusalShape : std::uint8_t {
  rate_limit,
  rate_limit_bare,
  overloaded,   // Anthropic's 529; OpenAI's 503 with server_is_overloaded; Gemini's UNAVAILABLE.
  unavailable,  // 503: `slow_down` on OpenAI, `api_error` on Anthropic, Gemini as above.
  quota,  // Exhausted: OpenAI's 429 insufficient_quota, Anthropic's 402 billing_error, Gemini's
          // 429 of a quota by the day.
  server_error  // 500.
};

// What a refusal says about when to return; only the rate_limit shape carries rate headers.
struct RefusalHints {
  std::optional<Micros> retry_after;     // In whole seconds, rounded up; Gemini: RetryInfo.
  std::optional<Micros> retry_after_ms;  // Written beside it.
  std::optional<sim::RateState> rate;
};

struct RefusalText {
  int status = 0;
  Headers headers;  // Content type, retry-after and rate headers where the shape has them.
  std::string body;
};
[[nodiscard]] RefusalText refusal_text(Api api, RefusalShape shape, const RefusalHints& hints,
                                       WallTime wall, std::string_view request_id);

// An overload or a rate limit as an event inside a 200 stream. Of `reply`, Responses needs id and
// model; `sequence` counts the events before this one.
[[nodiscard]] std::string stream_error(Api api, RefusalShape shape, const RefusalHints& hints,
                                       const Reply& reply, std::size_t sequence);

// A 400 (or 404, 413 ...) with this message.
[[nodiscard]] RefusalText client_error(Api api, int status, std::string_view message,
                                       std::string_view request_id);

// The list of models, and the answer to a count of tokens.
[[nodiscard]] std::string models_body(Api api, const std::vector<std::string>& models);
[[nodiscard]] std::string token_count_body(Api api, Tokens input_tokens);

// "1s", "6m0s", "20ms", "7m12s": as Go prints durations, to the millisecond.
[[nodiscard]] std::string to_go_duration(Micros duration);

}  // namespace hg::lab
