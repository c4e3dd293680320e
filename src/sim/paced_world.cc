#include "sim/paced_world.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/headers.h"
#include "base/text.h"
#include "wire/dialect.h"
#include "wire/refusal.h"

namespace hg::sim {
namespace {

constexpr Micros kHeartbeat = 2s;        // Of every shim, as the gate demands.
constexpr Micros kRetryAfter = 30s;      // In our own 429s.
constexpr Micros kExpectedAnswer = 20s;  // Room that patience leaves for the answer.
constexpr Micros kLeavesWithin = 40s;    // An agent that goes away does so within this.
constexpr double kReturnStretch = 1.25;  // Claude Code's jitter on retry-after.
constexpr Instant kStart{1000s};         // So that nothing depends on a clock that starts at 0.

wire::RefusalKind meaning(ProviderError error) {
  switch (error) {
    case ProviderError::none: return wire::RefusalKind::none;
    case ProviderError::quota: return wire::RefusalKind::quota;
    case ProviderError::rate_limit_tokens:
    case ProviderError::rate_limit_requests:
    case ProviderError::overloaded:
    case ProviderError::unavailable: return wire::RefusalKind::overload;
  }
  return wire::RefusalKind::none;
}

// What a harness' profile says of these habits; the shipped profiles hold the same in data files.
wire::HarnessProfile profile_of(const AgentHabits& habits, Micros hold_cap) {
  wire::HarnessProfile profile;
  profile.name = habits.name;
  profile.hold_cap = hold_cap;
  profile.header_timeout = habits.header_timeout;
  profile.timeout_header = habits.timeout_header;
  return profile;
}

std::string shim_name(int shim) { return "shim" + std::to_string(shim) + "-1"; }

}  // namespace

Micros percentile(std::vector<Micros> values, double share) {
  if (values.empty()) return Micros{0};
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::ceil(share * last))];
}

struct PacedWorld::State {
  struct Agent {
    ModelAgent model;
    SourceResult* source;
    wire::HarnessProfile profile;
    Headers headers;
    double leaves;
    int shim;
    bool over = false;
  };

  struct Stream {
    CallStream plan;
    SourceResult* source;
    wire::HarnessProfile profile;
    Rng rng;
  };

  // One attempt of an agent or a stream, from its arrival at the shim to its last settlement.
  struct Attempt {
    std::uint64_t key = 0;
    Agent* agent = nullptr;  // Or:
    Stream* stream = nullptr;
    Instant first_arrival;  // Streams: of this call's first attempt.
    int returns = 0;        // Streams: how often it came back.
    int shim = 0;
    AgentCall spec;
    wire::RequestFacts facts;
    std::uint64_t conversation = 0;
    Tokens shared_tokens = 0;
    std::optional<call::Call> call;  // Nothing without a gate.
    std::optional<ProviderVerdict> verdict;
    Instant sent;
    bool head_down = false;  // The agent has the head of an answer.
    bool relaying = false;
    AgentOutcome outcome;
    bool own_refusal = false;
    std::optional<Scheduler::Event> timer, answer, header_timer, total_timer, leave_timer;
  };

  explicit State(const WorldPlan& world_plan)
      : plan(world_plan),
        rng(plan.seed),
        scheduler(kStart),
        provider(plan.provider, Rng(plan.seed).next(), kStart),
        pool(plan.pool, gate::Birth::created_full, kStart) {
    HG_ASSERT(plan.shims >= 1);
    for (int shim = 0; shim < plan.shims; ++shim) {
      conversations.emplace_back();
      dead.push_back(false);
      if (plan.gated) heartbeat(shim);
    }
    for (const ShimDeath& death : plan.deaths) {
      scheduler.after(death.at, [this, shim = death.shim] { kill(shim); });
    }
    begin_agents();
    begin_streams();
  }

  void begin_agents();
  void begin_streams();
  void next_arrival(Stream& stream);

  // An attempt begins.
  Attempt& arrive(int shim);
  void agent_calls(Agent& agent, const AgentCall& spec);
  void stream_calls(Stream& stream, Instant first_arrival, int returns, std::uint64_t name);
  void describe(Attempt& attempt, const std::vector<PromptBlock>& blocks, Tokens tokens);
  void make_call(Attempt& attempt, const wire::HarnessProfile& profile, const Headers& headers,
                 const std::string& alias);

