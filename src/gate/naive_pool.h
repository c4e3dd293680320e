// naive_pool.h: the rules of the gate once more, for tests: slow, plain, and written apart from
// pool.cc, so that the two can be held against each other.
//
// Keeps lists and looks through them; levels are exact fractions in 128 bits; moments are found by
// bisection over the levels instead of by division. It follows the design's text and shares with
// pool.cc only the constants of limits.h and the types. Steps drop everything that is due, not a
// bounded number: histories with fewer than 100 of a kind due at once are the same.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gate/limits.h"
#include "gate/pool.h"

namespace hg::gate {

class NaivePool {
 public:
  __extension__ using Wide = __int128;

  NaivePool(const PoolConfig& config, Birth birth, Instant now)
      : config_(config), last_(now), kappa_(config.kappa_micro), paused_until_(now) {
    if (birth == Birth::created_full) {
      tok_ = Wide{config.limits.c_burst} * kPico;
      req_ = Wide{config.limits.c_req} * kPico;
      out_ = Wide{config.limits.c_out.value_or(0)} * kPico;
    }
  }

  AcquireReply acquire(const AcquireRequest& asked, Instant store_now) {
    enter(store_now);
    const AcquireRequest request = in_range(asked, config_);
    seen(request.shim);
    if (told_ && told_->id == request.id) told_.reset();
    AcquireReply reply;
    reply.epoch = epoch_;
    reply.shims = static_cast<std::int64_t>(shims_.size());
    const bool has_lease = lease_of(request.id) != nullptr;
    if (has_lease || ended_.contains(request.id)) {
      reply.verdict = has_lease ? Verdict::admitted : Verdict::ended;
      reply.share_ppm = share(request.shim);
      refresh();
      return reply;
    }
    Call asker = waiter_of(request.id) != nullptr ? *waiter_of(request.id) : make(request);
    const bool waited = waiter_of(request.id) != nullptr;
    if (waited) {
      waiter_of(request.id)->reserves = true;
      waiter_of(request.id)->deadline = now_ + request.hold_left;
    }
    const Call* head = head_of();
    const bool is_head = head == nullptr || !(before(*head, asker));
    passed_blocked_head_ = false;
    reply.axis = failing(asker, is_head ? nullptr : head);
    if (reply.axis == Axis::none) {
      if (!is_head && failing(*head, nullptr) != Axis::none) passed_blocked_head_ = true;
      draw(asker, +1);
      drop_waiter(asker.id);
      asker.since = now_;
      asker.ttl = request.lease_ttl;
      asker.deadline = now_ + request.lease_ttl;
      leases_.push_back(asker);
      shims_[asker.shim].admissions.push_back(window());
      if (paused_until_ > now_) probe_at_ = now_ + 60s;
      count_.admitted += 1;
      if (waited && now_ - asker.registered > 2s) count_.waited_long += 1;
      if (!is_head && failing(*head_of(), nullptr) != Axis::none) passed_blocked_head_ = true;
      reply.verdict = Verdict::admitted;
      reply.share_ppm = share(request.shim);
      refresh();
      return reply;
    }
    reply.verdict = Verdict::denied;
    reply.share_ppm = share(request.shim);
    if (!waited && request.hold_left > 0us) {
      waiters_.push_back(asker);
      count_.held_tokens += asker.charge;
    }
    std::int64_t place = 0;
    for (const Call& other : waiters_) place += before(other, asker) ? 1 : 0;
    reply.place = is_head ? 0 : std::max<std::int64_t>(place, 1);
    reply.predicted_wait = predict(asker, reply.place);
    if (reply.axis == Axis::paused) {
      const Instant probe = !is_head && probe_at_ <= now_ ? now_ + 60s : probe_at_;
      reply.pause_left = std::max(std::min(paused_until_, probe) - now_, Micros{0});
      reply.predicted_wait = std::max(reply.predicted_wait, reply.pause_left);
    }
    refresh();
    return reply;
  }

