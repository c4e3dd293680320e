#include "cli/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/runtime_dir.h"

namespace hg::cli {
namespace {

int status_of(const std::string& script) {
  Program program;
  program.file = "/bin/sh";
  program.arguments = {"sh", "-c", script};
  program.environment = {{"HG_TEST", "value"}, {"PATH", "/bin:/usr/bin"}};
  const auto status = run_program(program);
  EXPECT_TRUE(status) << status.error().detail;
  return status.value_or(-1);
}

TEST(LaunchTest, TheStatusIsTheProgramsOwn) {
  EXPECT_EQ(status_of("exit 0"), 0);
  EXPECT_EQ(status_of("exit 77"), 77);
  EXPECT_EQ(status_of("kill -KILL $$"), 128 + 9);
}

TEST(LaunchTest, VariablesReplaceThoseOfTheSameName) {
  EXPECT_EQ(status_of("test \"$HG_TEST\" = value && test \"$PATH\" = /bin:/usr/bin"), 0);
}

TEST(LaunchTest, AWriterWhoseReaderWentDiesAsUsual) {
  EXPECT_EQ(status_of("trap '' USR1; sh -c 'kill -PIPE $$; exit 3'; test $? -gt 128"), 0);
}

TEST(LaunchTest, WhatCannotRunIsAnError) {
  Program program;
  program.file = "/dev/null";
  program.arguments = {"x"};
  const auto status = run_program(program);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().detail, ::testing::HasSubstr("/dev/null"));
}

TEST(LaunchTest, ProgramsAreFoundAsAShellFindsThem) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_EQ(find_program("/bin/sh").value_or(""), "/bin/sh");
  EXPECT_EQ(find_program("no-such-program-here").error().code, Errc::not_found);
  EXPECT_EQ(find_program("/no/such/program").error().code, Errc::not_found);
  EXPECT_EQ(find_program("/etc/passwd").error().code, Errc::unavailable);
  EXPECT_EQ(find_program("/etc").error().code, Errc::unavailable);
  EXPECT_EQ(find_program("").error().code, Errc::not_found);
}

class RuntimeDirTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(path_); }
  void TearDown() override { std::filesystem::remove_all(path_); }
  const std::string path_ = ::testing::TempDir() + "hg-runtime-dir";
};

TEST_F(RuntimeDirTest, IsMadeForThisUserAlone) {
  const auto dir = open_runtime_dir(path_ + "/");
  ASSERT_TRUE(dir) << dir.error().detail;
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(dir->socket(), path_ + "/headgate.sock");
  EXPECT_TRUE(open_runtime_dir(path_));
}

TEST_F(RuntimeDirTest, OneThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
  EXPECT_THAT(open_runtime_dir(path_).error().detail, ::testing::HasSubstr("nobody else"));
}

TEST_F(RuntimeDirTest, ALinkAndAFileAreRefused) {
  const std::string target = path_ + "-target";
  std::filesystem::create_directory(target);
  std::filesystem::create_directory_symlink(target, path_);
  EXPECT_FALSE(open_runtime_dir(path_));
  std::filesystem::remove_all(path_);
  std::filesystem::remove_all(target);
  std::ofstream(path_) << "x";
  EXPECT_FALSE(open_runtime_dir(path_));
}

TEST_F(RuntimeDirTest, APathTooLongForASocketSaysSo) {
  EXPECT_THAT(open_runtime_dir("/tmp/" + std::string(120, 'x')).error().detail,
              ::testing::HasSubstr("too long"));
}

TEST_F(RuntimeDirTest, ALockIsHeldUntilItDies) {
  const auto dir = open_runtime_dir(path_);
  ASSERT_TRUE(dir);
  {
    const auto first = FileLock::take(dir->lock());
    EXPECT_TRUE(first);
  }
  EXPECT_TRUE(FileLock::take(dir->lock()));
}

}  // namespace
}  // namespace hg::cli
