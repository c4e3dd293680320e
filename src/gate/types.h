// types.h: what is said to a gate and what it answers: the vocabulary of L1, shared by every store.
//
// Plain values, no behaviour. Durations, never instants, come in from callers: the time is the
// store's own. docs/protocol.md lists the same fields for shims in other languages, so names
// here are final.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace hg::gate {

// The limits of a pool. `Pool::validate` says which values are possible.
struct Limits {
  Tokens c_burst = 0;       // Capacity of the token bucket, tokens, >= 1.
  std::int64_t r_tok = 0;   // Its refill, whole tokens/s (= micro-tokens per microsecond), >= 1.
  Tokens k_inflight = 0;    // Tokens of calls at the provider at once, estimates unweighted, >= 1.
  std::int64_t c_req = 0;   // Capacity of the request bucket, whole requests, >= 1.
  MicroRequests r_qps = 0;  // Its refill, micro-requests/s, >= 1.
  // The output bucket, where a provider limits output apart: both or neither.
  std::optional<Tokens> c_out;        // Capacity, tokens, >= 1.
  std::optional<std::int64_t> r_out;  // Refill, whole tokens/s, >= 1.

  friend bool operator==(const Limits&, const Limits&) = default;
};

// What a token of each kind draws from the token bucket, in millionths of a token (1'000'000 = full
// weight).
struct Weights {
  std::int64_t cached_ppm = 1'000'000;
  std::int64_t output_ppm = 0;

  friend bool operator==(const Weights&, const Weights&) = default;
};

// Everything about a pool that is configured rather than lived.
struct PoolConfig {
  Limits limits;
  Weights weights;
  Limits seed;              // Measured (or told) starting values; the planner's floor and ceiling.
  std::string seed_source;  // "operator", "discovery", "profile": shown to people.
  WallTime seeded_at;       // When the seed was measured.
  std::int64_t kappa_micro = 4'890'000;  // Starting characters per token, millionths.
  // The provider counts refused calls against its limits: overload() refunds nothing.
  bool refused_calls_count = false;
  Micros priority_head_start_max{15'000'000};  // Bounds what a caller's priority may claim.

  friend bool operator==(const PoolConfig&, const PoolConfig&) = default;
};

enum class Axis : std::uint8_t { none, paused, tok, req, inflight, out };

// "tok", "req", ...: the word used in replies, logs, metrics and pages.
[[nodiscard]] const char* to_string(Axis axis);

// What a call asks for, in numbers.
struct Demand {
  Tokens estimate = 0;  // Prompt tokens expected, unweighted: what counts in flight, >= 0.
  Tokens charge = 0;    // What is drawn from the token bucket, >= 0.
  Tokens output = 0;    // Output expected: what is drawn from the out bucket, where there is one.
  // How long this caller can still wait; past it the waiter is dropped. Zero: it asks once and is
  // not queued.
  Micros hold_left{0};
  Micros head_start{0};  // The priority's head start, bounded by the configuration.
  Micros since{0};       // Seniority earned before, at most one hold cap (the gate cuts at 300 s).
  Micros lease_ttl{30'000'000};
  Weights weights;  // At which `charge` was computed; kept in the lease for the settlement.
};

// A base so that the numbers can be cut to their ranges without copying the names.
struct AcquireRequest : Demand {
  std::string id;     // shim-epoch.sequence.try, unique for ever.
  std::string shim;   // Who asks, renews and is woken.
  std::string alias;  // The (pool, harness) pair; windows are kept for it.
};

enum class Verdict : std::uint8_t { admitted, denied, ended, no_pool };

struct AcquireReply {
  Verdict verdict = Verdict::no_pool;
  Axis axis = Axis::none;      // Denied: the first check that failed.
  std::int64_t place = 0;      // Denied: 0 for the head, else how many waiters stand before.
  Micros predicted_wait{0};    // Denied: until admission, by the formula of the design.
  Micros pause_left{0};        // Denied as paused: until the next probe may pass.
  std::int64_t share_ppm = 0;  // The caller's shim's share of the admissions of the last 5 minutes.
  std::int64_t shims = 0;      // Shims that the pool saw in the last 11 minutes, this one too.
  std::uint64_t epoch = 0;     // Rises whenever the pool was away or rebuilt.

