// call.h: the life of one call as a state machine: estimate, hold, hold cap, overload retry,
// settlement.
//
// It says what to do next and is told how that went; who drives it (sockets in `proxy`, the virtual
// clock in `sim`) decides nothing. Every ending passes through one place that gives the admission
// back, so that no path leaks a lease or a waiter. An event that does not fit the state (a timer
// that fires late, a reply after the client left) is ignored. Pure: time and randomness come in as
// arguments. Thread-safety: none. Lifetime: one object a call; it holds no reference.
//
//   for (;;) {
//     const Step step = call.next(now);          // until step.what == Do::finish
//     ... do it, then tell:  on_reply / on_timer / on_answer / on_end / on_client_gone / on_done
//   }
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/rng.h"
#include "base/time.h"
#include "gate/types.h"
#include "wire/refusal.h"

namespace hg::call {

// What is known of a call before it asks; see estimate.h for how the numbers come about.
struct Demand {
  std::string id_prefix;  // shim-epoch.sequence; the try is appended.
  std::string shim;
  std::string alias;
  Tokens estimate = 0;  // Prompt tokens, unweighted.
  Tokens charge = 0;
  Tokens output = 0;            // Expected or declared, for the out bucket.
  std::int64_t text_chars = 0;  // For kappa; 0 teaches nothing.
  Tokens flat_tokens = 0;
  gate::Weights weights;
  bool refused_calls_count = false;  // The provider counts what it refuses: no refund then.
  Micros head_start{0};              // Priority.
  Micros since{0};                   // Seniority earned before our own 429.
};

// How long and how often: from harness profile, request headers and configuration (estimate.h).
struct Patience {
  // From the first byte at the shim until the call is sent for the last time, at most.
  Micros hold_cap{45'000'000};
  // The client's own limit for the answer's first byte, counted from the same moment, if known.
  std::optional<Micros> header_limit;
  Micros lease_ttl{30'000'000};
  int overload_tries = 6;  // Retries after the first try.
  // The n-th wait after an overload is min(step x n, wait_max), jittered by +-20 %, and never more
  // than a third of the hold cap. A provider's retry-after takes its place: see on_answer.
  Micros overload_step{30'000'000};
  Micros overload_wait_max{90'000'000};
  // A provider that cannot be reached was asked nothing: the call gives its admission back, waits
  // `outage_step`, doubled each time and jittered by +-20 %, and asks anew, until `outage_max` has
  // passed since it was first unreachable.
  Micros outage_step{500'000};
  Micros outage_max{20'000'000};
  Micros quota_pause{600'000'000};  // How long an exhausted quota pauses the pool.
};

enum class Do : std::uint8_t {
  ask,         // Ask the gate with `ask`; then on_reply.
  wait,        // Held: sleep until `until` or until woken by the store; then on_timer.
  back_off,    // After an overload, or amid an outage: sleep until `until`, outside the queue; then
               // on_timer.
  send,        // Admitted: send the request upstream; then on_answer or on_no_answer.
  relay,       // Pass the answer on (its head may go down now); then on_end.
  refuse,      // Answer the agent with an error of our own (`refusal`); then on_done.
  leave,       // Take the waiter `id` out of the queue (`timed_out` if the hold ended); on_done.
  give_back,   // Tell the gate that the provider refused the try `id` for load; then on_done.
  settle,      // Settle `settle`; then on_done. (When the client went: close upstream before.)
  pause_pool,  // An exhausted quota: pause the pool for `pause`; then on_done.
  finish,      // Nothing is left to do; `record` is final.
};

[[nodiscard]] const char* to_string(Do what);

// Why we answer the agent ourselves.
enum class OwnRefusal : std::uint8_t {
  hold_cap,  // 429, retry-after 30: the queue was longer than this harness can wait.
  overload,  // 429, retry-after 30: the provider refused for load until tries or hold ran out.
  upstream,  // 502: the provider could not be reached for long or at all, or closed twice without
             // a byte.
};

[[nodiscard]] const char* to_string(OwnRefusal why);

struct Step {
  Do what = Do::finish;
  gate::AcquireRequest ask;
  Instant until;
  std::string id;          // Of the try concerned.
  bool timed_out = false;  // leave: the hold ended, as opposed to the client having gone.
  gate::SettleRequest settle;
  Micros pause{0};
  OwnRefusal refusal = OwnRefusal::hold_cap;  // refuse: with record().last_axis and last_place.
};

// How the provider answered, before any byte went down. A stream's first event has been looked at
// (until peek_deadline), so that an overload inside a 200 is told here as an overload.
struct Answer {
  int status = 0;
  wire::Refusal refusal;  // kind none: a success.
  // What a refusal's own body said of usage, if anything.
  std::optional<gate::Usage> usage;
};

// How the exchange with the provider failed without an answer.
enum class NoAnswer : std::uint8_t {
  not_sent,       // Connect or write failed before the request was whole: nothing was asked of the
                  // provider.
  misconfigured,  // The same, and no waiting helps: no such host, a certificate that is refused.
  no_bytes,       // The request was sent, and the connection ended without a byte of an answer.
  silent,  // The request was sent, and no answer came in time, or none that can be read; also what
           // must not be sent twice.
};

// How a relayed answer ended.
struct End {
  enum class How : std::uint8_t {
    complete,        // Its terminal marker, or the whole body.
    upstream_broke,  // Cut, reset, or silent for too long.
    client_gone,     // The agent left; upstream was closed first.
    stream_error,    // An error event inside the stream, after bytes went down.
  };
  How how = How::complete;
  std::optional<gate::Usage> usage;  // The provider's numbers, as far as they were seen.
  // Of the output that flowed: for an answer that ended early, the count of which is of its
  // beginning, and for one whose usage lacks the output (never where it says zero).
  std::optional<Tokens> output_estimate;
  bool output_seen = false;                                    // Some generated content came.
  wire::RefusalKind stream_refusal = wire::RefusalKind::none;  // stream_error: what it meant.
};

// What is kept of a call for its one log line; final at Do::finish.
struct Record {
  enum class Outcome : std::uint8_t {
    ok,
    refused_by_us,
    refused_by_provider,
    upstream_failed,
    client_gone,
  };
  Outcome outcome = Outcome::ok;
  int tries = 0;                            // Times the request went upstream.
  int overloads = 0;                        // Refusals for load absorbed or given up on.
  int unreachable = 0;                      // Tries that never got to the provider.
  int unanswered = 0;                       // Tries that got there, and not a byte back.
  int asks = 0;                             // Questions to the gate.
  Micros waited{0};                         // Held in the queue, all tries together.
  Micros backed_off{0};                     // Slept after overloads and amid outages.
  gate::Axis last_axis = gate::Axis::none;  // What bound, at the last denial.
  std::int64_t last_place = 0;
  gate::Settlement settled_by = gate::Settlement::refund;
  std::optional<gate::Usage> usage;
  Tokens charge = 0;
  Micros seniority{0};  // What a return of this call may claim after our own 429.
};

[[nodiscard]] const char* to_string(Record::Outcome outcome);

class Call {
 public:
  // `now` is the moment of the request's first byte: the hold cap counts from there.
  Call(Demand demand, const Patience& patience, Rng rng, Instant now);

