// fleet.h: a fleet of model agents over real HTTP: so many at once, so many tasks, against one base
// URL, and what became of them. The demo runs the same fleet with and without a gate between.
//
// One thread (the executor's). What it is given outlives it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/agents.h"
#include "lab/emulated_provider.h"
#include "net/task.h"
#include "sim/model_agent.h"

namespace hg::lab {

struct FleetConfig {
  std::string base_url;  // {harness} (its profile), {task} in it are replaced:
                         // "http://127.0.0.1:1/harness/{harness}".
  int agents = 50;       // At once.
  int tasks = 100;       // In all; an agent that ends one takes the next.
  std::vector<std::string> harnesses = {"claude-code", "opencode", "mini-swe-agent", "openai-sdk"};
  sim::TaskShape shape;
  Micros start_within{3'000'000};     // Agents start spread over this.
  Micros give_up_after{120'000'000};  // What is not done by then is unfinished.
  double bytes_per_token = kBytesPerToken;
  std::uint64_t seed = 1;
};

// The demo's: hidden limits, and a fleet that wants several times as much for about a minute.
struct DemoPlan {
  ProviderConfig provider;
  FleetConfig fleet;         // base_url is the caller's to fill in.
  double told_share = 0.95;  // Of the hidden limits, told to the pool.
};
[[nodiscard]] DemoPlan demo_plan(std::uint64_t seed);

// Where a run stands, for a line of progress.
struct FleetProgress {
  Micros elapsed{0};
  int agents_running = 0;
  int calls_open = 0;
  int tasks_done = 0;
  int tasks_lost = 0;
  AgentCounts counts;
};

struct FleetSummary {
  double seconds = 0;
  std::int64_t calls = 0;  // That the agents made.
  Tokens tokens = 0;       // Prompt and output, as usage said.
  int tasks_done = 0;
  int tasks_lost = 0;
  int tasks_unfinished = 0;              // At give_up_after; a cancelled run's too.
  std::int64_t refused_by_provider = 0;  // From the provider's own account.
  std::int64_t refused_seen_by_agents = 0;
  std::int64_t refused_by_us = 0;
  std::int64_t timeouts = 0;
  std::int64_t cut = 0;
  double limit_used = 0;              // From the provider's own account.
  std::vector<std::string> lost_why;  // One a lost task: "claude-code: 529 three times".
};

// The object of build/demo/summary.json.
[[nodiscard]] std::string to_json(const FleetSummary& summary);

class Fleet {
 public:
  Fleet(const net::Executor& executor, const Clock& clock, FleetConfig config);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Runs to the end, or until cancel() or give_up_after. Once. Errc::invalid for a bad URL or
  // harness.
  [[nodiscard]] net::Task<Result<FleetSummary>> run();

  // Closes what is open and starts nothing more; run() returns soon.
  void cancel();

  [[nodiscard]] FleetProgress progress() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Takes the two numbers that only the provider knows from its account.
void add_account(FleetSummary& summary, const ProviderTotals& totals);

}  // namespace hg::lab
