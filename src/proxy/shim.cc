#include "proxy/shim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "call/conversations.h"
#include "call/estimate.h"
#include "proxy/forward.h"
#include "proxy/key_id.h"
#include "proxy/leg.h"
#include "proxy/own_answer.h"
#include "proxy/paced_call.h"
#include "proxy/route.h"
#include "proxy/side_decoder.h"
#include "wire/errors.h"

namespace hg::proxy {
namespace {

constexpr Micros kHeartbeat = 2s;
// Characters in one byte of a compressed request that we cannot read: text shrinks to about a
// third.
constexpr std::int64_t kExpansion = 3;

// Under load, as Anthropic says it: no agent gets to see one, also for what is not paced.
constexpr int kOverloaded = 529;
constexpr Micros kOverloadedAgain = 5s;

// Something about a request that makes us refuse it.
struct Refused {
  int status = 400;
  std::string code;
  std::string message;
  std::optional<Micros> retry_after;

  Refused(int its_status, std::string its_code, std::string its_message)
      : status(its_status), code(std::move(its_code)), message(std::move(its_message)) {}
};

template <typename T>
using OrRefused = std::expected<T, Refused>;

std::unexpected<Refused> refused(int status, std::string code, std::string message) {
  return std::unexpected<Refused>(Refused(status, std::move(code), std::move(message)));
}

// Other upgrades (h2c, which some HTTP stacks offer with every request) may be ignored.
bool asks_for_websocket(const Headers& headers) {
  const auto protocols = headers.list("upgrade");
  return std::any_of(protocols.begin(), protocols.end(),
                     [](std::string_view protocol) { return iequals(protocol, "websocket"); });
}

// A name for a pool, from parts that may hold anything: characters that cannot stand in a path
// become '_', and what was changed or cut is told apart by a hash.
std::string pool_name(std::string_view upstream, std::string_view family, std::string_view key) {
  std::string clean(family.substr(0, 48));
  for (char& c : clean) {
    const std::string one = std::string("x") + c;
    if (!valid_attribution(one)) c = '_';
  }
  if (clean != family) clean += fmt::format("-{:08x}", stable_hash(family) & 0xffffffffU);
  return fmt::format("{}:{}:{}", upstream, clean.empty() ? "any" : clean, key);
}

// What a request in a coding asks for, in plain text; nothing when we cannot read it.
std::optional<std::string> decoded(const Headers& headers, const std::string& body,
                                   std::size_t limit) {
  SideDecoder decoder(codings_of(headers), limit);
  std::string text;
  decoder.feed(body, [&](std::string_view piece) { text.append(piece); });
  if (!decoder.readable()) return std::nullopt;
  return text;
}

// What is assumed of a body that nobody here can read: paced by its size.
wire::RequestFacts facts_by_size(const wire::Endpoint& endpoint, std::string_view body,
                                 std::int64_t chars_per_byte) {
  wire::RequestFacts facts;
  facts.model = endpoint.model;
  facts.stream = endpoint.streams;
  facts.text_chars = static_cast<std::int64_t>(body.size()) * chars_per_byte;
  // Coming back, it is known by its bytes; unhashed, any such call would be taken for another.
  facts.prompt_hash = stable_hash(body);
  facts.text_counted = false;
  return facts;
}

}  // namespace

struct Shim::State {
  State(const net::Executor& executor, const Clock& clock, store::MemoryStore& store,
        net::Client& client, const wire::Profiles& its_profiles, ShimConfig its_config,
        CallLog& log)
      : parts(executor, clock, store, client, log),
        profiles(its_profiles),
        config(std::move(its_config)),
        rng(os_random_seed()) {
    if (config.salt.empty()) config.salt = fmt::format("{:016x}", rng.next());
    if (config.id.empty()) {
      config.id = fmt::format("{:x}-{:x}", ::getpid(), clock.wall().since_epoch.count());
    }
  }

  // Who sends a request, and what for, as far as its head tells.
  struct Caller {
    Route route;
    wire::Endpoint endpoint;
    wire::Dialect dialect = wire::Dialect::other;  // For errors of ours.
    const wire::HarnessProfile* harness = nullptr;
    Upstream upstream;
    const wire::ProviderProfile* provider = nullptr;
  };