  friend bool operator==(const AcquireReply&, const AcquireReply&) = default;
};

// The answer to a heartbeat: what a shim's local schedule is kept warm with.
struct RenewReply {
  std::int64_t share_ppm = 0;
  std::int64_t shims = 0;
  std::uint64_t epoch = 0;

  friend bool operator==(const RenewReply&, const RenewReply&) = default;
};

// What a call really used, as its dialect reports it; all whole tokens, >= 0.
struct Usage {
  Tokens uncached = 0;  // Prompt tokens that were not read from the provider's cache.
  Tokens cached = 0;
  Tokens output = 0;

  friend bool operator==(const Usage&, const Usage&) = default;
};

enum class Settlement : std::uint8_t {
  usage,     // The provider's own numbers: the difference to the charge is refunded or debited.
  estimate,  // Nothing better is known: the charge stands.
  refund,    // The provider did not take the call: the whole charge comes back, and the request.
};

struct SettleRequest {
  std::string id;
  Settlement by = Settlement::estimate;
  Usage usage;  // Read when by == usage.
  // Prompt characters (UTF-8 bytes after unescaping) for kappa; 0: no observation.
  std::int64_t text_chars = 0;
  Tokens flat_tokens = 0;  // Part of the prompt priced flat (images, files), subtracted for kappa.
  // The answer broke off with the provider's refusal for load: settled, and counted as an overload.
  bool overloaded = false;
};

// A lease as its owner knows it: with its tokens, so that one which the store lost can be rebuilt.
struct LeaseRenewal {
  std::string id;
  std::string alias;
  Tokens estimate = 0;
  Tokens charge = 0;
  Tokens output = 0;
  Weights weights;
};

// Whom to tell, and when it can be admitted: said whenever the head or its moment changed.
struct Wake {
  std::string id;
  std::string shim;
  Instant at;  // On the store's clock, as `now` is given to the pool; the past means at once.

  friend bool operator==(const Wake&, const Wake&) = default;
};

// One 10-second window's counts, for a pool or an alias.
struct Window {
  std::int64_t index = 0;        // Of the 10 s on the store's clock.
  std::int64_t admitted = 0;     // Calls.
  std::int64_t waited_long = 0;  // Calls admitted after more than 2 s of waiting.
  Tokens held_tokens = 0;        // Charges of calls that were denied at first.
  std::int64_t timeouts = 0;     // Waiters whose hold ended.
  Tokens accepted = 0;           // True charges settled.
  std::int64_t overloads = 0;    // The provider's refusals for load.
  Tokens released_tokens = 0;  // In-flight tokens given back: what the wait prediction divides by.

  friend bool operator==(const Window&, const Window&) = default;
};

struct WaiterView {
  std::string id, shim, alias;
  Tokens estimate = 0;
  Tokens charge = 0;
  Micros waited{0};
  Micros predicted_wait{0};
};

struct LeaseView {
  std::string id, shim, alias;
  Tokens estimate = 0;
  Micros age{0};
  Micros left{0};
};

// The windows of one (pool, harness) pair.
struct AliasView {
  std::string alias;
  std::vector<Window> windows;  // Newest last; windows in which nothing happened are left out.
};

struct ShimView {
  std::string shim;
  Micros seen_ago{0};
  std::int64_t share_ppm = 0;
  bool vanished = false;  // It held leases or waiters and fell silent: its share is withheld.
};

// A pool at one moment, for people and pages.
struct PoolView {
  PoolConfig config;
  std::int64_t version = 0;
  std::uint64_t epoch = 0;
  MicroTokens tokens = 0;      // Level; negative while a debt is paid.
  MicroRequests requests = 0;  // Level.
  std::optional<MicroTokens> out;
  Tokens inflight = 0;
  std::int64_t kappa_micro = 0;
  Micros paused_for{0};
  std::vector<LeaseView> leases;
  std::vector<WaiterView> waiters;  // Head first.
  std::vector<Window> windows;      // Of the last 5 minutes as in AliasView.
  std::vector<AliasView> aliases;   // By name.
  std::vector<ShimView> shims;      // By name.
};

}  // namespace hg::gate
