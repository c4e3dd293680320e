// exec.cc: `headgate exec`: one agent behind the gate of this user's daemon.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <poll.h>
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "base/rng.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/compose.h"
#include "cli/daemon_client.h"
#include "cli/exit_codes.h"
#include "cli/harness_setup.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/options.h"
#include "cli/runtime_dir.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "proxy/route.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

// How long a daemon may take to start, in steps of 20 ms.
constexpr int kStartTries = 500;
constexpr std::string_view kIdleExit = "60s";  // Of a daemon that exec started.

struct ExecOptions {
  ConfigOptions config;
  std::string harness;
  std::string pool;
  std::string run;
  std::string task;
  bool quiet = false;
};

// What the daemon that a run has joined says of itself.
struct Joined {
  json::object version;
};

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_string() ? "" : std::string(value->as_string());
}

std::int64_t count_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_number() ? 0 : value->to_number<std::int64_t>();
}

std::string last_lines(const std::string& path, std::uintmax_t from) {
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(from));
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (text.size() > 2000) text = text.substr(text.size() - 2000);
  return std::string(trim(text));
}

// Waits for the daemon that was just started to answer; it may also have died.
Result<json::object> wait_for_daemon(const DaemonClient& daemon, int pid, const RuntimeDir& runtime,
                                     std::uintmax_t log_from) {
  for (int attempt = 0; attempt < kStartTries; ++attempt) {
    if (auto version = daemon.get("/_headgate/version"); version) return version->as_object();
    if (::kill(pid, 0) != 0 && errno == ESRCH) {
      return fail(Errc::unavailable, fmt::format("the daemon did not start: {}",
                                                 last_lines(runtime.daemon_log(), log_from)));
    }
    ::poll(nullptr, 0, 20);
  }
  return fail(Errc::timed_out,
              fmt::format("the daemon does not answer; its log is {}", runtime.daemon_log()));
}

Result<Joined> join_or_start(const ExecOptions& options, const Config& config,
                             const RuntimeDir& runtime) {
  const DaemonClient daemon(runtime.socket());
  Joined joined;
  auto version = daemon.get("/_headgate/version");
  if (!version) {
    auto lock = FileLock::take(runtime.lock());
    if (!lock) return std::unexpected(lock.error());
    // Another may have started one while we waited for the lock.
    version = daemon.get("/_headgate/version");
    if (!version) {
      std::vector<std::string> arguments = {"headgate", "serve", "--runtime-dir", runtime.path};
      if (config.idle_exit == 0s) {
        arguments.insert(arguments.end(), {"--idle-exit", std::string(kIdleExit)});
      }
      // Any free port, unless somebody chose one.
      if (config.listen_port == Config().listen_port) {
        arguments.insert(arguments.end(), {"--set", "listen=127.0.0.1:0"});
      }
      if (!config.file.empty()) arguments.insert(arguments.end(), {"--config", config.file});
      for (std::string& argument : options.config.arguments()) {
        arguments.push_back(std::move(argument));
      }
      std::error_code error;
      const std::uintmax_t size = std::filesystem::file_size(runtime.daemon_log(), error);
      auto pid = start_detached(arguments, runtime.daemon_log());
      if (!pid) return std::unexpected(pid.error());
      auto started = wait_for_daemon(daemon, *pid, runtime, error ? 0 : size);
      if (!started) return std::unexpected(started.error());
      version = json::value(*started);
    }
  }
  joined.version = version->as_object();
  return joined;
}

// Whether this run may draw on that daemon: same version; same limits, if the run has any of its
// own.
Result<void> check_daemon(const json::object& version, const Config& config,
                          const RuntimeDir& runtime) {
  const std::int64_t pid = count_of(version, "pid");
  const std::string mend = fmt::format(
      "stop it (kill {}), or give this run its own by "
      "--runtime-dir {}-other",
      pid, runtime.path);
  if (text_of(version, "version") != kVersion) {
    return fail(Errc::conflict,
                fmt::format("the daemon of this user (process {}) is headgate {}, this is {}: {}",
                            pid, text_of(version, "version"), kVersion, mend));
  }
  const std::string mine = fingerprint(config);
  const bool own_limits = mine != fingerprint(Config());
  const bool other_log = !config.call_log.empty() && config.call_log != "none" &&
                         config.call_log != text_of(version, "call_log");
  if ((own_limits && mine != text_of(version, "fingerprint")) || other_log) {
    const std::string file = text_of(version, "config");
    return fail(Errc::conflict,
                fmt::format("the daemon of this user (process {}) has another {} ({}): {}", pid,
                            other_log ? "call log" : "configuration",
                            file.empty() ? "no file" : file, mend));
  }
  return {};
}