  [[nodiscard]] Result<void> check(const Upstream& upstream) const;
  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] const Upstream* find_upstream(std::string_view name) const;
  [[nodiscard]] const PoolRule* find_rule(std::string_view name) const;
  [[nodiscard]] const wire::ProviderProfile& provider_of(const Upstream& upstream) const;
  [[nodiscard]] const Upstream& choose_upstream(const Caller& caller) const;
  [[nodiscard]] gate::PoolConfig pool_config(const PoolRule* rule,
                                             const wire::ProviderProfile& provider) const;
  [[nodiscard]] OrRefused<void> read_route(const net::RequestHead& head, Caller& caller) const;

  net::Task<void> answer(net::ServerExchange& exchange, Instant started);
  net::Task<void> pass_free(net::ServerExchange& exchange, const Caller& caller);
  net::Task<void> pace(net::ServerExchange& exchange, const Caller& caller, Instant started);
  net::Task<std::unique_ptr<CallSetup>> prepare(net::ServerExchange& exchange, const Caller& caller,
                                                Instant started);
  net::Task<void> refuse(net::ServerExchange& exchange, wire::Dialect dialect, Refused why);
  net::Task<void> heartbeat();
  net::Task<void> beat_once();

  [[nodiscard]] OrRefused<wire::RequestFacts> facts_of(const net::RequestHead& head,
                                                       const Caller& caller,
                                                       const std::string& body);
  [[nodiscard]] net::Task<Result<std::string>> pool_for(const Caller& caller,
                                                        const Headers& headers,
                                                        const std::string& model);
  void ask_for_usage(CallSetup& setup, const Headers& headers) const;
  void fill_setup(CallSetup& setup, const Caller& caller, const Headers& headers,
                  const store::PoolSummary& pool);
  [[nodiscard]] CallEntry entry_of(const Caller& caller, Instant started) const;
  void record_refused(CallEntry entry, int status, Instant started);
  [[nodiscard]] net::RequestHead head_up(net::ServerExchange& exchange, const Caller& caller) const;
  void start_heartbeat();

  CallParts parts;
  const wire::Profiles& profiles;
  ShimConfig config;
  Rng rng;
  std::uint64_t sequence = 0;
  bool beating = false;
  bool stopping = false;
  ShimStats stats;
};

// ---- Configuration ----------------------------------------------------------------------------

Result<void> Shim::State::check(const Upstream& upstream) const {
  if (!valid_attribution(upstream.name)) {
    return fail(Errc::invalid,
                "the name of an upstream may hold letters, digits, '-', '_', '.', "
                "':', '+' and '~' only");
  }
  if (!upstream.profile.empty() && profiles.provider(upstream.profile) == nullptr) {
    return fail(Errc::invalid, fmt::format("upstream {} has the unknown provider profile \"{}\"",
                                           upstream.name, upstream.profile));
  }
  return {};
}

Result<void> Shim::State::check() const {
  if (config.upstreams.empty()) return fail(Errc::invalid, "at least one upstream is needed");
  for (const Upstream& upstream : config.upstreams) {
    const Result<void> good = check(upstream);
    if (!good) return good;
  }
  if (!config.default_upstream.empty() && find_upstream(config.default_upstream) == nullptr) {
    return fail(Errc::invalid, fmt::format("the default upstream \"{}\" is not among the upstreams",
                                           config.default_upstream));
  }
  for (const PoolRule& rule : config.pools) {
    if (!valid_attribution(rule.name)) {
      return fail(Errc::invalid,
                  "the name of a pool may hold letters, digits, '-', '_', '.', ':', "
                  "'+' and '~' only");
    }
    if (!rule.upstream.empty() && find_upstream(rule.upstream) == nullptr) {
      return fail(Errc::invalid, fmt::format("pool {} names the unknown upstream \"{}\"", rule.name,
                                             rule.upstream));
    }
  }
  return {};
}

