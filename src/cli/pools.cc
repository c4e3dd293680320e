// pools.cc: `headgate pools`: what the daemon's pools hold, and who waits in them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/runtime_dir.h"
#include "cli/terminal.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

struct PoolsOptions {
  ConfigOptions config;
  bool json = false;
};

std::int64_t count(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_number() ? 0 : value->to_number<std::int64_t>();
}

double number(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_number() ? 0 : value->to_number<double>();
}

std::string text(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_string() ? "" : std::string(value->as_string());
}

Micros seconds(double value) { return Micros(static_cast<std::int64_t>(value * 1e6)); }

std::string level(std::int64_t present, std::int64_t capacity) {
  return fmt::format("{} / {}", short_count(present), short_count(capacity));
}

std::string show(const json::array& pools, bool colour, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"pool", "limits from", "tokens", "refill", "in flight", "requests", "queue", "waited"});
  std::string queues;
  for (const json::value& entry : pools) {
    const json::object& pool = entry.as_object();
    const json::object& limits = pool.at("limits").as_object();
    const json::object& seed = pool.at("seed").as_object();
    const json::array& waiters = pool.at("waiters").as_array();
    const std::string name = text(pool, "name");
    const Micros head = waiters.empty() ? Micros(0)
                                        : seconds(number(waiters[0].as_object(), "waited_seconds"));
    rows.push_back({name,
                    fmt::format("{}, {} ago", text(seed, "source"),
                                short_duration(seconds(number(seed, "age_seconds")))),
                    level(count(pool, "tokens"), count(limits, "c_burst")),
                    fmt::format("{}/s", short_count(count(limits, "r_tok"))),
                    level(count(pool, "inflight"), count(limits, "k_inflight")),
                    fmt::format("{:.0f} / {} +{:g}/s", number(pool, "requests"),
                                count(limits, "c_req"), number(limits, "r_qps")),
                    fmt::format("{}", waiters.size()),
                    waiters.empty() ? "-" : short_duration(head)});
    if (const double paused = number(pool, "paused_seconds"); paused > 0) {
      queues += paint(Paint::yellow,
                      fmt::format("\n{} is paused for {}: its quota is exhausted\n", name,
                                  short_duration(seconds(paused))),
                      colour);
    }
    if (waiters.empty()) continue;
    std::vector<std::vector<std::string>> queue;
    queue.push_back({"place", "alias", "tokens", "waited", "about to go"});
    for (const json::value& waiting : waiters) {
      const json::object& waiter = waiting.as_object();
      queue.push_back({fmt::format("{}", count(waiter, "place")), text(waiter, "alias"),
                       short_count(count(waiter, "charge")),
                       short_duration(seconds(number(waiter, "waited_seconds"))),
                       "in " + short_duration(seconds(number(waiter, "predicted_seconds")))});
    }
    queues += fmt::format("\nwaiting in {}:\n{}", name, fitted_table(queue, 2, width));
  }
  return fitted_table(rows, 2, width) + queues;
}

int run_pools(const PoolsOptions& options) {
  auto config = options.config.load();
  if (!config) {
    complain(config.error().detail);
    return kExitUsage;
  }
  auto runtime = open_runtime_dir(config->runtime_dir);
  if (!runtime) {
    complain(runtime.error().detail);
    return kExitFailed;
  }
  const DaemonClient daemon(runtime->socket());
  auto answer = daemon.get("/_headgate/pools");
  if (!answer) {
    complain(fmt::format("no daemon answers at {} ({}); headgate serve starts one",
                         runtime->socket(), answer.error().detail));
    return kExitFailed;
  }
  if (options.json) {
    fmt::print("{}\n", json_text(*answer));
    return kExitOk;
  }
  const json::value* pools = answer->as_object().if_contains("pools");
  if (pools == nullptr || !pools->is_array() || pools->as_array().empty()) {
    fmt::print("no pools yet: one appears with its first call\n");
    return kExitOk;
  }
  fmt::print("{}", show(pools->as_array(), wants_colour(stdout), columns_of(stdout)));
  return kExitOk;
}

}  // namespace

Command add_pools(CLI::App& app) {
  auto options = std::make_shared<PoolsOptions>();
  CLI::App* parser = app.add_subcommand("pools", "limits, levels and queue of each pool");
  options->config.add_to(*parser, kClientKeys);
  parser->add_flag("--json", options->json, "everything, as JSON");
  parser->footer(examples({{"What binds, and who waits", "headgate pools"},
                           {"For programs", "headgate pools --json | jq '.pools[].waiters'"}}));
  return Command{parser,
                 [options](const std::vector<std::string>&) { return run_pools(*options); }};
}

}  // namespace hg::cli
