// dialect.h: what a request asks for, what a response used and what an error means, in one
// vocabulary for every API shape. The facts that the gate and the call need, and nothing else.
//
// Pure. Reads a side copy; never changes a byte of what is forwarded. A shape it does not know
// gives an Error or an absent field, never a guess or a zero: absent, null and zero are three
// things.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hg::wire {

enum class Dialect : std::uint8_t {
  anthropic_messages,
  openai_chat,
  openai_responses,
  gemini_generate,
  other,  // Not understood: passed through, paced by size if it generates.
};

[[nodiscard]] const char* to_string(Dialect dialect);

// What a request is to us, told from method and path alone (the path without Headgate's own prefix,
// without the query; doubled slashes and a doubled /v1 are tolerated).
struct Endpoint {
  Dialect dialect = Dialect::other;
  bool generates = false;  // Paced; everything else (model lists, token counts, probes) passes
                           // free.
  std::string model;       // Where the path names it (Gemini, Azure, Amazon); else "".
  bool streams = false;    // The path asks for a stream.
};
[[nodiscard]] Endpoint classify(std::string_view method, std::string_view path);

// A hash over a prefix of the prompt, in order: block i covers parts 0..i. Two prompts of one
// conversation share the longest common run of blocks.
struct PrefixBlock {
  std::uint64_t hash = 0;
  std::int64_t chars = 0;  // Prompt characters from the start up to the end of this block.
  Tokens flat_tokens = 0;  // Flat-priced parts from the start up to the end of this block.
};

struct RequestFacts {
  std::string model;
  bool stream = false;
  std::int64_t text_chars = 0;  // UTF-8 bytes of prompt text after JSON unescaping.
  // False when text_chars is a guess, or not all of the prompt (a part is kept by the provider):
  // such a call is paced by it, but tells nothing of how many characters make a token.
  bool text_counted = true;
  Tokens flat_tokens = 0;  // Images, audio, documents: by a flat price a part, not their base64
                           // length.
  std::int64_t flat_parts = 0;
  std::optional<Tokens> max_output;  // The largest output limit of all fields that declare one.
  std::vector<PrefixBlock> prefix;   // System, tools, then one block a message.
  std::uint64_t prompt_hash = 0;  // Of the whole prompt; equal when only `stream` or `max_tokens`
                                  // differ.
  std::uint64_t conversation_hash = 0;  // Of system and first user message: for agents that send no
                                        // session id.
  std::optional<bool> asks_stream_usage;  // OpenAI: stream_options.include_usage.
};

// Errc::invalid: breaks JSON's grammar, is not an object, or lacks what the dialect demands (detail
// says what; no content of the body in it). What is only unusual is read: half a surrogate pair, a
// number of any size, any nesting, a key that is there twice (the last counts). O(n), one pass, or
// two for the unusual; `body` needs no padding.
[[nodiscard]] Result<RequestFacts> read_request(Dialect dialect, std::string_view body);
// The same, with what the path already said.
[[nodiscard]] Result<RequestFacts> read_request(const Endpoint& endpoint, std::string_view body);

// Tokens as the provider reported them, dialects made equal: prompt parts do not overlap.
struct UsageReport {
  std::optional<Tokens> uncached;     // Prompt tokens not read from cache (cache writes are among
                                      // them).
  std::optional<Tokens> cached;       // Prompt tokens read from cache.
  std::optional<Tokens> output;       // Generated tokens, reasoning included.
  std::optional<Tokens> cache_write;  // Of the uncached ones, those written to the cache.
  std::optional<Tokens> reasoning;    // Of the output, what was thought and not said.

  [[nodiscard]] bool any() const { return uncached || cached || output; }
  friend bool operator==(const UsageReport&, const UsageReport&) = default;
};

// Follows one response body, streaming or not, fed in any pieces. Holds at most 1 MiB of unfinished
// input; past that it skips to the next event and keeps looking for usage.
class ResponseReader {
 public:
  // `content_type` decides between an event stream and one JSON body, unless the first bytes are
  // plainly the other.
  ResponseReader(Dialect dialect, std::string_view content_type);
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept;
  ResponseReader& operator=(ResponseReader&&) noexcept;

  void feed(std::string_view bytes);
  void finish();  // The body ended: flushes a tail without its blank line.

  [[nodiscard]] bool streaming() const;
  [[nodiscard]] const UsageReport& usage() const;  // The latest of each field; set, never added.
  [[nodiscard]] bool output_seen() const;  // Some generated content (not pings, not comments).
  [[nodiscard]] std::int64_t output_chars() const;  // Bytes of generated text seen so far, for an
                                                    // estimate.
  [[nodiscard]] bool complete() const;          // The terminal marker came (or a whole JSON body).
  [[nodiscard]] bool first_event_seen() const;  // Some event other than comment or ping was
                                                // complete.
  // The error event of a stream, as a JSON text, if one came; also a whole JSON body's error
  // object.
  [[nodiscard]] const std::optional<std::string>& error_event() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::wire
