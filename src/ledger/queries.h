// queries.h: what people and the planner ask the ledger: single calls, and what calls came to.
//
// Sums come from the hours that are counted as rows are written, so a million calls are summed in
// milliseconds; their bounds in time are whole hours. Functions on a Database: one thread with it.
// Errc::unavailable: the database did not answer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ledger/call_row.h"
#include "ledger/database.h"

namespace hg::ledger {

// Which calls; an empty text is any.
struct Filter {
  std::string run;
  std::string task;
  std::string harness;
  std::string model;
  std::string pool;
  std::optional<WallTime> since;  // Begun then or later.
  std::optional<WallTime> until;  // Begun before.
};

struct StoredCall {
  std::int64_t seq = 0;  // In the order in which the database got them.
  CallRow row;
};

struct CallsWanted {
  Filter filter;
  std::string outcome;  // "" is any.
  enum class Order : std::uint8_t {
    oldest,  // From after_seq on, by seq.
    newest,  // From the other end, also handed out so.
  };
  Order order = Order::oldest;
  std::int64_t after_seq = 0;  // Only those with a higher seq.
  std::int64_t most = 1000;
};
[[nodiscard]] Result<std::vector<StoredCall>> find_calls(Database& database,
                                                         const CallsWanted& wanted);

// What calls came to. Sums leave absent numbers out; without_usage and without_cost say of how many
// calls.
struct Usage {
  std::string run;  // Those that the question was by; the others are "".
  std::string task;
  std::string harness;
  std::string model;
  std::string pool;
  std::string day;  // "2026-12-01", UTC.
  std::int64_t calls = 0;
  std::int64_t failed = 0;         // With a status of 400 or more, or without an answer.
  std::int64_t refused_by_us = 0;  // Our own 429s.
  std::int64_t overloads = 0;
  std::int64_t without_usage = 0;
  std::int64_t without_cost = 0;
  std::int64_t uncached_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t cache_write_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t reasoning_tokens = 0;
  std::int64_t cost_micro_usd = 0;
  std::int64_t held_us = 0;
  std::int64_t backed_off_us = 0;
  std::int64_t total_us = 0;
};

enum class UsageBy : std::uint8_t { run, task, harness, model, pool, day, all };
[[nodiscard]] std::optional<UsageBy> usage_by(std::string_view word);

// One line a key, the most expensive and largest first; by day, in their order.
[[nodiscard]] Result<std::vector<Usage>> find_usage(Database& database, UsageBy by,
                                                    const Filter& filter);

// Rows that were lost, by reason, since `since`.
[[nodiscard]] Result<std::vector<Loss>> find_losses(Database& database,
                                                    std::optional<WallTime> since);

}  // namespace hg::ledger