// The upstream that the run's calls go to, as the daemon names it; "" lets the daemon choose: its
// default one, or by dialect.
Result<std::string> choose_upstream(const DaemonClient& daemon, const json::object& version,
                                    const Config& config, const wire::Profiles& profiles) {
  if (config.upstreams.empty() && config.default_upstream.empty()) return std::string();
  auto wanted = make_shim_config(config, profiles);
  if (!wanted) return std::unexpected(wanted.error());
  const json::value* list = version.if_contains("upstreams");
  const auto known_as = [&](const net::Url& url) -> std::string {
    if (list == nullptr || !list->is_array()) return "";
    for (const json::value& entry : list->as_array()) {
      if (entry.is_object() && text_of(entry.as_object(), "url") == url.text()) {
        return text_of(entry.as_object(), "name");
      }
    }
    return "";
  };
  if (wanted->default_upstream.empty() && wanted->upstreams.size() > 1) {
    // Several, to be chosen by dialect: the daemon must know the same, and choose so too.
    bool all = text_of(version, "default_upstream").empty();
    for (const proxy::Upstream& upstream : wanted->upstreams) {
      all = all && !known_as(upstream.url).empty();
    }
    if (all) return std::string();
    const std::int64_t pid = count_of(version, "pid");
    return fail(Errc::conflict,
                fmt::format("the daemon of this user (process {}) has other upstreams; name one by "
                            "--upstream, or stop it (kill {})",
                            pid, pid));
  }
  const proxy::Upstream& target = wanted->upstreams.front();
  if (std::string name = known_as(target.url); !name.empty()) return name;
  json::object body;
  body["url"] = target.url.text();
  if (!target.profile.empty()) body["profile"] = target.profile;
  auto added = daemon.post("/_headgate/upstreams", json::value(body));
  if (!added) return std::unexpected(added.error());
  return text_of(added->as_object(), "name");
}

// A pool that the daemon does not have would make every call of the program fail.
Result<void> check_pool(const json::object& version, const std::string& pool) {
  if (pool.empty()) return {};
  std::string known;
  const json::value* list = version.if_contains("pools");
  if (list != nullptr && list->is_array()) {
    for (const json::value& entry : list->as_array()) {
      if (!entry.is_string()) continue;
      if (entry.as_string() == pool) return {};
      known += known.empty() ? "" : ", ";
      known += entry.as_string();
    }
  }
  return fail(Errc::not_found,
              fmt::format("--pool {}: the daemon has no such pool; allowed are: {}", pool,
                          known.empty() ? "(none configured)" : known));
}

const wire::HarnessProfile* find_harness(const std::string& name, const std::string& program,
                                         const wire::Profiles& profiles) {
  if (!name.empty()) return profiles.harness(name);
  return &profiles.harness_for_program(std::filesystem::path(program).filename().string());
}

// "3 calls, 36.2k tokens in (12.1k cached), 120 out, waited 4.2 s, 2 refusals absorbed".
std::string used_line(const json::object& totals) {
  const std::int64_t calls = count_of(totals, "calls");
  const std::int64_t cached = count_of(totals, "cached");
  const std::int64_t absorbed = count_of(totals, "overloads_absorbed");
  const std::int64_t refused = count_of(totals, "refused_by_us");
  const json::value* waited = totals.if_contains("waited_seconds");
  const double seconds = waited == nullptr || !waited->is_number() ? 0
                                                                   : waited->to_number<double>();
  std::string line = fmt::format(
      "{} call{}, {} tokens in ({} cached), {} out, waited {}, {} refusal{} absorbed", calls,
      calls == 1 ? "" : "s", short_count(count_of(totals, "uncached") + cached),
      short_count(cached), short_count(count_of(totals, "output")),
      short_duration(Micros(static_cast<std::int64_t>(seconds * 1e6))), absorbed,
      absorbed == 1 ? "" : "s");
  if (refused > 0) line += fmt::format(", {} told to come back", refused);
  return line;
}

// The totals of the run, once the daemon has written up its last calls; nothing if it is gone.
std::optional<json::object> totals_of(const DaemonClient& daemon, const std::string& run) {
  json::object totals;
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto answer = daemon.get("/_headgate/runs/" + run);
    if (!answer) return std::nullopt;
    totals = answer->as_object();
    if (count_of(totals, "calls_now") == 0) break;
    ::poll(nullptr, 0, 20);
  }
  return totals;
}

// What a run used, after its program has ended.
void say_used(const std::string& harness, const std::optional<json::object>& totals) {
  if (!totals) {
    fmt::print(stderr, "headgate: {}: what it used is unknown: the daemon is gone\n", harness);
    return;
  }
  if (count_of(*totals, "calls") == 0) {
    fmt::print(stderr,
               "headgate: warning: no call of this program passed through Headgate; if it made "
               "any, its own configuration names another address\n");
  }
  fmt::print(stderr, "headgate: {}: {}\n", harness, used_line(*totals));
}

int failed(const std::string& text) {
  complain(text);
  return kExitExecFailed;
}