  // What to do next. Asking twice without telling anything gives the same step.
  [[nodiscard]] Step next(Instant now);

  void on_reply(const gate::AcquireReply& reply, Instant now);

  // The sleep of `wait` or `back_off` ended, by time or by being woken.
  void on_timer(Instant now);

  // A refusal for load is retried while tries and hold last; its retry-after shapes the wait and
  // nothing else: never earlier than it says (at least 1 s), doubled with each refusal that
  // follows, until the usual wait is reached. A wait that ends past the hold is not begun.
  // Everything else is passed on.
  void on_answer(const Answer& answer, Instant now);

  // A request that was not sent is tried again like one refused for load, for a while
  // (Patience::outage_max) and within the hold; not where no waiting helps. One whose connection
  // ended without a byte may have been worked on: it is repeated once, within the hold, as every
  // agent would at once, and is charged like any other try. One that stayed silent is not repeated.
  void on_no_answer(NoAnswer how, Instant now);
  void on_end(const End& end, Instant now);

  // In any state; safe to tell twice. While relaying, an End that says how far it got is better.
  void on_client_gone(Instant now);

  // refuse, leave, give_back, settle or pause_pool was carried out (or is beyond our power).
  void on_done(Instant now);

  // The lease held at present, for the shim's heartbeat; nothing when there is none.
  [[nodiscard]] std::optional<gate::LeaseRenewal> lease() const;

