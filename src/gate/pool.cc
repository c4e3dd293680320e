#include "gate/pool.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/assert.h"
#include "gate/bucket.h"
#include "gate/calls.h"
#include "gate/kappa.h"
#include "gate/leases.h"
#include "gate/limits.h"
#include "gate/queue.h"
#include "gate/shims.h"
#include "gate/string_map.h"
#include "gate/timeline.h"
#include "gate/windows.h"

namespace hg::gate {
namespace {

constexpr int kSweepMax = 100;                  // Of each kind a step, so that no step is long.
constexpr Micros kLapseAfter{2'000'000};        // A head that could go and does not ask.
constexpr Micros kHeadStartOfSize{15'000'000};  // What a large call's refill time may claim.
constexpr Micros kWaitedLong{2'000'000};        // Counted in the windows.
constexpr Micros kProbeEvery{60'000'000};       // While the pool is paused.
constexpr Micros kInflightWaitMax{5'000'000};   // Predictions; releases are not foreseeable.
constexpr Micros kTickWhileBusy{5'000'000};     // Well below kAwayAfter.
constexpr std::size_t kAliasesMax = 1000;       // Made-up names must not fill the memory.

MicroTokens micro(Tokens tokens) { return tokens * kMicro; }

// Of the pool's rate, what is left for the shims that are there.
std::int64_t less_withheld(std::int64_t rate, std::int64_t withheld_ppm) {
  return std::max<std::int64_t>(rate * (kMicro - withheld_ppm) / kMicro, 1);
}

}  // namespace

struct Pool::State {
  State(const PoolConfig& new_config, Birth birth, Instant now, std::int64_t new_version);

  // Every operation begins with `enter` and ends with `refresh_turn`.
  Instant enter(Instant store_now);
  void refresh_turn(Instant now);

  Shims::Shim& seen(std::string_view shim, Instant now);
  void set_alive(std::string_view shim, bool alive);
  void follow_withheld(Instant now);
  void apply_limits(Instant now);
  void adopt(const PoolConfig& new_config, std::int64_t new_version, Instant now);

  // The decision.
  [[nodiscard]] Call asked_first(const AcquireRequest& request, const Demand& demand,
                                 Instant now) const;
  [[nodiscard]] Axis first_failing(const Call& asker, const Call* head, Instant now) const;
  void draw_for(const Call& asker, Instant now);
  [[nodiscard]] Micros predicted_wait(const Call& asker, std::int64_t place, Instant now) const;
  [[nodiscard]] Micros pause_left(const Call* head_of, Instant now) const;
  [[nodiscard]] std::optional<Instant> turn_of(const Call& head, Instant now) const;

  [[nodiscard]] Call* find(std::string_view id, Call::Stage stage);
  void begin_lease(Call& call, Micros ttl, Instant now);
  void end(Call& lease, Instant now);
  void give_back_charge(const Call& lease, Instant now);
  void drop_waiter(Call& waiter, Leaving why, Instant now);
  [[nodiscard]] std::array<Window*, 2> windows_of(Call& call, Instant now);

  PoolConfig config;
  std::int64_t version;
  std::uint64_t epoch = 1;
  Timeline time;
  Bucket tokens;
  Bucket requests;
  std::optional<Bucket> output;
  std::int64_t withheld_ppm = 0;  // As applied to the buckets' rates.
  Calls calls;                    // Each is either in `queue` or in `leases`.
  Queue queue;
  Leases leases;
  EndedIds ended;
  Shims shims;
  std::int64_t kappa_micro;
  Instant paused_until;
  Instant probe_at;  // While paused: the next call may pass then.
  WindowRing windows;
  StringMap<WindowRing> aliases;

