#include "cli/daemon.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/compose.h"
#include "cli/control_json.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "net/client.h"
#include "net/server.h"
#include "proxy/forward.h"
#include "proxy/own_answer.h"
#include "proxy/route.h"
#include "proxy/shim.h"
#include "store/memory_store.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kControl = "/_headgate/";
constexpr std::size_t kControlBodyMax = std::size_t{64} * 1024;

net::ResponseHead json_head(int status) {
  net::ResponseHead head(status);
  head.headers.add("Content-Type", "application/json");
  head.headers.add("Cache-Control", "no-store");
  return head;
}

net::ClientConfig client_config(const Config& config) {
  net::ClientConfig client;
  client.ca_file = config.ca_file;
  auto proxy = net::proxy_from_environment();
  if (proxy) {
    client.proxy = std::move(*proxy);
  } else {
    log_warn("the proxy of the environment is not used: {}", proxy.error().detail);
  }
  return client;
}

// The names and addresses of this machine: under them a listener that is not on loopback is
// reached.
std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  std::array<char, 256> text{};
  if (::gethostname(text.data(), text.size() - 1) == 0) names.emplace_back(text.data());
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    const socklen_t size = family == AF_INET    ? sizeof(sockaddr_in)
                           : family == AF_INET6 ? sizeof(sockaddr_in6)
                                                : 0;
    if (size != 0 && ::getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0,
                                   NI_NUMERICHOST) == 0) {
      names.emplace_back(text.data());
    }
  }
  ::freeifaddrs(list);
  return names;
}

// Who asks: the listener's clients may only read.
enum class Rights : std::uint8_t { read, all };

}  // namespace

struct Daemon::State {
  State(const net::Executor& its_executor, const Clock& its_clock,
        const wire::Profiles& its_profiles, const Config& its_config)
      : executor(its_executor),
        clock(its_clock),
        profiles(its_profiles),
        config(its_config),
        store(executor, clock),
        client(executor, its_clock, client_config(its_config)),
        end(executor),
        last_used(its_clock.now()),
        started(its_clock.wall()) {}

  net::Task<void> serve(net::ServerExchange& exchange, Rights rights);
  net::Task<void> control(net::ServerExchange& exchange, Rights rights);
  net::Task<void> attach(net::ServerExchange& exchange, std::string run);
  net::Task<Result<json::value>> answer(net::ServerExchange& exchange, Rights rights);
  net::Task<Result<json::value>> pools();
  net::Task<Result<json::value>> add_upstream(net::ServerExchange& exchange);
  [[nodiscard]] json::object version() const;
  [[nodiscard]] std::string unused_name(const net::Url& url) const;
  [[nodiscard]] std::uint64_t requests() const;

  net::Executor executor;
  const Clock& clock;
  const wire::Profiles& profiles;
  Config config;
  proxy::ShimConfig shim_config;
  proxy::CallLog log;
  store::MemoryStore store;
  net::Client client;
  std::optional<proxy::Shim> shim;
  std::optional<net::Server> listener;
  std::optional<net::Server> own;  // The unix socket.
  net::Event end;
  bool ending = false;
  std::uint16_t port = 0;
  std::string base_url;
  std::string socket_path;
  std::string call_log;
  int attached = 0;
  Instant last_used;
  std::uint64_t requests_seen = 0;
  WallTime started;
};

Daemon::Daemon(const net::Executor& executor, const Clock& clock, const wire::Profiles& profiles,
               const Config& config)
    : state_(std::make_shared<State>(executor, clock, profiles, config)) {}

Daemon::~Daemon() = default;

