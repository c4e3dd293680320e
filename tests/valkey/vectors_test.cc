// The recorded decisions of tests/vectors, made again by gate.lua in real stores.
#include "gate/vectors.h"

#include <gtest/gtest.h>

#include "store/test_server.h"
#include "tests/valkey/connection.h"
#include "tests/valkey/script_pool.h"

namespace hg::valkey {
namespace {

namespace json = boost::json;
using store::testing::TestServer;

class ScriptVectorsTest : public ::testing::TestWithParam<const char*> {};

// What of a recorded step the script has no answer for: next_event_us is for owners in memory.
json::object of_a_store(json::object step) {
  json::value* after = step.if_contains("after");
  if (after == nullptr) return step;
  after->as_object().erase("next_event_us");
  if (after->as_object().empty()) step.erase("after");
  return step;
}

TEST_P(ScriptVectorsTest, EveryRecordedDecisionIsMadeAgain) {
  const auto server = TestServer::start({GetParam()});
  ASSERT_TRUE(server.has_value()) << server.error().detail;
  Connection connection((*server)->socket_path());
  int played = 0;
  for (const std::filesystem::path& path : gate::vectors::files(HG_SOURCE_DIR)) {
    ++played;
    const json::object file = gate::vectors::read_file(path);
    const gate::vectors::Beginning begin(file);
    gate::vectors::Player<ScriptPool> player(
        ScriptPool(connection, path.stem().string(), begin.config, begin.birth, begin.start,
                   begin.version),
        begin.start);
    int at = 0;
    for (const json::value& step : file.at("steps").as_array()) {
      ++at;
      ASSERT_EQ(json::serialize(player.play(step.as_object())),
                json::serialize(of_a_store(step.as_object())))
          << path.filename() << ", step " << at;
    }
  }
  EXPECT_GE(played, 10);
}

INSTANTIATE_TEST_SUITE_P(Stores, ScriptVectorsTest,
                         ::testing::Values("valkey-server", "redis-server"),
                         [](const auto& row) { return row.index == 0 ? "Valkey" : "Redis"; });

}  // namespace
}  // namespace hg::valkey
