#include "sim/model_agent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace hg::sim {
namespace {

using How = AgentOutcome::How;

// System prompt and tools, equal for all agents of a harness: 48.7 KB of Claude Code's 2.1.332
// first body, about as much in the others.
constexpr Tokens kSharedBlock = 11'000;

Micros seconds(double count) { return Micros(std::llround(std::max(count, 0.0) * 1e6)); }

// Measured with the real programs against a scripted provider, or read in their sources, in late
// 2026; each line says what was seen.
std::vector<AgentHabits> known_habits() {
  std::vector<AgentHabits> all;

  // Claude Code 2.1.332: announces 600 s; 10 retries (CLAUDE_CODE_MAX_RETRIES) with gaps of about
  // 0.6, 1.1, 2.2, 4.4, 9, 18, 36 s; waits retry-after x (1..1.25), measured 30 -> 34.2, 60 ->
  // 74.0; fails at once at 61; on 529 three attempts in about 2 s. max_tokens 128,000 on all calls.
  AgentHabits claude;
  claude.name = "claude-code";
  claude.header_timeout = 600s;
  claude.announced_timeout = 600s;
  claude.timeout_header = "X-Stainless-Timeout";
  claude.max_output = 128'000;
  claude.retries = 10;
  claude.backoff_first = 550ms;
  claude.backoff_max = 36s;
  claude.backoff_high = 1.25;
  claude.hint = AgentHabits::Hint::floor;
  claude.hint_stretch = 1.25;
  claude.hint_max = 60s;
  claude.long_hint_is_fatal = true;
  claude.overloaded_retries = 2;
  claude.overloaded_pause = 1s;
  all.push_back(claude);

  // Codex 0.171: exact retry-after, five retries; a 429 without one is fatal; 529 and 503: 30 calls
  // in about 32 s. No total timeout seen; declares no output limit.
  AgentHabits codex;
  codex.name = "codex";
  codex.retries = 5;
  codex.backoff_first = 200ms;
  codex.backoff_max = 4s;
  codex.hint = AgentHabits::Hint::exact;
  codex.needs_hint = true;
  codex.overloaded_retries = 29;
  codex.overloaded_pause = 1100ms;
  codex.unavailable_is_overloaded = true;
  all.push_back(codex);

  // OpenCode 1.18.33: exact retry-after without a cap (75 -> 75.1), five retries, else 2, 4, 8, 16,
  // 30 s; 529 and 503 as 429.
  AgentHabits opencode;
  opencode.name = "opencode";
  opencode.max_output = 32'000;
  opencode.retries = 5;
  opencode.backoff_first = 2s;
  opencode.backoff_max = 30s;
  opencode.backoff_high = 1.1;
  opencode.hint = AgentHabits::Hint::exact;
  all.push_back(opencode);

  // Gemini CLI 0.61.0: closes at 60.5 s without headers; ignores the header; own 5, 10, 20, 30 s
  // +-30 %, ten attempts.
  AgentHabits gemini;
  gemini.name = "gemini-cli";
  gemini.header_timeout = 60s;
  gemini.retries = 9;
  gemini.backoff_first = 5s;
  gemini.backoff_max = 30s;
  gemini.backoff_low = 0.7;
  gemini.backoff_high = 1.3;
  gemini.hint = AgentHabits::Hint::blind;
  all.push_back(gemini);

  // mini-swe-agent (OpenRouter and Requesty classes): 60 s in all, never streams; ten attempts,
  // exponential 4..60 s, blind to headers.
  AgentHabits mini;
  mini.name = "mini-swe-agent";
  mini.header_timeout = 60s;
  mini.total_timeout = 60s;
  mini.streams = false;
  mini.retries = 9;
  mini.backoff_first = 4s;
  mini.backoff_max = 60s;
  mini.hint = AgentHabits::Hint::blind;
  all.push_back(mini);

  // openai-python, August 2026: 600 s, two retries, 0.5 x 2^n up to 8 s with -25 % jitter; honours
  // retry-after up to 120 s, and does not retry at all past it.
  AgentHabits sdk;
  sdk.name = "openai-sdk";
  sdk.header_timeout = 600s;
  sdk.total_timeout = 600s;
  sdk.retries = 2;
  sdk.backoff_first = 500ms;
  sdk.backoff_max = 8s;
  sdk.backoff_low = 0.75;
  sdk.hint = AgentHabits::Hint::exact;
  sdk.hint_max = 120s;
  sdk.long_hint_is_fatal = true;
  all.push_back(sdk);
  return all;
}

bool retryable(int status) {
  return status == 408 || status == 409 || status == 429 || status >= 500;
}

}  // namespace

const std::vector<AgentHabits>& all_habits() {
  static const std::vector<AgentHabits> habits = known_habits();
  return habits;
}