  // What proxy does: carries out steps until one waits.
  void drive(std::uint64_t key);
  bool carry_out(Attempt& attempt, const call::Step& step);  // False when it waits.
  void send(Attempt& attempt);
  void head_came(std::uint64_t key);
  void body_ended(std::uint64_t key);
  void relay(Attempt& attempt);
  void client_goes(std::uint64_t key, AgentOutcome::How how, bool for_good);
  void stop_upstream(Attempt& attempt, Tokens output);
  void finish(Attempt& attempt);
  void over(Attempt& attempt);

  // What store does: wakes and heartbeats.
  void gate_changed();
  void wake(const std::string& id);
  void heartbeat(int shim);
  void kill(int shim);

  void try_ended(const std::string& id, bool taken);
  void anomaly(std::string what) {
    if (result.anomalies.size() < 20) result.anomalies.push_back(std::move(what));
  }
  [[nodiscard]] int live_shim() {
    for (int tries = 0; tries < plan.shims; ++tries) {
      const int shim = next_shim++ % plan.shims;
      if (!dead[static_cast<std::size_t>(shim)]) return shim;
    }
    HG_ASSERT(false);
    return 0;
  }
  [[nodiscard]] Tokens output_so_far(const Attempt& attempt) const;

  WorldPlan plan;
  Rng rng;
  Scheduler scheduler;
  ModelProvider provider;
  gate::Pool pool;
  WorldResult result;

  std::vector<std::unique_ptr<Agent>> agents;
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<std::uint64_t, Attempt> attempts;
  std::map<std::string, std::uint64_t> held;         // Waiter's id -> attempt.
  std::set<std::string> open_tries;                  // Admitted, not yet ended.
  std::vector<call::Conversations> conversations;    // One a shim.
  std::map<std::string, call::OutputGuess> outputs;  // By alias.
  std::vector<bool> dead;                            // By shim.
  int next_shim = 0;
  std::uint64_t last_key = 0;
  std::optional<Scheduler::Event> wake_event, step_event;
  std::int64_t pauses_pending = 0;  // Agents between two calls, streams between arrivals.
};

void PacedWorld::State::begin_agents() {
  std::uint64_t id = 0;
  for (const AgentGroup& group : plan.agents) {
    SourceResult& source = result.sources[group.habits.name];
    Headers headers;
    if (group.habits.announced_timeout) {
      const std::int64_t announced = group.habits.announced_timeout->count() / kMicro;
      headers.add(group.habits.timeout_header, std::to_string(announced));
    }
    for (int i = 0; i < group.count; ++i) {
      agents.push_back(std::make_unique<Agent>(
          Agent{ModelAgent(group.habits, group.shape, ++id, rng.fork()), &source,
                profile_of(group.habits, group.hold_cap), headers, group.leaves, live_shim()}));
      Agent& agent = *agents.back();
      ++pauses_pending;
      scheduler.after(group.stagger * i, [this, &agent] {
        --pauses_pending;
        if (!agent.over) agent_calls(agent, agent.model.start().call);
      });
    }
  }
}

void PacedWorld::State::begin_streams() {
  for (const CallStream& stream : plan.streams) {
    AgentHabits habits;
    habits.name = stream.name;
    streams.push_back(std::make_unique<Stream>(Stream{
        stream, &result.sources[stream.name], profile_of(habits, stream.hold_cap), rng.fork()}));
    ++pauses_pending;
    next_arrival(*streams.back());
  }
}

void PacedWorld::State::next_arrival(Stream& stream) {
  const double gap = stream.rng.exponential(1.0 / stream.plan.calls_per_second);
  const Instant when = scheduler.now() + Micros(std::llround(gap * 1e6));
  if (when - kStart > stream.plan.until) {
    --pauses_pending;
    return;
  }
  scheduler.at(when, [this, &stream] {
    next_arrival(stream);
    stream_calls(stream, scheduler.now(), 0, rng.next());
  });
}

