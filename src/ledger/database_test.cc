#include "ledger/database.h"

#include <gtest/gtest.h>

#include <soci/soci.h>

#include <map>
#include <set>
#include <thread>

#include "ledger/queries.h"
#include "ledger/records.h"
#include "ledger/test_ledger.h"

namespace hg::ledger {
namespace {

// A row in which every column has a value of its own.
CallRow full_row() {
  CallRow row;
  std::int64_t number = 0;
  for (const CallColumn& column : call_columns()) {
    ++number;
    if (const auto* text = std::get_if<std::string CallRow::*>(&column.field)) {
      row.*(*text) = "value \"" + std::to_string(number) + "\\, {NULL} '";
    } else {
      row.*std::get<Number CallRow::*>(column.field) = number << 40;
    }
  }
  return row;
}

using DatabaseTest = EachDatabase;

TEST_P(DatabaseTest, EveryColumnComesBackAsItWas) {
  const std::unique_ptr<Database> database = open();
  const CallRow full = full_row();
  CallRow bare;
  bare.id = "bare";
  CallRow zeros;
  zeros.id = "zeros";
  for (const CallColumn& column : call_columns()) {
    if (!column.is_text()) zeros.*std::get<Number CallRow::*>(column.field) = 0;
  }
  ASSERT_EQ(database->insert_calls(std::vector{full, bare, zeros}), 3U);
  const std::vector<StoredCall> calls = stored();
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].row, full);
  EXPECT_EQ(calls[1].row, bare) << "absent is NULL";
  EXPECT_EQ(calls[2].row, zeros) << "zero is zero";
}

TEST_P(DatabaseTest, ARowCountsOnceByItsId) {
  const std::unique_ptr<Database> database = open();
  EXPECT_EQ(database->insert_calls(std::vector{test_row("a", 1), test_row("b", 2)}), 2U);
  EXPECT_EQ(database->insert_calls(std::vector{test_row("b", 2), test_row("c", 3)}), 1U);
  EXPECT_EQ(
      database->insert_calls(std::vector{test_row("c", 3), test_row("d", 4), test_row("d", 4)}),
      1U);
  EXPECT_EQ(stored().size(), 4U);
  const auto usage = find_usage(*database, UsageBy::all, {});
  ASSERT_TRUE(usage.has_value());
  EXPECT_EQ(usage->at(0).calls, 4);
  EXPECT_EQ(usage->at(0).uncached_tokens, 101 + 102 + 103 + 104);
}

