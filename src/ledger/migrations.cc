#include "ledger/migrations.h"

#include "base/assert.h"

namespace hg::ledger {

namespace {

// Columns of a key are never NULL: two NULLs are never the same key. There '' means that nobody
// said.
constexpr std::string_view kCalls = R"(CREATE TABLE calls (
  seq {SEQUENCE},
  id TEXT NOT NULL UNIQUE,
  upstream TEXT, provider TEXT, pool TEXT, harness TEXT, run TEXT, task TEXT, attempt BIGINT,
  conversation TEXT, started_at_us BIGINT, model TEXT, dialect TEXT, stream BIGINT,
  prompt_chars BIGINT, estimate_tokens BIGINT, charge_tokens BIGINT, cached_guess_tokens BIGINT,
  hold_axis TEXT, hold_place BIGINT, asks BIGINT, sends BIGINT, overloads BIGINT, outcome TEXT,
  settled_by TEXT, status BIGINT, own_answer BIGINT, degraded BIGINT, provider_request_id TEXT,
  uncached_tokens BIGINT, cached_tokens BIGINT, cache_write_tokens BIGINT, output_tokens BIGINT,
  reasoning_tokens BIGINT, unread_encoding BIGINT, cost_micro_usd BIGINT, cost_source TEXT,
  reading_us BIGINT, held_us BIGINT, backed_off_us BIGINT, provider_us BIGINT, own_us BIGINT,
  total_us BIGINT, first_byte_us BIGINT, bytes_in BIGINT, bytes_out BIGINT))";

constexpr std::string_view kUsageHours = R"(CREATE TABLE usage_hours (
  hour_us BIGINT NOT NULL, run TEXT NOT NULL, task TEXT NOT NULL, pool TEXT NOT NULL,
  harness TEXT NOT NULL, model TEXT NOT NULL,
  calls BIGINT NOT NULL, failed BIGINT NOT NULL, refused_by_us BIGINT NOT NULL,
  overloads BIGINT NOT NULL, without_usage BIGINT NOT NULL, without_cost BIGINT NOT NULL,
  uncached_tokens BIGINT NOT NULL, cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL, cost_micro_usd BIGINT NOT NULL,
  held_us BIGINT NOT NULL, backed_off_us BIGINT NOT NULL, total_us BIGINT NOT NULL,
  PRIMARY KEY (hour_us, run, task, pool, harness, model)))";

constexpr std::string_view kEdits = R"(CREATE TABLE edits (
  seq {SEQUENCE}, at_us BIGINT NOT NULL, actor TEXT NOT NULL, reason TEXT NOT NULL,
  scope TEXT NOT NULL, name TEXT NOT NULL, old_value TEXT, new_value TEXT,
  version BIGINT NOT NULL, UNIQUE (scope, name, version)))";

std::vector<std::string> first_version(Place::Kind kind) {
  std::vector<std::string> statements = {
      std::string(kCalls),
      "CREATE INDEX calls_started ON calls (started_at_us)",
      "CREATE INDEX calls_run ON calls (run, seq)",
      std::string(kUsageHours),
      "CREATE TABLE runs (id TEXT PRIMARY KEY, first_call_us BIGINT NOT NULL, "
      "last_call_us BIGINT NOT NULL)",
      "CREATE TABLE tasks (run TEXT NOT NULL, id TEXT NOT NULL, harness TEXT, "
      "first_call_us BIGINT NOT NULL, last_call_us BIGINT NOT NULL, attempts BIGINT, "
      "ended_at_us BIGINT, exit_status BIGINT, PRIMARY KEY (run, id))",
      "CREATE TABLE ticks (seq {SEQUENCE}, at_us BIGINT NOT NULL, pool TEXT, run TEXT, "
      "mode TEXT NOT NULL, binding TEXT, ceiling BIGINT, decision TEXT NOT NULL)",
      "CREATE INDEX ticks_at ON ticks (at_us)",
      "CREATE TABLE pool_seeds (seq {SEQUENCE}, pool TEXT NOT NULL, name TEXT NOT NULL, "
      "value BIGINT NOT NULL, source TEXT NOT NULL, measured_at_us BIGINT NOT NULL)",
      "CREATE INDEX pool_seeds_pool ON pool_seeds (pool, name, seq)",
      "CREATE TABLE observations (seq {SEQUENCE}, at_us BIGINT NOT NULL, pool TEXT NOT NULL, "
      "phase TEXT NOT NULL, data TEXT NOT NULL)",
      "CREATE INDEX observations_pool ON observations (pool, seq)",
      "CREATE TABLE settings (scope TEXT NOT NULL, name TEXT NOT NULL, value TEXT, "
      "version BIGINT NOT NULL, PRIMARY KEY (scope, name))",
      std::string(kEdits),
      "CREATE TABLE losses (seq {SEQUENCE}, at_us BIGINT NOT NULL, owner TEXT NOT NULL, "
      "reason TEXT NOT NULL, lost_rows BIGINT NOT NULL)",
  };
  // What was done stays written.
  if (kind == Place::Kind::sqlite) {
    for (const char* change : {"UPDATE", "DELETE"}) {
      statements.push_back(std::string("CREATE TRIGGER edits_no_") + change + " BEFORE " + change +
                           " ON edits BEGIN SELECT RAISE(ABORT, 'edits are append-only'); END");
    }
  } else {
    statements.emplace_back(
        "CREATE FUNCTION headgate_keep() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION ''edits are append-only''; END'");
    statements.emplace_back(
        "CREATE TRIGGER edits_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON edits "
        "FOR EACH STATEMENT EXECUTE FUNCTION headgate_keep()");
  }
  return statements;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::int64_t latest_version() { return 1; }

std::vector<std::string> migration_from(std::int64_t version, Place::Kind kind) {
  HG_ASSERT(version == 0);
  std::vector<std::string> statements = first_version(kind);
  const std::string_view sequence = kind == Place::Kind::sqlite
                                        ? "INTEGER PRIMARY KEY"
                                        : "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
  for (std::string& statement : statements) replace_all(statement, "{SEQUENCE}", sequence);
  return statements;
}

}  // namespace hg::ledger