PacedWorld::State::Attempt& PacedWorld::State::arrive(int shim) {
  const std::uint64_t key = ++last_key;
  Attempt& attempt = attempts[key];
  attempt.key = key;
  attempt.shim = shim;
  return attempt;
}

void PacedWorld::State::agent_calls(Agent& agent, const AgentCall& spec) {
  Attempt& attempt = arrive(agent.shim);
  const std::uint64_t key = attempt.key;
  attempt.agent = &agent;
  attempt.spec = spec;
  ++agent.source->calls;
  attempt.conversation = agent.model.id();
  describe(attempt, spec.blocks, spec.prompt_tokens);
  attempt.facts.max_output = spec.max_output;
  if (spec.header_timeout) {
    attempt.header_timer = scheduler.after(*spec.header_timeout, [this, key] {
      if (!attempts.at(key).head_down) client_goes(key, AgentOutcome::How::timed_out, false);
    });
  }
  if (spec.total_timeout) {
    attempt.total_timer = scheduler.after(*spec.total_timeout, [this, key] {
      client_goes(key, AgentOutcome::How::timed_out, false);
    });
  }
  if (agent.leaves > 0 && rng.chance(agent.leaves)) {
    const Micros when(rng.integer(0, kLeavesWithin.count()));
    attempt.leave_timer = scheduler.after(
        when, [this, key] { client_goes(key, AgentOutcome::How::timed_out, true); });
  }
  if (plan.gated) {
    make_call(attempt, agent.profile, agent.headers, agent.model.habits().name);
    drive(key);
  } else {
    send(attempt);
  }
}

void PacedWorld::State::stream_calls(Stream& stream, Instant first_arrival, int returns,
                                     std::uint64_t name) {
  // Agents of one conversation stay with one shim, so a call that comes back does too.
  int shim = static_cast<int>(name % static_cast<std::uint64_t>(plan.shims));
  if (dead[static_cast<std::size_t>(shim)]) shim = live_shim();
  Attempt& attempt = arrive(shim);
  attempt.stream = &stream;
  attempt.first_arrival = first_arrival;
  attempt.returns = returns;
  ++stream.source->calls;
  attempt.conversation = name;
  attempt.spec.prompt_tokens = stream.plan.tokens;
  attempt.spec.output = stream.plan.output;
  describe(attempt, {}, stream.plan.tokens);
  attempt.facts.prompt_hash = name;
  const std::uint64_t key = attempt.key;
  if (plan.gated) {
    make_call(attempt, stream.profile, Headers(), stream.plan.name);
    drive(key);
  } else {
    send(attempt);
  }
}

void PacedWorld::State::describe(Attempt& attempt, const std::vector<PromptBlock>& blocks,
                                 Tokens tokens) {
  const auto chars = [&](Tokens count) {
    return std::int64_t{std::llround(static_cast<double>(count) * plan.chars_per_token)};
  };
  attempt.facts.text_chars = chars(tokens);
  attempt.facts.stream = attempt.spec.stream;
  for (const PromptBlock& block : blocks) {
    attempt.facts.prefix.push_back({block.hash, chars(block.tokens)});
    attempt.facts.prompt_hash = block.hash;
  }
}

void PacedWorld::State::make_call(Attempt& attempt, const wire::HarnessProfile& profile,
                                  const Headers& headers, const std::string& alias) {
  const Instant now = scheduler.now();
  call::Conversations& memory = conversations[static_cast<std::size_t>(attempt.shim)];
  const call::Conversations::Arrival arrival = memory.arrive(attempt.conversation, attempt.facts,
                                                             plan.provider.cache_lifetime, now);

  call::PoolFacts facts;
  facts.kappa_micro = pool.kappa_micro();
  facts.weights = pool.config().weights;
  facts.c_burst = pool.config().limits.c_burst;
  facts.c_out = pool.config().limits.c_out;
  wire::ProviderProfile provider_profile;
  provider_profile.refused_calls_count = plan.provider.refused_calls_count;
  provider_profile.reserves_max_output = plan.provider.reserves_max_output;
  call::Outlook outlook;
  outlook.cached_chars = arrival.cached_chars;
  outlook.expected_output = outputs[alias].expected();
  const call::Estimate estimate = call::estimate_call(attempt.facts, facts, provider_profile,
                                                      outlook);
  attempt.shared_tokens = arrival.shared_chars * kMicro / facts.kappa_micro;

  call::Demand demand;
  demand.shim = shim_name(attempt.shim);
  demand.id_prefix = demand.shim + "." + std::to_string(attempt.key);
  demand.alias = alias;
  demand.since = arrival.since;
  call::fill_demand(demand, estimate, attempt.facts, facts, provider_profile);
  const call::Patience patience = call::patience_for(profile, headers, kExpectedAnswer,
                                                     plan.patience);
  attempt.call.emplace(std::move(demand), patience, rng.fork(), now);
}

