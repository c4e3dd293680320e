#include "cli/harness_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace hg::cli {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::Pair;

Lookup variables_of(std::map<std::string, std::string> present) {
  return [present](std::string_view name) -> std::optional<std::string> {
    const auto found = present.find(std::string(name));
    if (found == present.end()) return std::nullopt;
    return found->second;
  };
}

wire::HarnessProfile profile() {
  wire::HarnessProfile harness;
  harness.name = "some";
  harness.environment = {{"BASE", "{url}/v1", false, {}},
                         {"KEY", "{key}", false, {}},
                         {"UPDATES", "off", true, {}},
                         {"MODE", "plain", false, {"LOGIN", "TOKEN"}},
                         {"FOR_ALL_MODELS", "{url}/v1", false, {}, true}};
  return harness;
}

TEST(HarnessSetupTest, TheAddressNamesWhatIsSet) {
  RunAddress address;
  address.listener = "http://127.0.0.1:1";
  address.harness = "codex";
  address.run = "r";
  address.task = "t";
  EXPECT_EQ(base_url(address), "http://127.0.0.1:1/harness/codex/run/r/task/t");
  address.upstream = "u";
  address.pool = "p";
  EXPECT_EQ(base_url(address), "http://127.0.0.1:1/upstream/u/pool/p/harness/codex/run/r/task/t");
}

TEST(HarnessSetupTest, VariablesHaveTheUrlAndLeaveKeysAlone) {
  const Variables set = harness_variables(profile(), "http://x", variables_of({}));
  EXPECT_THAT(set, Contains(Pair("BASE", "http://x/v1")));
  EXPECT_THAT(set, Contains(Pair("UPDATES", "off")));
  EXPECT_THAT(set, Contains(Pair("MODE", "plain")));
  EXPECT_THAT(set, Contains(Pair("HEADGATE_URL", "http://x")));
  EXPECT_THAT(set, Contains(Pair("NO_PROXY", "127.0.0.1,localhost,::1")));
  EXPECT_THAT(set, Not(Contains(Pair("KEY", ::testing::_))));
}

TEST(HarnessSetupTest, WhatTheUserSetStaysWhereTheProfileSaysSo) {
  const Variables set = harness_variables(
      profile(), "http://x", variables_of({{"UPDATES", "on"}, {"TOKEN", "1"}, {"no_proxy", "a"}}));
  EXPECT_THAT(set, Not(Contains(Pair("UPDATES", ::testing::_))));
  EXPECT_THAT(set, Not(Contains(Pair("MODE", ::testing::_))));
  EXPECT_THAT(set, Contains(Pair("no_proxy", "a,127.0.0.1,localhost,::1")));
}

TEST(HarnessSetupTest, WhatOnlySomeUsersSetIsReplacedAndNeverAdded) {
  const Variables without = harness_variables(profile(), "http://x", variables_of({}));
  EXPECT_THAT(without, Not(Contains(Pair("FOR_ALL_MODELS", ::testing::_))));
  const Variables with = harness_variables(
      profile(), "http://x", variables_of({{"FOR_ALL_MODELS", "https://llm.corp.example"}}));
  EXPECT_THAT(with, Contains(Pair("FOR_ALL_MODELS", "http://x/v1")));
}

