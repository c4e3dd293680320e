// model_agent.h: what a coding agent does between two calls and after a refusal: sizes, pauses,
// timeouts and retries, one call at a time.
//
// A policy without a clock: it says how long to pause and what to ask for, is told how that went,
// and says what comes next, until its task is done or lost. The simulator plays it on the virtual
// clock, the lab over real HTTP. Pure; randomness is its own generator. Thread-safety: none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "base/units.h"
#include "sim/model_provider.h"

namespace hg::sim {

// How a program waits and retries. The values of each harness, with their evidence, are in
// model_agent.cc; they were measured with the real programs or read in their sources.
struct AgentHabits {
  std::string name;                         // As the harness profiles have it.
  std::optional<Micros> header_timeout;     // No head of the answer by then: it goes away.
  std::optional<Micros> total_timeout;      // Not ended by then: it goes away.
  std::optional<Micros> announced_timeout;  // Sent in timeout_header, whole seconds.
  std::string timeout_header;
  bool streams = true;
  std::optional<Tokens> max_output;  // What it declares on every call.

  int retries = 2;  // After the first attempt, for refusals and lost connections.
  Micros backoff_first{500'000};
  Micros backoff_max{8'000'000};  // Doubling up to here.
  double backoff_low = 1.0;       // Jitter: factor between these two.
  double backoff_high = 1.0;

  // retry-after: `blind` ignores it; `exact` waits it; `floor` waits at least it. Stretched by a
  // factor between 1 and hint_stretch.
  enum class Hint : std::uint8_t { blind, exact, floor };
  Hint hint = Hint::exact;
  double hint_stretch = 1.0;
  std::optional<Micros> hint_max;  // A longer one is ignored, or ends the run:
  bool long_hint_is_fatal = false;
  bool needs_hint = false;  // A 429 without retry-after ends the run.

  // 529 has a budget of its own in some programs.
  std::optional<int> overloaded_retries;
  Micros overloaded_pause{1'000'000};
  bool unavailable_is_overloaded = false;  // 503 draws on the same budget.
};

// By profile name: "claude-code", "codex", "opencode", "gemini-cli", "mini-swe-agent",
// "openai-sdk"; null if unknown.
[[nodiscard]] const AgentHabits* find_habits(std::string_view name);
[[nodiscard]] const std::vector<AgentHabits>& all_habits();

// The shape of a task: how its prompt grows and how long it thinks. The defaults are the medians
// and spreads of 512 Claude Code sessions (WEKA, kv-cache-tester, 2026: 32,000 requests).
struct TaskShape {
  int turns = 41;
  Tokens first_prompt = 20'000;  // 19,000-24,000: system prompt, tools and the task.
  double growth_median = 650;    // Tokens that a turn adds: tool output and the answer before.
  double growth_sigma = 1.33;    // 90th percentile 3,590.
  double output_median = 218;
  double output_sigma = 1.1;    // 90th percentile 889.
  double think_median_s = 9;    // Between an answer and the next call: tools run.
  double think_sigma = 1.2;     // Quartiles 5 and 20 s.
  Tokens prompt_max = 180'000;  // Past it the conversation is compacted to the first prompt.
  double time_scale = 1.0;      // Multiplies think time, for short demos; habits stay as they are.
};

// One attempt at one turn.
struct AgentCall {
  int turn = 0;     // From 0.
  int attempt = 0;  // From 0.
  Tokens prompt_tokens = 0;
  std::vector<PromptBlock> blocks;  // Of the conversation so far, the last is the whole prompt.
  Tokens output = 0;                // What the model will say, if nobody cuts it.
  std::optional<Tokens> max_output;
  bool stream = true;
  std::optional<Micros> header_timeout;  // It goes away then, and tells itself `timed_out`.
  std::optional<Micros> total_timeout;
};

// What the agent does next: pause, then call; or it is over.
struct AgentMove {
  enum class What : std::uint8_t { call, done, lost };
  What what = What::call;
  Micros pause{0};
  AgentCall call;
  std::string why;  // lost: for people.
};

// How an attempt ended, as the agent saw it.
struct AgentOutcome {
  enum class How : std::uint8_t {
    answered,      // A whole answer.
    refused,       // `status`, perhaps with retry_after.
    stream_error,  // An error event inside a 200 stream.
    cut,           // The connection broke in the answer, or before it.
    timed_out,     // Its own timeout.
  };
  How how = How::answered;
  int status = 200;
  std::optional<Micros> retry_after;
  Tokens output = 0;  // Of a whole answer.

  AgentOutcome() = default;
  AgentOutcome(How outcome, int http_status, std::optional<Micros> hint, Tokens output_tokens)
      : how(outcome), status(http_status), retry_after(hint), output(output_tokens) {}
};

class ModelAgent {
 public:
  // `id` makes its prompts its own; agents of one harness share the first block (system and tools).
  ModelAgent(const AgentHabits& habits, const TaskShape& shape, std::uint64_t id, Rng rng);

  // The first move; asked once.
  [[nodiscard]] AgentMove start();

  // The move that follows an attempt.
  [[nodiscard]] AgentMove next(const AgentOutcome& outcome);

  [[nodiscard]] const AgentHabits& habits() const { return habits_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] int turns_done() const { return turn_; }
  [[nodiscard]] int refusals_seen() const { return refusals_seen_; }

 private:
  [[nodiscard]] AgentMove call(Micros pause);
  [[nodiscard]] AgentMove lost(std::string why) const;
  [[nodiscard]] AgentMove retry(const AgentOutcome& outcome);
  [[nodiscard]] Micros backoff();
  void begin_conversation();
  void grow(Tokens by);
  void plan_output();

  AgentHabits habits_;
  TaskShape shape_;
  std::uint64_t id_;
  Rng rng_;
  int turn_ = 0;
  int attempt_ = 0;
  int overloaded_ = 0;  // 529s in a row.
  int refusals_seen_ = 0;
  bool stream_ = true;
  Tokens output_ = 0;  // Of the present turn.
  std::vector<PromptBlock> blocks_;
};

}  // namespace hg::sim
