#include "cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<Config> parse(std::string_view text, const std::vector<Setting>& settings = {}) {
  return parse_config(text, "headgate.toml", settings);
}

std::string error_of(std::string_view text, const std::vector<Setting>& settings = {}) {
  const auto config = parse(text, settings);
  return config ? "accepted" : config.error().detail;
}

TEST(ConfigTest, NoFileIsNeeded) {
  const auto config = parse_config("", "", {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->listen_host, "127.0.0.1");
  EXPECT_TRUE(config->upstreams.empty());
  EXPECT_TRUE(config->pools.empty());
  EXPECT_EQ(config->body_limit, 64 * 1024 * 1024);
}

TEST(ConfigTest, ReadsEveryKindOfKey) {
  const auto config = parse(R"(
listen = "127.0.0.1:0"
hold_cap_max = "90s"
overload_step = 0.5
quota_pause = "1m"
body_limit = "10MiB"
log_level = "debug"

[upstream.lab]
url = "http://127.0.0.1:9/v1/"
profile = "emulated"

[pool.main]
upstream = "lab"
family = "claude-opus"
path_only = true
c_burst = 200_000
r_tok = 40000
k_inflight = 1000000
c_req = 60
r_qps = 2.5
cached_weight = 0.1
priorities = { claude-code = "5s", opencode = "500ms" }
)");
  ASSERT_TRUE(config) << config.error().detail;
  EXPECT_EQ(config->listen_port, 0);
  EXPECT_EQ(config->hold_cap_max, 90s);
  EXPECT_EQ(config->overload_step, 500ms);
  EXPECT_EQ(config->quota_pause, 60s);
  EXPECT_EQ(config->body_limit, 10 * 1024 * 1024);
  EXPECT_EQ(config->log_level, LogLevel::debug);
  ASSERT_EQ(config->upstreams.size(), 1U);
  EXPECT_EQ(config->upstreams[0].url, "http://127.0.0.1:9/v1");
  EXPECT_EQ(config->upstreams[0].place, "headgate.toml:9");
  EXPECT_EQ(config->upstreams[0].profile, "emulated");
  ASSERT_EQ(config->pools.size(), 1U);
  const PoolSettings& pool = config->pools[0];
  EXPECT_EQ(pool.c_burst, 200'000);
  EXPECT_EQ(pool.r_tok, 40'000);
  EXPECT_EQ(pool.r_qps, 2'500'000);
  EXPECT_EQ(pool.cached_weight_ppm, 100'000);
  EXPECT_FALSE(pool.c_out);
  EXPECT_EQ(pool.priorities.at("claude-code"), 5s);
  EXPECT_EQ(pool.priorities.at("opencode"), 500ms);
}

TEST(ConfigTest, AnErrorNamesFileLineAndWhatIsAllowed) {
  struct Row {
    const char* why;
    const char* text;
    std::vector<const char*> says;
  };
  const Row rows[] = {
      {"an unknown key", "\n\ncolour = 1", {"headgate.toml:3:", "\"colour\"", "listen"}},
      {"a slip of the pen", "listne = 1", {"headgate.toml:1:", "did you mean listen?"}},
      {"an unknown key of a pool", "[pool.a]\nc_brust = 1", {"headgate.toml:2:", "c_burst?"}},
      {"an unknown table", "[pols.a]\nx = 1", {"headgate.toml:1:", "\"pols\""}},
      {"below the range",
       "[pool.a]\nc_burst = 0",
       {"headgate.toml:2:", "= 0", "1 to 1,000,000,000"}},
      {"a negative rate", "[pool.a]\nr_tok = -5", {"headgate.toml:2:", "= -5", "tokens a second"}},
      {"a fraction of a token", "[pool.a]\nc_burst = 1.5", {":2:", "= 1.5", "a whole number"}},
      {"more than fits", "[pool.a]\nc_burst = 99999999999", {":2:", "1 to 1,000,000,000"}},
      {"not a number", "[pool.a]\nr_qps = nan", {":2:", "requests a second"}},
      {"text for a number", "[pool.a]\nc_burst = \"many\"", {":2:", "= many", "a whole number"}},
      {"no unit", "hold_cap_max = \"soon\"", {":1:", "a duration from 1s to 1h"}},
      {"a boolean for a duration", "hold_cap_max = true", {":1:", "a duration"}},
      {"a table for a value", "listen = { a = 1 }", {":1:", "a table", "PORT"}},
      {"a value for a pool", "pool = 3", {":1:", "needs a name and a key"}},
      {"a value for a pool's table", "[pool]\nmain = 3", {":2:", "needs a name and a key"}},
      {"a name with a slash", "[pool.\"a/b\"]\nr_tok = 1", {":1:", "letters, digits"}},
      {"a port", "listen = \"127.0.0.1:70000\"", {":1:", "port 0 to 65535"}},
      {"an upstream without url", "[upstream.x]", {":1:", "needs a url"}},
      {"a switch", "[pool.a]\npath_only = 1", {":2:", "true or false"}},
      {"half an output bucket", "[pool.a]\nc_out = 5", {":2:", "c_out and r_out"}},
      {"a head start that breaks the queue",
       "[pool.a]\npriorities = { x = \"16s\" }",
       {":2:", "0s to 15s"}},
      {"broken TOML", "listen = \n", {"headgate.toml:1: not TOML"}},
      {"a table's head without a name", "[=pool]", {"headgate.toml:1: not TOML"}},
      {"a letter that is none of a bare name", "[pool.\u012a]", {"headgate.toml:1: not TOML"}},
  };
  for (const Row& row : rows) {
    for (const char* part : row.says) {
      EXPECT_THAT(error_of(row.text), HasSubstr(part)) << row.why;
    }
  }
}

TEST(ConfigTest, NeverRepeatsWhatMayBeASecret) {
  const char* rows[] = {
      "[upstream.x]\nurl = \"https://user:sk-secret@host\"",
      "[upstream.x]\nurl = \"http://a\"\napi_key = \"sk-secret\"",
      "api_key = \"sk-secret\"",
  };
  for (const char* text : rows) {
    EXPECT_THAT(error_of(text), Not(HasSubstr("secret"))) << text;
    EXPECT_THAT(error_of(text), HasSubstr("allowed")) << text;
  }
}

TEST(ConfigTest, SettingsStandOverTheFile) {
  const auto config = parse("listen = \"127.0.0.1:1\"\n[pool.my-pool]\nr_tok = 5",
                            {{"listen", "127.0.0.1:2", "--listen"},
                             {"pool.my_pool.r_tok", "6", "HEADGATE_POOL_MY_POOL_R_TOK"},
                             {"pool.other.c_burst", "200,000", "--set pool.other.c_burst"}});
  ASSERT_TRUE(config) << config.error().detail;
  EXPECT_EQ(config->listen_port, 2);
  ASSERT_EQ(config->pools.size(), 2U);
  EXPECT_EQ(config->pools[0].name, "my-pool");
  EXPECT_EQ(config->pools[0].r_tok, 6);
  EXPECT_EQ(config->pools[1].c_burst, 200'000);
  EXPECT_THAT(error_of("", {{"pool.a.r_tok", "x", "--set pool.a.r_tok"}}),
              HasSubstr("--set pool.a.r_tok: pool.a.r_tok = x"));
}

TEST(ConfigTest, EveryKeyIsAVariable) {
  for (const KeyDoc& doc : key_reference()) {
    std::string name = "HEADGATE_";
    std::string path(doc.key);
    if (!doc.scope.empty()) {
      const std::string scope(doc.scope.substr(0, doc.scope.find('.')));
      name += scope + "_main_";
      path = scope + ".main." + path;
    }
    name += doc.key;
    for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
    if (doc.key == "priorities") {
      name += "_CLAUDE_CODE";
      path += ".claude-code";
    }
    std::vector<std::string> unknown;
    const auto settings = settings_from_environment({{name, "x"}}, unknown);
    ASSERT_TRUE(settings) << name;
    ASSERT_EQ(settings->size(), 1U) << name;
    EXPECT_EQ(settings->front().key, path);
    EXPECT_TRUE(unknown.empty());
  }
}

TEST(ConfigTest, UnknownVariablesAreToldApart) {
  std::vector<std::string> unknown;
  const auto settings = settings_from_environment({{"HEADGATE_LOG", "warn"},
                                                   {"HEADGATE_COLOUR", "1"},
                                                   {"HEADGATE_URL", "http://127.0.0.1:1"},
                                                   {"PATH", "/bin"}},
                                                  unknown);
  ASSERT_TRUE(settings);
  ASSERT_EQ(settings->size(), 1U);
  EXPECT_EQ(settings->front().key, "log_level");
  EXPECT_THAT(unknown, ::testing::ElementsAre("HEADGATE_COLOUR"));
  const auto bad = settings_from_environment({{"HEADGATE_POOL_A_COLOUR", "1"}}, unknown);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().detail, HasSubstr("HEADGATE_POOL_A_COLOUR"));
}

TEST(ConfigTest, EveryKeyIsExplained) {
  std::set<std::string> seen;
  for (const KeyDoc& doc : key_reference()) {
    EXPECT_TRUE(seen.insert(std::string(doc.scope) + "." + std::string(doc.key)).second);
    EXPECT_FALSE(doc.allowed.empty());
    EXPECT_FALSE(doc.help.empty());
  }
}

TEST(ConfigValuesTest, DurationsAndSizesHaveUnits) {
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("1.5m"), 90s);
  EXPECT_EQ(parse_duration("250 ms"), 250ms);
  EXPECT_EQ(parse_duration("7"), 7s);
  EXPECT_EQ(parse_duration("2h"), 2h);
  for (const char* text : {"", "s", "-1s", "1x", "1s2", "inf", "1e30d"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_EQ(parse_bytes("64MiB"), 67'108'864);
  EXPECT_EQ(parse_bytes("10kB"), 10'000);
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_FALSE(parse_bytes("10 Mb"));
}

TEST(ConfigValuesTest, AddressesHaveHostAndPort) {
  struct Row {
    const char* text;
    const char* host;
    int port;
  };
  const Row rows[] = {{"127.0.0.1:80", "127.0.0.1", 80},
                      {"[::1]:80", "::1", 80},
                      {":80", "127.0.0.1", 80},
                      {"0", "127.0.0.1", 0},
                      {"localhost:4290", "localhost", 4290}};
  for (const Row& row : rows) {
    const auto parsed = parse_listen(row.text);
    ASSERT_TRUE(parsed) << row.text;
    EXPECT_EQ(parsed->first, row.host);
    EXPECT_EQ(parsed->second, row.port);
  }
  for (const char* text : {"", "a", "::1:80", "a:b", "host:", "1.2.3.4:65536", "a b:1"}) {
    EXPECT_FALSE(parse_listen(text)) << text;
  }
  EXPECT_TRUE(is_loopback("127.9.9.9"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
}

}  // namespace
}  // namespace hg::cli