void PacedWorld::State::drive(std::uint64_t key) {
  for (;;) {
    Attempt& attempt = attempts.at(key);
    const call::Step step = attempt.call->next(scheduler.now());
    if (step.what == call::Do::finish) {
      finish(attempt);
      return;
    }
    if (!carry_out(attempt, step)) return;
  }
}

bool PacedWorld::State::carry_out(Attempt& attempt, const call::Step& step) {
  const Instant now = scheduler.now();
  call::Call& call = *attempt.call;
  const std::uint64_t key = attempt.key;
  switch (step.what) {
    case call::Do::ask: {
      const gate::AcquireReply reply = pool.acquire(step.ask, now);
      gate_changed();
      if (reply.verdict == gate::Verdict::admitted) {
        ++result.admitted;
        if (!open_tries.insert(step.id).second) anomaly("admitted twice: " + step.id);
      }
      call.on_reply(reply, now);
      return true;
    }
    case call::Do::wait:
    case call::Do::back_off:
      if (step.what == call::Do::wait) held[step.id] = key;
      attempt.timer = scheduler.at(step.until, [this, key, id = step.id] {
        held.erase(id);
        Attempt& woken = attempts.at(key);
        woken.timer.reset();
        woken.call->on_timer(scheduler.now());
        drive(key);
      });
      return false;
    case call::Do::send: send(attempt); return false;
    case call::Do::relay: relay(attempt); return false;
    case call::Do::refuse:
      attempt.own_refusal = step.refusal != call::OwnRefusal::upstream;
      if (attempt.own_refusal) {
        attempt.outcome = AgentOutcome(AgentOutcome::How::refused, 429, kRetryAfter, 0);
        conversations[static_cast<std::size_t>(attempt.shim)].refused(
            attempt.conversation, attempt.facts.prompt_hash, call.record().seniority, now);
      } else {
        attempt.outcome = AgentOutcome(AgentOutcome::How::refused, 502, std::nullopt, 0);
      }
      call.on_done(now);
      return true;
    case call::Do::leave:
      pool.leave(step.id,
                 step.timed_out ? gate::Pool::Leaving::timed_out : gate::Pool::Leaving::gone, now);
      break;
    case call::Do::give_back: try_ended(step.id, pool.overload(step.id, now)); break;
    case call::Do::settle: try_ended(step.id, pool.settle(step.settle, now)); break;
    case call::Do::pause_pool:
      for (const gate::Wake& told : pool.pause(step.pause, now)) {
        scheduler.at(now, [this, id = told.id] { wake(id); });
      }
      break;
    case call::Do::finish: return false;
  }
  gate_changed();
  call.on_done(now);
  return true;
}

void PacedWorld::State::send(Attempt& attempt) {
  ProviderRequest request;
  request.prompt_tokens = attempt.spec.prompt_tokens;
  request.blocks = attempt.spec.blocks;
  request.max_output = attempt.spec.max_output;
  request.output_planned = attempt.spec.output;
  request.stream = attempt.spec.stream;
  attempt.sent = scheduler.now();
  attempt.verdict = provider.decide(request, scheduler.now());
  attempt.answer = scheduler.after(attempt.verdict->first_byte,
                                   [this, key = attempt.key] { head_came(key); });
}

