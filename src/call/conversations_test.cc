#include "call/conversations.h"

#include <gtest/gtest.h>

namespace hg::call {
namespace {

constexpr Instant kStart{1000s};
constexpr Micros kLifetime = 300s;

// A prompt whose blocks have these hashes, 1,000 characters each.
wire::RequestFacts prompt(const std::vector<std::uint64_t>& blocks) {
  wire::RequestFacts facts;
  for (const std::uint64_t hash : blocks) {
    facts.text_chars += 1'000;
    facts.prefix.push_back({hash, facts.text_chars});
    facts.prompt_hash = facts.prompt_hash * 31 + hash;
  }
  facts.conversation_hash = blocks.front();
  return facts;
}

gate::Usage hit(Tokens cached) {
  gate::Usage usage;
  usage.cached = cached;
  return usage;
}

TEST(ConversationsTest, TheSessionFieldNamesTheConversationElseItsBeginning) {
  wire::HarnessProfile harness;
  harness.session_headers = {"session-id", "x-session-id"};
  const wire::RequestFacts facts = prompt({7});
  Headers with;
  with.add("X-Session-Id", " abc ");
  Headers same;
  same.add("x-session-id", "abc");
  Headers empty;
  empty.add("x-session-id", "");
  EXPECT_EQ(conversation_key(harness, with, facts), conversation_key(harness, same, facts));
  EXPECT_NE(conversation_key(harness, with, facts), facts.conversation_hash);
  EXPECT_EQ(conversation_key(harness, empty, facts), facts.conversation_hash);
}

TEST(ConversationsTest, TheLongestSharedPrefixCounts) {
  Conversations memory;
  memory.answered(1, prompt({1, 2, 3}), 0, std::nullopt, kStart);
  memory.answered(1, prompt({1, 9}), 0, std::nullopt, kStart);
  EXPECT_EQ(memory.arrive(1, prompt({1, 2, 3, 4}), kLifetime, kStart).shared_chars, 3'000);
  EXPECT_EQ(memory.arrive(1, prompt({1, 9, 3, 4}), kLifetime, kStart).shared_chars, 2'000);
  EXPECT_EQ(memory.arrive(1, prompt({5, 2, 3}), kLifetime, kStart).shared_chars, 0);
  EXPECT_EQ(memory.arrive(2, prompt({1, 2, 3}), kLifetime, kStart).shared_chars, 0)
      << "another conversation";
}

TEST(ConversationsTest, ThePrefixIsForgottenWithTheProvidersCache) {
  Conversations memory;
  memory.answered(1, prompt({1, 2}), 0, std::nullopt, kStart);
  EXPECT_EQ(memory.arrive(1, prompt({1, 2, 3}), kLifetime, kStart + 300s).shared_chars, 2'000);
  EXPECT_EQ(memory.arrive(1, prompt({1, 2, 3}), kLifetime, kStart + 301s).shared_chars, 0);
}

TEST(ConversationsTest, ExpectationsFollowTheHitRateSeen) {
  Conversations memory;
  memory.answered(1, prompt({1, 2}), 0, std::nullopt, kStart);
  EXPECT_EQ(memory.arrive(1, prompt({1, 2, 3}), kLifetime, kStart).cached_chars, 0)
      << "a hit that was never seen is not counted on";
  for (int i = 0; i < 40; ++i) memory.answered(1, prompt({1, 2}), 500, hit(450), kStart);
  EXPECT_NEAR(memory.hit_rate(), 0.9, 0.01);
  EXPECT_NEAR(
      static_cast<double>(memory.arrive(1, prompt({1, 2, 3}), kLifetime, kStart).cached_chars),
      1'800, 20);
  memory.answered(1, prompt({1, 2}), 500, hit(9'000), kStart);
  EXPECT_LE(memory.hit_rate(), 1.0);
  const double before = memory.hit_rate();
  memory.answered(1, prompt({1, 2}), 0, hit(0), kStart);
  EXPECT_EQ(memory.hit_rate(), before) << "nothing was expected, nothing is learned";
  memory.answered(1, prompt({1, 2}), 500, std::nullopt, kStart);
  EXPECT_EQ(memory.hit_rate(), before) << "no usage, nothing is learned";
}

TEST(ConversationsTest, ACallThatComesBackGetsItsSeniorityOnce) {
  Conversations memory;
  wire::RequestFacts call = prompt({1, 2});
  memory.refused(1, call.prompt_hash, 45s, kStart);
  EXPECT_FALSE(memory.arrive(1, prompt({1, 3}), kLifetime, kStart + 30s).came_back);
  EXPECT_FALSE(memory.arrive(2, call, kLifetime, kStart + 30s).came_back);
  call.stream = !call.stream;  // Retries change these.
  call.max_output = 64'000;
  const auto back = memory.arrive(1, call, kLifetime, kStart + 30s);
  EXPECT_TRUE(back.came_back);
  EXPECT_EQ(back.since, Micros{45s});
  EXPECT_EQ(memory.arrive(1, call, kLifetime, kStart + 31s).since, Micros{0});
}

TEST(ConversationsTest, CallsThatNobodyReadAreNotTakenForOneAnother) {
  Conversations memory;
  memory.refused(0, 0, 45s, kStart);
  const auto other = memory.arrive(0, wire::RequestFacts(), kLifetime, kStart + 30s);
  EXPECT_FALSE(other.came_back);
  EXPECT_EQ(other.since, Micros{0});
}

TEST(ConversationsTest, SeniorityIsNotKeptForEver) {
  Conversations memory;
  const wire::RequestFacts call = prompt({1, 2});
  memory.refused(1, call.prompt_hash, 45s, kStart);
  EXPECT_FALSE(memory.arrive(1, call, kLifetime, kStart + 601s).came_back);
}

TEST(ConversationsTest, MemoryIsBoundedByCountBlocksPromptsAndAge) {
  ConversationLimits limits;
  limits.conversations = 3;
  limits.blocks = 20;
  limits.prompts = 2;
  limits.age = 100s;
  Conversations memory(limits);
  for (std::uint64_t key = 1; key <= 5; ++key) {
    memory.answered(key, prompt({key, 2}), 0, std::nullopt, kStart);
  }
  EXPECT_EQ(memory.size(), 3U);
  EXPECT_EQ(memory.arrive(1, prompt({1, 2}), kLifetime, kStart).shared_chars, 0) << "the oldest";
  EXPECT_EQ(memory.arrive(5, prompt({5, 2}), kLifetime, kStart).shared_chars, 2'000);

  for (std::uint64_t last = 10; last < 20; ++last) {
    memory.answered(5, prompt({5, last}), 0, std::nullopt, kStart);
  }
  EXPECT_EQ(memory.blocks(), 8U) << "two prompts of one conversation, one each of the others";

  memory.answered(6, prompt({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}), 0,
                  std::nullopt, kStart);
  EXPECT_LE(memory.blocks(), 20U);
  (void)memory.arrive(99, prompt({1}), kLifetime, kStart + 101s);
  EXPECT_EQ(memory.size(), 0U);
  EXPECT_EQ(memory.blocks(), 0U);
}

TEST(ConversationsTest, AGrowingConversationIsOnePrompt) {
  Conversations memory;
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t turn = 1; turn <= 50; ++turn) {
    blocks.push_back(turn);
    memory.answered(1, prompt(blocks), 0, std::nullopt, kStart);
  }
  EXPECT_EQ(memory.blocks(), 50U);
}

}  // namespace
}  // namespace hg::call
