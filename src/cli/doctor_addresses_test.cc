#include "cli/doctor_addresses.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGate = "http://127.0.0.1:4290";

const wire::Profiles& profiles() { return wire::Profiles::built_in(); }

// A gate at 4290, somebody else at 8080, and nobody elsewhere on loopback.
Listener ask(const net::Url& url) {
  if (!is_loopback(url.host)) return Listener::other;
  if (url.port == 4290) return Listener::gate;
  return url.port == 8080 ? Listener::other : Listener::nobody;
}

std::vector<std::string> checks(const Findings& findings) {
  std::vector<std::string> list;
  for (const Finding& one : findings) {
    list.push_back(fmt::format("{} {}", to_string(one.level), one.check.substr(10)));
  }
  return list;
}

TEST(DoctorAddressesTest, EveryMistakeOfABaseUrlIsNamed) {
  struct Row {
    const char* why;
    const char* variable;
    const char* value;
    std::vector<std::string> checks;
  };
  const Row rows[] = {
      {"the gate", "ANTHROPIC_BASE_URL", "http://127.0.0.1:4290", {"ok gate"}},
      {"the gate, with /v1", "OPENAI_BASE_URL", "http://127.0.0.1:4290/v1", {"ok gate"}},
      {"with attribution", "OPENAI_BASE_URL", "http://127.0.0.1:4290/run/a/task/b/v1", {"ok gate"}},
      {"/v1 twice",
       "OPENAI_BASE_URL",
       "http://127.0.0.1:4290/v1/v1",
       {"problem double_v1", "ok gate"}},
      {"no /v1", "OPENAI_BASE_URL", "http://127.0.0.1:4290", {"warning missing_v1", "ok gate"}},
      {"no /v1 behind attribution",
       "OPENAI_BASE_URL",
       "http://127.0.0.1:4290/run/a",
       {"warning missing_v1", "ok gate"}},
      {"a /v1 too many",
       "ANTHROPIC_BASE_URL",
       "http://127.0.0.1:4290/v1",
       {"warning extra_v1", "ok gate"}},
      {"a slash", "ANTHROPIC_BASE_URL", "http://127.0.0.1:4290/", {"warning slash", "ok gate"}},
      {"a blank", "ANTHROPIC_BASE_URL", "http://127.0.0.1:4290 ", {"problem malformed"}},
      {"quoted", "ANTHROPIC_BASE_URL", "\"http://127.0.0.1:4290\"", {"problem malformed"}},
      {"no URL", "ANTHROPIC_BASE_URL", "127.0.0.1:4290", {"problem malformed"}},
      {"empty", "ANTHROPIC_BASE_URL", "", {"warning empty"}},
      {"nobody", "ANTHROPIC_BASE_URL", "http://127.0.0.1:1", {"problem nobody"}},
      {"another program", "ANTHROPIC_BASE_URL", "http://localhost:8080", {"warning elsewhere"}},
      {"the provider", "OPENAI_BASE_URL", "https://api.openai.com/v1", {"warning direct"}},
      {"in the clear", "OPENAI_BASE_URL", "http://llm.corp.example/v1", {"warning clear_text"}},
      {"a gateway", "OPENAI_BASE_URL", "https://llm.corp.example/v1", {"warning elsewhere"}},
      {"a version of its own",
       "OPENAI_BASE_URL",
       "https://llm.corp.example/paas/v4",
       {"warning elsewhere"}},
      {"of one program", "GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1", {"problem nobody"}},
  };
  for (const Row& row : rows) {
    const Findings findings = check_base_variables({{row.variable, row.value}}, profiles(),
                                                   std::string(kGate), ask);
    EXPECT_EQ(checks(findings), row.checks) << row.why;
  }
  EXPECT_EQ(checks(check_base_variables({}, profiles(), "", ask)),
            std::vector<std::string>{"ok unset"});
}

TEST(DoctorAddressesTest, AMendNamesTheRunningGate) {
  const Environment environment = {{"OPENAI_BASE_URL", "https://api.openai.com/v1"}};
  const Findings with = check_base_variables(environment, profiles(), std::string(kGate), ask);
  EXPECT_THAT(with[0].mend, HasSubstr("export OPENAI_BASE_URL=http://127.0.0.1:4290/v1"));
  const Findings without = check_base_variables(environment, profiles(), "", ask);
  EXPECT_THAT(without[0].mend, HasSubstr("headgate serve"));
}

