#include "lab/fleet.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/rng.h"
#include "net/url.h"

namespace hg::lab {
namespace {

using net::Task;

// For the ends of agents whose connections were closed.
constexpr Micros kUnwind = 10s;

std::string replaced(std::string text, std::string_view name, std::string_view value) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    text.replace(at, name.size(), value);
    at += value.size();
  }
  return text;
}

}  // namespace

struct Fleet::State {
  State(const net::Executor& the_executor, const Clock& the_clock, FleetConfig the_config)
      : clock(the_clock),
        config(std::move(the_config)),
        client(the_executor, the_clock, net::ClientConfig()),
        all_done(the_executor),
        group(the_executor) {}

  Result<net::Url> url_for(std::string_view harness, int task) const {
    std::string text = replaced(config.base_url, "{harness}", wire_of(harness).profile);
    text = replaced(std::move(text), "{task}", fmt::format("t{}", task));
    return net::parse_url(text);
  }

  Result<void> check() const {
    if (config.harnesses.empty()) return fail(Errc::invalid, "a fleet needs a harness");
    for (const std::string& harness : config.harnesses) {
      if (sim::find_habits(harness) == nullptr) {
        return fail(Errc::invalid, fmt::format("no habits are known of harness '{}'", harness));
      }
      const Result<net::Url> url = url_for(harness, 0);
      if (!url) return std::unexpected(url.error());
    }
    return {};
  }

  // One agent: takes tasks until there are none.
  Task<void> run_agent(int index) {
    ++running;
    const bool slept = co_await net::sleep_for(config.start_within * index / config.agents);
    while (slept && !stopping && next_task < config.tasks) {
      const int task = next_task++;
      co_await run_task(index, task);
    }
    if (--running == 0) all_done.notify();
  }

  Task<void> run_task(int index, int task) {
    const std::string&
        harness = config.harnesses[static_cast<std::size_t>(task) % config.harnesses.size()];
    Rng task_rng(config.seed * 1'000'003 + static_cast<std::uint64_t>(task));
    AgentLink& link = links[static_cast<std::size_t>(index)];
    link.client = &client;
    link.clock = &clock;
    link.base = url_for(harness, task).value();  // Checked before the start.
    link.wire = wire_of(harness);
    link.session = fmt::format("00000000-0000-4000-8000-{:012x}", task_rng.next() >> 16);
    link.bytes_per_token = config.bytes_per_token;
    link.counts = &counts;

    sim::ModelAgent agent(*sim::find_habits(harness), config.shape,
                          static_cast<std::uint64_t>(task) + (config.seed << 32), task_rng.fork());
    sim::AgentMove move = agent.start();
    while (move.what == sim::AgentMove::What::call) {
      const bool slept = co_await net::sleep_for(move.pause);
      if (!slept || stopping) co_return;
      ++calls_open;
      const sim::AgentOutcome outcome = co_await attempt(link, move.call);
      --calls_open;
      if (stopping) co_return;
      move = agent.next(outcome);
    }
    if (move.what == sim::AgentMove::What::done) {
      ++tasks_done;
    } else {
      ++tasks_lost;
      lost_why.push_back(fmt::format("{}: {}", harness, move.why));
    }
  }

  void stop() {
    stopping = true;
    for (AgentLink& link : links) {
      if (link.exchange != nullptr) link.exchange->close();
    }
    group.cancel();
  }

  const Clock& clock;
  FleetConfig config;
  net::Client client;
  std::vector<AgentLink> links;  // One an agent.
  AgentCounts counts;
  std::vector<std::string> lost_why;
  std::optional<Instant> started;
  int next_task = 0;
  int running = 0;
  int calls_open = 0;
  int tasks_done = 0;
  int tasks_lost = 0;
  bool stopping = false;
  net::Event all_done;
  net::TaskGroup group;  // Last: its tasks use the rest.
};

Fleet::Fleet(const net::Executor& executor, const Clock& clock, FleetConfig config)
    : state_(std::make_unique<State>(executor, clock, std::move(config))) {}

Fleet::~Fleet() = default;