const AgentHabits* find_habits(std::string_view name) {
  for (const AgentHabits& habits : all_habits()) {
    if (habits.name == name) return &habits;
  }
  return nullptr;
}

ModelAgent::ModelAgent(const AgentHabits& habits, const TaskShape& shape, std::uint64_t id, Rng rng)
    : habits_(habits), shape_(shape), id_(id), rng_(rng), stream_(habits.streams) {}

AgentMove ModelAgent::start() {
  begin_conversation();
  plan_output();
  return call(Micros{0});
}

AgentMove ModelAgent::next(const AgentOutcome& outcome) {
  if (outcome.how != How::answered) return retry(outcome);
  ++turn_;
  attempt_ = 0;
  overloaded_ = 0;
  stream_ = habits_.streams;
  if (turn_ >= shape_.turns) {
    AgentMove move;
    move.what = AgentMove::What::done;
    return move;
  }
  const double grown = rng_.log_normal(std::log(shape_.growth_median), shape_.growth_sigma);
  grow(std::max<Tokens>(std::llround(grown), 1) + outcome.output);
  plan_output();
  const double think = rng_.log_normal(std::log(shape_.think_median_s), shape_.think_sigma);
  return call(seconds(think * shape_.time_scale));
}

AgentMove ModelAgent::call(Micros pause) {
  AgentMove move;
  move.pause = pause;
  move.call.turn = turn_;
  move.call.attempt = attempt_;
  move.call.prompt_tokens = blocks_.back().tokens;
  move.call.blocks = blocks_;
  move.call.output = output_;
  move.call.max_output = habits_.max_output;
  move.call.stream = stream_;
  move.call.header_timeout = habits_.header_timeout;
  move.call.total_timeout = habits_.total_timeout;
  return move;
}

AgentMove ModelAgent::lost(std::string why) const {
  AgentMove move;
  move.what = AgentMove::What::lost;
  move.why = std::move(why);
  return move;
}

AgentMove ModelAgent::retry(const AgentOutcome& outcome) {
  const bool refused = outcome.how == How::refused;
  if (refused) ++refusals_seen_;
  if (refused && !retryable(outcome.status)) {
    return lost("status " + std::to_string(outcome.status) + " is not retried");
  }
  const bool overloaded = refused && (outcome.status == 529 ||
                                      (outcome.status == 503 && habits_.unavailable_is_overloaded));
  if (overloaded && habits_.overloaded_retries) {
    if (++overloaded_ > *habits_.overloaded_retries) return lost("overloaded too often");
    ++attempt_;
    return call(habits_.overloaded_pause);
  }
  if (attempt_ >= habits_.retries) return lost("its retries are spent");
  const Micros own = backoff();
  ++attempt_;
  if (outcome.how == How::stream_error) stream_ = false;  // As Claude Code does; others stream on.
  if (!refused) return call(own);

  if (!outcome.retry_after) {
    if (outcome.status == 429 && habits_.needs_hint) return lost("a 429 without retry-after");
    return call(own);
  }
  if (habits_.hint == AgentHabits::Hint::blind) return call(own);
  if (habits_.hint_max && *outcome.retry_after > *habits_.hint_max) {
    if (habits_.long_hint_is_fatal) return lost("a retry-after that is too long");
    return call(own);
  }
  const Micros said = seconds(to_seconds(*outcome.retry_after) *
                              rng_.uniform(1.0, habits_.hint_stretch));
  return call(habits_.hint == AgentHabits::Hint::floor ? std::max(said, own) : said);
}

Micros ModelAgent::backoff() {
  const double doubled = to_seconds(habits_.backoff_first) * std::exp2(std::min(attempt_, 30));
  const double capped = std::min(doubled, to_seconds(habits_.backoff_max));
  return seconds(capped * rng_.uniform(habits_.backoff_low, habits_.backoff_high));
}

void ModelAgent::begin_conversation() {
  const Tokens shared = std::min(kSharedBlock, shape_.first_prompt / 2);
  blocks_.clear();
  blocks_.push_back({stable_hash(habits_.name), shared});
  grow(shape_.first_prompt - shared);
}

void ModelAgent::grow(Tokens by) {
  if (blocks_.size() > 1 && blocks_.back().tokens + by > shape_.prompt_max) {
    begin_conversation();  // Compacted: the summary is about as long as the first prompt.
    return;
  }
  const PromptBlock& last = blocks_.back();
  PromptBlock block;
  block.hash = stable_hash(std::to_string(id_) + "." + std::to_string(turn_), last.hash);
  block.tokens = last.tokens + by;
  blocks_.push_back(block);
}

void ModelAgent::plan_output() {
  const double drawn = rng_.log_normal(std::log(shape_.output_median), shape_.output_sigma);
  output_ = std::max<Tokens>(std::llround(drawn), 1);
}

}  // namespace hg::sim
