// model_provider.h: a provider whose limits nobody tells: what it takes, refuses, drops, and how
// long it needs. The emulated HTTP provider (lab) and the simulator share it.
//
// Decides and counts; sends nothing. It keeps a token bucket and a request bucket whose rates stand
// still, step or drift, other tenants that draw on the same limit, a load in flight, a prefix cache
// with a lifetime, and mishaps by probability. Pure: time comes in as an argument; randomness is
// its own generator, so one seed and one order of calls give one history. Thread-safety: none.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "base/units.h"

namespace hg::sim {

// A block of a prompt, in order, as wire::PrefixBlock but in tokens: two prompts that share a hash
// share everything up to there.
struct PromptBlock {
  std::uint64_t hash = 0;
  Tokens tokens = 0;  // From the start of the prompt to the end of this block.
};

// How the limits move. The factor at a moment multiplies both rates (never the capacities).
struct RatePlan {
  struct Step {
    Micros at{0};         // Since the provider's start, ascending.
    double factor = 1.0;  // From then on.
  };
  std::vector<Step> steps;     // Empty: steady.
  double drift_amplitude = 0;  // A sine on top: 0.4 swings between 0.6 and 1.4 of the rate.
  Micros drift_period{3'600'000'000};

  [[nodiscard]] double factor(Micros since_start) const;
};

// Others who draw on the same limit: a Poisson stream of calls that retries nothing.
struct OtherTenants {
  double tokens_per_second = 0;  // On average; 0: nobody else.
  Tokens tokens_per_call = 20'000;
};

// Mishaps that have nothing to do with the limits, each by its probability per call.
struct Mishaps {
  double overloaded = 0;          // 529, or the same error inside a 200 stream (below).
  double unavailable = 0;         // 503.
  double stray_rate_limit = 0;    // 429 although there was room.
  double error_in_stream = 0;     // Of the overloaded streams: share refused inside a 200, before
                                  // any output.
  double drop_before_answer = 0;  // The connection is closed without a byte.
  double drop_in_answer = 0;      // The answer is cut somewhere in its output.
};

struct ProviderModel {
  Tokens burst_tokens = 200'000;       // Capacity of the token bucket; starts full.
  double tokens_per_second = 40'000;   // Its refill.
  double burst_requests = 60;          // Capacity of the request bucket; starts full.
  double requests_per_second = 20;     // Its refill.
  std::optional<Tokens> max_inflight;  // Prompt tokens being worked on; past it: 529.
  std::optional<Tokens> quota;         // Accepted tokens after which the quota is exhausted.
  RatePlan plan;
  OtherTenants tenants;
  Mishaps mishaps;

  // What counts against the token bucket: uncached + cached x w + output x w, as a provider has it.
  std::int64_t cached_ppm = 1'000'000;
  std::int64_t output_ppm = 0;
  bool reserves_max_output = false;  // Counts the declared output until the call is finished.
  bool refused_calls_count = false;  // A refused call draws what it would have drawn.

  // What a 429 says: nothing, whole seconds until there is room, or milliseconds too.
  enum class Hint : std::uint8_t { none, seconds, milliseconds };
  Hint hint = Hint::seconds;
  bool rate_headers = true;  // limit, remaining and reset on every answer.

  // Time to the first byte: (base + uncached x per token + cached x per token) x (1 + slope x
  // tokens in flight / knee), spread log-normally; then a pace of output. Fitted (least absolute
  // error) on 3,210 streamed calls of published Claude Code sessions (WEKA, kv-cache-tester, 2026):
  // their median is 2.4 s to the first byte with 100,000 cached tokens, 6 s in all.
  Micros base{1'300'000};
  double micros_per_uncached_token = 20;
  double micros_per_cached_token = 10;
  double micros_per_output_token = 17'000;
  double load_slope = 0.5;
  Tokens load_knee = 2'000'000;
  double latency_sigma = 0.27;

  // The prefix cache: blocks shorter than this many tokens from the start are not cached.
  Micros cache_lifetime{300'000'000};
  Tokens cache_minimum = 1'024;

  // Output of a call that says nothing of it: log-normal, median and sigma from the same sessions.
  double output_median = 218;
  double output_sigma = 1.1;
};

struct ProviderRequest {
  Tokens prompt_tokens = 0;
  std::vector<PromptBlock> blocks;       // May be empty: nothing is cached.
  std::optional<Tokens> max_output;      // Declared.
  std::optional<Tokens> output_planned;  // What a script or agent wants; else drawn.
  bool stream = false;
};

// Why a call was refused. The lab writes each in the dialect's own words.
enum class ProviderError : std::uint8_t {
  none,
  rate_limit_tokens,    // 429.
  rate_limit_requests,  // 429.
  overloaded,           // 529.
  unavailable,          // 503.
  quota,                // 429 with the code of an exhausted quota, no hint.
};

[[nodiscard]] const char* to_string(ProviderError error);

// Present in every answer when the model sends rate headers.
struct RateState {
  Tokens tokens_limit = 0;  // Per minute, as providers state it.
  Tokens tokens_left = 0;
  Micros tokens_reset{0};  // Until full.
  std::int64_t requests_limit = 0;
  std::int64_t requests_left = 0;
  Micros requests_reset{0};
};

struct ProviderVerdict {
  enum class Kind : std::uint8_t {
    accept,
    refuse,            // `status` and `error`, after first_byte.
    refuse_in_stream,  // 200, headers, then the error as an event, no output.
    drop,              // Closed after first_byte without a byte.
  };
  Kind kind = Kind::accept;
  std::uint64_t id = 0;  // For finished(); 0 unless accepted.
  int status = 200;
  ProviderError error = ProviderError::none;
  std::optional<Micros> retry_after;
  std::optional<Micros> retry_after_ms;  // The same, when the hint is in milliseconds too.
  std::optional<RateState> rate;

