#include "tests/valkey/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "gate/vectors.h"

namespace hg::valkey {
namespace {

namespace json = boost::json;
using gate::AcquireReply;
using gate::Pool;
using gate::PoolConfig;
using gate::Settlement;
using gate::Verdict;
using Kind = Operation::Kind;

constexpr std::size_t kRemembered = 4'000;  // Ids of which the author asks again.

// Where histories start: at the zero of a clock, soon after, and at a moment of this century.
constexpr Micros kStarts[] = {Micros{0}, Micros{1'000'000'000}, Micros{1'780'000'000'123'457}};

// What a reply says as text, as far as both can say it.
std::string text_of(const AcquireReply& reply) {
  return fmt::format("{} {} place {} wait {} pause {} share {} shims {} epoch {}",
                     gate::vectors::word(reply.verdict), gate::to_string(reply.axis), reply.place,
                     reply.predicted_wait.count(), reply.pause_left.count(), reply.share_ppm,
                     reply.shims, reply.epoch);
}
std::string text_of(const gate::RenewReply& reply) {
  return fmt::format("share {} shims {} epoch {}", reply.share_ppm, reply.shims, reply.epoch);
}
std::string text_of(bool done) { return done ? "done" : "nothing done"; }
std::string text_of(const Result<std::int64_t>& version) {
  return version ? fmt::format("version {}", *version) : to_string(version.error().code);
}
std::string wake_text(const std::string& id, const std::string& shim, Instant at) {
  return fmt::format(", wakes {} of {} at {}", id, shim, at.since_zero.count());
}

template <typename T>
std::string answered(const Result<gate::script::Answer<T>>& answer) {
  if (!answer) return fmt::format("{}: {}", to_string(answer.error().code), answer.error().detail);
  std::string text = text_of(answer->reply);
  if (const auto& wake = answer->notes.wake) text += wake_text(wake->id, wake->shim, wake->at);
  return text;
}

json::object config_of(const PoolConfig& config) {
  const gate::Limits& limits = config.limits;
  json::object out{{"c_burst", limits.c_burst},       {"r_tok", limits.r_tok},
                   {"k_inflight", limits.k_inflight}, {"c_req", limits.c_req},
                   {"r_qps", limits.r_qps},           {"kappa_micro", config.kappa_micro}};
  out["c_out"] = limits.c_out ? json::value(*limits.c_out) : json::value(nullptr);
  if (limits.r_out) out["r_out"] = *limits.r_out;
  out["priority_head_start_max_us"] = config.priority_head_start_max.count();
  out["refused_calls_count"] = config.refused_calls_count;
  return out;
}

void add_weights(json::object& out, const gate::Weights& weights) {
  out["w_cached_ppm"] = weights.cached_ppm;
  out["w_output_ppm"] = weights.output_ppm;
}

json::object step_of(const Operation& operation, Instant start) {
  json::object out{{"at_us", (operation.now - start).count()}};
  switch (operation.kind) {
    case Kind::acquire: {
      const gate::AcquireRequest& asked = operation.acquire;
      out["op"] = "acquire";
      out["id"] = asked.id;
      out["shim"] = asked.shim;
      out["alias"] = asked.alias;
      out["charge"] = asked.charge;
      out["estimate"] = asked.estimate;
      out["output"] = asked.output;
      out["hold_left_us"] = asked.hold_left.count();
      out["head_start_us"] = asked.head_start.count();
      out["since_us"] = asked.since.count();
      out["lease_ttl_us"] = asked.lease_ttl.count();
      add_weights(out, asked.weights);
      break;
    }
    case Kind::settle: {
      const gate::SettleRequest& told = operation.settle;
      out["op"] = "settle";
      out["id"] = told.id;
      out["by"] = told.by == Settlement::usage    ? "usage"
                  : told.by == Settlement::refund ? "refund"
                                                  : "estimate";
      out["uncached"] = told.usage.uncached;
      out["cached"] = told.usage.cached;
      out["output"] = told.usage.output;
      out["text_chars"] = told.text_chars;
      out["flat_tokens"] = told.flat_tokens;
      out["overloaded"] = told.overloaded ? 1 : 0;
      break;
    }
    case Kind::overload:
      out["op"] = "overload";
      out["id"] = operation.id;
      break;
    case Kind::leave:
      out["op"] = "leave";
      out["id"] = operation.id;
      out["leaving"] = operation.why == Pool::Leaving::timed_out ? "timed_out" : "gone";
      break;
    case Kind::renew: {
      out["op"] = "renew";
      out["shim"] = operation.shim;
      out["lease_ttl_us"] = operation.duration.count();
      json::array leases;
      for (const gate::LeaseRenewal& lease : operation.leases) {
        json::object item{{"id", lease.id},
                          {"alias", lease.alias},
                          {"charge", lease.charge},
                          {"estimate", lease.estimate},
                          {"output", lease.output}};
        add_weights(item, lease.weights);
        leases.push_back(std::move(item));
      }
      out["leases"] = std::move(leases);
      break;
    }
    case Kind::farewell:
      out["op"] = "farewell";
      out["shim"] = operation.shim;
      break;
    case Kind::configure:
      out["op"] = "configure";
      out["expected_version"] = operation.version;
      out["config"] = config_of(operation.config);
      break;
    case Kind::restore:
      out["op"] = "restore";
      out["version"] = operation.version;
      out["config"] = config_of(operation.config);
      break;
    case Kind::pause:
      out["op"] = "pause";
      out["duration_us"] = operation.duration.count();
      break;
    case Kind::resume: out["op"] = "resume"; break;
    case Kind::step: out["op"] = "step"; break;
  }
  return out;
}

}  // namespace

const std::vector<Manner>& manners() {
  static const std::vector<Manner> all = {
      // Few ids, asked again and again: replays, ends, tombstones, ties.
      {"small", 1'500, 4, 8, 2, 50, 45, false, 8},
      // New calls at narrow limits, time nearly stands: thousands wait.
      {"crowd", 8'000, 20, 0, 5, 1'000, 75, true, 400},
      // Shims come and go, with their shares; ids are reused among them.
      {"churn", 2'000, 40, 3, 3, 100, 35, false, 8},
      // Hundreds of shims, which fall silent together.
      {"herd", 3'000, 400, 3, 2, 200, 60, true, 100},
      // More aliases than a pool keeps.
      {"aliases", 3'000, 6, 0, 1'300, 500, 50, true, 1'000},
  };
  return all;
}

Author::Author(const Manner& manner, std::uint64_t seed) : manner_(manner), rng_(seed) {
  const std::uint64_t variety = seed / manners().size();  // The rest is the manner.
  gate::Limits& limits = history_.config.limits;
  limits = {2'000, 400, 6'000, 5, 2'000'003, {}, {}};
  if (variety % 4 == 1) limits = {200'000, 40'000, 2'000'000, 60, 20'000'000, {}, {}};
  if (variety % 4 == 2) {  // The largest there are.
    limits = {1'000'000'000, 999'999'937, 1'000'000'000, 1'000'000, 8'000'000'000, {}, {}};
  }
  if (variety % 3 == 0) {
    limits.c_out = std::max<Tokens>(limits.c_burst / 4, 1);
    limits.r_out = std::max<std::int64_t>(limits.r_tok / 8, 1);
  }
  if (manner_.slow_clock && variety % 3 != 2) {
    limits.c_req = 100;
    limits.r_qps = 100'000'003;
    limits.k_inflight = std::min<Tokens>(limits.k_inflight * 20, 1'000'000'000);
  }
  history_.birth = chance(50) ? gate::Birth::created_full : gate::Birth::restored_empty;
  history_.start = Instant{kStarts[variety % std::size(kStarts)]};
  now_ = history_.start;
}

std::string Author::some_shim() {
  return fmt::format("shim{}", rng_.integer(0, manner_.shims - 1));
}

std::string Author::some(const std::vector<std::string>& of) {
  if (of.empty()) return "none";
  return of[static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(of.size()) - 1))];
}

// Around the limits: nothing, a little, a bucket, more than a bucket, and what no call can be.
Tokens Author::some_size() {
  const Tokens burst = history_.config.limits.c_burst;
  const std::int64_t most = manner_.slow_clock ? 200 : 11;
  switch (rng_.integer(0, most)) {
    case 0: return 0;
    case 1: return rng_.integer(1, 9);
    case 2: return burst;
    case 3: return burst + rng_.integer(-3, 3);
    case 4: return burst * 2 + 500;
    case 5: return chance(10) ? rng_.integer(-5, 1) * 1'000'000'000'000 : burst / 3;
    case 6: return chance(10) ? std::int64_t{1} << 60U : burst / 2;
    default: {
      const Tokens small = std::max<Tokens>(burst / manner_.small_part, 1);
      return chance(30) ? small : rng_.integer(1, small);  // Equal ones make ties.
    }
  }
}

void Author::pass_time(const Pool& pool) {
  if (manner_.slow_clock && !chance(4)) {
    if (chance(75)) now_ = now_ + Micros{rng_.integer(0, 12'000)};
    return;
  }
  const std::optional<Instant> event = pool.next_event();
  switch (rng_.integer(0, 19)) {
    case 0:
    case 1:
    case 2:
    case 3: break;
    case 4: now_ = now_ + 1us; break;
    case 5:
    case 6:
    case 7: now_ = now_ + Micros{rng_.integer(0, 50'000)}; break;
    case 8:
    case 9: now_ = now_ + Micros{rng_.integer(0, 600'000)}; break;
    case 10: now_ = now_ + 1s; break;
    case 11: now_ = now_ + 2'000'001us; break;
    case 12:
    case 13:
    case 14:
      if (event && *event > now_) now_ = *event;
      break;
    case 15:
    case 16:
      if (wake_.at > now_ && wake_.at < now_ + 9s) now_ = wake_.at;
      break;
    case 17: now_ = now_ + Micros{rng_.integer(0, 9'999'999)}; break;
    case 18:
      if (chance(10)) now_ = now_ - Micros{rng_.integer(1, 20'000'000)};
      break;
    default:
      if (chance(15)) now_ = now_ + 10s + Micros{rng_.integer(0, 2)};
      if (chance(5)) now_ = now_ + Micros{rng_.integer(0, 700'000'000)};
      break;
  }
}

void Author::ask(Operation& operation) {
  operation.kind = Kind::acquire;
  gate::AcquireRequest& asked = operation.acquire;
  asked.shim = some_shim();
  if (!wake_.id.empty() && chance(wake_.at <= now_ ? 60 : 10)) {
    asked.id = wake_.id;  // As it was told.
    asked.shim = wake_.shim;
  } else if (manner_.ids > 0) {
    asked.id = fmt::format("{}.{}.{}", asked.shim, rng_.integer(0, manner_.ids - 1),
                           rng_.integer(0, 2));
  } else if (chance(12)) {
    asked.id = some(chance(70) ? waiting_ : held_);
    asked.shim = asked.id.substr(0, asked.id.find('.'));
  } else {
    asked.id = fmt::format("{}.{}.1", asked.shim, ++last_sequence_);
  }
  if (chance(2)) asked.shim = some_shim();  // Of a call that another asked for.
  asked.alias = fmt::format("pool/harness{}", rng_.integer(0, manner_.aliases - 1));
  asked.charge = some_size();
  asked.estimate = chance(60) ? asked.charge : some_size();
  asked.output = chance(50) ? 0 : some_size() / 4;
  asked.hold_left = manner_.slow_clock ? Micros{rng_.integer(1, 4'000) * 1'000'000}
                                       : Micros{rng_.integer(0, 8) * 7'000'000};
  if (chance(10)) asked.hold_left = Micros{rng_.integer(-1, 1)};
  if (chance(15)) asked.head_start = Micros{rng_.integer(-1, 20) * 1'000'000};
  if (chance(15)) asked.since = Micros{rng_.integer(-1, 400) * 1'000'000};
  asked.lease_ttl = chance(5) ? Micros{rng_.integer(-1, 700) * 1'000'000}
                              : Micros{rng_.integer(2, 6) * 5'000'000};
  asked.weights = {100'000 * rng_.integer(0, 12), 333'333 * rng_.integer(-1, 3)};
}

void Author::renew(Operation& operation) {
  operation.kind = Kind::renew;
  operation.shim = some_shim();
  operation.duration = Micros{rng_.integer(0, 6) * 5'000'000};
  const auto lease = [this](std::string id) {
    return gate::LeaseRenewal{
        std::move(id),   fmt::format("pool/harness{}", rng_.integer(0, manner_.aliases - 1)),
        some_size(),     some_size(),
        some_size() / 4, {100'000 * rng_.integer(0, 12), 0}};
  };
  const std::int64_t count = chance(3) ? 105 : rng_.integer(0, 8);
  for (std::int64_t i = 0; i < count && !held_.empty(); ++i) {
    std::string id = some(held_);
    if (chance(85)) operation.shim = id.substr(0, id.find('.'));
    operation.leases.push_back(lease(std::move(id)));
  }
  if (chance(5)) operation.leases.push_back(lease(some(waiting_)));
  if (chance(5)) {
    std::string id = fmt::format("{}.{}.1", operation.shim, ++last_sequence_);
    held_.push_back(id);
    operation.leases.push_back(lease(std::move(id)));
  }
}

void Author::configure(Operation& operation, const Pool& pool) {
  const bool restores = chance(30);
  operation.kind = restores ? Kind::restore : Kind::configure;
  operation.version = pool.version() + (restores ? rng_.integer(-1, 3) : chance(15) ? 1 : 0);
  operation.config = pool.config();
  gate::Limits& limits = operation.config.limits;
  const Tokens burst = history_.config.limits.c_burst;
  const std::int64_t rate = history_.config.limits.r_tok;
  switch (rng_.integer(0, 7)) {
    case 0: limits.c_burst = rng_.integer(burst / 2 + 1, burst); break;
    case 1: limits.r_tok = rng_.integer(rate / 3 + 1, rate); break;
    case 2: limits.k_inflight = rng_.integer(burst / 2 + 1, burst); break;
    case 3: limits.c_req = rng_.integer(1, 90); break;
    case 4: limits.r_qps = rng_.integer(1, 9'000'000); break;
    case 5: operation.config.kappa_micro = rng_.integer(2'000'000, 8'000'000); break;
    case 6: operation.config.priority_head_start_max = Micros{rng_.integer(0, 30'000'000)}; break;
    default:
      limits.c_out.reset();
      limits.r_out.reset();
      if (chance(60)) {
        limits.c_out = rng_.integer(burst / 2 + 1, burst);
        limits.r_out = rng_.integer(1, rate);
      }
      break;
  }
  operation.config.refused_calls_count = chance(20);
}

const Operation& Author::next(Pool& pool) {
  pass_time(pool);
  Operation operation;
  operation.now = now_;
  if (chance(manner_.busy_percent)) {
    ask(operation);
  } else {
    const std::int64_t kind = rng_.integer(0, 99);
    if (kind < 40) {
      operation.kind = Kind::settle;
      gate::SettleRequest& told = operation.settle;
      told.id = some(chance(90) ? held_ : waiting_);
      told.by = chance(60)   ? Settlement::usage
                : chance(50) ? Settlement::refund
                             : Settlement::estimate;
      told.usage = {some_size(), some_size() / 2, some_size() / 4};
      told.text_chars = some_size() * 4;
      told.flat_tokens = chance(30) ? some_size() / 8 : 0;
      told.overloaded = chance(20);
      if (!chance(10)) std::erase(held_, told.id);  // Else it is said again, or renewed.
    } else if (kind < 47) {
      operation.kind = Kind::overload;
      operation.id = some(held_);
    } else if (kind < 58) {
      operation.kind = Kind::leave;
      operation.id = some(chance(90) ? waiting_ : held_);
      operation.why = chance(50) ? Pool::Leaving::gone : Pool::Leaving::timed_out;
      if (!chance(10)) std::erase(waiting_, operation.id);
    } else if (kind < 84) {
      renew(operation);
    } else if (kind < 87) {
      operation.kind = Kind::farewell;
      operation.shim = some_shim();
    } else if (kind < 91) {
      configure(operation, pool);
    } else if (kind < 92 && (!manner_.slow_clock || chance(15))) {
      operation.kind = Kind::pause;
      operation.duration = Micros{rng_.integer(-1, 7) * 30'000'000};
    } else if (kind < 94) {
      operation.kind = Kind::resume;
    } else {
      operation.kind = Kind::step;
    }
  }
  history_.operations.push_back(std::move(operation));
  return history_.operations.back();
}

void Author::heard(const AcquireReply& reply) {
  const std::string& id = history_.operations.back().acquire.id;
  const auto keep = [](std::vector<std::string>& in, const std::string& value) {
    if (in.size() >= kRemembered) in.erase(in.begin(), in.begin() + kRemembered / 2);
    if (in.empty() || in.back() != value) in.push_back(value);
  };
  if (reply.verdict == Verdict::admitted) keep(held_, id);
  if (reply.verdict == Verdict::denied) keep(waiting_, id);
}

gate::script::Call call_of(const Operation& operation) {
  const auto unstamped = [&operation]() -> gate::script::Call {
    switch (operation.kind) {
      case Kind::acquire: return gate::script::acquire(operation.acquire);
      case Kind::settle: return gate::script::settle(operation.settle);
      case Kind::overload: return gate::script::overload(operation.id);
      case Kind::leave: return gate::script::leave(operation.id, operation.why);
      case Kind::renew:
        return gate::script::renew(operation.shim, operation.leases, operation.duration);
      case Kind::farewell: return gate::script::farewell(operation.shim);
      case Kind::configure: return gate::script::configure(operation.version, operation.config);
      case Kind::restore: return gate::script::restore(operation.version, operation.config);
      case Kind::pause: return gate::script::pause(operation.duration);
      case Kind::resume: return gate::script::resume();
      case Kind::step: break;
    }
    return gate::script::step();
  };
  gate::script::Call call = unstamped();
  set_now(call, operation.now);
  return call;
}

Told tell(Pool& pool, const Operation& operation) {
  Told told;
  const Instant now = operation.now;
  switch (operation.kind) {
    case Kind::acquire:
      told.acquired = pool.acquire(operation.acquire, now);
      told.text = text_of(*told.acquired);
      break;
    case Kind::settle: told.text = text_of(pool.settle(operation.settle, now)); break;
    case Kind::overload: told.text = text_of(pool.overload(operation.id, now)); break;
    case Kind::leave: told.text = text_of(pool.leave(operation.id, operation.why, now)); break;
    case Kind::renew:
      told.text = text_of(pool.renew(operation.shim, operation.leases, operation.duration, now));
      break;
    case Kind::farewell:
      pool.farewell(operation.shim, now);
      told.text = text_of(true);
      break;
    case Kind::configure:
      told.text = text_of(pool.configure(operation.version, operation.config, now));
      break;
    case Kind::restore:
      told.text = text_of(pool.restore(operation.version, operation.config, now));
      break;
    case Kind::pause: {
      // Whom it tells stands in the view; the script says when to all at once.
      (void)pool.pause(operation.duration, now);
      const Micros length = std::clamp<Micros>(operation.duration, 0us, 168h);
      told.text = fmt::format("pause {}", std::min<Micros>(length, 60s).count());
      break;
    }
    case Kind::resume:
      pool.resume(now);
      told.text = text_of(true);
      break;
    case Kind::step:
      pool.step(now);
      told.text = text_of(true);
      break;
  }
  told.wake = pool.take_wake();
  if (told.wake) told.text += wake_text(told.wake->id, told.wake->shim, told.wake->at);
  return told;
}

std::string answer_of(const gate::script::Value& value, Kind kind) {
  switch (kind) {
    case Kind::acquire: return answered(gate::script::read_acquire(value));
    case Kind::renew: return answered(gate::script::read_renew(value));
    case Kind::configure: {
      // Also a refusal is a step that can wake somebody; read_configure makes an error of it.
      const auto answer = gate::script::read_configure(value);
      std::string text = text_of(answer ? Result<std::int64_t>(answer->reply)
                                        : Result<std::int64_t>(std::unexpected(answer.error())));
      const auto step = gate::script::read_done(value);
      if (!step) return answered(step);
      if (const auto& wake = step->notes.wake) text += wake_text(wake->id, wake->shim, wake->at);
      return text;
    }
    case Kind::pause: {
      const auto answer = gate::script::read_pause(value);
      if (!answer) return answer.error().detail;
      std::string text = fmt::format("pause {}", answer->reply.in.count());
      if (const auto& wake = answer->notes.wake) text += wake_text(wake->id, wake->shim, wake->at);
      return text;
    }
    default: return answered(gate::script::read_done(value));
  }
}

std::string text_of(const gate::PoolView& view) {
  std::string out = fmt::format(
      "version {} epoch {} tokens {} requests {} out {} inflight {} kappa {} paused {}\n",
      view.version, view.epoch, view.tokens, view.requests, view.out ? *view.out : -1,
      view.inflight, view.kappa_micro, view.paused_for.count());
  out += json::serialize(config_of(view.config)) + "\n";
  for (const gate::LeaseView& lease : view.leases) {
    out += fmt::format("lease {} {} {} {} {} {}\n", lease.id, lease.shim, lease.alias,
                       lease.estimate, lease.age.count(), lease.left.count());
  }
  for (const gate::WaiterView& waiter : view.waiters) {
    out += fmt::format("waiter {} {} {} {} {} {} {}\n", waiter.id, waiter.shim, waiter.alias,
                       waiter.estimate, waiter.charge, waiter.waited.count(),
                       waiter.predicted_wait.count());
  }
  const auto add_windows = [&out](const std::vector<gate::Window>& windows) {
    for (const gate::Window& window : windows) {
      out += fmt::format(" [{} {} {} {} {} {} {} {}]", window.index, window.admitted,
                         window.waited_long, window.held_tokens, window.timeouts, window.accepted,
                         window.overloads, window.released_tokens);
    }
    out += "\n";
  };
  out += "windows";
  add_windows(view.windows);
  for (const gate::AliasView& alias : view.aliases) {
    out += "alias " + alias.alias;
    add_windows(alias.windows);
  }
  for (const gate::ShimView& shim : view.shims) {
    out += fmt::format("shim {} {} {} {}\n", shim.shim, shim.seen_ago.count(), shim.share_ppm,
                       shim.vanished ? "vanished" : "known");
  }
  return out;
}

std::string vector_file(const History& history, const std::string& says) {
  json::object file{{"says", says}, {"config", config_of(history.config)}};
  file["birth"] = history.birth == gate::Birth::created_full ? "full" : "empty";
  file["start_us"] = history.start.since_zero.count();
  const gate::vectors::Beginning begin(file);
  gate::vectors::Player<Pool> player(Pool(begin.config, begin.birth, begin.start, begin.version),
                                     begin.start);
  std::vector<json::object> steps;
  steps.reserve(history.operations.size());
  for (const Operation& operation : history.operations) {
    steps.push_back(player.play(step_of(operation, history.start)));
  }
  return gate::vectors::pretty(file, steps);
}

}  // namespace hg::valkey