net::Task<Result<void>> Daemon::start(const std::string& call_log, const std::string& socket_path) {
  State& state = *state_;
  auto shim_config = make_shim_config(state.config, state.profiles);
  if (!shim_config) co_return std::unexpected(shim_config.error());
  state.shim_config = std::move(*shim_config);
  if (!is_loopback(state.config.listen_host)) {
    auto& names = state.shim_config.own_names;
    names.push_back(state.config.listen_host);
    for (std::string& name : machine_names()) names.push_back(std::move(name));
  }
  if (!call_log.empty()) {
    auto log = proxy::CallLog::open(call_log);
    if (!log) co_return std::unexpected(log.error());
    state.log = std::move(*log);
    state.call_log = call_log;
  }
  state.shim.emplace(state.executor, state.clock, state.store, state.client, state.profiles,
                     state.shim_config, state.log);
  auto ready = co_await state.shim->start();
  if (!ready) co_return ready;

  // The servers end before the state does: stop() waits for their handlers.
  State* const parts = state_.get();
  state.listener.emplace(
      state.executor, proxy::shim_server_config(state.profiles),
      [parts](net::ServerExchange& exchange) { return parts->serve(exchange, Rights::read); });
  const std::string host = state.config.listen_host;
  const auto wanted = static_cast<std::uint16_t>(state.config.listen_port);
  const bool any_loopback = host == "127.0.0.1" || host == "localhost";
  auto port = any_loopback ? state.listener->listen_loopback(wanted)
                           : state.listener->listen(host, wanted);
  if (!port) {
    co_return fail(port.error().code,
                   fmt::format("cannot listen on {}:{}: {}", host, wanted, port.error().detail));
  }
  state.port = *port;
  // Programs on this machine reach a listener on every address by loopback: NO_PROXY names it.
  const bool bracketed = host.find(':') != std::string::npos;
  state.base_url = fmt::format("http://{}:{}",
                               any_loopback || host == "0.0.0.0" ? "127.0.0.1"
                               : host == "::"                    ? "[::1]"
                               : bracketed                       ? "[" + host + "]"
                                                                 : host,
                               state.port);
  if (!socket_path.empty()) {
    state.own.emplace(
        state.executor, proxy::shim_server_config(state.profiles),
        [parts](net::ServerExchange& exchange) { return parts->serve(exchange, Rights::all); });
    auto listening = state.own->listen_unix(socket_path);
    if (!listening) co_return listening;
    state.socket_path = socket_path;
  }
  state.last_used = state.clock.now();
  co_return Result<void>();
}

net::Task<void> Daemon::wait_for_end(Micros idle_exit) {
  State& state = *state_;
  const Micros look = idle_exit > 0s ? std::min<Micros>(1s, idle_exit / 4 + 1ms) : Micros(3600s);
  while (!state.ending) {
    const net::Woken woken = co_await state.end.wait_for(look);
    if (woken == net::Woken::cancelled) break;
    if (idle_exit <= 0s) continue;
    const Instant now = state.clock.now();
    const bool busy = state.attached > 0 || state.shim->stats().calls_now > 0;
    if (busy || state.requests() != state.requests_seen) {
      state.requests_seen = state.requests();
      state.last_used = now;
    }
    if (now - state.last_used >= idle_exit) {
      log_info("nothing was asked for {:g} s: ending", to_seconds(idle_exit));
      break;
    }
  }
}

void Daemon::request_stop() {
  state_->ending = true;
  state_->end.notify();
}

net::Task<void> Daemon::stop(Micros drain) {
  State& state = *state_;
  // The socket first: a program that comes now is to start a daemon of its own, not to join this
  // one.
  if (state.own) co_await state.own->stop(0s);
  if (state.listener) co_await state.listener->stop(drain);
  if (state.shim) co_await state.shim->stop();
  state.store.close();
  state.client.close_idle();
}

std::uint16_t Daemon::port() const { return state_->port; }
std::string Daemon::base_url() const { return state_->base_url; }
proxy::UsageTotals Daemon::totals() const { return state_->log.totals(); }
std::string Daemon::version_json() const { return json_text(state_->version()); }

namespace {

const proxy::Upstream& upstream_of(const proxy::PoolRule& rule,
                                   const std::vector<proxy::Upstream>& upstreams) {
  const auto named = std::find_if(upstreams.begin(), upstreams.end(), [&](const auto& upstream) {
    return upstream.name == rule.upstream;
  });
  return named == upstreams.end() ? upstreams.front() : *named;
}

// The limits of calls that no pool is for; upstreams with the same ones share a line.
std::string describe_others(const std::vector<proxy::Upstream>& upstreams,
                            const wire::Profiles& profiles) {
  std::vector<std::pair<std::string, std::string>> groups;  // Limits; names.
  for (const proxy::Upstream& upstream : upstreams) {
    const std::string limits = describe(start_limits(profile_of(upstream, profiles)));
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == limits; });
    if (same == groups.end()) {
      groups.emplace_back(limits, upstream.name);
    } else {
      same->second += ", " + upstream.name;
    }
  }
  std::string text =
      "  other calls: one pool a key and model family, with the cautious limits of\n"
      "  the provider's profile; set yours under [pool.NAME]\n";
  for (const auto& [limits, names] : groups) {
    for (const std::string& line : wrap(names + ": " + limits, 74)) text += "    " + line + "\n";
  }
  return text;
}

}  // namespace

