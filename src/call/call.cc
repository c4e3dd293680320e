#include "call/call.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"

namespace hg::call {
namespace {

using gate::Settlement;
using wire::RefusalKind;

// A gate that knows neither pool nor id is asked again after this.
constexpr Micros kAskAgain = 1s;
// The least that a retry-after is taken for: zero and dates in the past would be tight loops.
constexpr Micros kRetryAfterMin = 1s;
constexpr Micros kPeekMax = 10s;
// What is left of the client's header limit when peeking has to end.
constexpr Micros kPeekMargin = 20s;

// Whether usage of an answer that ended early is a report: a prompt of nothing, said at the start,
// is a count that was to come later.
bool says_something(const std::optional<gate::Usage>& usage) {
  return usage && usage->uncached + usage->cached > 0;
}

Micros scaled(Micros duration, double factor) {
  return Micros(std::llround(static_cast<double>(duration.count()) * factor));
}

}  // namespace

const char* to_string(Do what) {
  switch (what) {
    case Do::ask: return "ask";
    case Do::wait: return "wait";
    case Do::back_off: return "back_off";
    case Do::send: return "send";
    case Do::relay: return "relay";
    case Do::refuse: return "refuse";
    case Do::leave: return "leave";
    case Do::give_back: return "give_back";
    case Do::settle: return "settle";
    case Do::pause_pool: return "pause_pool";
    case Do::finish: return "finish";
  }
  return "?";
}

const char* to_string(OwnRefusal why) {
  switch (why) {
    case OwnRefusal::hold_cap: return "hold-cap";
    case OwnRefusal::overload: return "overload";
    case OwnRefusal::upstream: return "upstream";
  }
  return "?";
}

const char* to_string(Record::Outcome outcome) {
  switch (outcome) {
    case Record::Outcome::ok: return "ok";
    case Record::Outcome::refused_by_us: return "refused_by_us";
    case Record::Outcome::refused_by_provider: return "refused_by_provider";
    case Record::Outcome::upstream_failed: return "upstream_failed";
    case Record::Outcome::client_gone: return "client_gone";
  }
  return "?";
}

Call::Call(Demand demand, const Patience& patience, Rng rng, Instant now)
    : demand_(std::move(demand)), patience_(patience), rng_(rng), started_(now) {
  HG_ASSERT(!demand_.id_prefix.empty());
  record_.charge = demand_.charge;
  begin_try();
}

Step Call::next(Instant now) {
  Step step;
  step.id = id_;
  switch (state_) {
    case State::asking:
      step.what = Do::ask;
      step.ask = ask(now);
      ask_out_ = true;
      break;
    case State::held:
      step.what = Do::wait;
      step.until = until_;
      break;
    case State::leaving:
      step.what = Do::leave;
      step.timed_out = leave_timed_out_;
      break;
    case State::sending: step.what = Do::send; break;
    case State::pausing:
      step.what = Do::pause_pool;
      step.pause = patience_.quota_pause;
      break;
    case State::relaying: step.what = Do::relay; break;
    case State::settling:
      step.what = Do::settle;
      step.settle = settle_;
      break;
    case State::giving_back: step.what = Do::give_back; break;
    case State::backing_off:
      step.what = Do::back_off;
      step.until = until_;
      break;
    case State::refusing:
      step.what = Do::refuse;
      step.refusal = own_refusal_;
      break;
    case State::finished: step.what = Do::finish; break;
  }
  return step;
}

void Call::on_reply(const gate::AcquireReply& reply, Instant now) {
  if (state_ != State::asking || !ask_out_) return;
  ask_out_ = false;
  ++record_.asks;
  switch (reply.verdict) {
    case gate::Verdict::admitted:
      end_wait(now);
      ++record_.tries;
      state_ = State::sending;
      return;
    case gate::Verdict::denied: {
      record_.last_axis = reply.axis;
      record_.last_place = reply.place;
      // Woken when its turn comes; this is for a wake that was lost.
      const Micros predicted = reply.axis == gate::Axis::paused ? reply.pause_left
                                                                : reply.predicted_wait;
      const Micros backstop = scaled(predicted, 1.25) + Micros{1s};
      hold_until(now + scaled(backstop, rng_.uniform(1.0, 1.2)), now);
      return;
    }
    case gate::Verdict::ended:
      // The waiter ran out in the store, or the store was restored: a new try takes its place.
      begin_try();
      hold_until(now + kAskAgain, now);
      return;
    case gate::Verdict::no_pool: hold_until(now + kAskAgain, now); return;
  }
}

void Call::on_timer(Instant now) {
  if (state_ == State::held) {
    if (past_hold(now)) {
      end_wait(now);
      refuse_next_ = OwnRefusal::hold_cap;
      leave(true);
    } else {
      state_ = State::asking;
    }
  } else if (state_ == State::backing_off) {
    record_.backed_off += now - backing_since_;
    if (past_hold(now)) {
      refuse_next_ = if_late_;
      if (if_late_ == OwnRefusal::upstream) record_.outcome = Record::Outcome::upstream_failed;
      release_done();
      if (if_late_ == OwnRefusal::overload) record_.seniority = earned(now);
    } else {
      begin_try();
      state_ = State::asking;
    }
  }
}

void Call::on_answer(const Answer& answer, Instant now) {
  if (state_ != State::sending) return;
  outage_since_.reset();
  if (answer.refusal.kind == RefusalKind::overload) {
    ++record_.overloads;
    const Instant until = now + overload_wait(answer.refusal.retry_after);
    if (record_.overloads > patience_.overload_tries || until >= hold_deadline()) {
      refuse_next_ = OwnRefusal::overload;
      record_.seniority = earned(now);
    } else {
      back_off_next_ = until;
      if_late_ = OwnRefusal::overload;
      backing_since_ = now;
    }
    state_ = State::giving_back;
    return;
  }
  refused_ = answer.refusal.kind != RefusalKind::none;
  refusal_usage_ = answer.usage;
  if (refused_) {
    record_.outcome = answer.refusal.kind == RefusalKind::server
                          ? Record::Outcome::upstream_failed
                          : Record::Outcome::refused_by_provider;
  }
  state_ = answer.refusal.kind == RefusalKind::quota ? State::pausing : State::relaying;
}

void Call::on_no_answer(NoAnswer how, Instant now) {
  if (state_ != State::sending) return;
  settle(Settlement::refund, std::nullopt);
  switch (how) {
    case NoAnswer::not_sent:
      ++record_.unreachable;
      back_off_next_ = outage_end(now);
      break;
    case NoAnswer::misconfigured: ++record_.unreachable; break;
    case NoAnswer::no_bytes:
      ++record_.unanswered;
      outage_since_.reset();
      back_off_next_ = repeat_at(now);
      break;
    case NoAnswer::silent: ++record_.unanswered; break;
  }
  if (back_off_next_) {
    if_late_ = OwnRefusal::upstream;
    backing_since_ = now;
    return;
  }
  record_.outcome = Record::Outcome::upstream_failed;
  refuse_next_ = OwnRefusal::upstream;
}

void Call::on_end(const End& end, Instant /*now*/) {
  if (state_ != State::relaying) return;
  if (end.how == End::How::client_gone) {
    client_gone_ = true;
    record_.outcome = Record::Outcome::client_gone;
  } else if (end.how == End::How::upstream_broke) {
    record_.outcome = Record::Outcome::upstream_failed;
  }
  if (refused_) {
    settle_refused();
    return;
  }
  settle_as_far_as_seen(end);
  if (end.how != End::How::stream_error) return;

  const bool by_provider = end.stream_refusal != RefusalKind::none &&
                           end.stream_refusal != RefusalKind::server;
  record_.outcome = by_provider ? Record::Outcome::refused_by_provider
                                : Record::Outcome::upstream_failed;
  const bool nothing_used = !says_something(end.usage) && !end.output_seen;
  if (end.stream_refusal == RefusalKind::overload) {
    ++record_.overloads;
    settle_.overloaded = true;
    // Nothing was generated and nothing billed: the same as a refusal by status.
    if (nothing_used) {
      record_.settled_by = Settlement::refund;
      state_ = State::giving_back;
    }
  } else if (nothing_used) {
    settle_refused();
  }
  if (end.stream_refusal == RefusalKind::quota) {
    ended_ = true;
    state_ = State::pausing;
  }
}

void Call::on_client_gone(Instant now) {
  if (client_gone_ || state_ == State::finished) return;
  // Once the answer has ended, only our own books are open: the agent's going changes nothing.
  if (state_ == State::settling && !refuse_next_ && !back_off_next_) return;
  if (state_ == State::pausing && ended_) return;
  if (state_ == State::giving_back && !refuse_next_ && !back_off_next_) return;
  client_gone_ = true;
  record_.outcome = Record::Outcome::client_gone;
  record_.seniority = Micros{0};
  refuse_next_.reset();
  back_off_next_.reset();
  switch (state_) {
    case State::asking:
      if (ask_out_) {
        // Whatever the gate answers: neither a waiter nor a lease may stay.
        refund_after_leave_ = true;
        end_wait(now);
        leave(false);
      } else if (held_since_) {
        end_wait(now);
        leave(false);
      } else {
        state_ = State::finished;
      }
      return;
    case State::held:
      end_wait(now);
      leave(false);
      return;
    case State::sending: settle(Settlement::estimate, std::nullopt); return;
    case State::relaying: {
      End end;
      end.how = End::How::client_gone;
      if (refused_) {
        settle_refused();
      } else {
        settle_as_far_as_seen(end);
      }
      return;
    }
    case State::backing_off:
      record_.backed_off += now - backing_since_;
      state_ = State::finished;
      return;
    case State::refusing: state_ = State::finished; return;
    case State::leaving:
    case State::pausing:
    case State::settling:
    case State::giving_back:
    case State::finished: return;  // What is under way is carried out, and nothing follows.
  }
}

void Call::on_done(Instant now) {
  switch (state_) {
    case State::leaving:
      if (refund_after_leave_) {
        settle(Settlement::refund, std::nullopt);
      } else {
        if (refuse_next_) record_.seniority = earned(now);
        release_done();
      }
      return;
    case State::pausing:
      if (ended_) {
        state_ = State::settling;
      } else if (client_gone_) {
        settle_refused();
      } else {
        state_ = State::relaying;
      }
      return;
    case State::settling:
    case State::giving_back: release_done(); return;
    case State::refusing: state_ = State::finished; return;
    case State::asking:
    case State::held:
    case State::sending:
    case State::relaying:
    case State::backing_off:
    case State::finished: return;
  }
}

std::optional<gate::LeaseRenewal> Call::lease() const {
  switch (state_) {
    case State::sending:
    case State::pausing:
    case State::relaying:
    case State::settling:
    case State::giving_back: break;
    default: return std::nullopt;
  }
  gate::LeaseRenewal renewal;
  renewal.id = id_;
  renewal.alias = demand_.alias;
  renewal.estimate = demand_.estimate;
  renewal.charge = demand_.charge;
  renewal.output = demand_.output;
  renewal.weights = demand_.weights;
  return renewal;
}

Instant Call::peek_deadline(Instant head_came) const {
  Instant deadline = head_came + kPeekMax;
  if (patience_.header_limit) {
    deadline = std::min(deadline, started_ + *patience_.header_limit - kPeekMargin);
  }
  return std::max(deadline, head_came);
}

void Call::begin_try() {
  ++try_;
  id_ = demand_.id_prefix + "." + std::to_string(try_);
}

void Call::hold_until(Instant until, Instant now) {
  if (!held_since_) held_since_ = now;
  until_ = std::min(until, hold_deadline());
  state_ = State::held;
}

void Call::end_wait(Instant now) {
  if (!held_since_) return;
  record_.waited += now - *held_since_;
  held_since_.reset();
}

void Call::leave(bool timed_out) {
  leave_timed_out_ = timed_out;
  state_ = State::leaving;
}

void Call::settle(Settlement by, std::optional<gate::Usage> usage) {
  settle_ = gate::SettleRequest();
  settle_.id = id_;
  settle_.by = by;
  if (by == Settlement::usage) {
    HG_ASSERT(usage);
    settle_.usage = *usage;
    settle_.text_chars = demand_.text_chars;
    settle_.flat_tokens = demand_.flat_tokens;
  }
  record_.settled_by = by;
  record_.usage = usage;
  state_ = State::settling;
}

void Call::settle_refused() {
  if (refusal_usage_) {
    settle(Settlement::usage, refusal_usage_);
  } else if (demand_.refused_calls_count) {
    settle(Settlement::estimate, std::nullopt);
  } else {
    settle(Settlement::refund, std::nullopt);
  }
}

void Call::settle_as_far_as_seen(const End& end) {
  const bool early = end.how != End::How::complete;
  if (!end.usage || (early && !says_something(end.usage))) {
    settle(Settlement::estimate, std::nullopt);
    return;
  }
  gate::Usage usage = *end.usage;
  const Tokens flowed = end.output_estimate.value_or(0);
  // Of an answer that ended early the count is of its beginning; what flowed may be more.
  if (early || usage.output == 0) usage.output = std::max(usage.output, flowed);
  settle(Settlement::usage, usage);
}

void Call::release_done() {
  if (refuse_next_) {
    own_refusal_ = *refuse_next_;
    refuse_next_.reset();
    if (own_refusal_ != OwnRefusal::upstream) {
      record_.outcome = Record::Outcome::refused_by_us;
    }
    state_ = State::refusing;
  } else if (back_off_next_) {
    until_ = *back_off_next_;
    back_off_next_.reset();
    state_ = State::backing_off;
  } else {
    state_ = State::finished;
  }
}

// Until when to wait for a provider that could not be reached just now; nothing when it is enough.
std::optional<Instant> Call::outage_end(Instant now) {
  if (!outage_since_) {
    outage_since_ = now;
    outage_wait_ = std::max(patience_.outage_step, Micros(1ms));  // Never a tight loop.
  }
  const Instant until = now + scaled(outage_wait_, rng_.uniform(0.8, 1.2));
  outage_wait_ *= 2;
  if (until >= *outage_since_ + patience_.outage_max || until >= hold_deadline()) {
    return std::nullopt;
  }
  return until;
}

// When to repeat a request that the provider may have taken; nothing the second time.
std::optional<Instant> Call::repeat_at(Instant now) {
  if (record_.unanswered > 1) return std::nullopt;
  const Instant until = now + scaled(patience_.outage_step, rng_.uniform(0.8, 1.2));
  if (until >= hold_deadline()) return std::nullopt;
  return until;
}

Micros Call::overload_wait(std::optional<Micros> retry_after) {
  const std::int64_t nth = record_.overloads;
  const Micros third = patience_.hold_cap / 3;
  const Micros usual = std::min(
      {patience_.overload_step * nth, patience_.overload_wait_max, third});
  if (!retry_after) {
    const Micros longest = std::min(scaled(usual, 1.2), third);
    return Micros(rng_.integer(scaled(usual, 0.8).count(), longest.count()));
  }
  const Micros said = std::max(*retry_after, kRetryAfterMin);
  Micros wait = said;
  for (std::int64_t i = 1; i < nth && wait < usual; ++i) wait *= 2;
  wait = std::min(wait, std::max(said, usual));
  return scaled(wait, rng_.uniform(1.0, 1.2));
}

Micros Call::earned(Instant now) const {
  return std::min(demand_.since + (now - started_), patience_.hold_cap);
}

gate::AcquireRequest Call::ask(Instant now) const {
  gate::AcquireRequest request;
  request.id = id_;
  request.shim = demand_.shim;
  request.alias = demand_.alias;
  request.estimate = demand_.estimate;
  request.charge = demand_.charge;
  request.output = demand_.output;
  request.hold_left = std::max(hold_deadline() - now, Micros{0});
  request.head_start = demand_.head_start;
  request.since = earned(now);
  request.lease_ttl = patience_.lease_ttl;
  request.weights = demand_.weights;
  return request;
}

}  // namespace hg::call
