// What the ledger costs: a row to the proxy, a row to the database, a question over a million rows.
#include "ledger/ledger.h"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ledger/prices.h"
#include "ledger/queries.h"
#include "ledger/test_postgres.h"

namespace hg::ledger {
namespace {

// As full as a row of a streamed call behind a gate is.
CallRow row_of(std::int64_t number) {
  CallRow row;
  row.id = "1a2b3c4d-18c5f0e9a1b.";
  row.id += std::to_string(number);
  row.upstream = "anthropic";
  row.provider = "anthropic";
  row.pool = "anthropic-claude-opus-4";
  row.harness = "claude-code";
  row.run = "run-" + std::to_string(number / 100'000);
  row.task = "task-" + std::to_string(number / 50 % 500);
  row.conversation = "c0ffee00c0ffee00";
  row.started_at_us = 1'782'864'000'000'000 + number * 20'000;
  row.model = "claude-opus-4-5-20251101";
  row.dialect = "anthropic_messages";
  row.stream = 1;
  row.prompt_chars = 300'000;
  row.estimate_tokens = 61'000;
  row.charge_tokens = 4'000;
  row.cached_guess_tokens = 57'000;
  row.hold_axis = "tok";
  row.hold_place = 3;
  row.asks = 2;
  row.sends = 1;
  row.overloads = 0;
  row.outcome = "ok";
  row.settled_by = "usage";
  row.status = 200;
  row.own_answer = 0;
  row.degraded = 0;
  row.provider_request_id = "req_011CVabcdefghijkl";
  row.uncached_tokens = 3'900;
  row.cached_tokens = 57'100;
  row.cache_write_tokens = 3'800;
  row.output_tokens = 412;
  row.reading_us = 900;
  row.held_us = 1'200'000;
  row.backed_off_us = 0;
  row.provider_us = 8'300'000;
  row.own_us = 700;
  row.total_us = 9'501'600;
  row.first_byte_us = 2'100'000;
  row.bytes_in = 312'000;
  row.bytes_out = 18'000;
  return row;
}

class Folder {
 public:
  Folder() {
    std::string made = (std::filesystem::temp_directory_path() / "hg-bench-XXXXXX").string();
    if (::mkdtemp(made.data()) != nullptr) path = made;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

// Price, append, wake: what the event loop does for a call that ends.
void record(benchmark::State& state) {
  const Folder folder;
  const OsClock clock;
  LedgerOptions options;
  options.place = Place{Place::Kind::sqlite, folder.path + "/ledger.db"};
  options.spool_root = folder.path + "/spool";
  auto ledger = Ledger::open(options, clock);
  if (!ledger) return state.SkipWithError(ledger.error().detail.c_str());
  CallRow row = row_of(0);
  std::int64_t number = 0;
  for (auto _ : state) {
    row.id.resize(21);
    row.id += std::to_string(++number);
    Prices::built_in().put_cost(row, std::nullopt);
    (*ledger)->record(row);
  }
  state.SetItemsProcessed(state.iterations());
  if ((*ledger)->health().lost > 0) state.SkipWithError("rows were lost");
}
BENCHMARK(record);

constexpr std::int64_t kBatch = 1000;

void insert(benchmark::State& state, const Place& place) {
  auto database = Database::open(place, Database::Access::create, WallTime());
  if (!database) return state.SkipWithError(database.error().detail.c_str());
  std::int64_t number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<CallRow> rows;
    for (std::int64_t i = 0; i < kBatch; ++i) rows.push_back(row_of(number++));
    state.ResumeTiming();
    const auto added = (*database)->insert_calls(rows);
    if (added != std::size_t{kBatch}) return state.SkipWithError("rows are missing");
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void sqlite_rows_per_s(benchmark::State& state) {
  const Folder folder;
  insert(state, Place{Place::Kind::sqlite, folder.path + "/ledger.db"});
}
BENCHMARK(sqlite_rows_per_s)->Iterations(100)->UseRealTime();

void postgresql_rows_per_s(benchmark::State& state) {
  std::string why;
  TestPostgres* server = TestPostgres::instance(why, /*durable=*/true);
  if (server == nullptr) return state.SkipWithError(why.c_str());
  insert(state, Place{Place::Kind::postgresql, server->new_database()});
}
BENCHMARK(postgresql_rows_per_s)->Iterations(100)->UseRealTime();

// A ledger with a million calls, made once.
Database* million(const std::string& folder) {
  auto made = Database::open(Place{Place::Kind::sqlite, folder + "/million.db"},
                             Database::Access::create, WallTime());
  if (!made) return nullptr;
  for (std::int64_t number = 0; number < 1'000'000;) {
    std::vector<CallRow> rows;
    for (int i = 0; i < 10'000; ++i) rows.push_back(row_of(number++));
    if (!(*made)->insert_calls(rows)) return nullptr;
  }
  static std::unique_ptr<Database> kept;
  kept = std::move(*made);
  return kept.get();
}

void usage_million(benchmark::State& state, UsageBy by) {
  static const Folder folder;
  static Database* database = million(folder.path);
  if (database == nullptr) return state.SkipWithError("cannot make the ledger");
  for (auto _ : state) {
    const auto usage = find_usage(*database, by, {});
    std::int64_t calls = 0;
    for (const Usage& line : *usage) calls += line.calls;
    if (calls != 1'000'000) return state.SkipWithError("calls are missing");
  }
}
BENCHMARK_CAPTURE(usage_million, task, UsageBy::task)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(usage_million, model, UsageBy::model)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hg::ledger
