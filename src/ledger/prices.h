// prices.h: what calls cost, by tables of prices that are data: data/prices/*.toml, built into the
// binary; a user's own files come first.
//
// Prices are US dollars for a million tokens, which is micro-dollars a token: whole arithmetic from
// there on. Pure; immutable once loaded, any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ledger/call_row.h"

namespace hg::ledger {

// Millionths of a micro-dollar a token: 0.3 dollars a million tokens is 300'000.
using Rate = std::int64_t;

struct Rates {
  Rate input = 0;
  Rate cached = 0;       // Read from the provider's cache.
  Rate cache_write = 0;  // Written to it.
  Rate output = 0;       // Reasoning included.
};

// What one kind of model costs from one day on.
struct Price {
  std::vector<std::string> models;  // Patterns; '*' stands for any run.
  WallTime from;                    // Midnight UTC.
  Rates rates;
  // Of the whole call, where its prompt has more tokens than this; the highest that fits counts.
  struct Tier {
    std::int64_t above_prompt_tokens = 0;
    Rates rates;
  };
  std::vector<Tier> tiers;  // By that number, rising.
};

struct PriceText {
  std::string_view file;
  std::string_view text;
};

class Prices {
 public:
  [[nodiscard]] static const Prices& built_in();

  // Those built in, and `more` before them. Errc::invalid with file, line and what is allowed.
  [[nodiscard]] static Result<Prices> load(const std::vector<PriceText>& more);

  // What a call to this provider (profile) and model costs at that time; null if nobody knows.
  // A user's file wins; then the longest pattern; then the latest day that is not after `at`.
  [[nodiscard]] const Price* find(std::string_view provider, std::string_view model,
                                  WallTime at) const;

  // Fills cost_micro_usd and cost_source of a row that has usage: `reported` is what the provider
  // said that it cost, which wins. Without usage, price or report both stay absent.
  void put_cost(CallRow& row, const std::optional<std::int64_t>& reported_micro_usd) const;

 private:
  struct Entry {
    std::string provider;
    Price price;
    bool users_own = false;
  };
  std::vector<Entry> entries_;
};

// Micro-dollars, rounded to the nearest. Nothing if the row has neither prompt nor output tokens.
[[nodiscard]] std::optional<std::int64_t> cost_of(const CallRow& row, const Price& price);

}  // namespace hg::ledger