const Upstream* Shim::State::find_upstream(std::string_view name) const {
  const auto found = std::find_if(config.upstreams.begin(), config.upstreams.end(),
                                  [&](const Upstream& upstream) { return upstream.name == name; });
  return found == config.upstreams.end() ? nullptr : &*found;
}

const PoolRule* Shim::State::find_rule(std::string_view name) const {
  const auto found = std::find_if(config.pools.begin(), config.pools.end(),
                                  [&](const PoolRule& rule) { return rule.name == name; });
  return found == config.pools.end() ? nullptr : &*found;
}

const wire::ProviderProfile& Shim::State::provider_of(const Upstream& upstream) const {
  const wire::ProviderProfile* named = upstream.profile.empty()
                                           ? nullptr
                                           : profiles.provider(upstream.profile);
  return named != nullptr ? *named : profiles.provider_for_host(upstream.url.host);
}

const Upstream& Shim::State::choose_upstream(const Caller& caller) const {
  if (const Upstream* named = find_upstream(config.default_upstream)) return *named;
  const wire::Dialect wanted = caller.dialect;
  if (wanted == wire::Dialect::other) return config.upstreams.front();
  // One whose main dialect it is before one that speaks it too.
  for (const Upstream& upstream : config.upstreams) {
    if (provider_of(upstream).main_dialect == wanted) return upstream;
  }
  for (const Upstream& upstream : config.upstreams) {
    if (provider_of(upstream).speaks(wanted)) return upstream;
  }
  return config.upstreams.front();
}

gate::PoolConfig Shim::State::pool_config(const PoolRule* rule,
                                          const wire::ProviderProfile& provider) const {
  gate::PoolConfig out;
  const wire::StartLimits& start = provider.start;
  out.limits.c_burst = start.c_burst;
  out.limits.r_tok = start.r_tok;
  out.limits.k_inflight = start.k_inflight;
  out.limits.c_req = std::max<std::int64_t>(start.c_req / kMicro, 1);
  out.limits.r_qps = start.r_qps;
  out.seed_source = "profile";
  if (config.start_limits) out.limits = *config.start_limits;
  if (config.start_limits) out.seed_source = "operator";
  out.weights.cached_ppm = provider.weight_cached_ppm;
  out.weights.output_ppm = provider.weight_output_ppm;
  if (rule != nullptr && rule->limits) {
    out.limits = *rule->limits;
    out.seed_source = rule->seed_source;
  }
  if (rule != nullptr && rule->weights) out.weights = *rule->weights;
  out.seed = out.limits;
  out.seeded_at = parts.clock.wall();
  out.kappa_micro = provider.kappa_micro;
  out.refused_calls_count = provider.refused_calls_count;
  return out;
}

// ---- A request --------------------------------------------------------------------------------

// Everything that path and header fields decide. What is known stays in `caller` also when it is
// refused, so that the error comes in the right shape.
OrRefused<void> Shim::State::read_route(const net::RequestHead& head, Caller& caller) const {
  if (head.headers.has("anthropic-version")) caller.dialect = wire::Dialect::anthropic_messages;
  Result<Route> route = parse_route(head.target);
  if (!route) return refused(400, "bad-target", "Headgate: " + route.error().detail);
  caller.route = std::move(*route);
  const Attribution& who = caller.route.attribution;
  caller.endpoint = wire::classify(head.method, path_of(caller.route.target));
  if (caller.endpoint.dialect != wire::Dialect::other) caller.dialect = caller.endpoint.dialect;

  caller.harness = who.harness.empty() ? &profiles.harness_for_request(head.headers)
                                       : profiles.harness(who.harness);
  if (caller.harness == nullptr) {
    std::string known;
    for (const wire::HarnessProfile& profile : profiles.harnesses()) known += " " + profile.name;
    return refused(
        404, "unknown-harness",
        fmt::format("Headgate knows no harness of the name in the path. Known:{}", known));
  }
  if (caller.dialect == wire::Dialect::other) caller.dialect = caller.harness->dialect;

  std::string_view forced = who.upstream;
  if (!who.pool.empty()) {
    const PoolRule* rule = find_rule(who.pool);
    if (rule == nullptr && !parts.store.exists(who.pool)) {
      return refused(404, "unknown-pool",
                     "Headgate has no pool of the name in the path; `headgate pools` lists them");
    }
    if (rule != nullptr && forced.empty()) forced = rule->upstream;
  }
  const Upstream* upstream = forced.empty() ? &choose_upstream(caller) : find_upstream(forced);
  if (upstream == nullptr) {
    return refused(404, "unknown-upstream",
                   "Headgate has no upstream of the name in the path; upstreams are those of its "
                   "configuration");
  }
  caller.upstream = *upstream;
  caller.provider = &provider_of(*upstream);
  return {};
}

