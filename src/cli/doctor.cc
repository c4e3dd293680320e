// doctor.cc: `headgate doctor`: checks everything that can be wrong and says how to mend it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/compose.h"
#include "cli/doctor_addresses.h"
#include "cli/doctor_findings.h"
#include "cli/doctor_keys.h"
#include "cli/doctor_machine.h"
#include "cli/doctor_programs.h"
#include "cli/doctor_upstream.h"
#include "cli/exit_codes.h"
#include "cli/file_limit.h"
#include "cli/harness_setup.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/runtime_dir.h"
#include "cli/terminal.h"
#include "cli/version.h"

namespace hg::cli {

namespace {

// The whole never takes longer, whatever hangs.
constexpr Micros kWholeWithin = 10s;
constexpr Micros kWholeWithCallsWithin = 90s;
constexpr Micros kQuiet = 4s;  // From the start: so long the upstreams have the machine.
constexpr std::size_t kPipedColumns = 80;
constexpr std::size_t kColumnsMax = 100;  // Longer lines are hard to read.
constexpr std::size_t kSettingsBytesMax = std::size_t{1} << 20;

struct DoctorOptions {
  ConfigOptions config;
  bool json = false;
  bool offline = false;
  bool call = false;
  std::string model;
  double timeout = 3;
};

// What the configuration makes, as far as it can be read.
struct Setup {
  Config config;
  wire::Profiles profiles;
  proxy::ShimConfig shim;
  bool whole = false;  // Everything could be read: the upstreams are known.
};

std::string_view plural(std::size_t number) { return number == 1 ? "" : "s"; }

Findings check_configuration(const DoctorOptions& options, Setup& setup) {
  const std::string about = "configuration";
  const std::string
      mend = "Correct it as it says; headgate serve --keys lists every key and what is allowed.";
  Findings findings;
  std::vector<std::string> notes;
  auto config = options.config.load(notes);
  for (const std::string& note : notes) {
    findings.push_back(warning("config.note", about, note,
                               "Correct its name or remove it; a file that you trust is read by "
                               "--config."));
  }
  setup.profiles = wire::Profiles::built_in();
  if (!config) {
    findings.push_back(problem("config.invalid", about, config.error().detail, mend));
    return findings;
  }
  setup.config = *config;
  auto profiles = load_profiles(config->profiles_dir);
  if (!profiles) {
    findings.push_back(problem("config.profiles", about, profiles.error().detail, mend));
    return findings;
  }
  setup.profiles = std::move(*profiles);
  auto shim = make_shim_config(setup.config, setup.profiles);
  if (!shim) {
    findings.push_back(problem("config.invalid", about, shim.error().detail, mend));
    return findings;
  }
  setup.shim = std::move(*shim);
  setup.whole = true;
  const std::size_t upstreams = config->upstreams.size();
  const std::size_t pools = config->pools.size();
  findings.push_back(fine(
      "config.read", about,
      fmt::format("{}: {}, {}",
                  config->file.empty() ? "no file, and none is needed" : config->file + " is read",
                  upstreams == 0 ? std::string("the public upstreams")
                                 : fmt::format("{} upstream{}", upstreams, plural(upstreams)),
                  pools == 0 ? std::string("the cautious limits of each provider's profile")
                             : fmt::format("{} pool{}", pools, plural(pools)))));
  if (!is_loopback(config->listen_host)) {
    findings.push_back(warning(
        "config.open_listener", about,
        fmt::format("{}: a daemon listens on {}, and whoever reaches that can use the upstreams",
                    config->place_of("listen"), config->listen_host),
        "Listen on 127.0.0.1, or keep that network to machines that you trust."));
  }
  return findings;
}

// Those that calls of this user will go to: the one named, those configured, else the public ones
// that there is a key for; the two best known when there is none.
std::vector<proxy::Upstream> chosen_upstreams(const DoctorOptions& options, const Setup& setup,
                                              const Environment& environment) {
  if (!setup.whole) return {};
  if (!options.config.upstream().empty()) return {setup.shim.upstreams.front()};
  if (!setup.config.upstreams.empty()) return setup.shim.upstreams;
  std::vector<proxy::Upstream> with_key;
  std::vector<proxy::Upstream> best_known;
  for (const proxy::Upstream& upstream : setup.shim.upstreams) {
    const auto& variables = profile_of(upstream, setup.profiles).key_variables;
    const bool has_key = std::any_of(
        variables.begin(), variables.end(),
        [&](const std::string& name) { return value_of(environment, name).value_or("") != ""; });
    if (has_key) with_key.push_back(upstream);
    if (upstream.name == "openai" || upstream.name == "anthropic") best_known.push_back(upstream);
  }
  return with_key.empty() ? best_known : with_key;
}

UpstreamJob make_job(const proxy::Upstream& upstream, const Setup& setup,
                     const Environment& environment) {
  UpstreamJob job;
  job.upstream = upstream;
  job.profile = &profile_of(upstream, setup.profiles);
  const bool in_the_clear = upstream.url.scheme == net::Scheme::http &&
                            !is_loopback(upstream.url.host);
  auto variable = usable_key_variable(environment, *job.profile, setup.profiles);
  // A login's token is for the program that has it.
  if (!variable || in_the_clear || variable->ends_with("OAUTH_TOKEN")) return job;
  job.key_variable = *variable;
  job.key = *value_of(environment, *variable);
  return job;
}

// The upstreams, each looked at by a thread of its own.
class Examinations {
 public:
  Examinations(std::vector<UpstreamJob> jobs, UpstreamPlan plan) {
    state_->jobs = std::move(jobs);
    state_->plan = std::move(plan);
    state_->findings.resize(state_->jobs.size());
    state_->ended.resize(state_->jobs.size(), false);
    for (std::size_t at = 0; at < state_->jobs.size(); ++at) {
      threads_.emplace_back([state = state_, at] { examine(*state, at); });
    }
  }