std::string Daemon::description() const {
  const State& state = *state_;
  const std::string& chosen = state.shim_config.default_upstream;
  std::string text;
  for (const proxy::Upstream& upstream : state.shim_config.upstreams) {
    text += fmt::format("  upstream {:<12} {} (profile {}{})\n", upstream.name, upstream.url.text(),
                        profile_of(upstream, state.profiles).name,
                        upstream.name == chosen ? ", the default" : "");
  }
  for (const proxy::PoolRule& rule : state.shim_config.pools) {
    const proxy::Upstream& upstream = upstream_of(rule, state.shim_config.upstreams);
    const gate::Limits limits = rule.limits ? *rule.limits
                                            : start_limits(profile_of(upstream, state.profiles));
    text += fmt::format("  pool {:<16} {}\n    limits from: {}\n", rule.name, describe(limits),
                        rule.limits ? rule.seed_source : "the provider profile, cautious");
  }
  const bool covered = std::any_of(
      state.shim_config.pools.begin(), state.shim_config.pools.end(), [](const auto& rule) {
        return rule.upstream.empty() && rule.family.empty() && !rule.by_path_only;
      });
  if (!covered) text += describe_others(state.shim_config.upstreams, state.profiles);
  text += fmt::format("  calls are logged in {}\n",
                      state.call_log.empty() ? "no file" : state.call_log);
  return text;
}

std::uint64_t Daemon::State::requests() const {
  return (listener ? listener->stats().requests : 0) + (own ? own->stats().requests : 0);
}

json::object Daemon::State::version() const {
  json::object object;
  object["version"] = kVersion;
  object["pid"] = static_cast<std::int64_t>(::getpid());
  object["base_url"] = base_url;
  object["port"] = port;
  object["socket"] = socket_path;
  object["call_log"] = call_log;
  object["config"] = config.file;
  object["fingerprint"] = fingerprint(config);
  object["started"] = to_rfc3339(started);
  object["default_upstream"] = shim_config.default_upstream;
  json::array list;
  for (const proxy::Upstream& upstream : shim_config.upstreams) {
    json::object row;
    row["name"] = upstream.name;
    row["url"] = upstream.url.text();
    row["profile"] = profile_of(upstream, profiles).name;
    list.push_back(std::move(row));
  }
  object["upstreams"] = std::move(list);
  json::array pools;
  for (const proxy::PoolRule& rule : shim_config.pools) pools.emplace_back(rule.name);
  object["pools"] = std::move(pools);
  return object;
}

net::Task<void> Daemon::State::serve(net::ServerExchange& exchange, Rights rights) {
  if (exchange.head().target.starts_with(kControl)) {
    co_await control(exchange, rights);
  } else {
    co_await shim->handle(exchange);
  }
}

net::Task<void> Daemon::State::control(net::ServerExchange& exchange, Rights rights) {
  const std::string path(proxy::path_of(exchange.head().target));
  int status = 200;
  std::string body;
  const std::string_view foreign = rights == Rights::all
                                       ? ""
                                       : proxy::foreign_sign(exchange.head().headers,
                                                             shim_config.own_names);
  if (!foreign.empty()) {
    status = 403;
    body = control_error(fmt::format("headgate: {}", foreign));
  } else if (rights == Rights::all && path.starts_with("/_headgate/attach/")) {
    const std::string run = path.substr(18);
    if (proxy::valid_attribution(run)) {
      co_await attach(exchange, run);
      co_return;
    }
    status = 400;
    body = control_error("headgate: not the id of a run");
  } else {
    auto answered = co_await answer(exchange, rights);
    if (answered) {
      body = json_text(*answered);
    } else {
      status = answered.error().code == Errc::not_found ? 404 : 400;
      body = control_error("headgate: " + answered.error().detail);
    }
  }
  net::ResponseHead head = json_head(status);
  auto sent = co_await exchange.reply(std::move(head), body);
  if (!sent) log_debug("control answer not sent: {}", sent.error().detail);
}