void PacedWorld::State::head_came(std::uint64_t key) {
  Attempt& attempt = attempts.at(key);
  attempt.answer.reset();
  const ProviderVerdict& verdict = *attempt.verdict;
  if (!plan.gated) {
    relay(attempt);
    return;
  }
  const Instant now = scheduler.now();
  if (verdict.kind == ProviderVerdict::Kind::drop) {
    attempt.call->on_no_answer(call::NoAnswer::no_bytes, now);
  } else {
    call::Answer answer;
    answer.status = verdict.status;
    answer.refusal.kind = meaning(verdict.error);
    answer.refusal.retry_after = verdict.retry_after;
    attempt.call->on_answer(answer, now);
  }
  drive(key);
}

void PacedWorld::State::relay(Attempt& attempt) {
  attempt.head_down = true;
  attempt.relaying = true;
  const ProviderVerdict& verdict = *attempt.verdict;
  const Micros rest = verdict.duration() - verdict.first_byte;
  attempt.answer = scheduler.after(rest, [this, key = attempt.key] { body_ended(key); });
}

void PacedWorld::State::body_ended(std::uint64_t key) {
  using How = AgentOutcome::How;
  Attempt& attempt = attempts.at(key);
  attempt.answer.reset();
  const ProviderVerdict& verdict = *attempt.verdict;
  call::End end;
  switch (verdict.kind) {
    case ProviderVerdict::Kind::accept: {
      const Tokens output = verdict.cut_after_output.value_or(verdict.output);
      stop_upstream(attempt, output);
      gate::Usage usage;
      usage.uncached = verdict.uncached;
      usage.cached = verdict.cached;
      usage.output = output;
      end.output_seen = output > 0;
      if (verdict.cut_after_output) {
        provider.count_cut();
        end.how = call::End::How::upstream_broke;
        // Anthropic's shape tells the input at the start; OpenAI's tells nothing before the end.
        if (rng.chance(0.5)) {
          usage.output = 0;
          end.usage = usage;
          end.output_estimate = output;
        }
        attempt.outcome = AgentOutcome(How::cut, 200, std::nullopt, output);
      } else {
        end.usage = usage;
        attempt.outcome = AgentOutcome(How::answered, 200, std::nullopt, output);
      }
      break;
    }
    case ProviderVerdict::Kind::refuse:
      attempt.outcome = AgentOutcome(How::refused, verdict.status, verdict.retry_after, 0);
      break;
    case ProviderVerdict::Kind::refuse_in_stream:
      attempt.outcome = AgentOutcome(How::stream_error, 200, std::nullopt, 0);
      break;
    case ProviderVerdict::Kind::drop:
      attempt.outcome = AgentOutcome(How::cut, 0, std::nullopt, 0);
      break;
  }
  attempt.relaying = false;
  if (!plan.gated) {
    finish(attempt);
    return;
  }
  attempt.call->on_end(end, scheduler.now());
  drive(key);
}

Tokens PacedWorld::State::output_so_far(const Attempt& attempt) const {
  const ProviderVerdict& verdict = *attempt.verdict;
  const Micros flowing = scheduler.now() - attempt.sent - verdict.first_byte;
  if (flowing <= Micros{0} || verdict.per_output_token <= Micros{0}) return 0;
  return std::min<Tokens>(flowing / verdict.per_output_token, verdict.output);
}

void PacedWorld::State::stop_upstream(Attempt& attempt, Tokens output) {
  scheduler.cancel(attempt.answer);
  if (attempt.verdict && attempt.verdict->id != 0) {
    provider.finished(attempt.verdict->id, output, scheduler.now());
  }
}

void PacedWorld::State::client_goes(std::uint64_t key, AgentOutcome::How how, bool for_good) {
  Attempt& attempt = attempts.at(key);
  attempt.outcome = AgentOutcome(how, 0, std::nullopt, 0);
  if (for_good && attempt.agent != nullptr) attempt.agent->over = true;
  const Tokens output = attempt.relaying ? output_so_far(attempt) : 0;
  stop_upstream(attempt, output);
  if (!plan.gated) {
    finish(attempt);
    return;
  }
  const Instant now = scheduler.now();
  scheduler.cancel(attempt.timer);
  const call::Step step = attempt.call->next(now);
  held.erase(step.id);
  if (attempt.relaying) {
    call::End end;
    end.how = call::End::How::client_gone;
    end.output_seen = output > 0;
    if (attempt.verdict->kind == ProviderVerdict::Kind::accept) {
      gate::Usage usage;
      usage.uncached = attempt.verdict->uncached;
      usage.cached = attempt.verdict->cached;
      end.usage = usage;
      end.output_estimate = output;
    }
    attempt.relaying = false;
    attempt.call->on_end(end, now);
  } else {
    attempt.call->on_client_gone(now);
  }
  drive(key);
}

