#include "ledger/prices.h"

#include <gtest/gtest.h>

#include "ledger/embedded.h"
#include "ledger/test_ledger.h"

namespace hg::ledger {
namespace {

WallTime day(std::int64_t days_since_1970) {
  return WallTime{Micros(days_since_1970 * 86'400'000'000)};
}
constexpr std::int64_t kJune2026 = 20'605;  // 2026-06-01.

CallRow used(std::int64_t uncached, std::int64_t cached, std::int64_t written,
             std::int64_t output) {
  CallRow row = test_row("a");
  row.uncached_tokens = uncached;
  row.cached_tokens = cached;
  row.cache_write_tokens = written;
  row.output_tokens = output;
  return row;
}

TEST(PricesTest, BuiltInOnesLoadWithTheirSource) {
  EXPECT_NE(Prices::built_in().find("anthropic", "claude-opus-4-5-20251101", day(kJune2026)),
            nullptr);
  for (const auto& [file, text] : embedded_prices::files()) {
    EXPECT_NE(text.find("source = \"https://"), std::string_view::npos) << file;
    EXPECT_NE(text.find("provider = \"" + std::string(file.substr(0, file.find('.'))) + "\""),
              std::string_view::npos)
        << file;
  }
}

TEST(PricesTest, EveryKindOfTokenHasItsPrice) {
  const Prices& prices = Prices::built_in();
  struct Row {
    const char* why;
    const char* provider;
    const char* model;
    CallRow usage;
    Number micro_usd;
  };
  const Row rows[] = {
      {"5 dollars a million in", "anthropic", "claude-opus-4-5", used(1'000'000, 0, 0, 0),
       5'000'000},
      {"a tenth for what was cached", "anthropic", "claude-opus-4-5", used(0, 1'000'000, 0, 0),
       500'000},
      {"writes are among the uncached", "anthropic", "claude-opus-4-5",
       used(1'000'000, 0, 1'000'000, 0), 6'250'000},
      {"output", "anthropic", "claude-opus-4-5", used(0, 0, 0, 1'000'000), 25'000'000},
      {"all together, rounded to the nearest", "anthropic", "claude-haiku-4-5", used(7, 3, 2, 1),
       13},  // 5 + 0.3 + 2.5 + 5 = 12.8.
      {"at the threshold the lower price", "anthropic", "claude-sonnet-4-5",
       used(100'000, 100'000, 0, 0), 330'000},
      {"past it the whole call is dearer", "anthropic", "claude-sonnet-4-5",
       used(100'001, 100'000, 0, 0), 660'006},
      {"the longest pattern decides", "gemini", "gemini-2.5-flash-lite-001",
       used(1'000'000, 0, 0, 0), 100'000},
      {"nothing used costs nothing", "anthropic", "claude-opus-4-5", used(0, 0, 0, 0), 0},
      {"a model that nobody knows", "anthropic", "claude-nobody-1", used(1, 0, 0, 0), {}},
      {"a provider that nobody knows", "emulated", "claude-opus-4-5", used(1, 0, 0, 0), {}},
  };
  for (const Row& row : rows) {
    CallRow call = row.usage;
    call.provider = row.provider;
    call.model = row.model;
    call.started_at_us = day(kJune2026).since_epoch.count();
    prices.put_cost(call, std::nullopt);
    EXPECT_EQ(call.cost_micro_usd, row.micro_usd) << row.why;
    EXPECT_EQ(call.cost_source, row.micro_usd ? "prices" : "") << row.why;
  }
}

TEST(PricesTest, WhatTheProviderSaysWins) {
  CallRow call = used(1'000'000, 0, 0, 0);
  Prices::built_in().put_cost(call, 1234);
  EXPECT_EQ(call.cost_micro_usd, Number(1234));
  EXPECT_EQ(call.cost_source, "provider");
}

TEST(PricesTest, ACallWithoutUsageHasNoCost) {
  CallRow call = test_row("a");
  call.uncached_tokens.reset();
  call.cached_tokens.reset();
  call.output_tokens.reset();
  Prices::built_in().put_cost(call, std::nullopt);
  EXPECT_EQ(call.cost_micro_usd, Number());
  EXPECT_EQ(call.cost_source, "");
}

TEST(PricesTest, ThePriceOfItsDayCounts) {
  const auto prices = Prices::load({{"mine.toml", R"(
provider = "lab"
source = "https://example.com/prices"
[[price]]
models = ["m*"]
from = "2026-01-01"
input = 1
output = 2
[[price]]
models = ["m*"]
from = "2026-06-01"
input = 3
output = 4
)"}});
  ASSERT_TRUE(prices.has_value()) << prices.error().detail;
  EXPECT_EQ(prices->find("lab", "m1", day(kJune2026 - 200)), nullptr) << "before the first day";
  EXPECT_EQ(prices->find("lab", "m1", day(kJune2026 - 1))->rates.input, 1'000'000);
  EXPECT_EQ(prices->find("lab", "m1", day(kJune2026))->rates.input, 3'000'000);
  EXPECT_EQ(prices->find("lab", "m1", day(kJune2026))->rates.cached, 3'000'000)
      << "what is not said of cached tokens costs as input";
}

TEST(PricesTest, AUsersOwnFileWins) {
  const auto prices = Prices::load({{"mine.toml", R"(
provider = "anthropic"
[[price]]
models = ["*"]
from = "2020-01-01"
input = 0.5
output = 0.5
)"}});
  ASSERT_TRUE(prices.has_value()) << prices.error().detail;
  EXPECT_EQ(prices->find("anthropic", "claude-opus-4-5", day(kJune2026))->rates.input, 500'000);
}

TEST(PricesTest, AFaultIsToldWithItsLineAndWhatIsAllowed) {
  struct Row {
    const char* text;
    const char* told;
  };
  const Row rows[] = {
      {"[[price]]\n", "provider = \"NAME\""},
      {"provider = \"x\"\n[[price]]\nfrom = \"2026-01-01\"\ninput = 1\noutput = 1\n", "models ="},
      {"provider = \"x\"\n[[price]]\nmodels = [\"m\"]\nfrom = \"2026-02-30\"\ninput = 1\n"
       "output = 1\n",
       "YYYY-MM-DD"},
      {"provider = \"x\"\n[[price]]\nmodels = [\"m\"]\nfrom = \"2026-01-01\"\ninput = 1\n",
       "output = N"},
      {"provider = \"x\"\n[[price]]\nmodels = [\"m\"]\nfrom = \"2026-01-01\"\ninput = -1\n"
       "output = 1\n",
       "mine.toml:5"},
      {"provider = \"x\"\nprise = 3\n", "unknown key \"prise\""},
      {"provider = \n", "mine.toml:1: not valid TOML"},
  };
  for (const Row& row : rows) {
    const auto prices = Prices::load({{"mine.toml", row.text}});
    ASSERT_FALSE(prices.has_value()) << row.text;
    EXPECT_EQ(prices.error().code, Errc::invalid);
    EXPECT_NE(prices.error().detail.find(row.told), std::string::npos) << prices.error().detail;
  }
}

}  // namespace
}  // namespace hg::ledger