net::Task<void> Shim::State::answer(net::ServerExchange& exchange, Instant started) {
  const net::RequestHead& head = exchange.head();
  Caller caller;
  const OrRefused<void> routed = read_route(head, caller);
  const std::string_view foreign = foreign_sign(head.headers, config.own_names);
  if (!foreign.empty()) {
    Refused why(403, "foreign",
                fmt::format("Headgate serves programs on this machine: {}", foreign));
    co_await refuse(exchange, caller.dialect, std::move(why));
    co_return;
  }
  if (asks_for_websocket(head.headers)) {
    Refused why(426, "upgrade", "Headgate speaks HTTP/1.1 only: no WebSocket");
    co_await refuse(exchange, caller.dialect, std::move(why));
    co_return;
  }
  if (!routed) {
    co_await refuse(exchange, caller.dialect, routed.error());
    co_return;
  }
  const bool probe = head.method == "HEAD" || head.method == "GET";
  if (probe && path_of(caller.route.target) == "/") {
    net::ResponseHead alive(200);
    alive.headers.add("content-type", "application/json");
    const Result<void> sent = co_await exchange.reply(std::move(alive), "{\"headgate\":\"ok\"}\n");
    if (!sent) log_debug("a probe's sender went away");
    co_return;
  }
  if (caller.endpoint.generates) {
    co_await pace(exchange, caller, started);
  } else {
    co_await pass_free(exchange, caller);
  }
}

net::Task<void> Shim::State::refuse(net::ServerExchange& exchange, wire::Dialect dialect,
                                    Refused why) {
  ++stats.refused;
  OwnAnswer answer;
  answer.status = why.status;
  answer.dialect = dialect;
  answer.code = std::move(why.code);
  answer.message = std::move(why.message);
  answer.retry_after = why.retry_after;
  const Result<void> sent = co_await send_own(exchange, answer);
  if (!sent) log_debug("an answer of our own found nobody: {}", sent.error().detail);
}

// The request's head for the provider. Its fields move over.
net::RequestHead Shim::State::head_up(net::ServerExchange& exchange, const Caller& caller) const {
  const std::string& method = exchange.head().method;
  net::RequestHead up(method, upstream_target(caller.upstream.url.path, caller.route.target));
  up.headers = for_upstream(exchange.take_fields());
  return up;
}

// Reading a body can fail in ways that still have somebody to tell.
Refused body_refused(const Error& error, std::size_t limit) {
  if (error.code == Errc::too_large) {
    return Refused(413, "too-large",
                   fmt::format("Headgate takes request bodies of at most {} bytes", limit));
  }
  if (error.code == Errc::timed_out) {
    return Refused(408, "slow-body", "Headgate waited for the rest of the request's body in vain");
  }
  return Refused(400, "bad-body", "Headgate could not read the request's body: " + error.detail);
}

