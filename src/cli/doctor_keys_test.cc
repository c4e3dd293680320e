#include "cli/doctor_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;

const wire::Profiles& profiles() { return wire::Profiles::built_in(); }

std::vector<KeyedUpstream> upstreams(const std::vector<std::string>& names) {
  std::vector<KeyedUpstream> list;
  for (const std::string& name : names) list.push_back({name, profiles().provider(name)});
  return list;
}

// "level check" of each finding.
std::vector<std::string> verdicts(const Findings& findings) {
  std::vector<std::string> list;
  for (const Finding& one : findings) {
    list.push_back(fmt::format("{} {}", to_string(one.level), one.check));
  }
  return list;
}

TEST(DoctorKeysTest, MistakesOfCopyingAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"sk-ant-api03-abcdefgh", ""},
      {"dummy", ""},  // Local servers take any word.
      {"", "empty"},
      {"\"sk-ant-abc\"", "quotation"},
      {"sk-ant-abc\n", "line break"},
      {" sk-ant-abc", "blank"},
      {"Bearer sk-ant-abc", "Bearer"},
      {"sk-ant- abc", "inside"},
      {"sk-...", "placeholder"},
      {"<your key>", "inside"},
      {"<key>", "placeholder"},
      {"your_api_key", "placeholder"},
      {"sk-xxxxxxxx", "placeholder"},
      {"$ANTHROPIC_KEY", "another variable"},
      {"sk-ant-\xe2\x80\x93"
       "abc",
       "no key has"},
  };
  for (const auto& [key, says] : rows) {
    EXPECT_THAT(std::string(key_mistake(key)), HasSubstr(says)) << key;
    EXPECT_EQ(key_mistake(key).empty(), *says == '\0') << key;
  }
}

TEST(DoctorKeysTest, AKeyIsKnownByTheLongestPrefix) {
  EXPECT_EQ(provider_of_key("sk-ant-api03-x", profiles()), "anthropic");
  EXPECT_EQ(provider_of_key("sk-proj-x", profiles()), "openai");
  EXPECT_EQ(provider_of_key("sk-or-v1-x", profiles()), "openrouter");
  EXPECT_EQ(provider_of_key("sk-0123", profiles()), "") << "many providers begin so";
}

TEST(DoctorKeysTest, WhatIsMissingOrWrongIsFound) {
  struct Row {
    const char* why;
    Environment environment;
    std::vector<std::string> names;
    std::vector<std::string> verdicts;
  };
  const Row rows[] = {
      {"there", {{"ANTHROPIC_API_KEY", "sk-ant-1"}}, {"anthropic"}, {"ok keys.present"}},
      {"none", {}, {"anthropic"}, {"warning keys.missing"}},
      {"of another", {{"OPENAI_API_KEY", "sk-ant-1"}}, {"openai"}, {"problem keys.of_another"}},
      {"of a gateway that is the upstream",
       {{"OPENAI_API_KEY", "sk-or-1"}},
       {"openrouter"},
       {"warning keys.missing"}},
      {"two that differ",
       {{"ANTHROPIC_API_KEY", "sk-ant-1"}, {"ANTHROPIC_AUTH_TOKEN", "sk-ant-2"}},
       {"anthropic"},
       {"warning keys.contradict", "ok keys.present"}},
      {"two that are the same",
       {{"GEMINI_API_KEY", "AIza1"}, {"GOOGLE_API_KEY", "AIza1"}},
       {"gemini"},
       {"ok keys.present"}},
      {"empty", {{"OPENAI_API_KEY", ""}}, {"openai"}, {"warning keys.empty"}},
      {"a provider that nobody asked for",
       {{"GROQ_API_KEY", "'gsk_1'"}},
       {},
       {"problem keys.malformed"}},
      {"a provider without keys", {}, {"generic", "vllm"}, {}},
  };
  for (const Row& row : rows) {
    const Findings findings = check_keys(row.environment, upstreams(row.names), profiles());
    EXPECT_EQ(verdicts(findings), row.verdicts) << row.why;
    for (const Finding& one : findings) {
      EXPECT_EQ(one.mend.empty(), one.level == Level::ok) << row.why;
      for (const auto& [name, value] : row.environment) {
        if (value.empty()) continue;
        EXPECT_EQ(one.seen.find(value), std::string::npos) << row.why;
      }
    }
  }
}

TEST(DoctorKeysTest, OnlyAKeyThatCanBeRightIsSent) {
  const wire::ProviderProfile& openai = *profiles().provider("openai");
  EXPECT_EQ(usable_key_variable({{"OPENAI_API_KEY", "sk-1"}}, openai, profiles()),
            "OPENAI_API_KEY");
  EXPECT_EQ(usable_key_variable({{"OPENAI_API_KEY", "sk-ant-1"}}, openai, profiles()), std::nullopt)
      << "a key of another provider stays here";
  EXPECT_EQ(usable_key_variable({{"OPENAI_API_KEY", "sk-..."}}, openai, profiles()), std::nullopt);
  EXPECT_EQ(usable_key_variable({}, openai, profiles()), std::nullopt);
}

}  // namespace
}  // namespace hg::cli