TEST_P(DatabaseTest, UsageIsSummedByEachKeyAndFilter) {
  const std::unique_ptr<Database> database = open();
  std::vector<CallRow> rows;
  for (int i = 0; i < 6; ++i) {
    CallRow row = test_row("call." + std::to_string(i), i);
    row.cost_micro_usd = 1000;
    rows.push_back(row);
  }
  rows[1].model = "claude-haiku-4-5";
  rows[1].cost_micro_usd.reset();
  rows[2].run = "r2";
  rows[3].uncached_tokens.reset();
  rows[3].cached_tokens.reset();
  rows[3].output_tokens.reset();
  rows[3].status.reset();
  rows[4].status = 429;
  rows[4].own_answer = 1;
  rows[5].started_at_us = kTestStart + std::int64_t{24} * 3'600'000'000;
  ASSERT_EQ(database->insert_calls(rows), 6U);

  const auto all = find_usage(*database, UsageBy::all, {});
  ASSERT_TRUE(all.has_value()) << all.error().detail;
  EXPECT_EQ(all->at(0).calls, 6);
  EXPECT_EQ(all->at(0).failed, 2);
  EXPECT_EQ(all->at(0).refused_by_us, 1);
  EXPECT_EQ(all->at(0).without_usage, 1);
  EXPECT_EQ(all->at(0).without_cost, 1);
  EXPECT_EQ(all->at(0).cost_micro_usd, 5000);
  EXPECT_EQ(all->at(0).output_tokens, 50);

  const auto by_day = find_usage(*database, UsageBy::day, {});
  ASSERT_EQ(by_day->size(), 2U);
  EXPECT_EQ(by_day->at(0).day, "2026-01-01");
  EXPECT_EQ(by_day->at(0).calls, 5);
  EXPECT_EQ(by_day->at(1).day, "2026-01-02");

  const auto by_run = find_usage(*database, UsageBy::run, {});
  ASSERT_EQ(by_run->size(), 2U);
  EXPECT_EQ(by_run->at(0).run, "r1") << "the most expensive first";
  const auto by_model = find_usage(*database, UsageBy::model, Filter{.run = "r1"});
  ASSERT_EQ(by_model->size(), 2U);
  EXPECT_EQ(by_model->at(0).model, "claude-opus-4-5");
  EXPECT_EQ(find_usage(*database, UsageBy::task, {})->size(), 4U);
  EXPECT_EQ(find_usage(*database, UsageBy::harness, Filter{.harness = "codex"})->size(), 0U);
  const WallTime second_day{Micros(kTestStart + std::int64_t{24} * 3'600'000'000)};
  EXPECT_EQ(find_usage(*database, UsageBy::all, Filter{.since = second_day})->at(0).calls, 1);
  EXPECT_EQ(find_usage(*database, UsageBy::all, Filter{.until = second_day})->at(0).calls, 5);
}

TEST_P(DatabaseTest, CallsAreFoundByFilterAndPage) {
  const std::unique_ptr<Database> database = open();
  std::vector<CallRow> rows;
  for (int i = 0; i < 10; ++i) rows.push_back(test_row("call." + std::to_string(i), i));
  rows[7].outcome = "client_gone";
  ASSERT_EQ(database->insert_calls(rows), 10U);
  auto page = find_calls(*database, CallsWanted{.most = 4});
  ASSERT_EQ(page->size(), 4U);
  EXPECT_EQ(page->back().row.id, "call.3");
  page = find_calls(*database, CallsWanted{.after_seq = page->back().seq, .most = 4});
  EXPECT_EQ(page->front().row.id, "call.4");
  const auto newest = find_calls(*database,
                                 CallsWanted{.order = CallsWanted::Order::newest, .most = 1});
  EXPECT_EQ(newest->at(0).row.id, "call.9");
  const auto gone = find_calls(*database, CallsWanted{.outcome = "client_gone"});
  ASSERT_EQ(gone->size(), 1U);
  EXPECT_EQ(gone->at(0).row.id, "call.7");
  EXPECT_EQ(find_calls(*database, CallsWanted{.filter = {.task = "t1"}})->size(), 3U);
}

TEST_P(DatabaseTest, ManyMayOpenItAtOnceAndTheSchemaIsMadeOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> faults(6);
  for (std::string& fault : faults) {
    threads.emplace_back([this, &fault] {
      const auto opened = Database::open(place_, Database::Access::create, clock_.wall());
      if (!opened) fault = opened.error().detail;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
  const std::unique_ptr<Database> database = open();
  long long steps = 0;
  database->session() << "SELECT count(*) FROM headgate_schema", soci::into(steps);
  EXPECT_EQ(steps, Database::schema_version());
}

TEST_P(DatabaseTest, AHigherVersionIsRefusedByItsNumber) {
  open()->session() << "INSERT INTO headgate_schema VALUES (99, 0)";
  const auto opened = Database::open(place_, Database::Access::existing, clock_.wall());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::conflict);
  EXPECT_NE(opened.error().detail.find("schema 99"), std::string::npos) << opened.error().detail;
}

TEST_P(DatabaseTest, SettingsChangeWithTheirAuditOrNotAtAll) {
  const std::unique_ptr<Database> database = open();
  Edit edit;
  edit.at = WallTime{Micros(kTestStart)};
  edit.actor = "ada";
  edit.reason = "the provider raised it";
  edit.scope = "pool/main";
  edit.name = "r_tok";
  edit.new_value = "4000";
  const auto first = edit_setting(*database, edit, 0);
  ASSERT_TRUE(first.has_value()) << first.error().detail;
  EXPECT_EQ(first->version, 1);
  EXPECT_EQ(first->old_value, "");
  edit.new_value = "5000";
  const auto stale = edit_setting(*database, edit, 0);
  ASSERT_FALSE(stale.has_value());
  EXPECT_EQ(stale.error().code, Errc::conflict);
  const auto second = edit_setting(*database, edit, 1);
  ASSERT_TRUE(second.has_value()) << second.error().detail;
  EXPECT_EQ(second->old_value, "4000");
  const auto settings = settings_of(*database, "pool/main");
  ASSERT_EQ(settings->size(), 1U);
  EXPECT_EQ(settings->at(0).value, "5000");
  EXPECT_EQ(settings->at(0).version, 2);
  const auto edits = latest_edits(*database, "", 10);
  ASSERT_EQ(edits->size(), 2U);
  EXPECT_EQ(edits->at(0).new_value, "5000");
  EXPECT_EQ(edits->at(1).reason, "the provider raised it");
  // What was done stays written.
  EXPECT_THROW(database->session() << "UPDATE edits SET actor = 'eve'", soci::soci_error);
  EXPECT_THROW(database->session() << "DELETE FROM edits", soci::soci_error);
  EXPECT_EQ(latest_edits(*database, "pool/main", 10)->at(1).actor, "ada");
}

TEST_P(DatabaseTest, TicksSeedsAndObservationsComeBack) {
  const std::unique_ptr<Database> database = open();
  const WallTime at{Micros(kTestStart)};
  ASSERT_TRUE(add_tick(*database, Tick{at, "main", "", "observe", "tok", 40, R"({"a":[1,2]})"}));
  ASSERT_TRUE(add_tick(*database, Tick{at, "main", "r1", "live", "", {}, "{}"}));
  const auto ticks = latest_ticks(*database, 10);
  ASSERT_EQ(ticks->size(), 2U);
  EXPECT_EQ(ticks->at(0).ceiling, Number());
  EXPECT_EQ(ticks->at(1).ceiling, Number(40));
  EXPECT_EQ(ticks->at(1).decision, R"({"a":[1,2]})");
  ASSERT_TRUE(add_seeds(*database, {{"main", "r_tok", 4000, "discovery", at},
                                    {"main", "c_burst", 100, "discovery", at},
                                    {"other", "r_tok", 1, "operator", at}}));
  ASSERT_TRUE(add_seeds(*database, {{"main", "r_tok", 4500, "operator", at}}));
  const auto seeds = latest_seeds(*database, "main");
  ASSERT_EQ(seeds->size(), 2U);
  EXPECT_EQ(seeds->at(1).name, "r_tok");
  EXPECT_EQ(seeds->at(1).value, 4500);
  ASSERT_TRUE(add_observation(*database, {at, "main", "burst", R"({"edge": 1})"}));
  EXPECT_EQ(observations_of(*database, "main")->at(0).data, R"({"edge": 1})");
}

INSTANTIATE_TEST_SUITE_P(On, DatabaseTest,
                         ::testing::Values(Place::Kind::sqlite, Place::Kind::postgresql),
                         kind_name);

TEST(PlaceTest, AnUrlOrAPathAndNeverAPasswordInSight) {
  EXPECT_EQ(parse_place("/a/b c.db")->target, "/a/b c.db");
  EXPECT_EQ(parse_place("sqlite:///a/b.db")->target, "/a/b.db");
  const auto url = parse_place("postgresql://ada:secret@db.example:5432/ledger?password=hidden");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->kind, Place::Kind::postgresql);
  EXPECT_EQ(url->shown(), "postgresql://ada@db.example:5432/ledger");
  for (const char* text : {"", "mysql://x/y", "a\"b.db"}) {
    EXPECT_EQ(parse_place(text).error().code, Errc::invalid) << text;
  }
}

TEST(PlaceTest, AFileThatIsNotThereIsNotMadeByReaders) {
  const TestFolder folder;
  const Place place{Place::Kind::sqlite, folder.path() + "/none.db"};
  const auto opened = Database::open(place, Database::Access::existing, WallTime());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::not_found);
  EXPECT_FALSE(std::filesystem::exists(place.target));
}

TEST(PlaceTest, AServerThatIsNotThereIsAnErrorWithoutThePassword) {
  const TestFolder folder;
  const Place place{Place::Kind::postgresql,
                    "postgresql://ada:secret@/ledger?host=" + folder.path()};
  const auto opened = Database::open(place, Database::Access::create, WallTime());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_EQ(opened.error().detail.find("secret"), std::string::npos) << opened.error().detail;
}

}  // namespace
}  // namespace hg::ledger
