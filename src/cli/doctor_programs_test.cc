#include "cli/doctor_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;

TEST(DoctorProgramsTest, VersionsAreFoundInWhatProgramsSay) {
  const std::pair<const char*, const char*> rows[] = {
      {"2.1.332 (Claude Code)\n", "2.1.332"},
      {"codex-cli 0.171.0", "0.171.0"},
      {"aider 0.86.2\n", "0.86.2"},
      {"v1.18.33", "1.18.33"},
      {"1.0.0-beta.2 of it", "1.0.0-beta.2"},
      {"version 3.14.", "3.14"},
      {"Python 3", ""},
      {"", ""},
  };
  for (const auto& [text, version] : rows) EXPECT_EQ(version_in(text), version) << text;
}

TEST(DoctorProgramsTest, AnotherMajorVersionIsWarnedOf) {
  wire::HarnessProfile harness;
  harness.name = "agent";
  harness.verified = {"1.2.3"};
  const auto judge = [&](std::string output, bool ended = true) {
    BriefRun run;
    run.output = std::move(output);
    run.ended = ended;
    return judge_version(harness, "agent", run);
  };
  EXPECT_THAT(judge("1.2.3").seen, HasSubstr("with which its numbers were measured"));
  EXPECT_EQ(judge("1.9").level, Level::ok);
  EXPECT_THAT(judge("1.9").seen, HasSubstr("measured with 1.2.3"));
  EXPECT_EQ(judge("2.0.0").level, Level::warning);
  EXPECT_EQ(judge("none").level, Level::ok);
  EXPECT_EQ(judge("", false).check, "programs.silent");
  EXPECT_EQ(judge("1.2.3", false).level, Level::ok) << "it said all that was asked";
}

TEST(DoctorProgramsTest, ProgramsRunAtOnceAndNoneHoldsUpTheOthers) {
  const std::vector<BriefRun> runs = run_briefly({{"/bin/sh", "-c", "echo 1.2.3; echo error >&2"},
                                                  {"/bin/sh", "-c", "exec sleep 600"},
                                                  {"/bin/sh", "-c", "sleep 600 & echo 4.5"},
                                                  {"/bin/sh", "-c", "read x; echo got:$x"},
                                                  {"/nonexistent/program"}},
                                                 300ms);
  ASSERT_EQ(runs.size(), 5U);
  EXPECT_EQ(runs[0].output, "1.2.3\nerror\n");
  EXPECT_TRUE(runs[0].ended);
  EXPECT_FALSE(runs[1].ended);
  EXPECT_EQ(runs[2].output, "4.5\n");
  EXPECT_TRUE(runs[2].ended) << "what it started does not count, and is killed with it";
  EXPECT_EQ(runs[3].output, "got:\n") << "there is no input";
  EXPECT_TRUE(runs[4].ended);
}

}  // namespace
}  // namespace hg::cli
