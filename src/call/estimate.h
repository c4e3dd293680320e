// estimate.h: what a call will draw, before it is sent, and how long its agent can wait.
//
// Turns what was read of the request (wire), what is known of the pool (kappa, weights, bucket) and
// the profiles into the numbers of Demand and Patience. Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "base/headers.h"
#include "base/time.h"
#include "call/call.h"
#include "gate/types.h"
#include "wire/dialect.h"
#include "wire/profiles.h"

namespace hg::call {

// What the estimate needs to know of a pool.
struct PoolFacts {
  std::int64_t kappa_micro = 4'890'000;  // Characters per token, millionths, learned.
  gate::Weights weights;
  Tokens c_burst = 0;  // 0: unknown, nothing is bounded by it.
  std::optional<Tokens> c_out;
};

// What experience adds to a request.
struct Outlook {
  // Prompt characters that the provider probably has in its cache, the hit rate taken into account.
  std::int64_t cached_chars = 0;
  // Output tokens of calls like this one; see OutputGuess.
  Tokens expected_output = 0;
};

struct Estimate {
  Tokens estimate = 0;  // Prompt tokens, unweighted: text / kappa + flat tokens, at least 1.
  Tokens cached = 0;    // Of them, expected from the cache.
  Tokens charge = 0;    // uncached + w_cached x cached + w_out x output.
  Tokens output = 0;    // Declared where the provider reserves it, else expected.
};

// `facts` as wire read them. A declared output counts in full where the profile reserves it; any
// other output is a guess, never above what was declared, and never makes a call larger than the
// bucket that would not be so by its prompt alone.
[[nodiscard]] Estimate estimate_call(const wire::RequestFacts& facts, const PoolFacts& pool,
                                     const wire::ProviderProfile& provider, const Outlook& outlook);

// Writes an estimate and what belongs to it into `demand`: estimate, charge, output, text_chars,
// flat_tokens, weights, refused_calls_count. text_chars, from which kappa is learned, is 0 for a
// call that says nothing of it: text that was guessed, or mostly flat-priced parts, whose price is
// a guess itself.
void fill_demand(Demand& demand, const Estimate& estimate, const wire::RequestFacts& facts,
                 const PoolFacts& pool, const wire::ProviderProfile& provider);

// The output of a (pool, harness) pair so far: an exponentially weighted mean, alpha = 0.05.
class OutputGuess {
 public:
  void observe(Tokens output);
  [[nodiscard]] Tokens expected() const;

 private:
  // The mean of 32,765 calls of published Claude Code sessions is near 450 (median 218).
  double mean_ = 450;
};

// How long answers take from sending to their head, streams and whole answers apart: the head of
// a whole one comes when all of it was generated. As with retransmission timers (RFC 6298), a
// smoothed mean and the mean deviation; two of these are added, for the slow ones must end in time
// too, and not four, for room that is left is time in which nobody is held.
class AnswerTime {
 public:
  void observe(bool stream, Micros took);
  // For patience_for.
  [[nodiscard]] Micros expected(bool stream) const;

 private:
  struct Kind {
    Micros mean{0};
    Micros deviation{0};
    bool seen = false;
  };
  Kind streams_;
  Kind whole_;
};

// The configuration's part in a call's patience.
struct PatienceLimits {
  // Several HTTP stacks give up at 300 s whatever their configured timeout says (Node's fetch).
  Micros hold_max{240'000'000};
  Micros lease_ttl{30'000'000};
  Micros quota_pause{600'000'000};
};

// How long this request may be held. The limit that the request announces wins over the profile's
// hold cap; of it and the profile's header limit the smaller counts (300 s where the profile knows
// none: several stacks give up then whatever is announced). A limit for headers or for the whole
// exchange leaves room for `expected_answer`, the time from sending to the answer's first byte (its
// last, for an answer that is not streamed), and a margin. The profile's hold cap bounds the rest,
// unless a limit was announced; the configuration bounds all.
[[nodiscard]] Patience patience_for(const wire::HarnessProfile& harness, const Headers& request,
                                    Micros expected_answer, const PatienceLimits& limits);

}  // namespace hg::call
