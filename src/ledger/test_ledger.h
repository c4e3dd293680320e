// test_ledger.h: what the tests of this module share: a place of each kind, rows, counts.
//
// Test code: one thread.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "ledger/database.h"
#include "ledger/ledger.h"
#include "ledger/queries.h"
#include "ledger/test_postgres.h"

namespace hg::ledger {

// A folder that goes with its object.
class TestFolder {
 public:
  TestFolder() {
    std::string made = (std::filesystem::temp_directory_path() / "hg-ledger-XXXXXX").string();
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    path_ = made;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr std::int64_t kTestStart = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z.

inline CallRow test_row(std::string id, std::int64_t number = 0) {
  CallRow row;
  row.id = std::move(id);
  row.upstream = "main";
  row.provider = "anthropic";
  row.pool = "main";
  row.harness = "claude-code";
  row.run = "r1";
  row.task = "t" + std::to_string(number % 3);
  row.started_at_us = kTestStart + number * 1'000'000;
  row.model = "claude-opus-4-5";
  row.dialect = "anthropic_messages";
  row.outcome = "ok";
  row.status = 200;
  row.uncached_tokens = 100 + number;
  row.cached_tokens = 0;
  row.output_tokens = 10;
  row.total_us = 1'000'000;
  return row;
}

// The same suite on each kind of database.
class EachDatabase : public ::testing::TestWithParam<Place::Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Place::Kind::sqlite) {
      place_ = Place{Place::Kind::sqlite, folder_.path() + "/led ger.db"};
      return;
    }
    std::string why;
    server_ = TestPostgres::instance(why);
    if (server_ == nullptr) GTEST_SKIP() << why;
    place_ = Place{Place::Kind::postgresql, server_->new_database()};
  }

  [[nodiscard]] std::unique_ptr<Database> open() {
    auto opened = Database::open(place_, Database::Access::create, clock_.wall());
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().detail);
    return opened ? std::move(*opened) : nullptr;
  }
  [[nodiscard]] LedgerOptions options() const {
    LedgerOptions options;
    options.place = place_;
    options.spool_root = folder_.path() + "/spool";
    return options;
  }
  [[nodiscard]] std::unique_ptr<Ledger> open_ledger(const LedgerOptions& options) {
    auto opened = Ledger::open(options, clock_);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().detail);
    return opened ? std::move(*opened) : nullptr;
  }
  [[nodiscard]] std::vector<StoredCall> stored(std::int64_t most = 1'000'000) {
    auto found = find_calls(*open(), CallsWanted{.most = most});
    EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().detail);
    return found ? std::move(*found) : std::vector<StoredCall>();
  }

  TestFolder folder_;
  OsClock clock_;
  Place place_;
  TestPostgres* server_ = nullptr;
};

inline std::string kind_name(const ::testing::TestParamInfo<Place::Kind>& info) {
  return info.param == Place::Kind::sqlite ? "SQLite" : "PostgreSQL";
}

}  // namespace hg::ledger
