#include "call/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "gate/pool.h"

namespace hg::call {
namespace {

wire::RequestFacts facts(std::int64_t chars, std::optional<Tokens> max_output = std::nullopt) {
  wire::RequestFacts result;
  result.text_chars = chars;
  result.max_output = max_output;
  return result;
}

PoolFacts pool(std::int64_t cached_ppm = 1'000'000, std::int64_t output_ppm = 0) {
  PoolFacts result;
  result.kappa_micro = 4'000'000;
  result.weights.cached_ppm = cached_ppm;
  result.weights.output_ppm = output_ppm;
  result.c_burst = 100'000;
  return result;
}

TEST(EstimateTest, TextIsDividedByKappaAndFlatPartsAreAdded) {
  wire::RequestFacts request = facts(4'001);
  request.flat_tokens = 1'600;
  const Estimate result = estimate_call(request, pool(), wire::ProviderProfile(), Outlook());
  EXPECT_EQ(result.estimate, 1'001 + 1'600) << "a part of a token is a token";
  EXPECT_EQ(result.charge, 2'601);
}

TEST(EstimateTest, AnEmptyPromptIsOneToken) {
  EXPECT_EQ(estimate_call(facts(0), pool(), wire::ProviderProfile(), Outlook()).estimate, 1);
}

TEST(EstimateTest, TheCachedPartDrawsItsWeight) {
  Outlook outlook;
  outlook.cached_chars = 32'000;
  const Estimate result = estimate_call(facts(40'000), pool(100'000), wire::ProviderProfile(),
                                        outlook);
  EXPECT_EQ(result.estimate, 10'000) << "the estimate is unweighted";
  EXPECT_EQ(result.cached, 8'000);
  EXPECT_EQ(result.charge, 2'000 + 800);
}

TEST(EstimateTest, CacheNeverHoldsMoreThanThePrompt) {
  Outlook outlook;
  outlook.cached_chars = 1'000'000;
  const Estimate result = estimate_call(facts(400), pool(0), wire::ProviderProfile(), outlook);
  EXPECT_EQ(result.cached, 100);
  EXPECT_EQ(result.charge, 0) << "a cached token may weigh nothing";
}

TEST(EstimateTest, OutputCountsByTheReserveRule) {
  struct Row {
    const char* why;
    bool reserves;
    std::optional<Tokens> declared;
    Tokens expected;
    Tokens output, charge;
  };
  const Row rows[] = {
      {"a declared output is reserved in full", true, 128'000, 450, 128'000, 138'000},
      {"without a declaration it is guessed", true, std::nullopt, 450, 450, 10'450},
      {"not reserved: the guess counts", false, 128'000, 450, 450, 10'450},
      {"a guess never exceeds what was declared", false, 100, 450, 100, 10'100},
      {"a guess never makes a call larger than the bucket", false, std::nullopt, 900'000, 900'000,
       100'000},
  };
  for (const Row& row : rows) {
    wire::ProviderProfile provider;
    provider.reserves_max_output = row.reserves;
    Outlook outlook;
    outlook.expected_output = row.expected;
    const Estimate result = estimate_call(facts(40'000, row.declared), pool(1'000'000, 1'000'000),
                                          provider, outlook);
    EXPECT_EQ(result.output, row.output) << row.why;
    EXPECT_EQ(result.charge, row.charge) << row.why;
  }
}

TEST(EstimateTest, APromptLargerThanTheBucketKeepsItsOwnCharge) {
  Outlook outlook;
  outlook.expected_output = 5'000;
  const Estimate result = estimate_call(facts(1'200'000), pool(1'000'000, 1'000'000),
                                        wire::ProviderProfile(), outlook);
  EXPECT_EQ(result.charge, 300'000);
}

TEST(EstimateTest, AGuessFitsTheOutputBucket) {
  PoolFacts limited = pool();
  limited.c_out = 300;
  Outlook outlook;
  outlook.expected_output = 450;
  EXPECT_EQ(estimate_call(facts(400), limited, wire::ProviderProfile(), outlook).output, 300);
}

TEST(OutputGuessTest, FollowsWhatIsSeen) {
  OutputGuess guess;
  EXPECT_EQ(guess.expected(), 450);
  for (int i = 0; i < 200; ++i) guess.observe(2'000);
  EXPECT_NEAR(static_cast<double>(guess.expected()), 2'000, 5);
}

TEST(AnswerTimeTest, CoversTheSlowOnesAndKeepsStreamsApart) {
  AnswerTime times;
  EXPECT_EQ(times.expected(true), 10s);
  EXPECT_EQ(times.expected(false), 30s);
  for (int i = 0; i < 100; ++i) times.observe(true, i % 2 == 0 ? 2s : 4s);
  EXPECT_GE(times.expected(true), 4s) << "the slower half too";
  EXPECT_LE(times.expected(true), 7s);
  EXPECT_EQ(times.expected(false), 30s) << "whole answers are another matter";
  for (int i = 0; i < 100; ++i) times.observe(false, 80s);
  EXPECT_GE(times.expected(false), 80s);
  EXPECT_LE(times.expected(false), 85s) << "steady ones need no margin of their own";
  times.observe(false, 200s);
  EXPECT_GE(times.expected(false), 140s) << "one slow answer is heeded at once";
}

TEST(AnswerTimeTest, AbsurdTimesDoNoHarm) {
  AnswerTime times;
  for (int i = 0; i < 100; ++i) times.observe(true, Micros::max());
  EXPECT_LE(times.expected(true), 3600s);
  for (int i = 0; i < 1'000; ++i) times.observe(true, Micros::min());
  EXPECT_GE(times.expected(true), 0s);
  EXPECT_LE(times.expected(true), 1s);
}

TEST(PatienceTest, FollowsProfileAnnouncementAndConfiguration) {
  struct Row {
    const char* why;
    Micros hold_cap;
    std::optional<Micros> header_timeout;
    const char* announced;  // "" for none.
    Micros hold_max;
    Micros expected;
    std::optional<Micros> limit;
  };
  const Row rows[] = {
      {"an unknown program", 45s, std::nullopt, "", 240s, 45s, std::nullopt},
      {"headers within 60 s: room for the answer and 5 s", 45s, 60s, "", 240s, 35s, 60s},
      {"the profile's own cap is lower", 20s, 60s, "", 240s, 20s, 60s},
      {"what is announced wins, upwards", 45s, 600s, "600", 900s, 575s, 600s},
      {"and downwards", 540s, 600s, "100", 900s, 75s, 100s},
      {"a stack that gives up earlier does so all the same", 45s, 300s, "600", 900s, 275s, 300s},
      {"an unknown stack may be one of those", 45s, std::nullopt, "600", 900s, 275s, 300s},
      {"what an unknown one announces below that counts", 45s, std::nullopt, "60", 900s, 35s, 60s},
      {"the configuration bounds it", 45s, std::nullopt, "600", 240s, 240s, 300s},
      {"nonsense is no announcement", 45s, std::nullopt, "soon", 240s, 45s, std::nullopt},
      {"zero is no announcement", 45s, std::nullopt, "0", 240s, 45s, std::nullopt},
      {"far too much overflows nothing", 45s, std::nullopt, "9000000000000", 240s, 240s, 300s},
      {"too short for any hold", 45s, std::nullopt, "10", 240s, 1s, 10s},
  };
  for (const Row& row : rows) {
    wire::HarnessProfile harness;
    harness.hold_cap = row.hold_cap;
    harness.header_timeout = row.header_timeout;
    harness.timeout_header = "X-Stainless-Timeout";
    Headers request;
    if (*row.announced != '\0') request.add("x-stainless-timeout", row.announced);
    PatienceLimits limits;
    limits.hold_max = row.hold_max;
    const Patience result = patience_for(harness, request, 20s, limits);
    EXPECT_EQ(result.hold_cap, row.expected) << row.why;
    EXPECT_EQ(result.header_limit, row.limit) << row.why;
  }
}

// The longest that each program is known to wait, by outside evidence; a program that is not here
// has no limit that anybody knows.
TEST(PatienceTest, HoldAndAnswerEndBeforeTheProgramGivesUp) {
  struct Row {
    std::string_view harness;
    Micros gives_up;  // Without an announcement; with one the smaller of the two.
  };
  const Row rows[] = {
      {"gemini-cli", 60s},     {"mini-swe-agent", 60s}, {"claude-code", 300s},
      {"anthropic-sdk", 300s}, {"openai-node", 300s},   {"qwen-code", 300s},
      {"openhands", 300s},     {"openai-python", 600s}, {"aider", 600s},
      {"swe-agent", 600s},     {"goose", 600s},         {"codex", 300s},
      {"opencode", 300s},      {"cline", 300s},         {"crush", 300s},
      {"ai-sdk", 300s},        {"custom", 60s},
  };
  EXPECT_EQ(std::size(rows), wire::Profiles::built_in().harnesses().size());
  for (const Row& row : rows) {
    const wire::HarnessProfile* harness = wire::Profiles::built_in().harness(row.harness);
    ASSERT_NE(harness, nullptr) << row.harness;
    for (const std::int64_t announced : {0, 30, 60, 300, 600, 3'000}) {
      for (const Micros answer : {10s, 40s, 100s}) {
        Headers request;
        Micros gives_up = row.gives_up;
        if (announced > 0 && !harness->timeout_header.empty()) {
          request.add(harness->timeout_header, std::to_string(announced));
          gives_up = std::min(harness->header_timeout.value_or(300s), Micros{announced * kMicro});
        }
        const Patience patience = patience_for(*harness, request, answer, PatienceLimits());
        // A program whose limit nobody knows has a fixed cap that leaves some answers no room.
        const Micros room = harness->header_timeout || announced > 0 ? answer : Micros{10s};
        EXPECT_LE(patience.hold_cap, std::max<Micros>(gives_up - room, 1s))
            << row.harness << " announces " << announced << ", answers take " << to_seconds(answer);
      }
    }
  }
}

TEST(DemandTest, TakesEverythingThatSettlementNeeds) {
  wire::RequestFacts request = facts(40'000);
  request.flat_tokens = 7;
  wire::ProviderProfile provider;
  provider.refused_calls_count = true;
  const PoolFacts weights = pool(100'000, 5'000'000);
  Demand demand;
  fill_demand(demand, estimate_call(request, weights, provider, Outlook()), request, weights,
              provider);
  EXPECT_EQ(demand.estimate, 10'007);
  EXPECT_EQ(demand.text_chars, 40'000);
  EXPECT_EQ(demand.flat_tokens, 7);
  EXPECT_EQ(demand.weights.output_ppm, 5'000'000);
  EXPECT_TRUE(demand.refused_calls_count);
}

TEST(DemandTest, OnlyCountedTextTeachesKappa) {
  struct Row {
    const char* why;
    Tokens flat_tokens;
    bool counted;
    std::int64_t chars;
  };
  const Row rows[] = {
      {"text", 0, true, 40'000},
      {"some images beside the text", 9'000, true, 40'000},
      {"mostly images", 11'000, true, 0},
      {"text that was guessed, or is not all of it", 0, false, 0},
  };
  for (const Row& row : rows) {
    wire::RequestFacts request = facts(40'000);
    request.flat_tokens = row.flat_tokens;
    request.text_counted = row.counted;
    Demand demand;
    const Estimate estimate = estimate_call(request, pool(), wire::ProviderProfile(), Outlook());
    fill_demand(demand, estimate, request, pool(), wire::ProviderProfile());
    EXPECT_EQ(demand.text_chars, row.chars) << row.why;
    EXPECT_EQ(demand.estimate, 10'000 + row.flat_tokens) << row.why << ": paced all the same";
  }
}

// A fleet behind a pool that starts with the mean of all tokenizers, and a provider whose own makes
// an eighth more tokens of every prompt.
class LearningPool : public ::testing::Test {
 protected:
  static constexpr double kRealCharsPerToken = 4.3;

  LearningPool() : pool_(config(), gate::Birth::created_full, Instant{1000s}) {}

  static gate::PoolConfig config() {
    gate::PoolConfig config;
    config.limits = {200'000, 40'000, 100'000'000, 100'000, 1'000'000'000, {}, {}};
    config.seed = config.limits;
    config.kappa_micro = 4'890'000;
    return config;
  }

  static Tokens real_tokens(std::int64_t chars) {
    return static_cast<Tokens>(static_cast<double>(chars) / kRealCharsPerToken);
  }

  // One call that the gate admits; answers by how much its estimate was short of the truth.
  double one_call(std::int64_t chars, Instant now) {
    const wire::RequestFacts request = facts(chars);
    PoolFacts known;
    known.kappa_micro = pool_.kappa_micro();
    const Estimate estimate = estimate_call(request, known, wire::ProviderProfile(), Outlook());
    gate::AcquireRequest ask;
    ask.id = "shim." + std::to_string(++calls_) + ".1";
    ask.shim = "shim";
    ask.alias = "pool/harness";
    ask.estimate = estimate.estimate;
    ask.charge = estimate.charge;
    EXPECT_EQ(pool_.acquire(ask, now).verdict, gate::Verdict::admitted);
    gate::SettleRequest settle;
    settle.id = ask.id;
    settle.by = gate::Settlement::usage;
    settle.usage.uncached = real_tokens(chars);
    settle.text_chars = chars;
    EXPECT_TRUE(pool_.settle(settle, now));
    return 1.0 - static_cast<double>(estimate.estimate) / static_cast<double>(real_tokens(chars));
  }

  gate::Pool pool_;
  int calls_ = 0;
};

TEST_F(LearningPool, KappaIsRightWithinTensOfCalls) {
  Instant now{1000s};
  double short_by = one_call(86'000, now);
  EXPECT_NEAR(short_by, 0.12, 0.005) << "how the first one is off";
  for (int i = 0; i < 39; ++i) short_by = one_call(86'000, now = now + 10s);
  EXPECT_LT(short_by, 0.02) << "after forty";
  for (int i = 0; i < 20; ++i) short_by = one_call(86'000, now = now + 10s);
  EXPECT_LT(short_by, 0.01) << "after sixty";
  for (int i = 0; i < 30; ++i) one_call(3'000, now = now + 10s);
  EXPECT_LT(one_call(86'000, now + 10s), 0.01)
      << "small calls, which say too little, change nothing";
}

TEST_F(LearningPool, AnEstimateThatWasShortIsDebitedToTheLastToken) {
  const Instant now{1000s};
  const std::int64_t chars = 86'000;
  for (int i = 1; i <= 9; ++i) {
    one_call(chars, now);
    EXPECT_EQ(pool_.view(now).tokens, (200'000 - i * real_tokens(chars)) * kMicro) << i;
  }
  // What is left covers the tenth's estimate, but not its truth: a debt, and it is paid first.
  EXPECT_EQ(pool_.view(now).tokens, 20'000 * kMicro);
  one_call(chars, now);
  EXPECT_EQ(pool_.view(now).tokens, 0);
  one_call(chars, now + 480ms);
  const MicroTokens debt = pool_.view(now + 480ms).tokens;
  EXPECT_LT(debt, 0);
  EXPECT_EQ(debt, (19'200 - 20'000) * kMicro);
  EXPECT_EQ(pool_.view(now + 500ms).tokens, 0) << "40,000 come back each second";
}

}  // namespace
}  // namespace hg::call
