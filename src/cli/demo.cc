// demo.cc: `headgate demo`: the whole thing at once, without a key: an emulated provider, a gate
// that was told its limits, fifty model agents; and beside it the same fleet without a gate.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/compose.h"
#include "cli/daemon.h"
#include "cli/demo_fairness.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/run_task.h"
#include "cli/runtime_dir.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "cli/wait_signal.h"
#include "lab/emulated_provider.h"
#include "lab/fleet.h"

namespace hg::cli {

namespace {

// What the demo promises of the fleet behind the gate.
constexpr double kLimitUsedMin = 0.85;
// In flight nothing binds this provider, so the pool is told as much as the whole fleet can ask.
constexpr Tokens kInflight = 10'000'000;
constexpr double kPlanSeconds = 60;

struct DemoOptions {
  std::string out = "build/demo/summary.json";
  std::optional<int> agents;
  std::optional<int> tasks;
  double seconds = kPlanSeconds;
  std::uint64_t seed = 1;
  bool json = false;
  bool fairness = false;
  double load = 1.3;
};

// One of the two fleets, with a provider of its own.
struct Side {
  Side(const net::Executor& executor, const Clock& clock, const lab::ProviderConfig& config)
      : provider(executor, clock, config) {}

  lab::EmulatedProvider provider;
  std::optional<lab::Fleet> fleet;
  std::optional<Result<lab::FleetSummary>> result;
};

net::Task<void> play(Side& side, net::Event& ended) {
  auto result = co_await side.fleet->run();
  if (result) lab::add_account(*result, side.provider.totals());
  side.result.emplace(std::move(result));
  ended.notify();
}

// Short enough for two of them in a line of 80 columns.
std::string progress_of(const Side& side) {
  const lab::FleetProgress progress = side.fleet->progress();
  return fmt::format("{} done, {} lost, {} refusals{}", progress.tasks_done, progress.tasks_lost,
                     progress.counts.refusals, side.result ? " (end)" : "");
}

net::Task<void> show_progress(LiveLine& line, const Clock& clock, Instant start, const Side& with,
                              const Side& without) {
  while (!with.result || !without.result) {
    line.show(fmt::format("{:3.0f} s  gate: {} | none: {}", to_seconds(clock.now() - start),
                          progress_of(with), progress_of(without)));
    const bool slept = co_await net::sleep_for(200ms);
    if (!slept) break;
  }
}

Config gate_config(const sim::ProviderModel& model, double share, const std::string& url) {
  const auto part = [share](double whole) { return static_cast<std::int64_t>(whole * share); };
  Config config;
  config.listen_port = 0;
  UpstreamSettings upstream;
  upstream.name = "emulated";
  upstream.url = url;
  upstream.profile = "emulated";
  config.upstreams.push_back(upstream);
  PoolSettings pool;
  pool.name = "demo";
  pool.upstream = upstream.name;
  pool.c_burst = part(static_cast<double>(model.burst_tokens));
  pool.r_tok = part(model.tokens_per_second);
  pool.k_inflight = kInflight;
  pool.c_req = part(model.burst_requests);
  pool.r_qps = part(model.requests_per_second * 1e6);
  pool.cached_weight_ppm = model.cached_ppm;
  pool.output_weight_ppm = model.output_ppm;
  config.pools.push_back(pool);
  // A demo lasts a minute: it cannot wait half of one after a refusal.
  config.overload_step = 2s;
  return config;
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string summary_table(const lab::FleetSummary& with, const lab::FleetSummary& without,
                          bool colour) {
  const auto row = [](std::string_view name, auto left, auto right) {
    return std::vector<std::string>{std::string(name), with_thousands(left), with_thousands(right)};
  };
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"", "with gate", "without"});
  rows.push_back(row("tasks finished", with.tasks_done, without.tasks_done));
  rows.push_back(row("tasks lost", with.tasks_lost + with.tasks_unfinished,
                     without.tasks_lost + without.tasks_unfinished));
  rows.push_back(row("calls the agents made", with.calls, without.calls));
  rows.push_back(row("tokens", with.tokens, without.tokens));
  rows.push_back(
      row("refused by the provider", with.refused_by_provider, without.refused_by_provider));
  rows.push_back(row("429, 503 and 529 that agents got", with.refused_seen_by_agents,
                     without.refused_seen_by_agents));
  rows.push_back(row("  of them Headgate's own", with.refused_by_us, without.refused_by_us));
  rows.push_back(
      {"accepted / (burst + rate x time)", percent(with.limit_used), percent(without.limit_used)});
  rows.push_back(
      {"seconds", fmt::format("{:.0f}", with.seconds), fmt::format("{:.0f}", without.seconds)});
  std::string text = table(rows, 1);
  const auto first_break = text.find('\n');
  return paint(Paint::bold, text.substr(0, first_break), colour) + text.substr(first_break);
}

Result<void> write_summary(const std::string& path, const std::string& text) {
  if (auto made = make_parents(path); !made) return made;
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text << '\n';
  stream.close();
  if (!stream) return fail(Errc::unavailable, fmt::format("{}: cannot write it", path));
  return {};
}

// The promises that were broken, one a line.
std::vector<std::string> broken_promises(const lab::FleetSummary& with) {
  std::vector<std::string> broken;
  if (with.tasks_lost + with.tasks_unfinished > 0) {
    broken.push_back(
        fmt::format("{} tasks were lost behind the gate", with.tasks_lost + with.tasks_unfinished));
  }
  if (with.refused_seen_by_agents > 0) {
    broken.push_back(
        fmt::format("agents behind the gate saw {} refusals", with.refused_seen_by_agents));
  }
  if (with.limit_used < kLimitUsedMin) {
    broken.push_back(fmt::format("only {} of the hidden limit was used; {} is promised",
                                 percent(with.limit_used), percent(kLimitUsedMin)));
  }
  for (const std::string& why : with.lost_why) broken.push_back("  lost: " + why);
  return broken;
}

void introduce(const lab::DemoPlan& plan, const Daemon& daemon, std::FILE* out) {
  const sim::ProviderModel& model = plan.provider.model;
  fmt::print(out,
             "headgate {} demo: {} model agents, {} tasks, twice: behind a gate and without one\n\n"
             "  emulated provider  {} tokens burst, {} tokens/s, {:g} requests burst, {:g}/s: "
             "hidden\n"
             "                     limits, over real HTTP; each fleet has a provider of its own\n"
             "  gate               {}\n"
             "  its limits         told, at {:.0f} % of the hidden ones: {} tokens burst, {}/s\n"
             "  agents             habits of {}:\n"
             "                     their timeouts, their retries\n\n",
             kVersion, plan.fleet.agents, plan.fleet.tasks, with_thousands(model.burst_tokens),
             with_thousands(static_cast<std::int64_t>(model.tokens_per_second)),
             model.burst_requests, model.requests_per_second, daemon.base_url(),
             plan.told_share * 100,
             with_thousands(static_cast<std::int64_t>(static_cast<double>(model.burst_tokens) *
                                                      plan.told_share)),
             with_thousands(static_cast<std::int64_t>(model.tokens_per_second * plan.told_share)),
             fmt::join(plan.fleet.harnesses, ", "));
}

int finish(const DemoOptions& options, const Side& with, const Side& without, std::FILE* out) {
  for (const Side* side : {&with, &without}) {
    if (!side->result || !*side->result) {
      complain(side->result ? side->result->error().detail : "a fleet did not end");
      return kExitFailed;
    }
  }
  const lab::FleetSummary& left = **with.result;
  const lab::FleetSummary& right = **without.result;
  fmt::print(out, "\n{}\n", summary_table(left, right, wants_colour(out)));
  const std::string summary = fmt::format("{{\"with_gate\":{},\"without_gate\":{}}}",
                                          lab::to_json(left), lab::to_json(right));
  if (auto written = write_summary(options.out, summary); !written) {
    complain(written.error().detail);
    return kExitFailed;
  }
  if (options.json) fmt::print("{}\n", summary);
  fmt::print(out, "summary: {}\n", options.out);
  const std::vector<std::string> broken = broken_promises(left);
  for (const std::string& promise : broken) complain(promise);
  if (broken.empty()) {
    fmt::print(out, "{}\n",
               paint(Paint::green,
                     "behind the gate no task was lost and no agent saw "
                     "a refusal",
                     wants_colour(out)));
  }
  return broken.empty() ? kExitOk : kExitFailed;
}

int demo(const DemoOptions& options) {
  // With --json, stdout is for the summary.
  std::FILE* const out = options.json ? stderr : stdout;
  set_log_level(LogLevel::error);
  lab::DemoPlan plan = lab::demo_plan(options.seed);
  if (options.agents) plan.fleet.agents = *options.agents;
  plan.fleet.tasks = std::max(plan.fleet.agents,
                              static_cast<int>(plan.fleet.tasks * options.seconds / kPlanSeconds));
  if (options.tasks) plan.fleet.tasks = *options.tasks;

  boost::asio::io_context context(1);
  const net::Executor executor = context.get_executor();
  const OsClock clock;
  Side with(executor, clock, plan.provider);
  Side without(executor, clock, plan.provider);
  auto gated_port = with.provider.listen(0);
  auto bare_port = without.provider.listen(0);
  if (!gated_port || !bare_port) {
    complain((gated_port ? bare_port : gated_port).error().detail);
    return kExitFailed;
  }
  const Config config = gate_config(plan.provider.model, plan.told_share,
                                    fmt::format("http://127.0.0.1:{}", *gated_port));
  Daemon daemon(executor, clock, wire::Profiles::built_in(), config);
  if (auto started = run_task(context, daemon.start("", "")); !started) {
    complain(started.error().detail);
    return kExitFailed;
  }
  introduce(plan, daemon, out);

  lab::FleetConfig gated = plan.fleet;
  gated.base_url = daemon.base_url() + "/harness/{harness}/run/demo/task/{task}";
  with.fleet.emplace(executor, clock, gated);
  lab::FleetConfig bare = plan.fleet;
  bare.base_url = fmt::format("http://127.0.0.1:{}", *bare_port);
  without.fleet.emplace(executor, clock, bare);
  const SignalWatch signals(executor, [&](int) {
    with.fleet->cancel();
    without.fleet->cancel();
  });
  with.provider.restart();
  without.provider.restart();

  LiveLine line(out, clock);
  net::TaskGroup tasks(executor);
  net::Event ended(executor);
  tasks.spawn("fleet with gate", play(with, ended));
  tasks.spawn("fleet without gate", play(without, ended));
  tasks.spawn("progress", show_progress(line, clock, clock.now(), with, without));
  const auto both = [&]() -> net::Task<void> {
    while (!with.result || !without.result) {
      const net::Woken woken = co_await ended.wait_for(3600s);
      if (woken == net::Woken::cancelled) break;
    }
    const bool joined = co_await tasks.join(5s);
    if (!joined) log_warn("a part of the demo did not end");
    co_await daemon.stop(0s);
    co_await with.provider.stop(0s);
    co_await without.provider.stop(0s);
  };
  run_task(context, both());
  line.end();
  if (signals.signal() != 0) {
    complain("interrupted");
    return kExitSignal + signals.signal();
  }
  return finish(options, with, without, out);
}

}  // namespace