net::Task<void> Shim::State::pass_free(net::ServerExchange& exchange, const Caller& caller) {
  Result<std::string> body = co_await exchange.read_body(config.body_bytes_max);
  if (!body) {
    co_await refuse(exchange, caller.dialect, body_refused(body.error(), config.body_bytes_max));
    co_return;
  }
  ++stats.passed_free;
  const net::RequestHead head = head_up(exchange, caller);
  Leg leg(parts.client, caller.upstream.url, parts.clock);
  exchange.on_gone([&leg] { leg.close(); });
  const Result<void> opened = co_await leg.open(head, *body, wire::Dialect::other,
                                                config.first_byte_within);
  if (opened) {
    const auto line = parts.watch.answered(caller.upstream.name, parts.clock.now());
    if (line) log_info("{}", *line);
  }
  if (opened && leg.head().status == kOverloaded) {
    leg.close();
    Refused why(503, "overload",
                "The provider is overloaded (529). Headgate says 503, because agents give up after "
                "a few 529s.");
    why.retry_after = kOverloadedAgain;
    co_await refuse(exchange, caller.dialect, std::move(why));
  } else if (opened) {
    const Passed passed = co_await leg.pass_on(exchange, Leg::EndMarker::not_needed,
                                               config.silence);
    if (passed.how != Passed::How::whole) log_debug("a free request was not passed on whole");
  } else if (!exchange.gone()) {
    const std::string& detail = opened.error().detail;
    const auto line = parts.watch.failed(caller.upstream.name, detail, parts.clock.now());
    if (line) log_warn("{}", *line);
    Refused why(
        502, "upstream",
        fmt::format("Headgate got no answer from upstream {}: {}", caller.upstream.name, detail));
    co_await refuse(exchange, caller.dialect, std::move(why));
  }
  exchange.on_gone({});
}

// ---- A call -----------------------------------------------------------------------------------

OrRefused<wire::RequestFacts> Shim::State::facts_of(const net::RequestHead& head,
                                                    const Caller& caller, const std::string& body) {
  const bool coded = head.headers.has("content-encoding");
  std::optional<std::string> plain;
  if (coded) plain = decoded(head.headers, body, config.body_bytes_max);
  if (coded && !plain) {
    ++stats.unread_requests;
    return facts_by_size(caller.endpoint, body, kExpansion);
  }
  const std::string& text = coded ? *plain : body;
  Result<wire::RequestFacts> facts = wire::read_request(caller.endpoint, text);
  if (facts) return std::move(*facts);
  if (caller.endpoint.dialect == wire::Dialect::other) {
    return facts_by_size(caller.endpoint, text, 1);
  }
  return refused(400, "bad-request", "Headgate cannot read this request: " + facts.error().detail);
}

// The pool's name; it is there afterwards.
net::Task<Result<std::string>> Shim::State::pool_for(const Caller& caller, const Headers& headers,
                                                     const std::string& model) {
  const std::string& forced = caller.route.attribution.pool;
  const std::string family = wire::family_of(*caller.provider, model);
  const PoolRule* rule = forced.empty() ? nullptr : find_rule(forced);
  if (forced.empty()) {
    const auto found = std::find_if(
        config.pools.begin(), config.pools.end(), [&](const PoolRule& candidate) {
          return !candidate.by_path_only &&
                 (candidate.upstream.empty() || candidate.upstream == caller.upstream.name) &&
                 (candidate.family.empty() || candidate.family == family);
        });
    if (found != config.pools.end()) rule = &*found;
  }
  std::string name = forced;
  if (name.empty() && rule != nullptr) name = rule->name;
  if (name.empty()) {
    const std::string key = key_id(headers, caller.provider->auth_headers, config.salt);
    name = pool_name(caller.upstream.name, family, key);
    if (!parts.store.exists(name) && parts.store.names().size() >= config.pools_max) {
      name = pool_name(caller.upstream.name, "other", "any");
    }
  }
  if (!parts.store.exists(name)) {
    const gate::PoolConfig fresh = pool_config(rule, *caller.provider);
    const Result<void> made = co_await parts.store.create(name, fresh);
    if (!made) co_return std::unexpected(made.error());
    log_info("pool {}: {} tokens/s, burst {}, limits from {}", name, fresh.limits.r_tok,
             fresh.limits.c_burst, fresh.seed_source);
  }
  co_return name;
}

CallEntry Shim::State::entry_of(const Caller& caller, Instant started) const {
  CallEntry entry;
  entry.at.since_epoch = parts.clock.wall().since_epoch - (parts.clock.now() - started);
  entry.upstream = caller.upstream.name;
  entry.harness = caller.harness->name;
  entry.run = caller.route.attribution.run;
  entry.task = caller.route.attribution.task;
  entry.dialect = wire::to_string(caller.endpoint.dialect);
  return entry;
}