  bool settle(const SettleRequest& asked, Instant store_now) {
    enter(store_now);
    const SettleRequest request = in_range(asked);
    const Call* known = lease_of(request.id);
    if (known == nullptr) return refresh(), false;
    const Call lease = *known;
    end(lease);
    if (request.by == Settlement::refund && !lease.rebuilt) draw(lease, -1);
    if (request.overloaded) count_.overloads += 1;
    if (request.by == Settlement::estimate) count_.accepted += lease.charge;
    if (request.by == Settlement::usage) {
      const Usage& usage = request.usage;
      const Wide exact = Wide{usage.uncached} * kMicro +
                         Wide{usage.cached} * lease.weights.cached_ppm +
                         Wide{usage.output} * lease.weights.output_ppm;
      const auto charge = static_cast<Tokens>(std::min<Wide>(exact / kMicro, kTokensMax));
      if (!lease.rebuilt || charge > lease.charge) add(tok_, lease.charge - charge, c_burst());
      if (config_.limits.c_out && (!lease.rebuilt || usage.output > lease.output)) {
        add(out_, lease.output - usage.output, *config_.limits.c_out);
      }
      count_.accepted += charge;
      const Tokens text = usage.uncached + usage.cached - request.flat_tokens;
      if (request.text_chars > 0 && text >= 1000) {
        const std::int64_t seen = request.text_chars * kMicro / text;
        const std::int64_t clamped = std::max(std::min<std::int64_t>(seen, 8'000'000),
                                              std::int64_t{2'000'000});
        Wide change = Wide{clamped} - kappa_;
        while (change % 20 != 0) --change;
        kappa_ += static_cast<std::int64_t>(change / 20);
      }
    }
    return refresh(), true;
  }

  bool overload(std::string_view id, Instant store_now) {
    enter(store_now);
    if (lease_of(id) == nullptr) return refresh(), false;
    const Call lease = *lease_of(id);
    end(lease);
    if (!lease.rebuilt && !config_.refused_calls_count) draw(lease, -1);
    count_.overloads += 1;
    return refresh(), true;
  }

  bool leave(std::string_view id, Pool::Leaving why, Instant store_now) {
    enter(store_now);
    if (waiter_of(id) == nullptr) return refresh(), false;
    seen(std::string(waiter_of(id)->shim));
    drop_waiter(std::string(id));
    if (why == Pool::Leaving::timed_out) count_.timeouts += 1;
    return refresh(), true;
  }

  RenewReply renew(const std::string& shim, const std::vector<LeaseRenewal>& leases, Micros ttl,
                   Instant store_now) {
    enter(store_now);
    seen(shim);
    for (const LeaseRenewal& wanted : leases) {
      if (ended_.contains(wanted.id)) continue;
      if (lease_of(wanted.id) == nullptr) {
        drop_waiter(wanted.id);
        Call lease;
        lease.id = wanted.id;
        lease.shim = shim;
        lease.estimate = wanted.estimate;
        lease.charge = wanted.charge;
        lease.output = wanted.output;
        lease.weights = wanted.weights;
        lease.rebuilt = true;
        leases_.push_back(lease);
      }
      lease_of(wanted.id)->ttl = ttl;
      lease_of(wanted.id)->deadline = now_ + ttl;
    }
    refresh();
    return {share(shim), static_cast<std::int64_t>(shims_.size()), epoch_};
  }

  void farewell(const std::string& shim, Instant store_now) {
    enter(store_now);
    if (shims_.contains(shim)) {
      shims_[shim].live = false;
      shims_[shim].withheld_ppm = 0;
    }
    refresh();
  }

  bool configure(std::int64_t version, const PoolConfig& config, Instant store_now) {
    enter(store_now);
    if (version != version_) return refresh(), false;
    ++version_;
    if (config.limits.c_out && !config_.limits.c_out) out_ = Wide{*config.limits.c_out} * kPico;
    if (!config.limits.c_out) out_ = 0;
    config_ = config;
    // Nothing above a lower capacity is kept, fractions of a unit neither.
    tok_ = std::min(tok_, Wide{c_burst()} * kPico);
    req_ = std::min(req_, Wide{config.limits.c_req} * kPico);
    out_ = std::min(out_, Wide{config.limits.c_out.value_or(0)} * kPico);
    return refresh(), true;
  }

