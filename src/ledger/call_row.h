// call_row.h: one call as the ledger keeps it, and the table of its columns from which the spool,
// the database, JSON and CSV are all made.
//
// Absent is absent: an empty text or an empty optional is NULL in the database, null in JSON and
// nothing in CSV; zero is a number that somebody counted. Holds no prompt, answer or key. Pure;
// values.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace hg::ledger {

using Number = std::optional<std::int64_t>;

// Durations are microseconds, from the request's first byte at the shim. reading + held +
// backed_off + provider + own = total.
struct CallRow {
  // Who asked.
  std::string id;  // Unique for ever: shim, then a number.
  std::string upstream;
  std::string provider;  // The provider profile, by which prices are found.
  std::string pool;
  std::string harness;  // With the pool: the alias.
  std::string run;
  std::string task;
  Number attempt;            // Of the task, from 1.
  std::string conversation;  // Salted hash of what names it.

  // What was asked.
  Number started_at_us;  // Wall clock, microseconds since 1970, UTC.
  std::string model;
  std::string dialect;
  Number stream;        // 0 or 1.
  Number prompt_chars;  // UTF-8 bytes of the prompt after JSON unescaping.
  Number estimate_tokens;
  Number charge_tokens;
  Number cached_guess_tokens;  // Of the estimate, expected from the provider's cache.

  // What happened.
  std::string hold_axis;  // The axis of the last denial; absent if there was none.
  Number hold_place;      // The place in the queue at that denial, from 1.
  Number asks;            // Questions to the gate.
  Number sends;           // Times the request went to the provider.
  Number overloads;       // Refusals for load.
  std::string outcome;    // call::Record::Outcome, or "bad_request".
  std::string settled_by;
  Number status;      // What the agent got; absent when it had gone.
  Number own_answer;  // 1: that status is Headgate's own.
  Number degraded;    // 1: admitted by the local schedule, because the store was unreachable.
  std::string provider_request_id;

  // What was used, as the provider reported it.
  Number uncached_tokens;     // Prompt tokens not read from cache; cache writes are among them.
  Number cached_tokens;       // Prompt tokens read from cache.
  Number cache_write_tokens;  // Of the uncached ones.
  Number output_tokens;       // Reasoning included.
  Number reasoning_tokens;    // Of the output.
  Number unread_encoding;     // 1: the answer came in a coding that cannot be read.
  Number cost_micro_usd;      // Millionths of a US dollar.
  std::string cost_source;    // "provider" or "prices"; absent where the cost is.

  // How long it took.
  Number reading_us;     // Until the request's body was read.
  Number held_us;        // In the queue, all tries together.
  Number backed_off_us;  // After overloads and amid outages.
  Number provider_us;    // At the provider: sending, waiting, passing the answer on; all tries.
  Number own_us;         // The rest: Headgate's own work.
  Number total_us;
  Number first_byte_us;  // Until the answer's first byte went down; not a part of the sum.
  Number bytes_in;       // Of the request's body.
  Number bytes_out;      // Of the answer's body.

  friend bool operator==(const CallRow&, const CallRow&) = default;
};

// One column. The place in call_columns() is its tag in the spool: columns are only ever appended.
struct CallColumn {
  std::string_view name;
  std::variant<std::string CallRow::*, Number CallRow::*> field;

  [[nodiscard]] bool is_text() const { return field.index() == 0; }
};

inline constexpr std::size_t kCallColumns = 45;
[[nodiscard]] const std::array<CallColumn, kCallColumns>& call_columns();

// Texts are cut to this; with it no row is longer than 8 KiB in the spool.
inline constexpr std::size_t kMaxTextBytes = 256;

// Appends `row` to `bytes`, in a form that a later release can read: it skips what it does not
// know, and what is not there is absent. Texts become printable ASCII ('?' for the rest), so that
// every database takes them, and are cut.
void append_payload(const CallRow& row, std::string& bytes);

// Errc::protocol: not what append_payload writes, or without an id.
[[nodiscard]] Result<CallRow> parse_payload(std::string_view bytes);

// A JSON object in one line, without its line break: every column that is there, and nothing else.
[[nodiscard]] std::string to_json(const CallRow& row);

// The columns' names, and a row's values, as RFC 4180 wants them; without the line break.
[[nodiscard]] std::string csv_head();
[[nodiscard]] std::string to_csv(const CallRow& row);

}  // namespace hg::ledger
