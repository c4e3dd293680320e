// docs/protocol.md is true: its example is what the script answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "gate/script.h"
#include "store/test_server.h"
#include "tests/valkey/connection.h"

namespace hg::valkey {
namespace {

using store::testing::TestServer;

class ProtocolTest : public ::testing::TestWithParam<const char*> {};

// As the page writes a reply.
std::string shown(const Value& value) {
  switch (value.kind) {
    case Value::Kind::integer: return std::to_string(value.integer);
    case Value::Kind::text: return "\"" + value.text + "\"";
    case Value::Kind::error: return "(error) " + value.text.substr(0, value.text.find(" script: "));
    case Value::Kind::nothing: return "null";
    case Value::Kind::list: break;
  }
  std::string out = "[";
  for (const Value& item : value.items) out += (out.size() > 1 ? ", " : "") + shown(item);
  return out + "]";
}

TEST_P(ProtocolTest, TheExampleOnThePageIsWhatTheScriptAnswers) {
  const auto server = TestServer::start({GetParam()});
  ASSERT_TRUE(server.has_value()) << server.error().detail;
  Connection connection((*server)->socket_path());
  const gate::script::PoolKeys keys("demo");
  std::ifstream page(HG_SOURCE_DIR "/docs/protocol.md");
  std::string line;
  std::string answer;
  int compared = 0;
  while (std::getline(page, line)) {
    if (line.starts_with("> ")) {
      gate::script::Call call;
      std::istringstream words(line.substr(2));
      for (std::string word; words >> word;) call.args.push_back(word == "''" ? "" : word);
      answer = shown(connection.run(keys, call));
    } else if (line.starts_with("< ")) {
      EXPECT_EQ(answer, line.substr(2)) << "example " << compared;
      ++compared;
    }
  }
  EXPECT_GE(compared, 15);
}

INSTANTIATE_TEST_SUITE_P(Stores, ProtocolTest, ::testing::Values("valkey-server", "redis-server"),
                         [](const auto& row) { return row.index == 0 ? "Valkey" : "Redis"; });

}  // namespace
}  // namespace hg::valkey
