#include "ledger/prices.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/pattern.h"
#include "base/text.h"
#include "base/toml_table.h"
#include "base/units.h"
#include "ledger/embedded.h"

namespace hg::ledger {

namespace {

constexpr double kDollarsMax = 10'000;  // A million tokens.

// "2026-11-24": midnight UTC.
std::optional<WallTime> read_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = parse_integer(text.substr(0, 4));
  const auto month = parse_integer(text.substr(5, 2));
  const auto day = parse_integer(text.substr(8, 2));
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return WallTime{std::chrono::sys_days(date).time_since_epoch()};
}

// Dollars for a million tokens. What is not said of cached tokens and cache writes costs as input.
Rates read_rates(TomlTable& table) {
  constexpr double kAbsent = -1;
  double input = kAbsent;
  double output = kAbsent;
  double cached = kAbsent;
  double cache_write = kAbsent;
  table.number("input", 0, kDollarsMax, input);
  table.number("output", 0, kDollarsMax, output);
  table.number("cached", 0, kDollarsMax, cached);
  table.number("cache_write", 0, kDollarsMax, cache_write);
  if (input < 0 || output < 0) {
    table.complain("a price has input = N and output = N, in US dollars for a million tokens");
  }
  const auto rate = [](double dollars) { return static_cast<Rate>(std::llround(dollars * 1e6)); };
  return Rates{.input = rate(input),
               .cached = rate(cached < 0 ? input : cached),
               .cache_write = rate(cache_write < 0 ? input : cache_write),
               .output = rate(output)};
}

Price read_price(TomlTable& table) {
  Price price;
  std::string from;
  table.texts("models", price.models);
  table.text("from", from);
  price.rates = read_rates(table);
  if (price.models.empty()) table.complain("a price has models = [\"PATTERN\", ...]");
  const std::optional<WallTime> day = read_day(from);
  if (!day) table.complain("a price has from = \"YYYY-MM-DD\", the first day that it is for");
  price.from = day.value_or(WallTime());
  for (TomlTable& inner : table.tables("tier")) {
    Price::Tier tier;
    inner.integer("above_prompt_tokens", 1, 1'000'000'000, tier.above_prompt_tokens);
    if (tier.above_prompt_tokens == 0) inner.complain("a tier has above_prompt_tokens = N");
    tier.rates = read_rates(inner);
    inner.evidence();
    inner.finish();
    price.tiers.push_back(tier);
  }
  std::ranges::sort(price.tiers, {}, &Price::Tier::above_prompt_tokens);
  table.evidence();
  table.finish();
  return price;
}

struct Read {
  std::string provider;
  std::vector<Price> prices;
};

Result<Read> read_file(const PriceText& text) {
  const std::string file(text.file);
  toml::table parsed;
  try {
    parsed = toml::parse(text.text, text.file);
  } catch (const toml::parse_error& error) {
    return fail(Errc::invalid, fmt::format("{}:{}: not valid TOML: {}", file,
                                           error.source().begin.line, error.description()));
  }
  std::optional<Error> first_error;
  TomlTable table(file, "", parsed, first_error);
  Read read;
  std::string source;
  table.text("provider", read.provider);
  table.text("source", source);
  if (read.provider.empty()) {
    table.complain("a price file starts with provider = \"NAME\", a provider profile");
  }
  for (TomlTable& price : table.tables("price")) read.prices.push_back(read_price(price));
  table.finish();
  if (first_error) return std::unexpected(*first_error);
  return read;
}

// The longest pattern that matches; nothing if none does.
std::optional<std::size_t> match_length(const Price& price, std::string_view model) {
  std::optional<std::size_t> best;
  for (const std::string& pattern : price.models) {
    if (!matches_pattern(pattern, model)) continue;
    best = std::max(best.value_or(0), pattern.size());
  }
  return best;
}

}  // namespace

Result<Prices> Prices::load(const std::vector<PriceText>& more) {
  Prices prices;
  const auto add = [&prices](const PriceText& text, bool users_own) -> Result<void> {
    Result<Read> read = read_file(text);
    if (!read) return std::unexpected(read.error());
    for (Price& price : read->prices) {
      prices.entries_.push_back(Entry{read->provider, std::move(price), users_own});
    }
    return {};
  };
  for (const auto& [file, text] : embedded_prices::files()) {
    if (Result<void> added = add({file, text}, false); !added) {
      return std::unexpected(added.error());
    }
  }
  for (const PriceText& text : more) {
    if (Result<void> added = add(text, true); !added) return std::unexpected(added.error());
  }
  return prices;
}

const Prices& Prices::built_in() {
  static const Prices prices = [] {
    Result<Prices> loaded = load({});
    HG_ASSERT(loaded.has_value());
    return std::move(*loaded);
  }();
  return prices;
}

const Price* Prices::find(std::string_view provider, std::string_view model, WallTime at) const {
  const Price* best = nullptr;
  std::tuple<bool, std::size_t, WallTime> best_rank;
  for (const Entry& entry : entries_) {
    if (entry.provider != provider || entry.price.from > at) continue;
    const std::optional<std::size_t> length = match_length(entry.price, model);
    if (!length) continue;
    const std::tuple rank(entry.users_own, *length, entry.price.from);
    if (best != nullptr && rank < best_rank) continue;
    best = &entry.price;
    best_rank = rank;
  }
  return best;
}

std::optional<std::int64_t> cost_of(const CallRow& row, const Price& price) {
  if (!row.uncached_tokens && !row.output_tokens) return std::nullopt;
  const std::int64_t uncached = row.uncached_tokens.value_or(0);
  const std::int64_t cached = row.cached_tokens.value_or(0);
  const std::int64_t output = row.output_tokens.value_or(0);
  const std::int64_t written = std::clamp<std::int64_t>(row.cache_write_tokens.value_or(0), 0,
                                                        std::max<std::int64_t>(uncached, 0));
  const Rates* rates = &price.rates;
  for (const Price::Tier& tier : price.tiers) {
    if (uncached + cached > tier.above_prompt_tokens) rates = &tier.rates;
  }
  // More is no count of tokens, and its price might not fit 64 bits.
  constexpr std::int64_t kMaxTokens = 100'000'000;
  if (std::max({uncached, cached, output}) > kMaxTokens) return std::nullopt;
  const std::int64_t millionths = (uncached - written) * rates->input + cached * rates->cached +
                                  written * rates->cache_write + output * rates->output;
  return (millionths + kMicro / 2) / kMicro;
}

void Prices::put_cost(CallRow& row, const std::optional<std::int64_t>& reported_micro_usd) const {
  if (reported_micro_usd) {
    row.cost_micro_usd = *reported_micro_usd;
    row.cost_source = "provider";
    return;
  }
  const WallTime at{Micros(row.started_at_us.value_or(0))};
  const Price* price = find(row.provider, row.model, at);
  const std::optional<std::int64_t> cost = price == nullptr ? std::nullopt : cost_of(row, *price);
  if (!cost) return;
  row.cost_micro_usd = *cost;
  row.cost_source = "prices";
}

}  // namespace hg::ledger
