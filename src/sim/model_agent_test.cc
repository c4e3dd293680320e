#include "sim/model_agent.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hg::sim {
namespace {

using How = AgentOutcome::How;
using What = AgentMove::What;

const AgentHabits& habits(std::string_view name) {
  const AgentHabits* found = find_habits(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

ModelAgent agent(std::string_view name, TaskShape shape = {}, std::uint64_t id = 1) {
  return {habits(name), shape, id, Rng(id)};
}

AgentOutcome refused(int status, std::optional<Micros> retry_after = std::nullopt) {
  return {How::refused, status, retry_after, 0};
}

AgentOutcome answered(Tokens output = 100) { return {How::answered, 200, std::nullopt, output}; }

TEST(ModelAgentTest, PromptsGrowTurnByTurnUntilTheTaskIsDone) {
  TaskShape shape;
  shape.turns = 20;
  ModelAgent worker = agent("claude-code", shape);
  AgentMove move = worker.start();
  EXPECT_EQ(move.call.prompt_tokens, shape.first_prompt);
  EXPECT_EQ(move.call.max_output, 128'000);
  EXPECT_EQ(move.call.header_timeout, Micros{600s});
  Tokens before = 0;
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_EQ(move.what, What::call);
    EXPECT_EQ(move.call.turn, turn);
    EXPECT_GT(move.call.prompt_tokens, before);
    EXPECT_EQ(move.call.blocks.back().tokens, move.call.prompt_tokens);
    EXPECT_GE(move.call.output, 1);
    before = move.call.prompt_tokens;
    move = worker.next(answered());
  }
  EXPECT_EQ(move.what, What::done);
  EXPECT_EQ(worker.turns_done(), 20);
}

TEST(ModelAgentTest, ATurnRepeatsItsPromptAndExtendsTheOneBefore) {
  ModelAgent worker = agent("opencode");
  const AgentCall first = worker.start().call;
  const AgentCall retried = worker.next(refused(429, 1s)).call;
  EXPECT_EQ(retried.attempt, 1);
  EXPECT_EQ(retried.blocks.back().hash, first.blocks.back().hash);
  const AgentCall second = worker.next(answered()).call;
  EXPECT_EQ(second.attempt, 0);
  ASSERT_EQ(second.blocks.size(), first.blocks.size() + 1);
  EXPECT_EQ(second.blocks[1].hash, first.blocks[1].hash);

  const AgentCall other = agent("opencode", {}, 2).start().call;
  EXPECT_EQ(other.blocks[0].hash, first.blocks[0].hash) << "system and tools are shared";
  EXPECT_NE(other.blocks[1].hash, first.blocks[1].hash);
}

TEST(ModelAgentTest, AFullContextIsCompacted) {
  TaskShape shape;
  shape.turns = 300;
  shape.growth_median = 8'000;
  shape.prompt_max = 100'000;
  ModelAgent worker = agent("claude-code", shape);
  AgentMove move = worker.start();
  int drops = 0;
  Tokens before = 0;
  while (move.what == What::call) {
    EXPECT_LE(move.call.prompt_tokens, 100'000);
    if (move.call.prompt_tokens < before) ++drops;
    before = move.call.prompt_tokens;
    move = worker.next(answered());
  }
  EXPECT_GT(drops, 5);
}

// How each program meets the same refusal, again and again: how many calls it makes in all, and
// how long it pauses. Figures as measured with the real programs.
TEST(ModelAgentTest, RefusalsAreMetAsTheRealProgramsDo) {
  struct Row {
    const char* why;
    const char* name;
    AgentOutcome outcome;
    int calls;
    double least_s, most_s;  // All pauses together.
  };
  const Row rows[] = {
      {"Claude Code rides out ten without a hint", "claude-code", refused(429), 11, 130, 220},
      {"waits a hint with up to a quarter more", "claude-code", refused(429, 30s), 11, 300, 420},
      {"fails at once past 60 s", "claude-code", refused(429, 61s), 1, 0, 0},
      {"takes 60 s", "claude-code", refused(429, 60s), 11, 600, 750},
      {"gives up on the third 529", "claude-code", refused(529), 3, 1, 3},
      {"but not on 503", "claude-code", refused(503), 11, 130, 220},
      {"Codex: a 429 without a hint is fatal", "codex", refused(429), 1, 0, 0},
      {"with one it waits exactly", "codex", refused(429, 30s), 6, 150, 150},
      {"thirty calls on 529", "codex", refused(529), 30, 30, 34},
      {"OpenCode: 2, 4, 8, 16, 30 s", "opencode", refused(429), 6, 60, 67},
      {"no cap on a hint", "opencode", refused(429, 75s), 6, 375, 375},
      {"529 as 429", "opencode", refused(529), 6, 60, 67},
      {"Gemini CLI is blind to the header", "gemini-cli", refused(429, 1s), 10, 140, 290},
      {"mini-swe-agent too", "mini-swe-agent", refused(429, 1s), 10, 300, 430},
      {"an SDK makes three calls", "openai-sdk", refused(429), 3, 1, 1.5},
      {"and obeys", "openai-sdk", refused(429, 30s), 3, 60, 60},
      {"up to two minutes", "openai-sdk", refused(429, 121s), 1, 0, 0},
      {"nobody retries a bad request", "opencode", refused(400), 1, 0, 0},
  };
  for (const Row& row : rows) {
    ModelAgent worker = agent(row.name);
    AgentMove move = worker.start();
    int calls = 0;
    double paused = 0;
    while (move.what == What::call) {
      ++calls;
      paused += to_seconds(move.pause);
      move = worker.next(row.outcome);
    }
    EXPECT_EQ(move.what, What::lost) << row.name << ": " << row.why;
    EXPECT_FALSE(move.why.empty());
    EXPECT_EQ(calls, row.calls) << row.name << ": " << row.why;
    EXPECT_GE(paused, row.least_s) << row.name << ": " << row.why;
    EXPECT_LE(paused, row.most_s + 1e-6) << row.name << ": " << row.why;
    EXPECT_EQ(worker.refusals_seen(), row.calls);
  }
}

TEST(ModelAgentTest, AnAnswerRestoresTheBudget) {
  ModelAgent worker = agent("openai-sdk");
  (void)worker.start();
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(worker.next(refused(429, 1s)).what, What::call);
    EXPECT_EQ(worker.next(AgentOutcome(How::cut, 0, std::nullopt, 0)).what, What::call);
    EXPECT_EQ(worker.next(answered()).what, What::call);
  }
}

TEST(ModelAgentTest, AFailedStreamIsAskedForWhole) {
  ModelAgent worker = agent("claude-code");
  EXPECT_TRUE(worker.start().call.stream);
  EXPECT_FALSE(worker.next(AgentOutcome(How::stream_error, 200, std::nullopt, 0)).call.stream);
  EXPECT_TRUE(worker.next(answered()).call.stream);
}

TEST(ModelAgentTest, UnknownProgramsHaveNoHabits) { EXPECT_EQ(find_habits("emacs"), nullptr); }

}  // namespace
}  // namespace hg::sim