  std::vector<Wake> pause(Micros duration, Instant store_now) {
    enter(store_now);
    paused_until_ = now_ + duration;
    probe_at_ = now_ + 60s;
    std::vector<Call> all = waiters_;
    std::ranges::sort(all, before);
    std::vector<Wake> told;
    told.reserve(all.size());
    const Instant at = std::min(paused_until_, probe_at_) - offset_;
    for (const Call& waiter : all) told.push_back({waiter.id, waiter.shim, at});
    refresh();
    return told;
  }

  void resume(Instant store_now) {
    enter(store_now);
    paused_until_ = now_;
    refresh();
  }

  void step(Instant store_now) {
    enter(store_now);
    refresh();
  }

  std::optional<Wake> take_wake() {
    if (!turn_at_) return std::nullopt;
    const Wake wake{turn_id_, waiter_of(turn_id_)->shim, *turn_at_ - offset_};
    if (told_ == wake) return std::nullopt;
    told_ = wake;
    return wake;
  }

  std::optional<Instant> next_event() const {
    if (leases_.empty() && waiters_.empty()) return std::nullopt;
    Instant next = last_ + 5s;
    for (const Call& lease : leases_) next = std::min(next, lease.deadline);
    for (const Call& waiter : waiters_) next = std::min(next, waiter.deadline);
    for (const auto& [name, shim] : shims_) {
      if (shim.live) next = std::min(next, shim.seen_at + 6s);
      if (shim.withheld_ppm > 0) next = std::min(next, shim.withheld_until);
    }
    if (turn_at_) next = std::min(next, *turn_at_ + 2s);
    return next - offset_;
  }

  // The last admission went past a head that could not go, or that could not go after it.
  [[nodiscard]] bool passed_blocked_head() const { return passed_blocked_head_; }

  [[nodiscard]] MicroTokens tokens() const { return floor_micro(tok_); }
  [[nodiscard]] MicroRequests requests() const { return floor_micro(req_); }
  [[nodiscard]] MicroTokens output() const { return floor_micro(out_); }
  [[nodiscard]] std::int64_t kappa_micro() const { return kappa_; }
  [[nodiscard]] std::int64_t version() const { return version_; }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] Tokens inflight() const {
    Tokens sum = 0;
    for (const Call& lease : leases_) sum += lease.estimate;
    return sum;
  }
  [[nodiscard]] std::vector<std::string> lease_ids() const {
    std::vector<std::string> ids;
    ids.reserve(leases_.size());
    for (const Call& lease : leases_) ids.push_back(lease.id);
    std::ranges::sort(ids);
    return ids;
  }
  [[nodiscard]] std::vector<std::string> waiter_ids() const {
    std::vector<Call> all = waiters_;
    std::ranges::sort(all, before);
    std::vector<std::string> ids;
    ids.reserve(all.size());
    for (const Call& waiter : all) ids.push_back(waiter.id);
    return ids;
  }
  // Of all windows together since the beginning.
  [[nodiscard]] const Window& counted() const { return count_; }

 private:
  static constexpr std::int64_t kPico = 1'000'000'000'000;  // Levels: 10^-12 token or request.

  struct Call {  // A waiter or a lease.
    std::string id, shim;
    Tokens estimate = 0, charge = 0, output = 0;
    Weights weights;
    Micros score{0};
    Instant registered, deadline, since;
    Micros ttl{0};
    bool reserves = true;
    bool rebuilt = false;
  };
  struct Shim {
    Instant seen_at;
    bool live = true;
    std::int64_t withheld_ppm = 0;
    Instant withheld_until;
    std::vector<std::int64_t> admissions;  // Their windows.
  };