TEST(HarnessSetupTest, FilesArePrivateAndNamedByTheirVariable) {
  const std::string directory = ::testing::TempDir() + "hg-harness-setup";
  std::filesystem::remove_all(directory);
  wire::HarnessProfile harness = profile();
  harness.files = {{"SOME_CONFIG", "some/config.json", "{\"url\":\"{url}\"}"},
                   {"SOME_HOME", "settings.json", "{}"}};
  Variables set;
  const auto written = write_files(harness, "http://x", directory, variables_of({}), set);
  ASSERT_TRUE(written) << written.error().detail;
  EXPECT_THAT(set, Contains(Pair("SOME_CONFIG", directory + "/some/config.json")));
  EXPECT_THAT(set, Contains(Pair("SOME_HOME", directory)));
  std::ifstream file(directory + "/some/config.json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, "{\"url\":\"http://x\"}");
  struct stat status{};
  ASSERT_EQ(::stat((directory + "/some/config.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  std::filesystem::remove_all(directory);
}

TEST(HarnessSetupTest, AFileWithTheUsersKeyIsLeftOutWithoutOneAndStaysJson) {
  const std::string directory = ::testing::TempDir() + "hg-harness-key";
  std::filesystem::remove_all(directory);
  wire::HarnessProfile harness;
  harness.files = {
      {"SETTINGS", "a.json", R"({"key":"{env:KEY}","model":"{env:MODEL|small}"})", true}};
  Variables set;
  ASSERT_TRUE(write_files(harness, "http://x", directory, variables_of({}), set));
  EXPECT_TRUE(set.empty()) << "no key";
  ASSERT_TRUE(write_files(harness, "http://x", directory,
                          variables_of({{"KEY", "k"}, {"SETTINGS", "/mine"}}), set));
  EXPECT_TRUE(set.empty()) << "the user has a file of their own";
  ASSERT_TRUE(write_files(harness, "http://x", directory, variables_of({{"KEY", "a\"b\\"}}), set));
  std::ifstream file(directory + "/a.json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, R"({"key":"a\"b\\","model":"small"})");
  std::filesystem::remove_all(directory);
}

TEST(HarnessSetupTest, AFileOfTheUsersOwnIsNotReplaced) {
  const std::string directory = ::testing::TempDir() + "hg-setup-unless";
  std::filesystem::remove_all(directory);
  wire::HarnessProfile harness;
  harness.files = {{"AGENT_HOME", ".agent/settings.json", "{}", true, "{env:HOME}/settings.json"}};
  Variables set;
  ASSERT_TRUE(write_files(harness, "http://x", directory, variables_of({}), set));
  EXPECT_TRUE(set.empty()) << "nobody can tell what the user has";
  const Lookup at_home = variables_of({{"HOME", directory}});
  ASSERT_TRUE(write_files(harness, "http://x", directory + "/run", at_home, set));
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set[0].second, directory + "/run") << "the folder, not the file";
  std::ofstream(directory + "/settings.json") << "{}";
  set.clear();
  ASSERT_TRUE(write_files(harness, "http://x", directory + "/again", at_home, set));
  EXPECT_TRUE(set.empty());
  std::filesystem::remove_all(directory);
}

TEST(HarnessSetupTest, ArgumentsStandBeforeTheUsersOwnUnlessTheyWroteThem) {
  wire::HarnessProfile harness;
  harness.arguments = {{{"-c", "url=\"{url}/v1\""}, {}}, {{"--auth", "key"}, {"--auth"}}};
  using Words = std::vector<std::string>;
  const Lookup none = variables_of({});
  EXPECT_EQ(harness_arguments(harness, "http://x", {"agent", "run"}, none),
            (Words{"agent", "-c", "url=\"http://x/v1\"", "--auth", "key", "run"}));
  EXPECT_EQ(harness_arguments(harness, "http://x", {"agent", "--auth=mine"}, none),
            (Words{"agent", "-c", "url=\"http://x/v1\"", "--auth=mine"}));
  EXPECT_EQ(harness_arguments({}, "http://x", {"agent", "a b", ""}, none),
            (Words{"agent", "a b", ""}));
}

TEST(HarnessSetupTest, AFileStaysInsideItsDirectory) {
  for (const char* path : {"/etc/passwd", "../up", "a/../../up"}) {
    wire::HarnessProfile harness;
    harness.files = {{"X", path, "x"}};
    Variables set;
    const auto written = write_files(harness, "http://x", ::testing::TempDir() + "hg-none",
                                     variables_of({}), set);
    ASSERT_FALSE(written) << path;
    EXPECT_EQ(written.error().code, Errc::invalid);
  }
}

}  // namespace
}  // namespace hg::cli
