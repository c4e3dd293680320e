// paced_world.h: many agents, one gate and one provider on the virtual clock. The code that decides
// is the shipped one: call::Call, its estimates and memory, and gate::Pool.
//
// Plays what proxy and store do around that code (wakes, heartbeats, timers), and what agents and
// provider do; keeps the accounts that tests read, and notes every breach of a rule as an anomaly.
// The same fleet can be played without the gate. Pure; one seed gives one history.
// Thread-safety: none.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "call/conversations.h"
#include "call/estimate.h"
#include "gate/pool.h"
#include "sim/model_agent.h"
#include "sim/model_provider.h"
#include "sim/scheduler.h"

namespace hg::sim {

// Agents of one kind; each goes on until its task is done or lost.
struct AgentGroup {
  AgentHabits habits;
  TaskShape shape;
  int count = 1;
  Micros stagger{2'000'000};  // Between the starts of two of them.
  Micros hold_cap{45'000'000};
  double leaves = 0;  // Chance per call that its agent goes away at some moment of it, for good.
};

// Calls that come by themselves, a Poisson stream: each arrives once and, after our own 429, comes
// back as told, as real harnesses do.
struct CallStream {
  std::string name;
  double calls_per_second = 1;
  Tokens tokens = 8'000;
  Tokens output = 100;
  Micros until{3'600'000'000};  // No arrivals after this.
  Micros hold_cap{100'000'000};
  int returns = 10;
};

// A shim that is killed: from then on it says nothing, and its agents are gone.
struct ShimDeath {
  int shim = 0;
  Micros at{0};
};

struct WorldPlan {
  bool gated = true;
  gate::PoolConfig pool;
  ProviderModel provider;
  std::vector<AgentGroup> agents;
  std::vector<CallStream> streams;
  std::vector<ShimDeath> deaths;
  int shims = 1;                 // Agents and calls are dealt out to them in turn.
  double chars_per_token = 4.5;  // The truth that kappa has to find.
  call::PatienceLimits patience;
  std::uint64_t seed = 1;
};

// What a group or stream saw.
struct SourceResult {
  std::int64_t calls = 0;     // Attempts that reached the shim (or, without a gate, the provider).
  std::int64_t answered = 0;  // Whole answers.
  // One for every attempt that the gate ruled on: the time in its queue. An attempt that reached
  // its hold cap is in here with the whole time, so with the cap at least.
  std::vector<Micros> waits;
  std::vector<Micros> admitted_waits;  // Of those, the attempts that were admitted.
  // Streams: from a call's first arrival to its admission, with all its returns and the pauses
  // between; for one that gave up, until then.
  std::vector<Micros> totals;
  std::int64_t refused_by_us = 0;        // Our own 429s.
  std::int64_t refused_by_provider = 0;  // Refusals of the provider that reached the agent.
  std::int64_t failed = 0;               // 502s and cut answers.
  std::int64_t timed_out = 0;            // The agent's own timeout.
  std::int64_t given_up = 0;             // Streams: returns spent.
  std::int64_t tasks_done = 0;
  std::int64_t tasks_lost = 0;
  std::int64_t tasks_left = 0;  // Went away, or died with their shim.
};

struct WorldResult {
  std::map<std::string, SourceResult> sources;  // By harness or stream name.
  ProviderBooks provider;
  double limit_used = 0;
  double hit_rate = 0;        // Of the cached part's estimate.
  double kappa = 0;           // As learned.
  std::int64_t admitted = 0;  // Tries.
  std::int64_t ended = 0;     // Tries settled or given back, each once.
  std::vector<std::string> anomalies;
};

// The value below which `share` (0..1) of them lie; zero for none. Sorts a copy.
[[nodiscard]] Micros percentile(std::vector<Micros> values, double share);

class PacedWorld {
 public:
  explicit PacedWorld(const WorldPlan& plan);
  ~PacedWorld();
  PacedWorld(const PacedWorld&) = delete;
  PacedWorld& operator=(const PacedWorld&) = delete;

  // Plays for this long from where it stands.
  void run_for(Micros duration);

  // Nobody calls any longer and nobody is being answered.
  [[nodiscard]] bool quiet() const;

  [[nodiscard]] Instant now() const;
  [[nodiscard]] WorldResult result();
  [[nodiscard]] const gate::Pool& pool() const;
  [[nodiscard]] gate::Pool& pool();
  [[nodiscard]] ModelProvider& provider();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::sim
