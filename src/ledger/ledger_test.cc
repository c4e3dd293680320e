#include "ledger/ledger.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <soci/soci.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>

#include "base/rng.h"
#include "ledger/queries.h"
#include "ledger/records.h"
#include "ledger/test_ledger.h"

namespace hg::ledger {
namespace {

class LedgerTest : public EachDatabase {
 protected:
  [[nodiscard]] std::set<std::string> stored_ids() {
    std::set<std::string> ids;
    const std::vector<StoredCall> calls = stored();
    for (const StoredCall& call : calls) ids.insert(call.row.id);
    EXPECT_EQ(ids.size(), calls.size()) << "each once";
    return ids;
  }
  // What the hours say must be what the rows say.
  void expect_usage_counts(std::size_t calls) {
    const auto usage = find_usage(*open(), UsageBy::all, {});
    ASSERT_TRUE(usage.has_value()) << usage.error().detail;
    EXPECT_EQ(usage->at(0).calls, static_cast<std::int64_t>(calls));
  }
  // Opens the ledger as the next start does, and waits until it has taken over what was left.
  void start_once() {
    const std::unique_ptr<Ledger> ledger = open_ledger(options());
    ledger->close(60s);
    EXPECT_EQ(ledger->health().error, "");
  }
  [[nodiscard]] std::int64_t losses_told() {
    std::int64_t rows = 0;
    const auto losses = find_losses(*open(), std::nullopt);
    EXPECT_TRUE(losses.has_value());
    for (const Loss& loss : *losses) rows += loss.rows;
    return rows;
  }
};

TEST_P(LedgerTest, EveryRowIsStoredAndTheSpoolIsGone) {
  const std::unique_ptr<Ledger> ledger = open_ledger(options());
  for (int i = 0; i < 5000; ++i) ledger->record(test_row("call." + std::to_string(i), i));
  ledger->close(60s);
  const Health health = ledger->health();
  EXPECT_EQ(health.recorded, 5000U);
  EXPECT_EQ(health.stored, 5000U);
  EXPECT_EQ(health.pending, 0U);
  EXPECT_EQ(health.lost, 0U);
  EXPECT_EQ(stored_ids().size(), 5000U);
  expect_usage_counts(5000);
  EXPECT_TRUE(SpoolFolder::abandoned(options().spool_root).empty());
}

TEST_P(LedgerTest, TwoWritersShareOneDatabase) {
  const std::unique_ptr<Ledger> one = open_ledger(options());
  const std::unique_ptr<Ledger> two = open_ledger(options());
  for (int i = 0; i < 3000; ++i) {
    one->record(test_row("one." + std::to_string(i), i));
    two->record(test_row("two." + std::to_string(i), i));
  }
  one->close(60s);
  two->close(60s);
  EXPECT_EQ(one->health().stored, 3000U);
  EXPECT_EQ(two->health().stored, 3000U);
  EXPECT_EQ(stored_ids().size(), 6000U);
  expect_usage_counts(6000);
}

// Records as fast as it can, telling of each row once record() is back, until it is killed.
[[noreturn]] void record_until_killed(const LedgerOptions& options, int round, int told) {
  const OsClock clock;
  auto ledger = Ledger::open(options, clock);
  if (!ledger) ::_exit(3);
  for (std::int64_t i = 0;; ++i) {
    (*ledger)->record(test_row(std::to_string(round) + "." + std::to_string(i), i));
    if (::write(told, &i, sizeof(i)) != static_cast<ssize_t>(sizeof(i))) ::_exit(4);
  }
}

TEST_P(LedgerTest, NothingIsLostByAProcessThatIsKilled) {
  const std::uint64_t seed = os_random_seed();
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  LedgerOptions with = options();
  with.spool.segment_bytes = 64 * 1024;
  with.linger = Micros(1000);
  std::map<int, std::int64_t> told;  // The last row of each round that record() was back from.
  for (int round = 0; round < 8; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      record_until_killed(with, round, ends[1]);
    }
    ::close(ends[1]);
    const std::int64_t enough = rng.integer(1, 6000);
    std::int64_t last = -1;
    std::int64_t number = 0;
    while (::read(ends[0], &number, sizeof(number)) == static_cast<ssize_t>(sizeof(number))) {
      last = number;
      if (number == enough) ::kill(child, SIGKILL);
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "seed " << seed;
    told[round] = last;
  }
  start_once();
  const std::set<std::string> ids = stored_ids();
  std::size_t expected = 0;
  for (const auto& [round, last] : told) {
    for (std::int64_t i = 0; i <= last; ++i) {
      EXPECT_TRUE(ids.contains(std::to_string(round) + "." + std::to_string(i)))
          << round << "." << i << ", seed " << seed;
    }
    expected += static_cast<std::size_t>(last) + 1;
  }
  // One row of each round may have been written and not yet told of.
  EXPECT_GE(ids.size(), expected);
  EXPECT_LE(ids.size(), expected + told.size());
  expect_usage_counts(ids.size());
}

// Puts the file size limit of this process back where it was.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_P(LedgerTest, WhatTheDiskRefusesIsKeptInMemoryAndTheRestIsCounted) {
  LedgerOptions with = options();
  with.memory_rows = 100;
  const std::unique_ptr<Ledger> ledger = open_ledger(with);
  int recorded = 0;
  {
    // Neither the spool nor an SQLite file can grow; PostgreSQL is away.
    const FileSizeLimit limit(16 * 1024);
    if (server_ != nullptr) server_->freeze();
    while (ledger->health().lost < 50 && recorded < 1'000'000) {
      ledger->record(test_row("call." + std::to_string(recorded), recorded));
      ++recorded;
    }
  }
  if (server_ != nullptr) server_->thaw();
  ASSERT_LT(recorded, 1'000'000);
  ledger->record(test_row("after", 1));
  ++recorded;
  ledger->close(60s);
  const Health health = ledger->health();
  EXPECT_EQ(health.error, "");
  EXPECT_EQ(health.pending, 0U);
  EXPECT_EQ(health.stored + health.lost, static_cast<std::uint64_t>(recorded));
  EXPECT_GE(health.lost, 50U);
  const std::set<std::string> ids = stored_ids();
  EXPECT_EQ(ids.size(), health.stored);
  EXPECT_TRUE(ids.contains("after"));
  EXPECT_EQ(losses_told(), static_cast<std::int64_t>(health.lost)) << "told in the database";
  expect_usage_counts(ids.size());
}

// On a disk that is really full: a small tmpfs of a child process' own. Exit status 0: all is well;
// 77: this machine lets nobody mount one.
int fill_a_small_disk(const LedgerOptions& on_disk, const std::string& disk) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=768k") != 0) return 77;
  const OsClock clock;
  auto ledger = Ledger::open(on_disk, clock);
  if (!ledger) return 2;
  int recorded = 0;
  while ((*ledger)->health().lost < 10 && recorded < 1'000'000) {
    (*ledger)->record(test_row("call." + std::to_string(recorded), recorded));
    ++recorded;
  }
  if ((*ledger)->health().lost < 10) return 3;
  // Room again.
  if (::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m") != 0) return 4;
  (*ledger)->close(60s);
  const Health health = (*ledger)->health();
  if (!health.error.empty() || health.pending != 0) return 5;
  if (health.stored + health.lost != static_cast<std::uint64_t>(recorded)) return 6;
  auto database = Database::open(on_disk.place, Database::Access::existing, clock.wall());
  if (!database) return 7;
  const auto usage = find_usage(**database, UsageBy::all, {});
  if (!usage || usage->at(0).calls != static_cast<std::int64_t>(health.stored)) return 8;
  const auto losses = find_losses(**database, std::nullopt);
  if (!losses || losses->size() != 1) return 9;
  return losses->at(0).rows == static_cast<std::int64_t>(health.lost) ? 0 : 10;
}

class SqliteLedgerTest : public LedgerTest {};

TEST_P(SqliteLedgerTest, AFullDiskCostsWhatIsCountedAndNoMore) {
  const std::string disk = folder_.path() + "/disk";
  ASSERT_TRUE(std::filesystem::create_directory(disk));
  LedgerOptions with = options();
  with.memory_rows = 100;
  with.spool.segment_bytes = 32 * 1024;
  with.spool_root = disk + "/spool";
  with.place.target = disk + "/ledger.db";
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(fill_a_small_disk(with, disk));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class PostgresqlLedgerTest : public LedgerTest {};

TEST_P(PostgresqlLedgerTest, AnOutageDelaysRowsAndLosesNone) {
  const std::unique_ptr<Ledger> ledger = open_ledger(options());
  std::size_t recorded = 0;
  const auto record_one = [&] {
    ledger->record(test_row("call." + std::to_string(recorded), static_cast<int>(recorded)));
    ++recorded;
  };
  while (recorded < 100) record_one();
  server_->stop();
  while (ledger->health().connected && recorded < 5'000'000) record_one();
  EXPECT_FALSE(ledger->health().connected);
  EXPECT_NE(ledger->health().error, "");
  // In `make soak` for a minute, with a call every few milliseconds.
  const char* seconds = std::getenv("HG_OUTAGE_SECONDS");
  const Micros outage = 1s * (seconds == nullptr ? 0 : std::atoi(seconds));
  for (const Instant began = clock_.now(); clock_.now() - began < outage; record_one()) {
    ::poll(nullptr, 0, 5);
  }
  for (int i = 0; i < 1000; ++i) record_one();
  EXPECT_GE(ledger->health().pending, 1000U);
  server_->start();
  ledger->close(120s);
  EXPECT_EQ(ledger->health().stored, recorded);
  EXPECT_EQ(ledger->health().lost, 0U);
  expect_usage_counts(recorded);
}

TEST_P(PostgresqlLedgerTest, AHangingServerHoldsUpNeitherCallsNorTheEnd) {
  {
    const std::unique_ptr<Ledger> ledger = open_ledger(options());
    server_->freeze();
    for (int i = 0; i < 1000; ++i) ledger->record(test_row("call." + std::to_string(i), i));
    const Instant before = clock_.now();
    ledger->close(200ms);
    EXPECT_LT(clock_.now() - before, Micros(10s));
    EXPECT_EQ(ledger->health().pending, 1000U);
    EXPECT_EQ(spooled_rows(options().spool_root), 1000U);
  }
  server_->thaw();
  start_once();
  EXPECT_EQ(stored_ids().size(), 1000U);
  EXPECT_EQ(spooled_rows(options().spool_root), 0U);
}

TEST_P(LedgerTest, WithoutADatabaseItStartsAndKeeps) {
  const std::string there = place_.target;
  place_.target = GetParam() == Place::Kind::sqlite
                      ? folder_.path() + "/no folder/ledger.db"
                      : "postgresql://postgres@/none?host=" + folder_.path();
  {
    const std::unique_ptr<Ledger> ledger = open_ledger(options());
    ledger->record(test_row("a"));
    ledger->close(0s);
    EXPECT_EQ(ledger->health().pending, 1U);
    EXPECT_NE(ledger->health().error, "");
  }
  place_.target = there;
  start_once();
  EXPECT_EQ(stored_ids(), std::set<std::string>{"a"});
}

TEST_P(LedgerTest, ALedgerOfALaterReleaseIsRefusedAtTheStart) {
  open()->session() << "INSERT INTO headgate_schema VALUES (99, 0)";
  const auto opened = Ledger::open(options(), clock_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::conflict);
}

INSTANTIATE_TEST_SUITE_P(On, LedgerTest,
                         ::testing::Values(Place::Kind::sqlite, Place::Kind::postgresql),
                         kind_name);

INSTANTIATE_TEST_SUITE_P(On, SqliteLedgerTest, ::testing::Values(Place::Kind::sqlite), kind_name);
INSTANTIATE_TEST_SUITE_P(On, PostgresqlLedgerTest, ::testing::Values(Place::Kind::postgresql),
                         kind_name);

TEST(LedgerPlaceTest, AFolderThatCannotBeMadeIsAnError) {
  const OsClock clock;
  LedgerOptions options;
  options.place = Place{Place::Kind::sqlite, "/proc/none/ledger.db"};
  options.spool_root = default_spool_root(options.place, "");
  const auto opened = Ledger::open(options, clock);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace hg::ledger