void Shim::State::record_refused(CallEntry entry, int status, Instant started) {
  entry.outcome = status == 0 ? "client_gone" : status == 429 ? "refused_by_us" : "bad_request";
  entry.status = status;
  entry.own_answer = status != 0;
  entry.total = parts.clock.now() - started;
  parts.log.record(entry);
}

// The numbers: what the call will draw and how long it can wait.
void Shim::State::fill_setup(CallSetup& setup, const Caller& caller, const Headers& headers,
                             const store::PoolSummary& pool) {
  PoolMemory& memory = parts.memories[setup.pool];
  call::PoolFacts facts;
  facts.kappa_micro = pool.kappa_micro;
  // A pool that nobody gave weights may serve several providers: each counts by its own rule.
  const PoolRule* rule = find_rule(setup.pool);
  facts.weights = pool.config.weights;
  if (rule != nullptr && !rule->weights) {
    facts.weights.cached_ppm = caller.provider->weight_cached_ppm;
    facts.weights.output_ppm = caller.provider->weight_output_ppm;
  }
  facts.c_burst = pool.config.limits.c_burst;
  facts.c_out = pool.config.limits.c_out;
  setup.conversation = call::conversation_key(*caller.harness, headers, setup.facts);
  const call::Conversations::Arrival arrival = memory.conversations.arrive(
      setup.conversation, setup.facts, caller.provider->cache_lifetime, parts.clock.now());
  setup.shared_tokens = arrival.shared_chars * kMicro /
                        std::max<std::int64_t>(facts.kappa_micro, 1);
  call::Outlook outlook;
  outlook.cached_chars = arrival.cached_chars;
  outlook.expected_output = memory.outputs[caller.harness->name].expected();
  const call::Estimate estimate = call::estimate_call(setup.facts, facts, *caller.provider,
                                                      outlook);
  call::fill_demand(setup.demand, estimate, setup.facts, facts, *caller.provider);
  setup.estimate = estimate.estimate;
  setup.demand.id_prefix = fmt::format("{}.{}", config.id, ++sequence);
  setup.demand.shim = config.id;
  setup.demand.alias = fmt::format("{}/{}", setup.pool, caller.harness->name);
  setup.demand.since = arrival.since;
  if (rule != nullptr) {
    const auto priority = rule->priorities.find(caller.harness->name);
    if (priority != rule->priorities.end()) setup.demand.head_start = priority->second;
  }
  setup.patience = call::patience_for(
      *caller.harness, headers, memory.answer_times.expected(setup.facts.stream), config.patience);
  if (config.hold_cap) setup.patience.hold_cap = *config.hold_cap;
  if (config.overload_step) setup.patience.overload_step = *config.overload_step;
  if (config.outage_max) setup.patience.outage_max = *config.outage_max;

  CallEntry& entry = setup.entry;
  entry.id = setup.demand.id_prefix;
  entry.pool = setup.pool;
  entry.session = salted_id(fmt::format("{:016x}", setup.conversation), config.salt);
  entry.model = escape_controls(setup.facts.model.substr(0, 128));
  entry.stream = setup.facts.stream;
  entry.estimate = setup.estimate;
}

// A stream that tells no usage could only be settled by estimate. The chunk that answers must be
// taken out again, in whatever coding it comes.
void Shim::State::ask_for_usage(CallSetup& setup, const Headers& headers) const {
  using StreamUsage = wire::ProviderProfile::StreamUsage;
  const bool wanted = setup.dialect == wire::Dialect::openai_chat && setup.facts.stream &&
                      setup.provider->stream_usage != StreamUsage::leave &&
                      !parts.refuse_usage.contains(setup.upstream.name) &&
                      !headers.has("content-encoding") && accepts_only_known(headers);
  if (!wanted) return;
  const std::optional<wire::BodyEdit> edit = wire::ask_for_usage(setup.body);
  if (!edit) return;
  wire::BodyEdit undo;
  undo.at = edit->at;
  undo.removed = edit->text.size();
  undo.text = setup.body.substr(edit->at, edit->removed);
  setup.undo_asking = std::move(undo);
  setup.body = wire::apply(*edit, setup.body);
}