  Tokens uncached = 0;  // What usage will say.
  Tokens cached = 0;
  Tokens output = 0;
  Micros first_byte{0};                    // From the request's arrival.
  Micros per_output_token{0};              // After it.
  std::optional<Tokens> cut_after_output;  // Accepted, but dropped after this much output.

  // The whole answer, from arrival to its last byte (or its cut).
  [[nodiscard]] Micros duration() const;
};

// What it admitted and refused: the account that a test holds the gate to.
struct ProviderBooks {
  std::int64_t calls = 0;
  std::int64_t accepted = 0;
  Tokens accepted_tokens = 0;  // As the limit counts them.
  Tokens accepted_prompt = 0;  // Unweighted.
  Tokens accepted_output = 0;
  Tokens cached_tokens = 0;
  std::int64_t refused_tokens_limit = 0;
  std::int64_t refused_requests_limit = 0;
  std::int64_t refused_stray = 0;
  std::int64_t refused_overloaded = 0;  // 529, by load or by mishap.
  std::int64_t refused_in_stream = 0;   // Of which inside a 200.
  std::int64_t refused_unavailable = 0;
  std::int64_t refused_quota = 0;
  std::int64_t dropped = 0;  // Before or in the answer.
  Tokens tenant_tokens = 0;  // Taken by the others.

  [[nodiscard]] std::int64_t refused() const;
};

class ModelProvider {
 public:
  ModelProvider(const ProviderModel& model, std::uint64_t seed, Instant start);

  // A call arrives. `now` never goes back.
  ProviderVerdict decide(const ProviderRequest& request, Instant now);

  // An accepted call ended (or was aborted) after `output` tokens; no-op for an unknown id.
  void finished(std::uint64_t id, Tokens output, Instant now);

  // The answer of an accepted call was cut, as cut_after_output says: for the books.
  void count_cut();

  // Multiplies both rates by `factor` (> 0) from now on, instead of the last factor given here.
  void scale(double factor, Instant now);

  [[nodiscard]] const ProviderBooks& books() const { return books_; }
  [[nodiscard]] const ProviderModel& model() const { return model_; }
  [[nodiscard]] double tokens_level(Instant now);
  [[nodiscard]] Tokens inflight() const { return inflight_; }
  [[nodiscard]] std::int64_t calls_open() const { return std::int64_t(open_.size()); }

  // What could have been accepted by now: burst + rate x time, what other tenants took subtracted.
  [[nodiscard]] double offered_tokens(Instant now);

  // accepted tokens / (burst + rate x time).
  [[nodiscard]] double limit_used(Instant now);

 private:
  struct Open {
    Tokens prompt = 0;
    Tokens reserved_output = 0;
  };

  void advance(Instant now);
  [[nodiscard]] Micros tenant_gap();
  [[nodiscard]] double token_rate() const;    // At at_, tokens/s.
  [[nodiscard]] double request_rate() const;  // At at_, requests/s.
  [[nodiscard]] Tokens cached_prefix(const std::vector<PromptBlock>& blocks, Tokens prompt,
                                     Instant now) const;
  void remember(const std::vector<PromptBlock>& blocks, Instant now);
  [[nodiscard]] RateState rate_state() const;
  [[nodiscard]] double weighted(Tokens uncached, Tokens cached, Tokens output) const;
  void hint(ProviderVerdict& verdict, double seconds) const;
  [[nodiscard]] ProviderVerdict refuse(ProviderError error);

  ProviderModel model_;
  Rng rng_;
  Rng tenants_rng_;
  Instant start_;
  Instant at_;           // The buckets' time.
  double tokens_;        // Level; negative while a debt is paid.
  double requests_;      // Level.
  double accepted_ = 0;  // As the limit counts: books_ has it in whole tokens.
  double refilled_ = 0;  // Rate x time so far, full or not.
  double manual_factor_ = 1;
  double rate_factor_ = 1;  // At at_.
  Instant next_tenant_;
  Tokens inflight_ = 0;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, Open> open_;
  std::unordered_map<std::uint64_t, Instant> cache_;  // Block hash -> until when.
  ProviderBooks books_;
};

}  // namespace hg::sim