  static MicroTokens floor_micro(Wide level) {
    Wide floored = level / kMicro;
    if (floored * kMicro > level) --floored;
    return static_cast<MicroTokens>(floored);
  }
  static bool before(const Call& a, const Call& b) {
    return a.score != b.score ? a.score < b.score : a.id < b.id;
  }
  [[nodiscard]] Tokens c_burst() const { return config_.limits.c_burst; }
  [[nodiscard]] std::int64_t window() const { return now_.since_zero / 10s; }

  [[nodiscard]] std::int64_t left(std::int64_t rate) const {
    std::int64_t withheld = 0;
    for (const auto& [name, shim] : shims_) withheld += shim.withheld_ppm;
    withheld = std::min<std::int64_t>(withheld, 900'000);
    return std::max<std::int64_t>(
        static_cast<std::int64_t>(Wide{rate} * (kMicro - withheld) / kMicro), 1);
  }
  // 10^-12 units a microsecond.
  [[nodiscard]] Wide tok_rate() const { return Wide{left(config_.limits.r_tok)} * kMicro; }
  [[nodiscard]] Wide req_rate() const { return left(config_.limits.r_qps); }
  [[nodiscard]] Wide out_rate() const {
    return Wide{left(config_.limits.r_out.value_or(1))} * kMicro;
  }

  void enter(Instant store_now) {
    now_ = store_now + offset_;
    const bool busy = !leases_.empty() || !waiters_.empty();
    if (now_ < last_ || (busy && now_ - last_ > 10s)) {
      if (now_ > last_) ++epoch_;
      offset_ += last_ - now_;
      now_ = last_;
    }
    const std::int64_t gone = (now_ - last_).count();
    last_ = now_;
    tok_ = std::min(tok_ + tok_rate() * gone, Wide{c_burst()} * kPico);
    req_ = std::min(req_ + req_rate() * gone, Wide{config_.limits.c_req} * kPico);
    out_ = std::min(out_ + out_rate() * gone, Wide{config_.limits.c_out.value_or(0)} * kPico);

    const Call* head = head_of();
    if (head != nullptr && head->id == turn_id_ && turn_at_ && *turn_at_ + 2s <= now_) {
      waiter_of(turn_id_)->reserves = false;
    }
    std::erase_if(leases_, [this](const Call& lease) {
      if (lease.deadline > now_) return false;
      released_.emplace_back(window(), lease.estimate);
      count_.released_tokens += lease.estimate;
      return true;
    });
    std::erase_if(waiters_, [this](const Call& waiter) {
      if (waiter.deadline > now_) return false;
      count_.timeouts += 1;
      return true;
    });
    for (auto& [name, shim] : shims_) {
      if (!shim.live || shim.seen_at + 6s > now_) continue;
      shim.live = false;
      const auto owned = [&name](const Call& call) { return call.shim == name; };
      if (std::ranges::none_of(leases_, owned) && std::ranges::none_of(waiters_, owned)) continue;
      shim.withheld_ppm = share(name) * 9 / 10;
      shim.withheld_until = now_ + 600s;
    }
    std::erase_if(ended_, [this](const auto& ended) { return ended.second <= now_; });
    for (auto& [name, shim] : shims_) {
      if (shim.withheld_until <= now_) shim.withheld_ppm = 0;
    }
    std::erase_if(shims_, [this](const auto& entry) {
      return !entry.second.live && entry.second.seen_at + 660s <= now_;
    });
  }

  void seen(const std::string& name) {
    Shim& shim = shims_[name];
    shim.seen_at = now_;
    shim.live = true;
    shim.withheld_ppm = 0;
  }

  [[nodiscard]] std::int64_t share(const std::string& name) const {
    std::int64_t own = 0;
    std::int64_t all = 0;
    for (const auto& [shim_name, shim] : shims_) {
      for (const std::int64_t index : shim.admissions) {
        if (index <= window() - 30) continue;
        all += 1;
        own += shim_name == name ? 1 : 0;
      }
    }
    return all == 0 ? 0 : own * kMicro / all;
  }

  Call make(const AcquireRequest& request) const {
    Call asker;
    asker.id = request.id;
    asker.shim = request.shim;
    asker.estimate = request.estimate;
    asker.charge = request.charge;
    asker.output = request.output;
    asker.weights = request.weights;
    const Micros refill{std::min(request.charge, c_burst()) * kMicro / config_.limits.r_tok};
    asker.score = now_.since_zero - request.since - std::min<Micros>(refill, 15s) -
                  request.head_start;
    asker.registered = now_;
    asker.deadline = now_ + request.hold_left;
    return asker;
  }

  Call* lease_of(std::string_view id) {
    const auto found = std::ranges::find(leases_, id, &Call::id);
    return found == leases_.end() ? nullptr : &*found;
  }
  Call* waiter_of(std::string_view id) {
    const auto found = std::ranges::find(waiters_, id, &Call::id);
    return found == waiters_.end() ? nullptr : &*found;
  }
  void drop_waiter(const std::string& id) {
    std::erase_if(waiters_, [&id](const Call& waiter) { return waiter.id == id; });
  }
  const Call* head_of() const {
    const Call* head = nullptr;
    for (const Call& waiter : waiters_) {
      const auto shim = shims_.find(waiter.shim);
      if (!waiter.reserves || shim == shims_.end() || !shim->second.live) continue;
      if (head == nullptr || before(waiter, *head)) head = &waiter;
    }
    return head;
  }

  void add(Wide& level, Tokens tokens, std::int64_t capacity) {
    level += Wide{tokens} * kPico;
    level = std::clamp(level, -Wide{kDebtMax} * kMicro, Wide{capacity} * kPico);
  }
  void draw(const Call& call, int sign) {
    add(tok_, -sign * call.charge, c_burst());
    add(req_, -sign, config_.limits.c_req);
    if (config_.limits.c_out) add(out_, -sign * call.output, *config_.limits.c_out);
  }
  void end(const Call& lease) {
    const std::string shim = lease.shim;
    ended_[lease.id] = now_ + 2 * lease.ttl;
    released_.emplace_back(window(), lease.estimate);
    count_.released_tokens += lease.estimate;
    std::erase_if(leases_, [id = lease.id](const Call& call) { return call.id == id; });
    seen(shim);
  }

  // After `ahead` of time, with the same leases.
  [[nodiscard]] bool goes_after(Micros ahead, Tokens charge, std::int64_t requests, Tokens estimate,
                                Tokens output) const {
    const auto capped = [](Wide level, std::int64_t capacity) {
      return std::min(level, Wide{capacity} * kPico);
    };
    const Limits& limits = config_.limits;
    return capped(tok_ + tok_rate() * ahead.count(), c_burst()) >= Wide{charge} * kPico &&
           capped(req_ + req_rate() * ahead.count(), limits.c_req) >= Wide{requests} * kPico &&
           inflight() + estimate <= limits.k_inflight &&
           (!limits.c_out ||
            capped(out_ + out_rate() * ahead.count(), *limits.c_out) >= Wide{output} * kPico);
  }

  [[nodiscard]] Axis failing(const Call& asker, const Call* head) const {
    const Limits& limits = config_.limits;
    const auto need = [head](Tokens own, Tokens heads, Tokens most) {
      return head == nullptr ? std::min(own, most) : own + std::min(heads, most);
    };
    if (paused_until_ > now_ && !(head == nullptr && probe_at_ <= now_)) return Axis::paused;
    const Tokens charge = need(asker.charge, head == nullptr ? 0 : head->charge, c_burst());
    if (tok_ < Wide{charge} * kPico) return Axis::tok;
    if (req_ < Wide{head == nullptr ? 1 : 2} * kPico) return Axis::req;
    const Tokens estimate = need(asker.estimate, head == nullptr ? 0 : head->estimate,
                                 limits.k_inflight);
    if (inflight() + estimate > limits.k_inflight) return Axis::inflight;
    if (limits.c_out) {
      const Tokens output = need(asker.output, head == nullptr ? 0 : head->output, *limits.c_out);
      if (out_ < Wide{output} * kPico) return Axis::out;
    }
    return Axis::none;
  }
  // The shortest wait for which `there` holds, found by halves.
  static Micros first_time(const std::function<bool(Micros)>& there) {
    if (there(0us)) return 0us;
    Micros not_yet{0};
    Micros then = kWaitMax;
    while (then - not_yet > 1us) {
      const Micros middle = not_yet + (then - not_yet) / 2;
      (there(middle) ? then : not_yet) = middle;
    }
    return then;
  }

  [[nodiscard]] Micros predict(const Call& asker, std::int64_t place) const {
    const Limits& limits = config_.limits;
    Tokens charges = 0;
    Tokens estimates = 0;
    Tokens outputs = 0;
    for (const Call& waiter : waiters_) {
      charges += waiter.charge;
      estimates += waiter.estimate;
      outputs += waiter.output;
    }
    const auto count = static_cast<std::int64_t>(std::max<std::size_t>(waiters_.size(), 1));
    const auto ahead = [&](Tokens sum) { return std::min(sum / count * place, kTokensMax); };
    const Wide tok_need = Wide{ahead(charges) + std::min(asker.charge, c_burst())} * kPico;
    const Wide req_need = Wide{place + 1} * kPico;
    Micros wait = first_time([&](Micros t) { return tok_ + tok_rate() * t.count() >= tok_need; });
    wait = std::max(
        wait, first_time([&](Micros t) { return req_ + req_rate() * t.count() >= req_need; }));
    if (limits.c_out) {
      const Wide out_need = Wide{ahead(outputs) + std::min(asker.output, *limits.c_out)} * kPico;
      wait = std::max(
          wait, first_time([&](Micros t) { return out_ + out_rate() * t.count() >= out_need; }));
    }
    Wide released = 0;
    for (const auto& [index, tokens] : released_) {
      if (index >= window() - 6 && index < window()) released += tokens;
    }
    const Wide missing = inflight() + ahead(estimates) +
                         std::min(asker.estimate, limits.k_inflight) - limits.k_inflight;
    const Micros release_wait = first_time(
        [&](Micros t) { return released * t.count() >= missing * Micros{60s}.count(); });
    return std::max(wait, std::min<Micros>(release_wait, 5s));
  }

  void refresh() {
    const Call* head = head_of();
    if (head == nullptr) {
      turn_id_.clear();
      turn_at_.reset();
      return;
    }
    std::optional<Instant> at;
    const Tokens charge = std::min(head->charge, c_burst());
    const Tokens estimate = std::min(head->estimate, config_.limits.k_inflight);
    const Tokens output = std::min(head->output, config_.limits.c_out.value_or(0));
    if (inflight() + estimate <= config_.limits.k_inflight) {
      at = now_ + first_time([&](Micros t) { return goes_after(t, charge, 1, estimate, output); });
      if (paused_until_ > now_) at = std::max(*at, std::min(paused_until_, probe_at_));
    }
    const bool was_its_turn = head->id == turn_id_ && turn_at_ && *turn_at_ <= now_;
    if (was_its_turn && at == now_) return;
    turn_id_ = head->id;
    turn_at_ = at;
  }

  PoolConfig config_;
  std::int64_t version_ = 1;
  std::uint64_t epoch_ = 1;
  Micros offset_{0};
  Instant last_, now_;
  Wide tok_ = 0, req_ = 0, out_ = 0;
  std::int64_t kappa_;
  Instant paused_until_, probe_at_;
  std::vector<Call> leases_, waiters_;
  std::map<std::string, Instant> ended_;
  std::map<std::string, Shim> shims_;
  std::vector<std::pair<std::int64_t, Tokens>> released_;
  Window count_;
  std::string turn_id_;
  std::optional<Instant> turn_at_;
  std::optional<Wake> told_;
  bool passed_blocked_head_ = false;
};

}  // namespace hg::gate