// Reads the call and decides all about it that is to be decided before it asks. Nothing when it was
// refused, and answered. A coroutine of its own, because what it needs must not lie in memory for
// as long as the call is held.
net::Task<std::unique_ptr<CallSetup>> Shim::State::prepare(net::ServerExchange& exchange,
                                                           const Caller& caller, Instant started) {
  auto made = std::make_unique<CallSetup>();
  CallSetup& setup = *made;
  setup.entry = entry_of(caller, started);
  setup.entry.id = fmt::format("{}.{}", config.id, ++sequence);
  if (parts.held >= config.queue_max || parts.body_bytes >= config.bodies_bytes_max) {
    ++stats.queue_full;
    record_refused(setup.entry, 429, started);
    Refused why(429, "queue-full",
                fmt::format("Headgate holds {} calls with {} MB of requests already, which is as "
                            "many as it may (queue_max). Come back after retry-after.",
                            parts.held, parts.body_bytes / 1'000'000));
    why.retry_after = std::min(caller.harness->retry_after, caller.harness->retry_after_max);
    co_await refuse(exchange, caller.dialect, std::move(why));
    co_return nullptr;
  }
  Result<std::string> body = co_await exchange.read_body(config.body_bytes_max);
  if (!body) {
    // As a rule it has gone; should it only have ended its sending side, it hears why.
    const bool nobody = body.error().code == Errc::closed;
    Refused why = body_refused(body.error(), config.body_bytes_max);
    record_refused(setup.entry, nobody ? 0 : why.status, started);
    co_await refuse(exchange, caller.dialect, std::move(why));
    co_return nullptr;
  }
  setup.body = std::move(*body);
  setup.entry.bytes_in = setup.body.size();
  const net::RequestHead& head = exchange.head();
  OrRefused<wire::RequestFacts> facts = facts_of(head, caller, setup.body);
  if (!facts) {
    record_refused(setup.entry, facts.error().status, started);
    co_await refuse(exchange, caller.dialect, std::move(facts.error()));
    co_return nullptr;
  }
  setup.facts = std::move(*facts);
  Result<std::string> pool = co_await pool_for(caller, head.headers, setup.facts.model);
  Result<store::PoolSummary> summary = fail(Errc::internal, "");
  if (pool) summary = co_await parts.store.summary(*pool);
  if (!pool || !summary) {
    const Error& error = pool ? summary.error() : pool.error();
    record_refused(setup.entry, 500, started);
    Refused why(500, "pool", "Headgate cannot open a pool for this call: " + error.detail);
    co_await refuse(exchange, caller.dialect, std::move(why));
    co_return nullptr;
  }
  setup.pool = std::move(*pool);
  setup.started = started;
  setup.upstream = caller.upstream;
  setup.provider = caller.provider;
  setup.harness = caller.harness;
  setup.dialect = caller.endpoint.dialect;
  ask_for_usage(setup, head.headers);
  setup.first_byte_within = config.first_byte_within;
  setup.silence = config.silence;
  fill_setup(setup, caller, head.headers, *summary);
  setup.head = head_up(exchange, caller);
  co_return made;
}

net::Task<void> Shim::State::pace(net::ServerExchange& exchange, const Caller& caller,
                                  Instant started) {
  ++stats.calls;
  std::unique_ptr<CallSetup> setup = co_await prepare(exchange, caller, started);
  if (!setup) co_return;
  PacedCall call(parts, exchange, std::move(*setup), rng.fork());
  setup.reset();
  start_heartbeat();
  co_await call.run();
}

// ---- Heartbeat --------------------------------------------------------------------------------

void Shim::State::start_heartbeat() {
  if (beating || stopping) return;
  beating = true;
  parts.tasks.spawn("heartbeat", heartbeat());
}