void PacedWorld::State::finish(Attempt& attempt) {
  scheduler.cancel(attempt.timer);
  scheduler.cancel(attempt.answer);
  scheduler.cancel(attempt.header_timer);
  scheduler.cancel(attempt.total_timer);
  scheduler.cancel(attempt.leave_timer);
  Attempt done = std::move(attempt);
  attempts.erase(done.key);
  SourceResult& source = done.agent != nullptr ? *done.agent->source : *done.stream->source;
  switch (done.outcome.how) {
    case AgentOutcome::How::answered: ++source.answered; break;
    case AgentOutcome::How::cut: ++source.failed; break;
    case AgentOutcome::How::stream_error: ++source.refused_by_provider; break;
    case AgentOutcome::How::timed_out: ++source.timed_out; break;
    case AgentOutcome::How::refused:
      if (done.own_refusal) {
        ++source.refused_by_us;
      } else if (done.outcome.status == 502) {
        ++source.failed;
      } else {
        ++source.refused_by_provider;
      }
      break;
  }
  if (done.call) {
    const call::Record& record = done.call->record();
    source.waits.push_back(record.waited);
    if (record.tries > 0) source.admitted_waits.push_back(record.waited);
    const std::string prefix = done.call->demand().id_prefix + ".";
    const auto left = open_tries.lower_bound(prefix);
    if (left != open_tries.end() && left->starts_with(prefix)) {
      anomaly("finished with a lease: " + *left);
    }
    if (done.call->lease()) anomaly("finished and claims a lease");
    if (record.outcome == call::Record::Outcome::ok && record.usage) {
      conversations[static_cast<std::size_t>(done.shim)].answered(
          done.conversation, done.facts, done.shared_tokens, record.usage, scheduler.now());
      outputs[done.call->demand().alias].observe(record.usage->output);
    }
  }
  over(done);
}

// The agent's turn: what it does after an attempt.
void PacedWorld::State::over(Attempt& done) {
  if (done.agent != nullptr) {
    Agent& agent = *done.agent;
    if (agent.over) {
      ++agent.source->tasks_left;
      return;
    }
    const AgentMove move = agent.model.next(done.outcome);
    if (move.what == AgentMove::What::call) {
      ++pauses_pending;
      scheduler.after(move.pause, [this, &agent, spec = move.call] {
        --pauses_pending;
        if (!agent.over) agent_calls(agent, spec);
      });
      return;
    }
    agent.over = true;
    ++(move.what == AgentMove::What::done ? agent.source->tasks_done : agent.source->tasks_lost);
    return;
  }
  Stream& stream = *done.stream;
  const Instant admitted = done.verdict ? done.sent : scheduler.now();
  const bool refused = done.outcome.how != AgentOutcome::How::answered;
  if (refused && done.returns < stream.plan.returns) {
    const Micros told = done.outcome.retry_after.value_or(Micros{1s});
    const double stretch = stream.rng.uniform(1.0, kReturnStretch);
    const Micros pause(std::llround(static_cast<double>(told.count()) * stretch));
    ++pauses_pending;
    scheduler.after(pause, [this, &stream, first = done.first_arrival, returns = done.returns + 1,
                            name = done.conversation] {
      --pauses_pending;
      stream_calls(stream, first, returns, name);
    });
    return;
  }
  if (refused) ++stream.source->given_up;
  stream.source->totals.push_back(admitted - done.first_arrival);
}