  // Waits for all until then.
  void wait(const Clock& clock, Instant deadline, LiveLine* line) {
    std::unique_lock lock(state_->mutex);
    while (left() > 0 && clock.now() < deadline) {
      if (line != nullptr) {
        line->show(fmt::format("waiting for {} of {} upstreams", left(), state_->jobs.size()));
      }
      state_->one_ended.wait_for(lock, std::min<Micros>(200ms, deadline - clock.now()));
    }
  }

  // What was found, and whether all have ended. Threads that have not are still there: the program
  // must end without waiting for them.
  bool collect(Findings& findings) {
    std::unique_lock lock(state_->mutex);
    const bool all = left() == 0;
    for (std::size_t at = 0; at < state_->jobs.size(); ++at) {
      append(findings, state_->findings[at]);
      if (state_->ended[at]) continue;
      findings.push_back(problem("upstream.slow", about_upstream(state_->jobs[at].upstream),
                                 "not done in time",
                                 "Try a longer --timeout for it alone (--upstream); a DNS server "
                                 "that does not answer looks so, too."));
    }
    lock.unlock();
    if (all) {
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }
    return all;
  }

 private:
  struct State {
    std::mutex mutex;  // For findings and ended.
    std::condition_variable one_ended;
    std::vector<UpstreamJob> jobs;
    UpstreamPlan plan;
    std::vector<Findings> findings;
    std::vector<bool> ended;
  };

  static void examine(State& state, std::size_t at) {
    examine_upstream(state.jobs[at], state.plan, [&state, at](Finding finding) {
      const std::lock_guard lock(state.mutex);
      state.findings[at].push_back(std::move(finding));
    });
    const std::lock_guard lock(state.mutex);
    state.ended[at] = true;
    state.one_ended.notify_all();
  }

