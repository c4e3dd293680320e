// Replays the recorded decisions of tests/vectors/*.json on the pool in memory.
//
// With HG_RECORD_VECTORS=1 in the environment the files are written anew with what the pool answers
// now: for new steps, and to see as a diff what a change of a rule changes.
#include "gate/vectors.h"

#include <gtest/gtest.h>

namespace hg::gate::vectors {
namespace {

TEST(VectorsTest, EveryRecordedDecisionIsMadeAgain) {
  const bool recording = std::getenv("HG_RECORD_VECTORS") != nullptr;
  int played = 0;
  for (const std::filesystem::path& path : files(HG_SOURCE_DIR)) {
    ++played;
    const json::object file = read_file(path);
    const Beginning begin(file);
    Player<Pool> player(Pool(begin.config, begin.birth, begin.start, begin.version), begin.start);
    std::vector<json::object> steps;
    for (const json::value& step : file.at("steps").as_array()) {
      steps.push_back(player.play(step.as_object()));
      if (recording) continue;
      ASSERT_EQ(json::serialize(steps.back()), json::serialize(step))
          << path.filename() << ", step " << steps.size();
    }
    if (recording) std::ofstream(path) << pretty(file, steps);
  }
  EXPECT_GE(played, 10);
}

}  // namespace
}  // namespace hg::gate::vectors