net::Task<Result<json::value>> Daemon::State::answer(net::ServerExchange& exchange, Rights rights) {
  const std::string method = exchange.head().method;
  const std::string path(proxy::path_of(exchange.head().target));
  constexpr std::string_view kRuns = "/_headgate/runs/";
  if (method == "GET") {
    json::object object;
    if (path == "/_headgate/health") {
      object["status"] = "ok";
      co_return json::value(object);
    }
    if (path == "/_headgate/version") co_return json::value(version());
    if (path == "/_headgate/totals" || path.starts_with(kRuns)) {
      object = to_json(path.starts_with(kRuns) ? log.totals(path.substr(kRuns.size()))
                                               : log.totals());
      object["calls_now"] = static_cast<std::int64_t>(shim->stats().calls_now);
      co_return json::value(object);
    }
    if (path == "/_headgate/pools") {
      auto all = co_await pools();
      co_return all;
    }
  }
  if (method == "POST" && rights == Rights::all) {
    if (path == "/_headgate/upstreams") {
      auto added = co_await add_upstream(exchange);
      co_return added;
    }
    if (path == "/_headgate/stop") {
      ending = true;
      end.notify();
      json::object object;
      object["status"] = "ending";
      co_return json::value(object);
    }
  }
  co_return fail(Errc::not_found, fmt::format("no such endpoint: {} {}", escape_controls(method),
                                              escape_controls(path.substr(0, 80))));
}

net::Task<Result<json::value>> Daemon::State::pools() {
  json::array list;
  const std::vector<std::string> names = store.names();
  for (const std::string& name : names) {
    auto view = co_await store.view(name);
    if (!view) continue;
    json::object pool = to_json(name, *view, clock.wall());
    pool["provider_limits"] = to_json(shim->rates(name), clock.wall());
    list.push_back(std::move(pool));
  }
  json::object object;
  object["pools"] = std::move(list);
  co_return json::value(object);
}

net::Task<Result<json::value>> Daemon::State::add_upstream(net::ServerExchange& exchange) {
  auto body = co_await exchange.read_body(kControlBodyMax);
  if (!body) co_return std::unexpected(body.error());
  boost::system::error_code error;
  const json::value value = json::parse(*body, error);
  const json::value* text = !error && value.is_object() ? value.as_object().if_contains("url")
                                                        : nullptr;
  if (text == nullptr || !text->is_string()) {
    co_return fail(Errc::invalid, "{\"url\": \"http(s)://...\"} is allowed");
  }
  auto url = net::parse_url(std::string_view(text->as_string()));
  if (!url) co_return std::unexpected(url.error());
  json::object object;
  for (const proxy::Upstream& upstream : shim_config.upstreams) {
    if (upstream.url == *url) {
      object["name"] = upstream.name;
      co_return json::value(object);
    }
  }
  const json::value* profile = value.as_object().if_contains("profile");
  proxy::Upstream upstream;
  upstream.url = *url;
  upstream.name = unused_name(*url);
  if (profile != nullptr && profile->is_string()) upstream.profile = profile->as_string();
  auto set = shim->set_upstream(upstream);
  if (!set) co_return std::unexpected(set.error());
  shim_config.upstreams.push_back(upstream);
  log_info("upstream {}: {} (asked for by exec)", upstream.name, upstream.url.text());
  object["name"] = upstream.name;
  co_return json::value(object);
}

// "127.0.0.1:8089": what people know it by, unless another base path has that name already.
std::string Daemon::State::unused_name(const net::Url& url) const {
  std::string name = url.authority();
  const bool taken = std::any_of(shim_config.upstreams.begin(), shim_config.upstreams.end(),
                                 [&](const auto& upstream) { return upstream.name == name; });
  if (!taken && proxy::valid_attribution(name)) return name;
  return fmt::format("{:08x}", stable_hash(url.text()) >> 32);
}

net::Task<void> Daemon::State::attach(net::ServerExchange& exchange, std::string run) {
  net::Event gone(executor);
  exchange.on_gone([&gone] { gone.notify(); });
  net::ResponseHead head = json_head(200);
  auto sent = co_await exchange.send_head(std::move(head), net::BodyFraming::chunked());
  if (sent) {
    ++attached;
    while (!exchange.gone()) {
      const net::Woken woken = co_await gone.wait_for(3600s);
      if (woken != net::Woken::deadline) break;
    }
    --attached;
    last_used = clock.now();
  }
  exchange.on_gone(nullptr);
  // What exec made for the program, if exec was killed and could not remove it.
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(socket_path).parent_path();
  if (folder.empty()) co_return;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    // Named run-ID-PID: a program of the same run that is alive keeps its own.
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(fmt::format("run-{}-", run))) continue;
    const auto pid = parse_integer(std::string_view(name).substr(run.size() + 5));
    const bool dead = pid && ::kill(static_cast<pid_t>(*pid), 0) != 0;
    if (dead) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace hg::cli