void PacedWorld::State::gate_changed() {
  if (const std::optional<gate::Wake> told = pool.take_wake()) {
    scheduler.cancel(wake_event);
    wake_event = scheduler.at(told->at, [this, id = told->id] {
      wake_event.reset();
      wake(id);
    });
  }
  scheduler.cancel(step_event);
  if (const std::optional<Instant> next = pool.next_event()) {
    step_event = scheduler.at(*next, [this] {
      step_event.reset();
      pool.step(scheduler.now());
      gate_changed();
    });
  }
}

void PacedWorld::State::wake(const std::string& id) {
  const auto found = held.find(id);
  if (found == held.end()) return;
  const std::uint64_t key = found->second;
  held.erase(found);
  Attempt& attempt = attempts.at(key);
  scheduler.cancel(attempt.timer);
  attempt.call->on_timer(scheduler.now());
  drive(key);
}

void PacedWorld::State::heartbeat(int shim) {
  if (dead[static_cast<std::size_t>(shim)]) return;
  std::vector<gate::LeaseRenewal> leases;
  bool waits = false;
  for (const auto& [key, attempt] : attempts) {
    if (attempt.shim != shim || !attempt.call) continue;
    waits = true;
    if (auto lease = attempt.call->lease()) leases.push_back(*std::move(lease));
  }
  if (waits) {
    std::size_t from = 0;
    do {
      const std::size_t count = std::min(leases.size() - from, gate::kRenewMax);
      pool.renew(shim_name(shim), std::span(leases).subspan(from, count), plan.patience.lease_ttl,
                 scheduler.now());
      from += count;
    } while (from < leases.size());
    gate_changed();
  }
  scheduler.after(kHeartbeat, [this, shim] { heartbeat(shim); });
}

void PacedWorld::State::kill(int shim) {
  dead[static_cast<std::size_t>(shim)] = true;
  for (const auto& agent : agents) {
    if (agent->shim != shim || agent->over) continue;
    agent->over = true;
    ++agent->source->tasks_left;
  }
  for (auto it = attempts.begin(); it != attempts.end();) {
    Attempt& attempt = it->second;
    if (attempt.shim != shim) {
      ++it;
      continue;
    }
    stop_upstream(attempt, attempt.relaying ? output_so_far(attempt) : 0);
    scheduler.cancel(attempt.timer);
    scheduler.cancel(attempt.header_timer);
    scheduler.cancel(attempt.total_timer);
    scheduler.cancel(attempt.leave_timer);
    if (attempt.call) {
      if (const auto lease = attempt.call->lease()) {
        open_tries.erase(lease->id);
        ++result.ended;  // By its deadline, in the pool.
      }
    }
    if (attempt.stream != nullptr) ++attempt.stream->source->tasks_left;
    std::erase_if(held, [&](const auto& entry) { return entry.second == attempt.key; });
    it = attempts.erase(it);
  }
}

void PacedWorld::State::try_ended(const std::string& id, bool taken) {
  const bool known = open_tries.erase(id) == 1;
  if (known) ++result.ended;
  if (known && !taken) anomaly("the pool had lost the lease of " + id);
  if (!known) anomaly("ended twice: " + id);
}

PacedWorld::PacedWorld(const WorldPlan& plan) : state_(std::make_unique<State>(plan)) {}

PacedWorld::~PacedWorld() = default;

void PacedWorld::run_for(Micros duration) {
  state_->scheduler.run_until(state_->scheduler.now() + duration);
}

bool PacedWorld::quiet() const { return state_->attempts.empty() && state_->pauses_pending == 0; }

Instant PacedWorld::now() const { return state_->scheduler.now(); }

WorldResult PacedWorld::result() {
  WorldResult result = state_->result;
  result.provider = state_->provider.books();
  result.limit_used = state_->provider.limit_used(state_->scheduler.now());
  double hits = 0;
  for (const call::Conversations& memory : state_->conversations) hits += memory.hit_rate();
  result.hit_rate = hits / static_cast<double>(state_->conversations.size());
  result.kappa = static_cast<double>(state_->pool.kappa_micro()) / 1e6;
  return result;
}

const gate::Pool& PacedWorld::pool() const { return state_->pool; }
gate::Pool& PacedWorld::pool() { return state_->pool; }
ModelProvider& PacedWorld::provider() { return state_->provider; }

}  // namespace hg::sim