  // The head as of the last operation, and the moment from which on it is (or was) admissible:
  // nothing while it waits for in-flight tokens, whose moment nobody knows.
  std::string turn_id;
  std::optional<Instant> turn_at;
  std::optional<Wake> told;  // The last wake taken.
};

Pool::State::State(const PoolConfig& new_config, Birth birth, Instant now, std::int64_t new_version)
    : config(new_config),
      version(new_version),
      time(now),
      tokens(token_limits(config.limits.c_burst, config.limits.r_tok), 0, now),
      requests(request_limits(config.limits.c_req, config.limits.r_qps), 0, now),
      kappa_micro(config.kappa_micro),
      paused_until(now),
      probe_at(now) {
  if (config.limits.c_out) {
    output.emplace(token_limits(*config.limits.c_out, *config.limits.r_out), 0, now);
  }
  if (birth == Birth::restored_empty) return;
  tokens.draw(-tokens.limits().capacity, now);
  requests.draw(-requests.limits().capacity, now);
  if (output) output->draw(-output->limits().capacity, now);
}

// --- Time, and what happens by itself ----------------------------------------------------------

Instant Pool::State::enter(Instant store_now) {
  const bool busy = !calls.empty();
  const auto [now, gap] = time.enter(store_now, busy ? Timeline::Busy::yes : Timeline::Busy::no);
  if (gap == Timeline::Gap::away) ++epoch;

  tokens.refill(now);
  requests.refill(now);
  if (output) output->refill(now);

  // A head that could go for 2 s and did not ask loses its reservation, not its place.
  Call* head = queue.head();
  if (head != nullptr && head->id == turn_id && turn_at && *turn_at + kLapseAfter <= now) {
    queue.set_reserves(*head, false);
  }
  for (int i = 0; i < kSweepMax; ++i) {
    Call* lease = leases.expired(now);
    if (lease == nullptr) break;
    for (Window* window : windows_of(*lease, now)) window->released_tokens += lease->estimate;
    leases.remove(*lease);
    calls.remove(*lease);
  }
  for (int i = 0; i < kSweepMax; ++i) {
    Call* waiter = queue.expired(now);
    if (waiter == nullptr) break;
    drop_waiter(*waiter, Leaving::timed_out, now);
  }
  for (int i = 0; i < kSweepMax; ++i) {
    Shims::Shim* silent = shims.silent(now);
    if (silent == nullptr) break;
    const bool had_calls = calls.owner(silent->name) != nullptr;
    shims.bury(*silent, had_calls ? Shims::Had::calls : Shims::Had::nothing, now);
    set_alive(silent->name, false);
  }
  ended.sweep(now, kSweepMax);
  shims.sweep(now, kSweepMax);
  follow_withheld(now);
  return now;
}

// An owner is alive exactly as long as its shim, so only a change needs to be told.
Shims::Shim& Pool::State::seen(std::string_view shim, Instant now) {
  const Shims::Touched touched = shims.touch(shim, now);
  if (touched.came) set_alive(shim, true);
  follow_withheld(now);
  return touched.shim;
}

void Pool::State::set_alive(std::string_view shim, bool alive) {
  if (Owner* owner = calls.owner(shim); owner != nullptr) queue.set_alive(*owner, alive);
}

void Pool::State::follow_withheld(Instant now) {
  if (withheld_ppm != shims.withheld_ppm()) apply_limits(now);
}

// The configured limits, less what is withheld for shims that vanished.
void Pool::State::apply_limits(Instant now) {
  withheld_ppm = shims.withheld_ppm();
  const Limits& limits = config.limits;
  const BucketLimits token = token_limits(limits.c_burst,
                                          less_withheld(limits.r_tok, withheld_ppm));
  if (!(tokens.limits() == token)) tokens.configure(token, now);
  const BucketLimits request = request_limits(limits.c_req,
                                              less_withheld(limits.r_qps, withheld_ppm));
  if (!(requests.limits() == request)) requests.configure(request, now);
  if (!limits.c_out) {
    output.reset();
    return;
  }
  const BucketLimits out = token_limits(*limits.c_out, less_withheld(*limits.r_out, withheld_ppm));
  if (!output) output.emplace(out, out.capacity, now);  // Switched on: full, as a new pool is.
  if (!(output->limits() == out)) output->configure(out, now);
}

void Pool::State::drop_waiter(Call& waiter, Leaving why, Instant now) {
  if (why == Leaving::timed_out) {
    for (Window* window : windows_of(waiter, now)) window->timeouts += 1;
  }
  queue.remove(waiter);
  calls.remove(waiter);
}

std::array<Window*, 2> Pool::State::windows_of(Call& call, Instant now) {
  if (call.windows == nullptr) {
    auto found = aliases.find(call.alias);
    if (found == aliases.end()) {
      found = aliases.try_emplace(aliases.size() < kAliasesMax ? call.alias : "other").first;
    }
    call.windows = &found->second;
  }
  return {&windows.at(now), &call.windows->at(now)};
}

Call* Pool::State::find(std::string_view id, Call::Stage stage) {
  Call* call = calls.find(id);
  return call != nullptr && call->stage == stage ? call : nullptr;
}

// --- The decision --------------------------------------------------------------------------------

AcquireReply Pool::acquire(const AcquireRequest& request, Instant store_now) {
  State& s = *state_;
  const Demand demand = in_range(static_cast<const Demand&>(request), s.config);

  // 1. Refill to now, drop what is past its deadline.
  const Instant now = s.enter(store_now);
  Shims::Shim& shim = s.seen(request.shim, now);
  if (s.told && s.told->id == request.id) s.told.reset();  // It is awake: tell it anew.
  AcquireReply reply;
  reply.epoch = s.epoch;
  reply.shims = s.shims.count();
  reply.share_ppm = s.shims.share_ppm(shim, now);

  // 2. An id with a lease is admitted already, an ended one has ended; nothing is drawn.
  Call* known = s.calls.find(request.id);
  const bool was_waiting = known != nullptr && known->stage == Call::Stage::waiting;
  if (!was_waiting && (known != nullptr || s.ended.contains(request.id, now))) {
    reply.verdict = known != nullptr ? Verdict::admitted : Verdict::ended;
    s.refresh_turn(now);
    return reply;
  }

  // 3. Where it stands: a waiter keeps what its first ask said; a new one gets its score.
  Call first;
  if (was_waiting) {
    s.queue.set_reserves(*known, true);
    s.queue.set_deadline(*known, now + demand.hold_left);
  } else {
    first = s.asked_first(request, demand, now);
  }
  const Call& asker = was_waiting ? *known : first;
  const Call* head = s.queue.head();
  if (head != nullptr && !ByRank()(*head, asker)) head = nullptr;  // The asker is the head.

  // 4. The checks, in order; the first that fails names the denial.
  reply.axis = s.first_failing(asker, head, now);

  // 5. Admitted: draw, lease, leave the queue.
  if (reply.axis == Axis::none) {
    reply.verdict = Verdict::admitted;
    const bool waited_long = was_waiting && now - known->since > kWaitedLong;
    if (was_waiting) {
      s.queue.remove(*known);
    } else {
      known = &s.calls.add(first, request.id, request.shim, request.alias);
    }
    s.draw_for(*known, now);
    s.begin_lease(*known, demand.lease_ttl, now);
    s.shims.admitted(known->owner->name, now);
    for (Window* window : s.windows_of(*known, now)) {
      window->admitted += 1;
      window->waited_long += waited_long ? 1 : 0;
    }
    reply.share_ppm = s.shims.share_ppm(shim, now);
    s.refresh_turn(now);
    return reply;
  }

  // 6. Denied: register once, say why, where and how long.
  reply.verdict = Verdict::denied;
  if (!was_waiting && demand.hold_left > Micros{0}) {
    known = &s.calls.add(first, request.id, request.shim, request.alias);
    s.queue.add(*known);
    for (Window* window : s.windows_of(*known, now)) window->held_tokens += known->charge;
    head = s.queue.head();
    if (head == known) head = nullptr;
  }
  reply.place = head == nullptr ? 0 : std::max<std::int64_t>(s.queue.before(asker), 1);
  reply.predicted_wait = s.predicted_wait(asker, reply.place, now);
  if (reply.axis == Axis::paused) {
    reply.pause_left = s.pause_left(head, now);
    reply.predicted_wait = std::max(reply.predicted_wait, reply.pause_left);
  }
  s.refresh_turn(now);
  return reply;
}

// Known nowhere yet: its id is the request's, and it has no owner.
Call Pool::State::asked_first(const AcquireRequest& request, const Demand& demand,
                              Instant now) const {
  Call call;
  call.id = request.id;
  call.estimate = demand.estimate;
  call.charge = demand.charge;
  call.output = demand.output;
  call.weights = demand.weights;
  call.since = now;
  call.deadline = now + demand.hold_left;
  const Tokens clamped = std::min(demand.charge, config.limits.c_burst);
  const Micros refill_time{micro(clamped) / config.limits.r_tok};
  const Instant first_denied_at = now - demand.since;
  call.score = first_denied_at.since_zero - std::min(refill_time, kHeadStartOfSize) -
               demand.head_start;
  return call;
}

// `head`: whom tokens are kept for, when it is not the asker itself. The clamps are for the head
// alone: a call larger than the bucket goes against a full one, and nobody passes a blocked head.
Axis Pool::State::first_failing(const Call& asker, const Call* head, Instant now) const {
  const Limits& limits = config.limits;
  if (paused_until > now && (head != nullptr || probe_at > now)) return Axis::paused;

  const Tokens tokens_needed = head == nullptr
                                   ? std::min(asker.charge, limits.c_burst)
                                   : asker.charge + std::min(head->charge, limits.c_burst);
  if (tokens.level(now) < micro(tokens_needed)) return Axis::tok;

  const std::int64_t requests_needed = head == nullptr ? 1 : 2;
  if (requests.level(now) < requests_needed * kMicro) return Axis::req;

  const Tokens inflight_needed = head == nullptr
                                     ? std::min(asker.estimate, limits.k_inflight)
                                     : asker.estimate + std::min(head->estimate, limits.k_inflight);
  if (leases.sum() + inflight_needed > limits.k_inflight) return Axis::inflight;

  if (output) {
    const Tokens output_needed = head == nullptr
                                     ? std::min(asker.output, *limits.c_out)
                                     : asker.output + std::min(head->output, *limits.c_out);
    if (output->level(now) < micro(output_needed)) return Axis::out;
  }
  return Axis::none;
}

void Pool::State::draw_for(const Call& asker, Instant now) {
  tokens.draw(micro(asker.charge), now);
  requests.draw(kMicro, now);
  if (output) output->draw(micro(asker.output), now);
  if (paused_until > now) probe_at = now + kProbeEvery;
}

void Pool::State::begin_lease(Call& call, Micros ttl, Instant now) {
  call.stage = Call::Stage::at_provider;
  call.since = now;
  call.ttl = ttl;
  call.deadline = now + ttl;
  leases.add(call);
}

// What stands before the asker is as many average waiters as its place says; the sums hold the
// asker too, once it is registered. The longest of the axes counts.
Micros Pool::State::predicted_wait(const Call& asker, std::int64_t place, Instant now) const {
  const Limits& limits = config.limits;
  const Queue::Sums& sums = queue.sums();
  const auto ahead = [&](Tokens sum) {
    return sums.count == 0 ? 0 : std::min(sum / sums.count * place, kTokensMax);
  };

  const Tokens tokens_needed = ahead(sums.charge) + std::min(asker.charge, limits.c_burst);
  Micros wait = tokens.wait_for(micro(tokens_needed), now);

  const std::int64_t requests_needed = std::min(place, kRequestsMax) + 1;
  wait = std::max(wait, requests.wait_for(requests_needed * kMicro, now));

  const Tokens release_needed = leases.sum() + ahead(sums.estimate) +
                                std::min(asker.estimate, limits.k_inflight) - limits.k_inflight;
  if (release_needed > 0) {
    const Tokens released = std::min(windows.released_lately(now), kTokensMax);
    const Micros period = kReleaseWindows * kWindowLength;
    Micros release_wait = kInflightWaitMax;
    if (release_needed <= released * kInflightWaitMax.count() / period.count()) {
      release_wait = Micros{ceil_div(release_needed * period.count(), released)};
    }
    wait = std::max(wait, std::min(release_wait, kInflightWaitMax));
  }

  if (output) {
    const Tokens output_needed = ahead(sums.output) + std::min(asker.output, *limits.c_out);
    wait = std::max(wait, output->wait_for(micro(output_needed), now));
  }
  return wait;
}

// Until the next call may pass: the head's probe, for others the one after it.
Micros Pool::State::pause_left(const Call* head, Instant now) const {
  if (paused_until <= now) return Micros{0};
  const bool probe_is_taken = head != nullptr && probe_at <= now;
  const Instant probe = probe_is_taken ? now + kProbeEvery : probe_at;
  return std::max(std::min(paused_until, probe) - now, Micros{0});
}

// --- The head's turn -----------------------------------------------------------------------------

// When the head can be admitted, as far as the buckets say; nothing if that is up to releases.
std::optional<Instant> Pool::State::turn_of(const Call& head, Instant now) const {
  const Limits& limits = config.limits;
  if (leases.sum() + std::min(head.estimate, limits.k_inflight) > limits.k_inflight) {
    return std::nullopt;
  }
  Micros wait = tokens.wait_for(micro(std::min(head.charge, limits.c_burst)), now);
  wait = std::max(wait, requests.wait_for(kMicro, now));
  if (output) {
    wait = std::max(wait, output->wait_for(micro(std::min(head.output, *limits.c_out)), now));
  }
  return now + std::max(wait, pause_left(nullptr, now));
}

void Pool::State::refresh_turn(Instant now) {
  const Call* head = queue.head();
  if (head == nullptr) {
    turn_id.clear();
    turn_at.reset();
    return;
  }
  const std::optional<Instant> at = turn_of(*head, now);
  const bool still_its_turn = head->id == turn_id && turn_at && *turn_at <= now && at == now;
  if (still_its_turn) return;  // Since turn_at: the 2 s in which it may ask go on.
  turn_id = head->id;
  turn_at = at;
}

std::optional<Wake> Pool::take_wake() {
  State& s = *state_;
  if (!s.turn_at) return std::nullopt;
  const Call* head = s.queue.head();
  HG_ASSERT(head != nullptr && head->id == s.turn_id);
  Wake wake{s.turn_id, std::string(head->owner->name), s.time.to_store(*s.turn_at)};
  if (s.told == wake) return std::nullopt;
  s.told = wake;
  return wake;
}

std::optional<Instant> Pool::next_event() const {
  const State& s = *state_;
  if (idle()) return std::nullopt;
  Instant next = s.time.last() + kTickWhileBusy;
  const auto consider = [&next](std::optional<Instant> at) {
    if (at && *at < next) next = *at;
  };
  consider(s.leases.next_deadline());
  consider(s.queue.next_deadline());
  consider(s.shims.next_death());
  consider(s.shims.next_release());
  if (s.turn_at) consider(*s.turn_at + kLapseAfter);
  return s.time.to_store(next);
}

void Pool::step(Instant store_now) { state_->refresh_turn(state_->enter(store_now)); }

// --- Endings -------------------------------------------------------------------------------------

void Pool::State::end(Call& lease, Instant now) {
  for (Window* window : windows_of(lease, now)) window->released_tokens += lease.estimate;
  leases.remove(lease);
  const Instant remembered_until = now + 2 * lease.ttl;
  ended.add(calls.remove(lease), remembered_until);
}

// Of a rebuilt lease nobody knows whether it was drawn from these buckets: it gets nothing back.
void Pool::State::give_back_charge(const Call& lease, Instant now) {
  if (lease.rebuilt) return;
  tokens.draw(-micro(lease.charge), now);
  requests.draw(-kMicro, now);
  if (output) output->draw(-micro(lease.output), now);
}

bool Pool::settle(const SettleRequest& asked, Instant store_now) {
  State& s = *state_;
  const SettleRequest request = in_range(asked);
  const Instant now = s.enter(store_now);
  Call* lease = s.find(request.id, Call::Stage::at_provider);
  if (lease == nullptr) {
    s.refresh_turn(now);
    return false;
  }
  s.seen(lease->owner->name, now);
  Tokens accepted = 0;
  switch (request.by) {
    case Settlement::refund: s.give_back_charge(*lease, now); break;
    case Settlement::estimate: accepted = lease->charge; break;
    case Settlement::usage: {
      accepted = std::min(charge_of(request.usage, lease->weights), kTokensMax);
      const Tokens more = accepted - lease->charge;
      if (more > 0 || !lease->rebuilt) s.tokens.draw(micro(more), now);
      const Tokens more_output = request.usage.output - lease->output;
      if (s.output && (more_output > 0 || !lease->rebuilt)) {
        s.output->draw(micro(more_output), now);
      }
      s.kappa_micro = fold_kappa(
          s.kappa_micro, request.text_chars,
          request.usage.uncached + request.usage.cached - request.flat_tokens);
      break;
    }
  }
  for (Window* window : s.windows_of(*lease, now)) {
    window->accepted += accepted;
    window->overloads += request.overloaded ? 1 : 0;
  }
  s.end(*lease, now);
  s.refresh_turn(now);
  return true;
}

bool Pool::overload(std::string_view id, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  Call* lease = s.find(id, Call::Stage::at_provider);
  if (lease != nullptr) {
    s.seen(lease->owner->name, now);
    if (!s.config.refused_calls_count) s.give_back_charge(*lease, now);
    for (Window* window : s.windows_of(*lease, now)) window->overloads += 1;
    s.end(*lease, now);
  }
  s.refresh_turn(now);
  return lease != nullptr;
}

bool Pool::leave(std::string_view id, Leaving why, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  Call* waiter = s.find(id, Call::Stage::waiting);
  if (waiter != nullptr) {
    s.seen(waiter->owner->name, now);
    s.drop_waiter(*waiter, why, now);
  }
  s.refresh_turn(now);
  return waiter != nullptr;
}

// --- Heartbeats ----------------------------------------------------------------------------------

RenewReply Pool::renew(std::string_view shim, std::span<const LeaseRenewal> leases,
                       Micros lease_ttl, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  const Shims::Shim& beating = s.seen(shim, now);
  const Micros ttl = std::clamp(lease_ttl, kLeaseTtlMin, kLeaseTtlMax);
  for (const LeaseRenewal& renewal : leases.first(std::min(leases.size(), kRenewMax))) {
    if (s.ended.contains(renewal.id, now)) continue;
    Call* call = s.calls.find(renewal.id);
    if (call != nullptr && call->stage == Call::Stage::at_provider) {
      s.leases.extend(*call, ttl, now);
      continue;
    }
    // Its owner knows better: the store lost the admission, and maybe still has the waiter.
    if (call != nullptr) s.drop_waiter(*call, Leaving::gone, now);
    const LeaseRenewal known = in_range(renewal);
    Call lost;
    lost.estimate = known.estimate;
    lost.charge = known.charge;
    lost.output = known.output;
    lost.weights = known.weights;
    lost.rebuilt = true;
    s.begin_lease(s.calls.add(lost, known.id, shim, known.alias), ttl, now);
  }
  s.refresh_turn(now);
  return {s.shims.share_ppm(beating, now), s.shims.count(), s.epoch};
}

void Pool::farewell(std::string_view shim, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  s.shims.farewell(shim);
  s.set_alive(shim, false);
  s.follow_withheld(now);
  s.refresh_turn(now);
}

// --- Configuration -------------------------------------------------------------------------------

void Pool::State::adopt(const PoolConfig& new_config, std::int64_t new_version, Instant now) {
  // What was learned stays, unless a person says otherwise.
  if (new_config.kappa_micro != config.kappa_micro) kappa_micro = new_config.kappa_micro;
  config = new_config;
  version = new_version;
  apply_limits(now);
}

Result<std::int64_t> Pool::configure(std::int64_t expected_version, const PoolConfig& config,
                                     Instant store_now) {
  State& s = *state_;
  if (Result<void> valid = validate(config); !valid) return std::unexpected(valid.error());
  const Instant now = s.enter(store_now);
  const bool matches = s.version == expected_version;
  if (matches) s.adopt(config, s.version + 1, now);
  s.refresh_turn(now);
  if (!matches) {
    return fail(Errc::conflict, "the pool's configuration has version " +
                                    std::to_string(s.version) + ", not " +
                                    std::to_string(expected_version));
  }
  return s.version;
}

bool Pool::restore(std::int64_t version, const PoolConfig& config, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  const bool newer = version > s.version && validate(config).has_value();
  if (newer) s.adopt(config, version, now);
  s.refresh_turn(now);
  return newer;
}

std::vector<Wake> Pool::pause(Micros duration, Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  s.paused_until = now + std::clamp(duration, Micros{0}, kPauseMax);
  s.probe_at = now + kProbeEvery;
  s.refresh_turn(now);
  const Instant at = s.time.to_store(now + s.pause_left(nullptr, now));
  std::vector<Wake> told;
  for (const Call* waiter : s.queue.in_order()) {
    told.push_back({std::string(waiter->id), std::string(waiter->owner->name), at});
  }
  return told;
}

void Pool::resume(Instant store_now) {
  State& s = *state_;
  const Instant now = s.enter(store_now);
  s.paused_until = now;
  s.refresh_turn(now);
}

// --- Looking -------------------------------------------------------------------------------------

PoolView Pool::view(Instant store_now) const {
  const State& s = *state_;
  const Instant now = s.time.look(store_now);
  PoolView view;
  view.config = s.config;
  view.version = s.version;
  view.epoch = s.epoch;
  view.tokens = s.tokens.level(now);
  view.requests = s.requests.level(now);
  if (s.output) view.out = s.output->level(now);
  view.inflight = s.leases.sum();
  view.kappa_micro = s.kappa_micro;
  view.paused_for = std::max(s.paused_until - now, Micros{0});
  for (const auto& [id, call] : s.calls.all()) {
    if (call.stage != Call::Stage::at_provider) continue;
    view.leases.push_back({id, std::string(call.owner->name), call.alias, call.estimate,
                           now - call.since, std::max(call.deadline - now, Micros{0})});
  }
  std::ranges::sort(view.leases, {}, &LeaseView::id);
  const Call* head = s.queue.head();
  std::int64_t place = 0;
  for (const Call* waiter : s.queue.in_order()) {
    const std::int64_t stands = waiter == head ? 0 : std::max<std::int64_t>(place, 1);
    view.waiters.push_back({std::string(waiter->id), std::string(waiter->owner->name),
                            waiter->alias, waiter->estimate, waiter->charge, now - waiter->since,
                            s.predicted_wait(*waiter, stands, now)});
    ++place;
  }
  view.windows = s.windows.list(now);
  for (const auto& [alias, ring] : s.aliases) view.aliases.push_back({alias, ring.list(now)});
  for (const auto& [name, shim] : s.shims.all()) {
    view.shims.push_back(
        {name, now - shim.seen_at, s.shims.share_ppm(shim, now), shim.withheld_ppm != 0});
  }
  std::ranges::sort(view.aliases, {}, &AliasView::alias);
  std::ranges::sort(view.shims, {}, &ShimView::shim);
  return view;
}

Pool::Pool(const PoolConfig& config, Birth birth, Instant now, std::int64_t version)
    : state_(std::make_unique<State>(config, birth, now, version)) {}
Pool::~Pool() = default;
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&&) noexcept = default;

Result<void> Pool::validate(const PoolConfig& config) { return gate::validate(config); }
std::int64_t Pool::kappa_micro() const { return state_->kappa_micro; }
std::int64_t Pool::version() const { return state_->version; }
const PoolConfig& Pool::config() const { return state_->config; }
bool Pool::idle() const { return state_->calls.empty(); }

Tokens charge_of(const Usage& usage, const Weights& weights) {
  const MicroTokens weighted = usage.uncached * kMicro + usage.cached * weights.cached_ppm +
                               usage.output * weights.output_ppm;
  return floor_div(weighted, kMicro);
}

}  // namespace hg::gate
