#include "cli/doctor_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/compose.h"
#include "cli/version.h"

namespace hg::cli {
namespace {

using ::testing::HasSubstr;

TEST(DoctorMachineTest, FilesAreCountedAgainstTheCallsThatMayBeHeld) {
  Config config;
  EXPECT_EQ(judge_files({1024, 1'048'576}, config).level, Level::ok);
  const Finding low = judge_files({1024, 4096}, config);
  EXPECT_EQ(low.level, Level::warning);
  EXPECT_THAT(low.mend, HasSubstr("ulimit -Hn 9024"));
  config.queue_max = 1000;
  EXPECT_EQ(judge_files({1024, 4096}, config).level, Level::ok);
}

TEST(DoctorMachineTest, ADaemonThatExecWouldNotJoinIsAProblem) {
  RunningDaemon daemon;
  daemon.version = kVersion;
  daemon.pid = 42;
  Config config;
  EXPECT_EQ(judge_daemon(daemon, config).check, "machine.daemon");
  config.hold_cap = 5s;
  EXPECT_EQ(judge_daemon(daemon, config).check, "machine.daemon_config");
  daemon.fingerprint = fingerprint(config);
  EXPECT_EQ(judge_daemon(daemon, config).check, "machine.daemon");
  daemon.version = "0.0.1";
  EXPECT_EQ(judge_daemon(daemon, config).level, Level::problem);
  EXPECT_EQ(judge_daemon(daemon, config).check, "machine.daemon_version");
  EXPECT_THAT(judge_daemon(daemon, config).mend, HasSubstr("kill 42"));
}

TEST(DoctorMachineTest, ClocksThatDriftApartAreNamed) {
  EXPECT_EQ(judge_clocks(2s, 2s + 10ms).level, Level::ok);
  EXPECT_EQ(judge_clocks(2s, 3602s).level, Level::warning);
  EXPECT_EQ(judge_clocks(2s, -3600s).level, Level::warning);
  EXPECT_EQ(judge_clocks(-1s, 2s).level, Level::problem);
}

TEST(DoctorMachineTest, ACallLogMustBeAFileThatCanBeWritten) {
  const std::string folder = testing::TempDir() + "hg_doctor";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file") << "x";
  EXPECT_EQ(check_call_log(folder + "/file").level, Level::ok);
  EXPECT_EQ(check_call_log(folder + "/new/below/calls.jsonl").level, Level::ok);
  EXPECT_EQ(check_call_log(folder).level, Level::problem);
  EXPECT_EQ(check_call_log(folder + "/file/calls.jsonl").level, Level::problem);
  EXPECT_EQ(check_call_log("").level, Level::ok);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hg::cli