Command add_demo(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* parser = app.add_subcommand(
      "demo", "see it work, without a key: fifty agents, with a gate and without");
  parser->add_option("--out", options->out, "the summary; default: build/demo/summary.json")
      ->type_name("FILE");
  parser->add_option("--agents", options->agents, "agents at once; default: 50")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  parser->add_option("--tasks", options->tasks, "tasks in all; default: for about a minute")
      ->check(CLI::Range(1, 100'000))
      ->type_name("N");
  parser->add_option("--seconds", options->seconds, "about how long; default: 60")
      ->check(CLI::Range(5.0, 3600.0))
      ->type_name("N");
  parser->add_option("--seed", options->seed, "of its randomness; default: 1")->type_name("N");
  parser->add_flag("--json", options->json, "the summary on stdout, the rest on stderr");
  parser->add_flag("--fairness", options->fairness,
                   "instead: small and large calls through one gate; who waits how long?");
  parser->add_option("--load", options->load, "with --fairness: asked for, times the rate: 1.3")
      ->check(CLI::Range(0.1, 3.0))
      ->type_name("X");
  parser->footer(examples({{"A minute", "headgate demo"},
                           {"A look", "headgate demo --seconds 20"},
                           {"Two minutes of fairness", "headgate demo --fairness --seconds 120"}}) +
                 "\n\nExit status: 0 when the promises held: no task lost and no refusal seen\n"
                 "behind the gate, at least 85 % of the hidden limit used; else 1.");
  return Command{parser, [options](const std::vector<std::string>&) {
                   if (!options->fairness) return demo(*options);
                   FairnessOptions fairness;
                   fairness.load = options->load;
                   fairness.seconds = options->seconds;
                   fairness.seed = options->seed;
                   return run_fairness_demo(fairness);
                 }};
}

}  // namespace hg::cli