net::Task<void> Shim::State::heartbeat() {
  while (!parts.live.empty()) {
    const bool slept = co_await net::sleep_for(kHeartbeat);
    if (!slept) break;
    co_await beat_once();
  }
  beating = false;
}

// Each pool hears from us, also when we only wait in it; leases go in parts that it reads whole.
net::Task<void> Shim::State::beat_once() {
  std::map<std::string, std::vector<gate::LeaseRenewal>> by_pool;
  for (const PacedCall* call : parts.live) {
    std::vector<gate::LeaseRenewal>& leases = by_pool[call->pool()];
    std::optional<gate::LeaseRenewal> lease = call->lease();
    if (lease) leases.push_back(std::move(*lease));
  }
  for (const auto& [pool, leases] : by_pool) {
    std::size_t at = 0;
    do {
      const std::size_t count = std::min(gate::kRenewMax, leases.size() - at);
      const std::span<const gate::LeaseRenewal> some(leases.data() + at, count);
      const Result<gate::RenewReply> renewed = co_await parts.store.renew(
          pool, config.id, some, config.patience.lease_ttl);
      if (!renewed) log_error("pool {}: {}", pool, renewed.error().detail);
      at += count;
    } while (at < leases.size());
  }
}

// ---- The shim ---------------------------------------------------------------------------------

Shim::Shim(const net::Executor& executor, const Clock& clock, store::MemoryStore& store,
           net::Client& client, const wire::Profiles& profiles, ShimConfig config, CallLog& log)
    : state_(std::make_shared<State>(executor, clock, store, client, profiles, std::move(config),
                                     log)) {}

Shim::~Shim() = default;

net::Task<Result<void>> Shim::start() {
  Result<void> good = state_->check();
  if (!good) co_return good;
  for (const PoolRule& rule : state_->config.pools) {
    if (state_->parts.store.exists(rule.name)) continue;
    const Upstream* upstream = rule.upstream.empty() ? &state_->config.upstreams.front()
                                                     : state_->find_upstream(rule.upstream);
    const gate::PoolConfig config = state_->pool_config(&rule, state_->provider_of(*upstream));
    Result<void> made = co_await state_->parts.store.create(rule.name, config);
    if (!made) {
      co_return fail(made.error().code, fmt::format("pool {}: {}", rule.name, made.error().detail));
    }
  }
  co_return Result<void>();
}

net::Task<void> Shim::handle(net::ServerExchange& exchange) {
  co_await state_->answer(exchange, state_->parts.clock.now());
}

net::Task<void> Shim::stop() {
  state_->stopping = true;
  state_->parts.tasks.cancel();
  const bool all = co_await state_->parts.tasks.join(5s);
  if (!all) log_warn("tasks of the shim did not end");
  for (const std::string& pool : state_->parts.store.names()) {
    const Result<void> said = co_await state_->parts.store.farewell(pool, state_->config.id);
    if (!said) log_debug("pool {}: {}", pool, said.error().detail);
  }
}

Result<void> Shim::set_upstream(const Upstream& upstream) {
  Result<void> good = state_->check(upstream);
  if (!good) return good;
  const auto found = std::find_if(
      state_->config.upstreams.begin(), state_->config.upstreams.end(),
      [&](const Upstream& other) { return other.name == upstream.name; });
  if (found == state_->config.upstreams.end()) {
    state_->config.upstreams.push_back(upstream);
  } else {
    *found = upstream;
  }
  return {};
}

const std::string& Shim::id() const { return state_->config.id; }

std::vector<RateNote> Shim::rates(std::string_view pool) const {
  const auto found = state_->parts.memories.find(pool);
  return found == state_->parts.memories.end() ? std::vector<RateNote>() : found->second.rates;
}

ShimStats Shim::stats() const {
  ShimStats stats = state_->stats;
  stats.calls_now = state_->parts.live.size();
  stats.held_now = state_->parts.held;
  stats.body_bytes_now = state_->parts.body_bytes;
  stats.unread_answers = state_->parts.unread_answers;
  return stats;
}

}  // namespace hg::proxy
