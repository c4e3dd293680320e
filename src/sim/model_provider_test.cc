#include "sim/model_provider.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::sim {
namespace {

using Kind = ProviderVerdict::Kind;

constexpr Instant kStart{1000s};

ProviderModel model() {
  ProviderModel result;
  result.burst_tokens = 200'000;
  result.tokens_per_second = 40'000;
  result.burst_requests = 60;
  result.requests_per_second = 20;
  return result;
}

ProviderRequest request(Tokens prompt) {
  ProviderRequest result;
  result.prompt_tokens = prompt;
  result.output_planned = 100;
  return result;
}

TEST(ModelProviderTest, AcceptsItsBurstThenItsRate) {
  ModelProvider provider(model(), 1, kStart);
  EXPECT_EQ(provider.decide(request(150'000), kStart).kind, Kind::accept);
  EXPECT_EQ(provider.decide(request(50'000), kStart).kind, Kind::accept);
  const ProviderVerdict refused = provider.decide(request(20'000), kStart);
  EXPECT_EQ(refused.kind, Kind::refuse);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error, ProviderError::rate_limit_tokens);
  EXPECT_EQ(refused.retry_after, Micros{1s}) << "half a second, in whole seconds";
  EXPECT_EQ(provider.decide(request(20'000), kStart + 499ms).kind, Kind::refuse);
  EXPECT_EQ(provider.decide(request(20'000), kStart + 500ms).kind, Kind::accept);
  EXPECT_EQ(provider.books().accepted_tokens, 220'000);
  EXPECT_EQ(provider.books().refused_tokens_limit, 2);
  EXPECT_NEAR(provider.limit_used(kStart + 500ms), 1.0, 1e-9);
  EXPECT_NEAR(provider.limit_used(kStart + 5s), 0.55, 1e-9) << "220,000 of 400,000";
}

TEST(ModelProviderTest, RequestsAreLimitedApart) {
  ProviderModel limits = model();
  limits.burst_requests = 2;
  limits.requests_per_second = 1;
  limits.hint = ProviderModel::Hint::milliseconds;
  ModelProvider provider(limits, 1, kStart);
  EXPECT_EQ(provider.decide(request(10), kStart).kind, Kind::accept);
  EXPECT_EQ(provider.decide(request(10), kStart).kind, Kind::accept);
  const ProviderVerdict refused = provider.decide(request(10), kStart + 400ms);
  EXPECT_EQ(refused.error, ProviderError::rate_limit_requests);
  EXPECT_EQ(refused.retry_after_ms, Micros{600ms});
  EXPECT_EQ(provider.decide(request(10), kStart + 1s).kind, Kind::accept);
}

TEST(ModelProviderTest, ACallLargerThanTheBucketPassesAgainstAFullOneAndLeavesADebt) {
  ModelProvider provider(model(), 1, kStart);
  EXPECT_EQ(provider.decide(request(300'000), kStart).kind, Kind::accept);
  EXPECT_NEAR(provider.tokens_level(kStart), -100'000, 1);
  EXPECT_EQ(provider.decide(request(1), kStart + 2400ms).kind, Kind::refuse);
  EXPECT_EQ(provider.decide(request(1), kStart + 2501ms).kind, Kind::accept);
}

TEST(ModelProviderTest, TheRateFollowsItsPlan) {
  ProviderModel limits = model();
  limits.plan.steps = {{10s, 0.5}, {20s, 2.0}};
  ModelProvider provider(limits, 1, kStart);
  EXPECT_NEAR(provider.offered_tokens(kStart + 10s), 200'000 + 400'000, 5'000);
  EXPECT_NEAR(provider.offered_tokens(kStart + 20s), 200'000 + 600'000, 9'000);
  EXPECT_NEAR(provider.offered_tokens(kStart + 30s), 200'000 + 1'400'000, 13'000);

  ProviderModel drifting = model();
  drifting.plan.drift_amplitude = 0.4;
  drifting.plan.drift_period = 100s;
  ModelProvider moves(drifting, 1, kStart);
  // The sine's first half: 25 s x 2 x 40,000 x (1 + 0.4 x 2 / pi).
  EXPECT_NEAR(moves.offered_tokens(kStart + 50s), 200'000 + 2'509'000, 10'000);
  EXPECT_NEAR(moves.offered_tokens(kStart + 100s), 200'000 + 4'000'000, 10'000);
}

TEST(ModelProviderTest, OtherTenantsDrawOnTheSameLimit) {
  ProviderModel shared = model();
  shared.tenants.tokens_per_second = 20'000;
  ModelProvider provider(shared, 3, kStart);
  Tokens accepted = 0;
  for (int second = 0; second < 1000; ++second) {
    for (int i = 0; i < 40; ++i) {
      const Instant now = kStart + Micros{second * 1'000'000 + i * 25'000};
      if (provider.decide(request(2'000), now).kind == Kind::accept) accepted += 2'000;
    }
  }
  // Small calls squeeze the others, who need 20,000 at once and never retry; nothing is lost.
  const Tokens theirs = provider.books().tenant_tokens;
  EXPECT_GT(theirs, 0);
  EXPECT_NEAR(static_cast<double>(accepted + theirs), 200'000 + 40'000'000, 300'000);
  EXPECT_NEAR(provider.limit_used(kStart + 1000s), 1.0, 0.02);
}

TEST(ModelProviderTest, ThePrefixCacheHitsUntilItsLifetimeEnds) {
  ModelProvider provider(model(), 1, kStart);
  ProviderRequest first = request(10'000);
  first.blocks = {{1, 500}, {2, 8'000}, {3, 10'000}};
  EXPECT_EQ(provider.decide(first, kStart).cached, 0);
  ProviderRequest second = request(11'000);
  second.blocks = {{1, 500}, {2, 8'000}, {4, 11'000}};
  const ProviderVerdict hit = provider.decide(second, kStart + 300s - 1us);
  EXPECT_EQ(hit.cached, 8'000);
  EXPECT_EQ(hit.uncached, 3'000);
  ProviderRequest tiny = request(600);
  tiny.blocks = {{1, 500}, {9, 600}};
  EXPECT_EQ(provider.decide(tiny, kStart + 301s).cached, 0) << "shorter than it caches";
  EXPECT_EQ(provider.decide(first, kStart + 301s).cached, 8'000) << "refreshed by the second";
  EXPECT_EQ(provider.decide(first, kStart + 901s).cached, 0);
}

TEST(ModelProviderTest, CachedAndOutputTokensDrawTheirWeights) {
  ProviderModel weighted = model();
  weighted.cached_ppm = 100'000;
  weighted.output_ppm = 5'000'000;
  ModelProvider provider(weighted, 1, kStart);
  ProviderRequest call = request(10'000);
  call.blocks = {{1, 10'000}};
  const std::uint64_t id = provider.decide(call, kStart).id;
  EXPECT_EQ(provider.books().accepted_tokens, 10'000);
  provider.finished(id, 100, kStart);
  EXPECT_EQ(provider.books().accepted_tokens, 10'500);
  provider.finished(id, 100, kStart);
  EXPECT_EQ(provider.books().accepted_tokens, 10'500) << "once";
  provider.decide(call, kStart);
  EXPECT_EQ(provider.books().accepted_tokens, 11'500);
}

TEST(ModelProviderTest, AReservationIsReplacedByWhatWasProduced) {
  ProviderModel reserving = model();
  reserving.reserves_max_output = true;
  reserving.output_ppm = 1'000'000;
  ModelProvider provider(reserving, 1, kStart);
  ProviderRequest call = request(1'000);
  call.max_output = 128'000;
  const ProviderVerdict verdict = provider.decide(call, kStart);
  EXPECT_NEAR(provider.tokens_level(kStart), 71'000, 1);
  EXPECT_EQ(provider.decide(call, kStart).kind, Kind::refuse);
  provider.finished(verdict.id, 400, kStart);
  EXPECT_NEAR(provider.tokens_level(kStart), 198'600, 1);
}

TEST(ModelProviderTest, RefusedCallsMayCount) {
  ProviderModel strict = model();
  strict.refused_calls_count = true;
  strict.hint = ProviderModel::Hint::none;
  ModelProvider provider(strict, 1, kStart);
  (void)provider.decide(request(200'000), kStart);
  EXPECT_EQ(provider.decide(request(40'000), kStart).retry_after, std::nullopt);
  EXPECT_NEAR(provider.tokens_level(kStart), -40'000, 1);
}

TEST(ModelProviderTest, AnExhaustedQuotaAndTooMuchAtOnceAreRefused) {
  ProviderModel limited = model();
  limited.quota = 100'000;
  limited.max_inflight = 90'000;
  ModelProvider provider(limited, 1, kStart);
  const ProviderVerdict first = provider.decide(request(80'000), kStart);
  const ProviderVerdict crowded = provider.decide(request(20'000), kStart);
  EXPECT_EQ(crowded.status, 529);
  EXPECT_EQ(crowded.error, ProviderError::overloaded);
  provider.finished(first.id, 1, kStart);
  EXPECT_EQ(provider.inflight(), 0);
  EXPECT_EQ(provider.decide(request(20'000), kStart).kind, Kind::accept);
  const ProviderVerdict spent = provider.decide(request(1), kStart);
  EXPECT_EQ(spent.error, ProviderError::quota);
  EXPECT_EQ(spent.status, 429);
  EXPECT_EQ(spent.retry_after, std::nullopt);
}

TEST(ModelProviderTest, MishapsComeByTheirProbability) {
  ProviderModel clumsy = model();
  clumsy.burst_tokens = 1'000'000'000;
  clumsy.burst_requests = 1'000'000;
  clumsy.mishaps.overloaded = 0.05;
  clumsy.mishaps.unavailable = 0.03;
  clumsy.mishaps.stray_rate_limit = 0.04;
  clumsy.mishaps.error_in_stream = 0.5;
  clumsy.mishaps.drop_before_answer = 0.02;
  clumsy.mishaps.drop_in_answer = 0.1;
  ModelProvider provider(clumsy, 7, kStart);
  ProviderRequest call = request(1'000);
  call.stream = true;
  const int calls = 20'000;
  std::int64_t cut = 0;
  for (int i = 0; i < calls; ++i) {
    const ProviderVerdict verdict = provider.decide(call, kStart);
    if (verdict.cut_after_output) {
      ++cut;
      EXPECT_GE(*verdict.cut_after_output, 1);
      EXPECT_LT(*verdict.cut_after_output, verdict.output);
    }
    if (verdict.kind == Kind::refuse_in_stream) {
      EXPECT_EQ(verdict.status, 200);
    }
  }
  const ProviderBooks& books = provider.books();
  EXPECT_NEAR(static_cast<double>(books.refused_overloaded) / calls, 0.05, 0.01);
  EXPECT_NEAR(static_cast<double>(books.refused_in_stream) / calls, 0.025, 0.007);
  EXPECT_NEAR(static_cast<double>(books.refused_unavailable) / calls, 0.03, 0.01);
  EXPECT_NEAR(static_cast<double>(books.refused_stray) / calls, 0.04, 0.01);
  EXPECT_NEAR(static_cast<double>(books.dropped) / calls, 0.02, 0.01);
  EXPECT_NEAR(static_cast<double>(cut) / static_cast<double>(books.accepted), 0.1, 0.01);
  EXPECT_EQ(books.calls, books.accepted + books.refused() + books.dropped);
}

TEST(ModelProviderTest, LatencyGrowsWithPromptOutputAndLoad) {
  ProviderModel exact = model();
  exact.latency_sigma = 0;
  exact.burst_tokens = 10'000'000;
  exact.load_knee = 1'000'000;
  exact.load_slope = 1;
  ModelProvider provider(exact, 1, kStart);
  const ProviderVerdict small = provider.decide(request(1'000), kStart);
  EXPECT_EQ(small.first_byte, Micros{1'320'000});
  EXPECT_EQ(small.duration(), Micros{1'320'000} + 100 * small.per_output_token);
  provider.finished(small.id, 100, kStart);
  const ProviderVerdict large = provider.decide(request(1'000'000), kStart);
  EXPECT_EQ(large.first_byte, Micros{21'300'000});
  EXPECT_EQ(provider.decide(request(1'000), kStart).first_byte, Micros{2'640'000})
      << "a million tokens in flight: twice as slow";
}

TEST(ModelProviderTest, RateHeadersSayLimitRestAndReset) {
  ModelProvider provider(model(), 1, kStart);
  const auto rate = provider.decide(request(100'000), kStart).rate;
  ASSERT_TRUE(rate);
  EXPECT_EQ(rate->tokens_limit, 2'400'000);
  EXPECT_EQ(rate->tokens_left, 100'000);
  EXPECT_EQ(rate->tokens_reset, Micros{2'500ms});
  EXPECT_EQ(rate->requests_limit, 1'200);
  EXPECT_EQ(rate->requests_left, 59);
}

TEST(ModelProviderTest, AHandOnTheLimitTakesEffectAtOnce) {
  ModelProvider provider(model(), 1, kStart);
  (void)provider.decide(request(200'000), kStart);
  provider.scale(0.5, kStart);
  EXPECT_NEAR(provider.tokens_level(kStart + 1s), 20'000, 1);
}

TEST(ModelProviderTest, OneSeedGivesOneHistory) {
  const auto history = [](std::uint64_t seed) {
    ProviderModel clumsy = model();
    clumsy.mishaps.overloaded = 0.3;
    clumsy.tenants.tokens_per_second = 10'000;
    ModelProvider provider(clumsy, seed, kStart);
    std::string text;
    for (int i = 0; i < 50; ++i) {
      const ProviderVerdict verdict = provider.decide(request(9'000), kStart + Micros{1s} * i);
      text += std::to_string(verdict.status) + ":" + std::to_string(verdict.first_byte.count()) +
              " ";
    }
    return text;
  };
  EXPECT_EQ(history(5), history(5));
  EXPECT_NE(history(5), history(6));
}

}  // namespace
}  // namespace hg::sim