  [[nodiscard]] const Record& record() const { return record_; }
  [[nodiscard]] const Demand& demand() const { return demand_; }

  // Past it the call is not held any longer.
  [[nodiscard]] Instant hold_deadline() const { return started_ + patience_.hold_cap; }

  // Until when a stream's first event may be waited for, its head having come at `head_came`: 10 s,
  // and never past 20 s before the client's own header limit.
  [[nodiscard]] Instant peek_deadline(Instant head_came) const;

 private:
  enum class State : std::uint8_t {
    asking,       // No waiter and no lease, unless the ask is out (ask_out_).
    held,         // A waiter.
    leaving,      // The waiter has to go.
    sending,      // A lease.
    pausing,      // A lease; a quota was exhausted.
    relaying,     // A lease.
    settling,     // The lease has to go.
    giving_back,  // The lease has to go, as refused for load.
    backing_off,  // Neither.
    refusing,     // Neither.
    finished,     // Neither.
  };

  void begin_try();
  void hold_until(Instant until, Instant now);
  void end_wait(Instant now);
  void leave(bool timed_out);
  void settle(gate::Settlement by, std::optional<gate::Usage> usage);
  void settle_refused();
  void settle_as_far_as_seen(const End& end);
  void release_done();
  void refuse(OwnRefusal why, Instant now);
  [[nodiscard]] bool past_hold(Instant now) const { return now >= hold_deadline(); }
  [[nodiscard]] std::optional<Instant> outage_end(Instant now);
  [[nodiscard]] std::optional<Instant> repeat_at(Instant now);
  [[nodiscard]] Micros overload_wait(std::optional<Micros> retry_after);
  [[nodiscard]] Micros earned(Instant now) const;
  [[nodiscard]] gate::AcquireRequest ask(Instant now) const;

  Demand demand_;
  Patience patience_;
  Rng rng_;
  Instant started_;
  Record record_;

  State state_ = State::asking;
  int try_ = 0;
  std::string id_;        // Of the present try.
  bool ask_out_ = false;  // The step `ask` was handed out and not replied to.
  bool client_gone_ = false;
  std::optional<Instant> held_since_;    // While there is a waiter.
  Instant until_;                        // held, backing_off.
  Instant backing_since_;                // backing_off.
  std::optional<Instant> outage_since_;  // While the provider cannot be reached.
  Micros outage_wait_{0};                // The next wait amid the outage, before its jitter.
  bool leave_timed_out_ = false;         // leaving.
  bool refund_after_leave_ = false;      // leaving: the ask was out when the client went.
  gate::SettleRequest settle_;           // settling; also pausing, when the answer has ended.
  bool ended_ = false;                   // pausing: the answer has ended, settle_ is ready.
  bool refused_ = false;                 // relaying, pausing: the answer is a refusal.
  std::optional<gate::Usage> refusal_usage_;
  OwnRefusal own_refusal_ = OwnRefusal::hold_cap;  // refusing.
  // What follows once nothing is held any longer: one of these, or the end.
  std::optional<OwnRefusal> refuse_next_;
  std::optional<Instant> back_off_next_;
  OwnRefusal if_late_ = OwnRefusal::overload;  // backing_off: should the hold end meanwhile.
};

}  // namespace hg::call
