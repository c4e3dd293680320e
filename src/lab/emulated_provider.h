// emulated_provider.h: a provider with hidden limits over real HTTP, in four dialects, for
// trying and testing everything without a key.
//
// Its limits are sim's ModelProvider, so that simulator and sockets share one; its answers are
// filler or a script; faults come by the model's probabilities or on order (failures.h). It keeps
// its own account of what it admitted and refused, which a test holds the gate to:
// `GET /_emulated/stats`, totals(), and a log of one JSON line a generation call.
//
//   POST /v1/messages, /v1/messages/count_tokens     Anthropic Messages
//   POST /v1/chat/completions                        OpenAI Chat Completions
//   POST /v1/responses                               OpenAI Responses (also /backend-api/codex)
//   POST /v1beta/models/M:generateContent, :streamGenerateContent, :countTokens    Gemini
//   GET  /v1/models, /v1beta/models                  by the path and headers of the request
//   ...  /backend-api/...                            what Codex asks of ChatGPT beside: harmless
//   GET  /_emulated/stats                            the account, JSON (docs: ProviderTotals)
//   POST /_emulated/scale  {"factor": 0.5}           moves the hidden rates from now on
//
// Request bodies may be packed with zstd. An upgrade to WebSocket is answered 426.
// A request may say `x-emulated-output: N` and gets N tokens of filler (the model agents do).
// One thread (the executor's). What it is given outlives it; stop() before it dies.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "lab/failures.h"
#include "lab/request_view.h"
#include "lab/script.h"
#include "net/task.h"
#include "sim/model_provider.h"

namespace hg::lab {

struct ProviderConfig {
  sim::ProviderModel model;
  std::uint64_t seed = 1;
  TokenRule tokens;
  Script script;                 // Empty: filler.
  FailurePlan failures;          // Looked at before the model: an ordered fault draws no tokens.
  std::string log_path;          // Appended to; "": no log.
  std::size_t delta_bytes = 24;  // Of text in one event of a stream.
  bool gzip = false;             // Answers are packed for clients that accept it.
  std::size_t body_bytes_max = std::size_t{32} * 1024 * 1024;  // Anthropic's limit.
  std::vector<std::string> models = {"claude-opus-5-5", "claude-sonnet-4-5", "claude-haiku-4-5",
                                     "gpt-6",           "gemini-3-pro",      "emulated-1"};
};

// The account since the start. JSON names are those of the fields.
struct ProviderTotals {
  double seconds = 0;
  std::int64_t calls = 0;      // That ask for generation and could be understood.
  std::int64_t accepted = 0;   // Answered, or begun to be.
  Tokens accepted_tokens = 0;  // As the hidden limit counts them.
  Tokens accepted_prompt = 0;
  Tokens accepted_output = 0;
  Tokens cached_tokens = 0;
  std::map<std::string, std::int64_t> refused;  // By kind, the words of failures.h.
  std::int64_t refused_total = 0;               // Without 500, drop, cut, silence, stall.
  std::int64_t injected = 0;                    // Of all of those: on order.
  std::int64_t client_closed = 0;               // Calls whose client left before the answer ended.
  std::int64_t in_flight = 0;
  std::int64_t in_flight_max = 0;
  std::int64_t bad_requests = 0;
  std::int64_t free_requests = 0;  // Model lists, token counts, prewarms, side requests.
  std::int64_t script_mismatches = 0;
  double offered_tokens = 0;  // Burst + rate x time.
  double limit_used = 0;      // accepted_tokens / offered_tokens.
};

[[nodiscard]] std::string to_json(const ProviderTotals& totals);

class EmulatedProvider {
 public:
  EmulatedProvider(const net::Executor& executor, const Clock& clock, ProviderConfig config);
  ~EmulatedProvider();
  EmulatedProvider(const EmulatedProvider&) = delete;
  EmulatedProvider& operator=(const EmulatedProvider&) = delete;

  // Opens the log, listens on loopback; 0 lets the kernel choose. Answers the port.
  [[nodiscard]] Result<std::uint16_t> listen(std::uint16_t port);

  // Lets running answers end for at most `drain`.
  [[nodiscard]] net::Task<void> stop(Micros drain);

  [[nodiscard]] ProviderTotals totals() const;

  // Starts the account of burst + rate x time anew, with full buckets: for a provider that has
  // idled before a measurement. No calls may be in flight.
  void restart();

  // Multiplies the hidden rates, from now on.
  void scale(double factor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::lab
