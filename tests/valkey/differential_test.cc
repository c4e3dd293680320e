// Two implementations, one truth: long random histories are played on the pool in memory and by
// gate.lua in real stores, and every reply, every wake and the whole view must be the same.
//
// HG_DIFF_OPS: operations for each store (100,000). HG_DIFF_SEED: of the first history (1). What
// differs is shrunk to few operations and printed as a file for tests/vectors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "store/test_server.h"
#include "tests/valkey/connection.h"
#include "tests/valkey/duel.h"
#include "tests/valkey/history.h"

namespace hg::valkey {
namespace {

using gate::script::Text;
using store::testing::TestServer;

std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// The histories are idle ones if these stay small.
struct Tally {
  std::int64_t operations = 0;
  std::int64_t admitted = 0;
  std::int64_t denied = 0;
  std::int64_t wakes = 0;
  std::size_t most_waiters = 0;
  std::uint64_t most_epochs = 0;
};

// One history, until it ends or differs.
std::optional<Duel::Difference> play(Connection& connection, Author& author, const Manner& manner,
                                     Tally& tally) {
  Duel duel(connection, "history", author.history());
  for (int i = 1; i <= manner.operations && !duel.difference(); ++i) {
    const Operation& operation = author.next(duel.pool());
    const Told told = duel.play(operation);
    if (told.acquired) {
      author.heard(*told.acquired);
      tally.admitted += told.acquired->verdict == gate::Verdict::admitted ? 1 : 0;
      tally.denied += told.acquired->verdict == gate::Verdict::denied ? 1 : 0;
    }
    if (told.wake) {
      author.heard(*told.wake);
      ++tally.wakes;
    }
    if (i % manner.look_every == 0) duel.look(operation.now);
  }
  const Instant end = author.history().operations.back().now;
  const gate::PoolView view = duel.pool().view(end);
  tally.operations += static_cast<std::int64_t>(author.history().operations.size());
  tally.most_waiters = std::max(tally.most_waiters, view.waiters.size());
  tally.most_epochs = std::max(tally.most_epochs, view.epoch);
  duel.look(end);
  duel.finish();
  return duel.difference();
}

// Histories of all manners until the operations are done or one differs: shrunk then, as a file.
struct Found {
  History history;  // Empty: nothing differs.
  std::string report;
};
Found compare(Connection& connection, std::int64_t operations, std::uint64_t seed, Tally& tally) {
  for (; tally.operations < operations; ++seed) {
    const Manner& manner = manners()[seed % manners().size()];
    Author author(manner, seed);
    const auto difference = play(connection, author, manner, tally);
    if (!difference) continue;
    History history = author.history();
    history.operations.resize(std::min(history.operations.size(), difference->operations));
    history = shrink(connection, std::move(history));
    const auto smallest = differs(connection, history, Looking::each);
    const std::string says = fmt::format("found by HG_DIFF_SEED={} ({})", seed, manner.name);
    return {history,
            fmt::format("{}\nshrunk to {} operations, {}\n{}", says, history.operations.size(),
                        smallest ? smallest->text : "which differ no more",
                        vector_file(history, says))};
  }
  return {};
}

class DifferentialTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto started = TestServer::start({GetParam()});
    ASSERT_TRUE(started.has_value()) << started.error().detail;
    server_ = std::move(*started);
    connection_ = std::make_unique<Connection>(server_->socket_path());
  }

  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_P(DifferentialTest, ScriptAndMemoryGiveTheSameAnswersToTheLastDigit) {
  Tally tally;
  const std::int64_t operations = from_environment("HG_DIFF_OPS", 100'000);
  const auto seed = static_cast<std::uint64_t>(from_environment("HG_DIFF_SEED", 1));
  const Found found = compare(*connection_, operations, seed, tally);
  EXPECT_TRUE(found.history.operations.empty()) << found.report;
  std::string counts = fmt::format(
      "{} operations: {} admitted, {} denied, {} wakes, up to {} "
      "waiters, epochs up to {}",
      tally.operations, tally.admitted, tally.denied, tally.wakes, tally.most_waiters,
      tally.most_epochs);
  fmt::print("{}\n", counts);
  RecordProperty("counts", counts);
  EXPECT_GT(tally.admitted, tally.operations / 20);
  EXPECT_GT(tally.denied, tally.operations / 20);
  EXPECT_GT(tally.wakes, tally.operations / 50);
  EXPECT_GT(tally.most_waiters, 1'000U);
  EXPECT_GT(tally.most_epochs, 2U);
}

// The test of the test: changes to the script too small to see are found, and shrunk.
TEST_P(DifferentialTest, APlantedDifferenceIsFoundAndShrunkToFewOperations) {
  const struct {
    const char* what;
    std::string_view text;
    std::string_view planted;
    std::size_t at_most = 8;  // Operations, when it is shrunk.
  } rows[] = {
      {"a micro-token at each admission", "min(tokens - amount,", "min(tokens - amount - 1,"},
      {"a micro-token at each refill", "tokens = tokens + gained", "tokens = tokens + gained + 1"},
      {"a microsecond of a prediction", "(missing + -missing % rate) / rate",
       "(missing - missing % rate) / rate"},
      {"a tie by id", "if mine and its then return mine < its end", ""},
      {"the order of shims that fell silent together", "if #silent > SWEEP_MAX then",
       "if false then", 130},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    for (const Text which : {Text::taking, Text::releasing}) {
      std::string script(gate::script::text(which));
      const std::size_t at = script.find(row.text);
      ASSERT_NE(at, std::string::npos) << "the script no longer says: " << row.text;
      script.replace(at, row.text.size(), row.planted);
      connection_->load(which, script);
    }
    Tally tally;
    const Found found = compare(*connection_, 300'000, 1, tally);
    ASSERT_FALSE(found.history.operations.empty()) << "not found";
    EXPECT_LE(found.history.operations.size(), row.at_most) << found.report;
    EXPECT_NE(found.report.find("\"steps\": ["), std::string::npos);
    fmt::print("{}: found after {} operations, shrunk to {}\n", row.what, tally.operations,
               found.history.operations.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, DifferentialTest,
                         ::testing::Values("valkey-server", "redis-server"),
                         [](const auto& row) { return row.index == 0 ? "Valkey" : "Redis"; });

}  // namespace
}  // namespace hg::valkey