  std::size_t left() const {
    return static_cast<std::size_t>(std::count(state_->ended.begin(), state_->ended.end(), false));
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::vector<std::thread> threads_;
};

std::optional<std::string> read_settings(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text(kSettingsBytesMax, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

Findings check_settings(const Setup& setup, const Environment& environment, const std::string& gate,
                        const AskListener& ask) {
  const Lookup lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto value = value_of(environment, name);
    if (!value || value->empty()) return std::nullopt;
    return std::string(*value);
  };
  Findings findings;
  std::set<std::string> seen;  // A home may be where we are.
  for (const wire::HarnessProfile& harness : setup.profiles.harnesses()) {
    for (const auto& rule : harness.overrides) {
      for (const std::string& pattern : rule.files) {
        const auto path = expand_variables(pattern, lookup);
        const auto text = path ? read_settings(*path) : std::nullopt;
        std::error_code error;
        if (!text || !seen.insert(std::filesystem::weakly_canonical(*path, error)).second) continue;
        append(findings, check_settings_file(harness, rule, *path, *text, gate, ask));
      }
    }
  }
  return findings;
}

Findings check_local(const DoctorOptions& options, const Setup& setup,
                     const std::vector<KeyedUpstream>& upstreams, const Environment& environment,
                     const std::function<Micros()>& step,
                     const std::function<void(std::string_view)>& progress) {
  std::optional<RunningDaemon> daemon;
  progress("looking at this machine");
  Findings machine = check_runtime(setup.config, step(), daemon);
  append(machine, check_port(setup.config, daemon, step()));
  machine.push_back(judge_files(file_limit(), setup.config));
  const std::string& log = setup.config.call_log;
  machine.push_back(check_call_log(log == "none" ? "" : log.empty() ? default_call_log() : log));

  const std::string gate = daemon ? daemon->base_url : "";
  std::map<std::string, Listener> asked;  // By origin: several variables name the same one.
  const AskListener ask = [&](const net::Url& url) {
    if (options.offline && !is_loopback(url.host)) return Listener::not_asked;
    const auto known = asked.find(url.origin());
    if (known != asked.end()) return known->second;
    return asked[url.origin()] = ask_listener(url, step()).who;
  };
  Findings findings = check_keys(environment, upstreams, setup.profiles);
  progress("looking at base URLs");
  append(findings, check_base_variables(environment, setup.profiles, gate, ask));
  append(findings, check_settings(setup, environment, gate, ask));
  append(findings, check_proxy_variables(environment));
  append(findings, std::move(machine));
  return findings;
}

void print(const DoctorOptions& options, const Findings& findings, Micros took) {
  if (options.json) {
    fmt::print("{}\n", json_text(findings_json(findings, took)));
    return;
  }
  const std::size_t columns = columns_of(stdout);
  const std::size_t width = columns == 0 ? kPipedColumns : std::min(columns, kColumnsMax);
  const bool colour = wants_colour(stdout);
  const Paint paint_summary = count(findings, Level::problem) > 0   ? Paint::red
                              : count(findings, Level::warning) > 0 ? Paint::yellow
                                                                    : Paint::green;
  fmt::print("{}\n{}\n", findings_text(findings, width, colour),
             paint(paint_summary, summary_text(findings, took), colour));
}

int examine(const DoctorOptions& options) {
  const OsClock clock;
  const Instant start = clock.now();
  const WallTime wall_start = clock.wall();
  const auto within = Micros(static_cast<std::int64_t>(options.timeout * 1e6));
  // What matters is said as a finding.
  set_log_level(LogLevel::off);
  const Environment environment = present_environment();
  // Threads that hang outlive this function, though not the process (see below).
  static Setup setup;
  Findings findings = check_configuration(options, setup);

  std::vector<KeyedUpstream> keyed;
  std::vector<UpstreamJob> jobs;
  for (const proxy::Upstream& upstream : chosen_upstreams(options, setup, environment)) {
    jobs.push_back(make_job(upstream, setup, environment));
    keyed.push_back({upstream.name, jobs.back().profile});
  }
  if (options.offline) jobs.clear();
  UpstreamPlan plan;
  plan.config = setup.config;
  plan.profiles = &setup.profiles;
  plan.within = within;
  plan.call = options.call;
  plan.model = options.model;

  std::optional<LiveLine> line;
  if (is_terminal(stderr)) line.emplace(stderr, clock);
  const auto progress = [&](std::string_view text) {
    if (line) line->show(text);
  };
  Examinations examinations(std::move(jobs), std::move(plan));
  const auto left = [&] { return std::max<Micros>(start + kWholeWithin - clock.now(), 50ms); };
  const auto step = [&] { return std::min(left(), within); };
  Findings local = check_local(options, setup, keyed, environment, step, progress);
  LiveLine* const shown = line ? &*line : nullptr;
  // Programs that start keep the machine busy, and the answers' times would be theirs.
  examinations.wait(clock, start + kQuiet, shown);
  progress("asking the agent programs for their versions");
  append(local, check_programs(setup.profiles, std::min(left(), within * 2)));
  examinations.wait(clock, start + (options.call ? kWholeWithCallsWithin : kWholeWithin), shown);
  const bool all = examinations.collect(findings);
  append(findings, std::move(local));
  findings.push_back(
      judge_clocks(clock.now() - start, clock.wall().since_epoch - wall_start.since_epoch));
  if (line) line->erase();
  line.reset();

  Secrets(environment, key_variables(setup.profiles)).hide(findings);
  print(options, findings, clock.now() - start);
  std::fflush(stdout);
  const int status = count(findings, Level::problem) > 0 ? kExitFailed : kExitOk;
  // A look-up of a name that hangs cannot be stopped, and an orderly end would wait for it.
  if (!all) std::_Exit(status);
  return status;
}

}  // namespace

Command add_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* parser = app.add_subcommand(
      "doctor",
      "what is wrong here, and how to mend it\n"
      "Looks at the configuration, the way to each upstream, keys, base URLs, agent programs and "
      "this machine, and asks the same free question with and without a gate. Nothing is changed, "
      "and no key is shown.");
  parser->add_flag("--json", options->json, "all findings, as one line of JSON");
  parser->add_flag("--offline", options->offline, "nothing that leaves this machine");
  parser->add_flag("--call", options->call,
                   "also make tiny calls that generate, two for each dialect: they cost");
  parser->add_option("--model", options->model, "of these calls; default: a cheap one it lists")
      ->type_name("NAME");
  parser->add_option("--timeout", options->timeout, "for each step; default: 3; the whole: 10")
      ->check(CLI::Range(0.1, 10.0))
      ->type_name("SECONDS");
  options->config.add_to(*parser);
  parser->footer(
      examples(
          {{"Everything, for the public providers that you have keys of", "headgate doctor"},
           {"One upstream, also with calls that cost",
            "headgate doctor --upstream https://llm.example.com --call"},
           {"For programs", "headgate doctor --json | jq '.findings[] | select(.mend != \"\")'"}}) +
      "\n\nExit status: 0 no problem (there may be warnings), 1 at least one problem,\n"
      "2 wrong arguments. docs/doctor.md lists every finding.");
  return Command{parser, [options](const std::vector<std::string>&) { return examine(*options); }};
}

}  // namespace hg::cli
