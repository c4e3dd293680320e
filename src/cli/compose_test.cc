#include "cli/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;

Result<proxy::ShimConfig> make(std::string_view text, const std::vector<Setting>& settings = {}) {
  const auto config = parse_config(text, "headgate.toml", settings);
  EXPECT_TRUE(config) << config.error().detail;
  return make_shim_config(*config, wire::Profiles::built_in());
}

TEST(ComposeTest, WithoutConfigurationThePublicUpstreamsAreThere) {
  const auto shim = make("");
  ASSERT_TRUE(shim) << shim.error().detail;
  ASSERT_GE(shim->upstreams.size(), 2U);
  EXPECT_EQ(shim->upstreams[0].url.text(), "https://api.openai.com");
  EXPECT_EQ(shim->upstreams[1].url.text(), "https://api.anthropic.com");
  EXPECT_EQ(shim->default_upstream, "");
}

TEST(ComposeTest, AConfiguredUpstreamLeavesNoPublicOne) {
  const auto shim = make("[upstream.lab]\nurl = \"http://127.0.0.1:9\"");
  ASSERT_TRUE(shim);
  ASSERT_EQ(shim->upstreams.size(), 1U);
  EXPECT_EQ(shim->upstreams[0].name, "lab");
}

TEST(ComposeTest, TheDefaultUpstreamIsTheFirstAndNamed) {
  const auto shim = make(
      "default_upstream = \"b\"\n[upstream.a]\nurl = \"http://a\"\n[upstream.b]\nurl = "
      "\"http://b\"");
  ASSERT_TRUE(shim);
  EXPECT_EQ(shim->default_upstream, "b");
  EXPECT_EQ(shim->upstreams[0].name, "b");
  EXPECT_EQ(shim->upstreams.size(), 2U);
}

TEST(ComposeTest, LimitsThatAreLeftOutAreTheProfiles) {
  const auto shim = make("[pool.p]\nupstream = \"anthropic\"\nr_tok = 7");
  ASSERT_TRUE(shim) << shim.error().detail;
  ASSERT_EQ(shim->pools.size(), 1U);
  ASSERT_TRUE(shim->pools[0].limits);
  gate::Limits expected = start_limits(*wire::Profiles::built_in().provider("anthropic"));
  expected.r_tok = 7;
  EXPECT_EQ(*shim->pools[0].limits, expected);
  EXPECT_FALSE(shim->pools[0].weights);
}

TEST(ComposeTest, APoolWithoutLimitsStartsFromItsProfile) {
  const auto shim = make("[pool.p]\npath_only = true\npriorities = { codex = \"3s\" }");
  ASSERT_TRUE(shim);
  EXPECT_FALSE(shim->pools[0].limits);
  EXPECT_TRUE(shim->pools[0].by_path_only);
  EXPECT_EQ(shim->pools[0].priorities.at("codex"), 3s);
}

TEST(ComposeTest, AnErrorNamesItsPlaceAndWhatIsAllowed) {
  struct Row {
    const char* text;
    const char* place;
    const char* says;
  };
  const Row rows[] = {
      {"[upstream.x]\nurl = \"http://a\"\nprofile = \"nope\"", "headgate.toml:3:", "anthropic"},
      {"[upstream.x]\nurl = \"http://a\"\n[pool.p]\nupstream = \"y\"",
       "headgate.toml:4:", "allowed are: x"},
      {"\ndefault_upstream = \"y\"\n[upstream.x]\nurl = \"http://a\"", "headgate.toml:2:", ": x"},
  };
  for (const Row& row : rows) {
    const auto shim = make(row.text);
    ASSERT_FALSE(shim) << row.text;
    EXPECT_EQ(shim.error().code, Errc::invalid);
    EXPECT_THAT(shim.error().detail, HasSubstr(row.place));
    EXPECT_THAT(shim.error().detail, HasSubstr(row.says));
  }
}

TEST(ComposeTest, HostNamesAreSeparatedByCommas) {
  const auto shim = make("host_names = \"build.example, host.docker.internal,\"");
  ASSERT_TRUE(shim);
  EXPECT_THAT(shim->own_names, ::testing::ElementsAre("build.example", "host.docker.internal"));
}

TEST(ComposeTest, OnlyWhatDecidesChangesTheFingerprint) {
  const auto print = [](std::string_view text) {
    return fingerprint(*parse_config(text, "headgate.toml", {}));
  };
  const std::string plain = print("");
  for (const char* text : {"listen = \"127.0.0.1:0\"", "log_level = \"debug\"", "idle_exit = 5",
                           "[upstream.x]\nurl = \"http://a\""}) {
    EXPECT_EQ(print(text), plain) << text;
  }
  for (const char* text :
       {"hold_cap_max = 5", "hold_cap = 5", "overload_step = 1",
        "body_limit = "
        "5000",
        "[pool.a]\nr_tok = 1", "[pool.a]\nr_tok = 2", "[pool.a]\npriorities = { x = 1 }"}) {
    EXPECT_NE(print(text), plain) << text;
  }
  EXPECT_NE(print("[pool.a]\nr_tok = 1"), print("[pool.a]\nr_tok = 2"));
}

}  // namespace
}  // namespace hg::cli