TEST(DoctorAddressesTest, AKeyInTheWrongVariableIsNotRepeated) {
  const std::string key = "sk-ant-SECRET";
  for (const std::string& value :
       {key, "https://me:" + key + "@host", "https://host/?key=" + key}) {
    for (const Finding& one :
         check_base_variables({{"OPENAI_BASE_URL", value}}, profiles(), "", ask)) {
      EXPECT_EQ((one.seen + one.mend).find("SECRET"), std::string::npos) << one.seen;
    }
  }
}

TEST(DoctorAddressesTest, AProxyMustNotTakeLoopback) {
  struct Row {
    const char* why;
    Environment environment;
    std::vector<std::string> checks;
  };
  const Row rows[] = {
      {"no proxy", {}, {}},
      {"an empty one", {{"HTTP_PROXY", ""}}, {}},
      {"nothing is direct", {{"HTTP_PROXY", "http://p:3128"}}, {"warning proxy_takes_loopback"}},
      {"half of it",
       {{"https_proxy", "http://p:3128"}, {"no_proxy", "localhost, .corp"}},
       {"warning proxy_takes_loopback"}},
      {"both", {{"ALL_PROXY", "http://p"}, {"NO_PROXY", "127.0.0.1,localhost"}}, {"ok proxy"}},
      {"all", {{"ALL_PROXY", "http://p"}, {"NO_PROXY", "*"}}, {"ok proxy"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(checks(check_proxy_variables(row.environment)), row.checks) << row.why;
  }
}

TEST(DoctorAddressesTest, SettingsAreFoundInJsonWithCommentsAndInToml) {
  const auto json = settings_values(
      "a.jsonc", R"({
    // A comment.
    "provider": {"x": {"options": {"baseURL": "https://x"}}, "y": {"name": "y"}},
    "models": {"openai": [{"baseUrl": "https://m"},]},
  })",
      {"provider.*.options.baseURL", "models.*.*.baseUrl", "nothing.here"});
  ASSERT_TRUE(json);
  ASSERT_EQ(json->size(), 2U);
  EXPECT_EQ((*json)[0].key, "provider.x.options.baseURL");
  EXPECT_EQ((*json)[0].value, "https://x");
  EXPECT_EQ((*json)[1].key, "models.openai.0.baseUrl");
  const auto toml = settings_values("c.toml", "[model_providers.mine]\nbase_url = \"https://t\"\n",
                                    {"model_providers.*.base_url"});
  ASSERT_TRUE(toml);
  ASSERT_EQ(toml->size(), 1U);
  EXPECT_EQ((*toml)[0].value, "https://t");
  EXPECT_FALSE(settings_values("a.json", "{", {"a"}));
  EXPECT_FALSE(settings_values("a.toml", "= 1", {"a"}));
}

TEST(DoctorAddressesTest, ASettingsFileThatBeatsTheEnvironmentIsWarnedOf) {
  const wire::HarnessProfile& claude = *profiles().harness("claude-code");
  const auto look = [&](const char* url) {
    const std::string text = fmt::format(R"({{"env": {{"ANTHROPIC_BASE_URL": "{}"}}}})", url);
    return check_settings_file(claude, claude.overrides[0], "/h/.claude/settings.json", text,
                               std::string(kGate), ask);
  };
  const Findings away = look("https://llm.corp.example");
  EXPECT_EQ(checks(away), std::vector<std::string>{"warning settings_override"});
  EXPECT_THAT(away[0].seen, HasSubstr("env.ANTHROPIC_BASE_URL in /h/.claude/settings.json"));
  EXPECT_EQ(checks(look("http://127.0.0.1:4290")), std::vector<std::string>{"ok settings_gate"});
  EXPECT_TRUE(check_settings_file(claude, claude.overrides[0], "a.json", "{}", "", ask).empty());
  const wire::HarnessProfile& gemini = *profiles().harness("gemini-cli");
  const auto choice = [&](const char* type) {
    const std::string text = fmt::format(R"({{"security": {{"auth": {{"selectedType": "{}"}}}}}})",
                                         type);
    return checks(check_settings_file(gemini, gemini.overrides[0], "settings.json", text, "", ask));
  };
  EXPECT_EQ(choice("oauth-personal"), std::vector<std::string>{"warning settings_choice"});
  EXPECT_TRUE(choice("gemini-api-key").empty());
}

}  // namespace
}  // namespace hg::cli
