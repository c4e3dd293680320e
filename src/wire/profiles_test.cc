#include "wire/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "wire/embedded.h"

namespace hg::wire {
namespace {

// The error of one user's file, "" if it loads.
std::string error_of(std::string_view text) {
  const auto loaded = Profiles::load({{"mine.toml", text}});
  if (loaded) return "";
  EXPECT_EQ(loaded.error().code, Errc::invalid);
  return loaded.error().detail;
}

Profiles with(std::string_view text) {
  auto loaded = Profiles::load({{"mine.toml", text}});
  EXPECT_TRUE(loaded.has_value()) << loaded.error().detail;
  return loaded ? *loaded : Profiles::built_in();
}

TEST(ProfilesTest, BuiltInOnesLoadAndHaveTheNamesOfTheirFiles) {
  const Profiles& profiles = Profiles::built_in();
  for (const auto& [file, text] : embedded_providers::files()) {
    EXPECT_NE(profiles.provider(file.substr(0, file.find(".toml"))), nullptr) << file;
  }
  for (const auto& [file, text] : embedded_harnesses::files()) {
    EXPECT_NE(profiles.harness(file.substr(0, file.find(".toml"))), nullptr) << file;
  }
  EXPECT_EQ(profiles.provider("nobody"), nullptr);
  EXPECT_EQ(profiles.harness("nobody"), nullptr);
}

TEST(ProfilesTest, EveryBuiltInTableOfNumbersHasItsEvidence) {
  for (const auto& files : {embedded_providers::files(), embedded_harnesses::files()}) {
    for (const auto& [file, text] : files) {
      const auto count = [&text = text](std::string_view what) {
        std::size_t found = 0;
        for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
        return found;
      };
      const std::size_t tables = count("\n[charge]") + count("\n[start]") + count("\n[[refusal]]") +
                                 count("\n[[family]]") + count("\nhold_cap_s");
      EXPECT_GE(count("\nevidence = "), tables) << file;
    }
  }
}

TEST(ProfilesTest, ProvidersAreFoundByHostAndNothingElse) {
  const Profiles& profiles = Profiles::built_in();
  struct Row {
    std::string_view host;
    std::string_view name;
  };
  const Row rows[] = {
      {"api.anthropic.com", "anthropic"},
      {"API.Anthropic.Com:443", "anthropic"},
      {"api.anthropic.com.", "anthropic"},
      {"api.openai.com", "openai"},
      {"mine.openai.azure.com", "azure"},
      {"openai.azure.com", "generic"},
      {"api.anthropic.com.evil.example", "generic"},
      {"evil-api.anthropic.com", "generic"},
      {"openrouter.ai", "openrouter"},
      {"generativelanguage.googleapis.com", "gemini"},
      {"us-central1-aiplatform.googleapis.com", "vertex"},
      {"aiplatform.googleapis.com", "vertex"},
      {"bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"},
      {"bedrock-mantle.us-east-1.api.aws", "bedrock"},
      {"bedrock-runtime.amazonaws.com.evil.example", "generic"},
      {"inference.poolside.ai", "poolside"},
      {"127.0.0.1:8080", "generic"},
      {"[::1]:8080", "generic"},
      {"::1", "generic"},
      {"", "generic"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(profiles.provider_for_host(row.host).name, row.name) << row.host;
  }
}

TEST(ProfilesTest, HarnessesAreFoundByProgramAndUserAgent) {
  const Profiles& profiles = Profiles::built_in();
  EXPECT_EQ(profiles.harness_for_program("claude").name, "claude-code");
  EXPECT_EQ(profiles.harness_for_program("opencode").name, "opencode");
  EXPECT_EQ(profiles.harness_for_program("python3").name, "custom");
  struct Row {
    std::string_view agent;
    std::string_view name;
  };
  const Row rows[] = {
      {"claude-cli/2.1.332 (external, sdk-cli)", "claude-code"},
      {"opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "opencode"},
      {"ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30", "cline"},
      {"ai-sdk/anthropic/3.0.1", "ai-sdk"},
      {"OpenAI/Python 2.1.0", "openai-python"},
      {"AsyncOpenAI/Python 2.1.0", "openai-python"},
      {"OpenAI/JS 5.11.0", "openai-node"},
      {"Anthropic/Python 0.60.0", "anthropic-sdk"},
      {"QwenCode/0.24.4 (linux; x64)", "qwen-code"},
      {"GeminiCLI-tui/0.61.0/gemini-3-pro (linux; x64)", "gemini-cli"},
      {"codex_exec/0.171.0 (Debian 12.0.0; x86_64) dumb", "codex"},
      {"curl/7.88.1", "custom"},
      {"", "custom"},
  };
  for (const Row& row : rows) {
    Headers headers;
    headers.add("User-Agent", row.agent);
    EXPECT_EQ(profiles.harness_for_request(headers).name, row.name) << row.agent;
  }
  EXPECT_EQ(profiles.harness_for_request(Headers()).name, "custom");
}

TEST(ProfilesTest, NoUserAgentOrProgramOrHostBelongsToTwo) {
  std::set<std::string> seen;
  for (const HarnessProfile& profile : Profiles::built_in().harnesses()) {
    for (const auto& name : profile.programs) EXPECT_TRUE(seen.insert("p " + name).second) << name;
    for (const auto& agent : profile.user_agents) {
      EXPECT_TRUE(seen.insert("u " + agent).second) << agent;
    }
  }
  for (const ProviderProfile& profile : Profiles::built_in().providers()) {
    for (const auto& host : profile.hosts) EXPECT_TRUE(seen.insert("h " + host).second) << host;
  }
}

TEST(ProfilesTest, HoldCapsLeaveRoomBelowTheProgramsOwnLimit) {
  for (const HarnessProfile& profile : Profiles::built_in().harnesses()) {
    EXPECT_LE(profile.hold_cap + 20s, profile.header_timeout.value_or(300s)) << profile.name;
    EXPECT_LE(profile.hold_cap, 240s) << profile.name << ": clients hang up at 300 s";
    EXPECT_GE(profile.retry_after, 1s) << profile.name;
    EXPECT_LE(profile.retry_after, 60s) << profile.name;
  }
  EXPECT_EQ(Profiles::built_in().harness("custom")->hold_cap, 45s);
  EXPECT_EQ(Profiles::built_in().harness("claude-code")->retry_after_max, 60s);
}

TEST(ProfilesTest, FamiliesPoolTheModelsThatShareALimit) {
  const ProviderProfile& anthropic = *Profiles::built_in().provider("anthropic");
  EXPECT_EQ(family_of(anthropic, "claude-opus-4-7"), family_of(anthropic, "claude-opus-4-1"));
  EXPECT_EQ(family_of(anthropic, "claude-haiku-4-5"), "claude-haiku-4-5");
  EXPECT_EQ(family_of(anthropic, ""), "");
}

TEST(ProfilesTest, AUsersFileOverridesOnlyWhatItSays) {
  const Profiles profiles = with(R"(
provider = "anthropic"
hosts = ["llm.corp.example", "api.anthropic.com"]
[charge]
cached_weight = 0.1
[start]
burst_tokens = 400_000
[[refusal]]
status = [420]
means = "overload"
)");
  const ProviderProfile& mine = *profiles.provider("anthropic");
  const ProviderProfile& built_in = *Profiles::built_in().provider("anthropic");
  EXPECT_EQ(mine.weight_cached_ppm, 100'000);
  EXPECT_EQ(mine.weight_output_ppm, built_in.weight_output_ppm);
  EXPECT_EQ(mine.kappa_micro, built_in.kappa_micro);
  EXPECT_EQ(mine.start.c_burst, 400'000);
  EXPECT_EQ(mine.start.r_tok, built_in.start.r_tok);
  EXPECT_EQ(mine.default_upstream, built_in.default_upstream);
  ASSERT_EQ(mine.refusals.size(), built_in.refusals.size() + 1);
  EXPECT_EQ(mine.refusals.front().statuses, std::vector<int>{420}) << "the user's rules come first";
  EXPECT_EQ(profiles.provider_for_host("llm.corp.example").name, "anthropic");
}

TEST(ProfilesTest, ANewProviderHasTheNumbersAndRulesOfGeneric) {
  const Profiles profiles = with("provider = \"mine\"\nhosts = [\"llm.example\"]\n");
  const ProviderProfile& mine = profiles.provider_for_host("llm.example");
  const ProviderProfile& generic = *profiles.provider("generic");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.start.r_tok, generic.start.r_tok);
  EXPECT_EQ(mine.refusals.size(), generic.refusals.size());
  EXPECT_EQ(mine.auth_headers, generic.auth_headers);
  EXPECT_EQ(StartLimits().r_tok, generic.start.r_tok);
  EXPECT_EQ(StartLimits().c_burst, generic.start.c_burst);
  EXPECT_EQ(StartLimits().k_inflight, generic.start.k_inflight);
  EXPECT_EQ(StartLimits().c_req, generic.start.c_req);
  EXPECT_EQ(StartLimits().r_qps, generic.start.r_qps);
}

TEST(ProfilesTest, AUsersFileAddsAHarness) {
  const Profiles profiles = with(R"(
harness = "my-agent"
programs = ["agent"]
user_agents = ["MyAgent/"]
hold_cap_s = 90.5
retry_after_max_s = 20
[[set]]
name = "AGENT_URL"
value = "{url}/v1"
unless = ["AGENT_DIRECT"]
[[file]]
variable = "AGENT_CONFIG"
path = "agent/config.json"
content = "{}"
)");
  const HarnessProfile& mine = profiles.harness_for_program("agent");
  EXPECT_EQ(mine.name, "my-agent");
  EXPECT_EQ(mine.hold_cap, 90'500ms);
  EXPECT_EQ(mine.retry_after, 20s) << "never above what the program obeys";
  ASSERT_EQ(mine.environment.size(), 1U);
  EXPECT_EQ(mine.environment[0].unless, std::vector<std::string>{"AGENT_DIRECT"});
  ASSERT_EQ(mine.files.size(), 1U);
}

TEST(ProfilesTest, DialectsOfAProviderAreItsMainOneAndThoseBeside) {
  const Profiles& profiles = Profiles::built_in();
  EXPECT_TRUE(profiles.provider("openai")->speaks(Dialect::openai_responses));
  EXPECT_FALSE(profiles.provider("openai")->speaks(Dialect::anthropic_messages));
  EXPECT_TRUE(profiles.provider("gemini")->speaks(Dialect::gemini_generate));
  EXPECT_EQ(profiles.provider("openai")->stream_usage, ProviderProfile::StreamUsage::ask);
  EXPECT_EQ(profiles.provider("mistral")->stream_usage, ProviderProfile::StreamUsage::leave);
  const Profiles mine = with(
      "provider = \"mine\"\nalso_speaks = [\"gemini_generate\"]\nstream_usage = \"ask\"\n");
  EXPECT_TRUE(mine.provider("mine")->speaks(Dialect::gemini_generate));
  EXPECT_EQ(mine.provider("mine")->stream_usage, ProviderProfile::StreamUsage::ask);
}

TEST(ProfilesTest, ProgramsThatReadNoVariableGetArgumentsOrAFile) {
  const Profiles& profiles = Profiles::built_in();
  ASSERT_EQ(profiles.harness("codex")->arguments.size(), 1U);
  EXPECT_EQ(profiles.harness("codex")->arguments[0].words.at(0), "-c");
  ASSERT_EQ(profiles.harness("gemini-cli")->files.size(), 1U);
  EXPECT_TRUE(profiles.harness("gemini-cli")->files[0].only_if_unset);
  ASSERT_EQ(profiles.harness("cline")->files.size(), 1U);
}

// OpenHands' LLM_BASE_URL is for every model: with a /v1 it breaks those of Anthropic.
TEST(ProfilesTest, ASettingForEveryModelIsNotAdded) {
  const HarnessProfile& openhands = *Profiles::built_in().harness("openhands");
  for (const auto& setting : openhands.environment) {
    EXPECT_EQ(setting.only_if_set, setting.name == "LLM_BASE_URL") << setting.name;
  }
}

TEST(ProfilesTest, ASettingOfTheSameNameReplacesTheBuiltInOne) {
  const Profiles profiles = with(
      "harness = \"claude-code\"\n[[set]]\nname = \"ANTHROPIC_BASE_URL\"\nvalue = \"{url}/x\"\n");
  int found = 0;
  for (const auto& setting : profiles.harness("claude-code")->environment) {
    if (setting.name != "ANTHROPIC_BASE_URL") continue;
    ++found;
    EXPECT_EQ(setting.value, "{url}/x");
  }
  EXPECT_EQ(found, 1);
}

TEST(ProfilesTest, KeysAreToldApartByVariableAndPrefix) {
  const Profiles& profiles = Profiles::built_in();
  EXPECT_EQ(profiles.provider("openai")->key_variables, std::vector<std::string>{"OPENAI_API_KEY"});
  std::set<std::string> variables;
  std::set<std::string> prefixes;
  for (const ProviderProfile& profile : profiles.providers()) {
    for (const std::string& variable : profile.key_variables) {
      EXPECT_TRUE(variables.insert(variable).second) << variable << " belongs to two";
    }
    for (const std::string& prefix : profile.key_prefixes) {
      EXPECT_TRUE(prefixes.insert(prefix).second) << prefix << " belongs to two";
    }
  }
  const Profiles mine = with("provider = \"mine\"\nkey_variables = [\"MY_KEY\"]\n");
  EXPECT_EQ(mine.provider("mine")->key_variables, std::vector<std::string>{"MY_KEY"});
}

TEST(ProfilesTest, FilesThatBeatTheEnvironmentAreKnown) {
  const HarnessProfile& claude = *Profiles::built_in().harness("claude-code");
  ASSERT_EQ(claude.overrides.size(), 1U);
  EXPECT_EQ(claude.overrides[0].keys, std::vector<std::string>{"env.ANTHROPIC_BASE_URL"});
  EXPECT_FALSE(claude.verified.empty());
}

TEST(ProfilesTest, FaultsNameFileLineAndWhatIsAllowed) {
  struct Row {
    const char* why;
    std::string_view text;
    std::string_view place;
    std::string_view allowed;
  };
  const Row rows[] = {
      {"unknown key", "provider = \"x\"\nhots = [\"a\"]\n", "mine.toml:2:", "hosts"},
      {"unknown key in a table", "provider = \"x\"\n\n[charge]\ncashed_weight = 1\n",
       "mine.toml:4:", "cached_weight"},
      {"impossible number", "provider = \"x\"\n[charge]\ncached_weight = -1\n",
       "mine.toml:3:", "from 0 to 100"},
      {"not a number", "provider = \"x\"\n[charge]\ncached_weight = nan\n",
       "mine.toml:3:", "from 0 to 100"},
      {"a text for a number", "harness = \"x\"\nhold_cap_s = \"45\"\n",
       "mine.toml:2:", "a number from 1 to 3600"},
      {"rate of zero", "provider = \"x\"\n[start]\ntokens_per_second = 0\n",
       "mine.toml:3:", "from 1 to"},
      {"a wrong word", "provider = \"x\"\ndialect = \"grpc\"\n",
       "mine.toml:2:", "\"openai_responses\", \"gemini_generate\", \"other\""},
      {"a rule that means nothing", "provider = \"x\"\n[[refusal]]\nstatus = [429]\n",
       "mine.toml:2:", "overload, quota, request or server"},
      {"text that gives up alone",
       "provider = \"x\"\n[[refusal]]\ntext = [\"quota\"]\nmeans = \"quota\"\n",
       "mine.toml:2:", "add status or code"},
      {"a status that is none", "provider = \"x\"\n[[refusal]]\nstatus = [42]\nmeans = \"quota\"\n",
       "mine.toml:3:", "from 100 to 599"},
      {"no name", "hosts = []\n", "mine.toml:1:", "provider = \"NAME\""},
      {"two names", "provider = \"x\"\nharness = \"y\"\n", "mine.toml:1:", "either"},
      {"a name that cannot stand in a path", "provider = \"../x\"\n", "mine.toml:1:", "letters"},
      {"not TOML", "provider = \"x\"\nhosts = [\n", "mine.toml:", "not valid TOML"},
      {"a dialect that is none", "provider = \"x\"\nalso_speaks = [\"grpc\"]\n",
       "mine.toml:1:", "gemini_generate"},
      {"an argument without words", "harness = \"x\"\n[[argument]]\nunless = [\"-c\"]\n",
       "mine.toml:2:", "words"},
      {"a file that escapes its folder",
       "harness = \"x\"\n[[file]]\nvariable = \"A\"\npath = \"../b\"\n",
       "mine.toml:2:", "relative"},
      {"an override of no file", "harness = \"x\"\n[[override]]\nkeys = [\"a\"]\n",
       "mine.toml:2:", "files"},
      {"a table that is none", "provider = \"x\"\ncharge = 1\n", "mine.toml:2:", "a table"},
      {"a list that is none", "provider = \"x\"\n[refusal]\nmeans = \"quota\"\n",
       "mine.toml:2:", "[[refusal]]"},
  };
  for (const Row& row : rows) {
    const std::string error = error_of(row.text);
    EXPECT_NE(error.find(row.place), std::string::npos) << row.why << ": " << error;
    EXPECT_NE(error.find(row.allowed), std::string::npos) << row.why << ": " << error;
  }
}

}  // namespace
}  // namespace hg::wire