net::Task<Result<FleetSummary>> Fleet::run() {
  State& state = *state_;
  const Result<void> valid = state.check();
  if (!valid) co_return std::unexpected(valid.error());
  state.started = state.clock.now();
  state.links.resize(static_cast<std::size_t>(std::max(state.config.agents, 0)));
  for (int index = 0; index < state.config.agents; ++index) {
    state.group.spawn(fmt::format("agent {}", index), state.run_agent(index));
  }
  if (state.config.agents > 0) {
    (void)co_await state.all_done.wait_for(state.config.give_up_after);
  }
  const double seconds = to_seconds(state.clock.now() - *state.started);
  state.stop();
  const bool joined = co_await state.group.join(kUnwind);
  state.client.close_idle();
  if (!joined) co_return fail(Errc::internal, "some agents did not end");

  FleetSummary summary;
  summary.seconds = seconds;
  summary.calls = state.counts.calls;
  summary.tokens = state.counts.tokens;
  summary.tasks_done = state.tasks_done;
  summary.tasks_lost = state.tasks_lost;
  summary.tasks_unfinished = state.config.tasks - state.tasks_done - state.tasks_lost;
  summary.refused_seen_by_agents = state.counts.refusals;
  summary.refused_by_us = state.counts.refused_by_us;
  summary.timeouts = state.counts.timeouts;
  summary.cut = state.counts.cut;
  summary.lost_why = state.lost_why;
  co_return summary;
}

void Fleet::cancel() {
  state_->stop();
  state_->all_done.notify();
}

FleetProgress Fleet::progress() const {
  FleetProgress progress;
  if (state_->started) progress.elapsed = state_->clock.now() - *state_->started;
  progress.agents_running = state_->running;
  progress.calls_open = state_->calls_open;
  progress.tasks_done = state_->tasks_done;
  progress.tasks_lost = state_->tasks_lost;
  progress.counts = state_->counts;
  return progress;
}

std::string to_json(const FleetSummary& summary) {
  namespace json = boost::json;
  json::array why;
  for (const std::string& reason : summary.lost_why) why.emplace_back(reason);
  json::object out;
  out["seconds"] = summary.seconds;
  out["calls"] = summary.calls;
  out["tokens"] = summary.tokens;
  out["tasks_done"] = summary.tasks_done;
  out["tasks_lost"] = summary.tasks_lost;
  out["tasks_unfinished"] = summary.tasks_unfinished;
  out["refused_by_provider"] = summary.refused_by_provider;
  out["refused_seen_by_agents"] = summary.refused_seen_by_agents;
  out["refused_by_us"] = summary.refused_by_us;
  out["timeouts"] = summary.timeouts;
  out["cut"] = summary.cut;
  out["limit_used"] = summary.limit_used;
  out["lost_why"] = std::move(why);
  return json_text(out);
}

void add_account(FleetSummary& summary, const ProviderTotals& totals) {
  summary.refused_by_provider = totals.refused_total;
  summary.limit_used = totals.limit_used;
}

DemoPlan demo_plan(std::uint64_t seed) {
  DemoPlan plan;
  plan.provider.seed = seed;
  sim::ProviderModel& model = plan.provider.model;
  model.burst_tokens = 240'000;
  model.tokens_per_second = 60'000;
  model.burst_requests = 60;
  model.requests_per_second = 20;
  model.base = 400ms;
  model.micros_per_uncached_token = 10;
  model.micros_per_cached_token = 1;
  model.micros_per_output_token = 4'000;
  // Refusals that no pacing prevents: a gate has to absorb them.
  model.mishaps.overloaded = 0.01;
  model.mishaps.error_in_stream = 0.3;
  model.mishaps.unavailable = 0.005;

  FleetConfig& fleet = plan.fleet;
  fleet.seed = seed;
  fleet.agents = 50;
  fleet.tasks = 100;
  fleet.shape.turns = 4;
  fleet.shape.first_prompt = 8'000;
  fleet.shape.growth_median = 900;
  fleet.shape.growth_sigma = 0.7;
  fleet.shape.output_median = 100;
  fleet.shape.output_sigma = 0.5;
  fleet.shape.think_median_s = 0.5;
  fleet.shape.think_sigma = 0.5;
  return plan;
}

}  // namespace hg::lab