int execute(const ExecOptions& options, const std::vector<std::string>& words) {
  if (words.empty()) {
    complain(
        "exec: no program; write it behind --, such as: headgate exec -- claude -p \"...\"; see "
        "headgate exec --help");
    return kExitUsage;
  }
  auto found = find_program(words[0]);
  if (!found) {
    complain(found.error().detail);
    return found.error().code == Errc::not_found ? kExitNotFound : kExitNotRunnable;
  }
  auto config = options.config.load();
  if (!config) return failed(config.error().detail);
  auto profiles = load_profiles(config->profiles_dir);
  if (!profiles) return failed(profiles.error().detail);
  const wire::HarnessProfile* harness = find_harness(options.harness, words[0], *profiles);
  if (harness == nullptr) {
    std::string known;
    for (const auto& item : profiles->harnesses()) known += (known.empty() ? "" : ", ") + item.name;
    return failed(fmt::format("--harness {} is unknown; allowed are: {}",
                              escape_controls(options.harness.substr(0, 80)), known));
  }
  for (const std::string* name : {&options.pool, &options.run, &options.task}) {
    if (!name->empty() && !proxy::valid_attribution(*name)) {
      return failed("--pool, --run and --task: letters, digits, '-', '_' and '.' are allowed");
    }
  }
  auto runtime = open_runtime_dir(config->runtime_dir);
  if (!runtime) return failed(runtime.error().detail);
  const DaemonClient daemon(runtime->socket());
  RunAddress address;
  address.run = options.run.empty() ? fmt::format("{:012x}", os_random_seed() >> 16) : options.run;
  Result<Joined> joined = join_or_start(options, *config, *runtime);
  if (!joined) return failed(joined.error().detail);
  Result<void> fits = check_daemon(joined->version, *config, *runtime);
  if (!fits) return failed(fits.error().detail);
  Result<OpenFile> attached = daemon.attach(address.run);
  if (!attached) {
    // A daemon may end between its answer and our joining it: once more, with a new one.
    joined = join_or_start(options, *config, *runtime);
    if (!joined) return failed(joined.error().detail);
    fits = check_daemon(joined->version, *config, *runtime);
    if (!fits) return failed(fits.error().detail);
    attached = daemon.attach(address.run);
    if (!attached) return failed(attached.error().detail);
  }
  if (auto known = check_pool(joined->version, options.pool); !known) {
    return failed(known.error().detail);
  }
  auto upstream = choose_upstream(daemon, joined->version, *config, *profiles);
  if (!upstream) return failed(upstream.error().detail);

  address.listener = text_of(joined->version, "base_url");
  address.upstream = *upstream;
  address.pool = options.pool;
  address.harness = harness->name;
  address.task = options.task.empty() ? "1" : options.task;
  const std::string url = base_url(address);

  Program program;
  program.file = *found;
  const Lookup lookup = [](std::string_view name) -> std::optional<std::string> {
    const std::string key(name);
    const char* value = std::getenv(key.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return std::nullopt;
    return value;
  };
  program.arguments = harness_arguments(*harness, url, words, lookup);
  program.environment = harness_variables(*harness, url, lookup);
  // Of this process alone, because a run may have several programs at once.
  const std::string directory = fmt::format("{}/run-{}-{}", runtime->path, address.run, ::getpid());
  if (auto written = write_files(*harness, url, directory, lookup, program.environment); !written) {
    return failed(written.error().detail);
  }
  auto status = run_program(program);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (!status) {
    complain(status.error().detail);
    return kExitNotRunnable;
  }
  if (!options.quiet) {
    say_used(harness->name, totals_of(daemon, address.run));
  }
  return *status;
}

}  // namespace

Command add_exec(CLI::App& app) {
  auto options = std::make_shared<ExecOptions>();
  CLI::App* parser = app.add_subcommand(
      "exec",
      "run one agent behind the gate\n"
      "Joins the daemon of this user, or starts one that ends when it is idle; sets what the "
      "program needs so that its calls pass; ends with the program's own status, after one line "
      "of what it used.");
  parser->prefix_command();
  parser
      ->add_option("--harness", options->harness,
                   "what the program is; default: told by its name; custom for any other")
      ->type_name("NAME");
  parser->add_option("--pool", options->pool, "the pool that its calls draw on")->type_name("NAME");
  parser->add_option("--run", options->run, "the run that it belongs to; default: one of its own")
      ->type_name("ID");
  parser->add_option("--task", options->task, "its task within the run")->type_name("ID");
  parser->add_flag("--quiet", options->quiet, "no line of what it used");
  options->config.add_to(*parser);
  parser->footer(
      examples({{"Claude Code, with your own key", "headgate exec -- claude -p \"mend the tests\""},
                {"Against another provider",
                 "headgate exec --upstream https://llm.example.com -- claude"},
                {"Any program that reads OPENAI_BASE_URL",
                 "headgate exec --harness custom -- python agent.py"}}) +
      "\n\nExit status: the program's own; 128 + N if signal N ended it; 127 no such\n"
      "program; 126 it cannot be run; 125 Headgate itself failed; 2 wrong arguments.");
  return Command{parser, [options](const std::vector<std::string>& words) {
                   return execute(*options, words);
                 }};
}

}  // namespace hg::cli
