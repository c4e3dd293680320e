#include "wire/profiles.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"
#include "base/pattern.h"
#include "base/text.h"
#include "base/toml_table.h"
#include "wire/embedded.h"

namespace hg::wire {
namespace {

// In the order of the enum.
const std::vector<std::string_view> kDialects = {"anthropic_messages", "openai_chat",
                                                 "openai_responses", "gemini_generate", "other"};
const std::vector<std::string_view> kStreamUsages = {"ask", "leave", "learn"};
const std::vector<std::string_view> kMeanings = {"overload", "quota", "request", "server"};
constexpr std::string_view kGeneric = "generic";
constexpr std::string_view kCustom = "custom";

void read_dialect(TomlTable& table, Dialect& target) {
  if (const auto place = table.choice("dialect", kDialects)) target = static_cast<Dialect>(*place);
}

std::int64_t to_millionths(double value) { return std::llround(value * 1e6); }

// A name that can stand in paths, metrics and configuration.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

RefusalRule read_rule(TomlTable& table) {
  RefusalRule rule;
  table.integers("status", 100, 599, rule.statuses);
  table.texts("code", rule.codes);
  table.texts("text", rule.texts);
  for (std::string& text : rule.texts) text = to_lower(text);
  table.text("header", rule.header);
  table.text("header_value", rule.header_value);
  table.text("lacks_header", rule.lacks_header);
  table.flag("has_retry_after", rule.has_retry_after);
  constexpr double kMonth = 31.0 * 86'400;
  table.seconds("retry_after_min_s", 0, kMonth, rule.retry_after_min);
  table.seconds("retry_after_max_s", 0, kMonth, rule.retry_after_max);
  if (const auto place = table.choice("means", kMeanings)) {
    rule.means = kMeanings[*place];
  } else {
    table.complain("a [[refusal]] needs \"means\": overload, quota, request or server");
  }
  // Text is what providers reword; it may narrow a rule, never carry one that gives up.
  const bool text_alone = !rule.texts.empty() && rule.statuses.empty() && rule.codes.empty() &&
                          rule.header.empty();
  if (text_alone && rule.means != "overload") {
    table.complain("a [[refusal]] with \"text\" alone may only mean overload; add status or code");
  }
  table.evidence();
  table.finish();
  return rule;
}

void read_charge(TomlTable& table, ProviderProfile& profile) {
  constexpr double kMostWeight = 100;
  double cached = static_cast<double>(profile.weight_cached_ppm) / 1e6;
  double output = static_cast<double>(profile.weight_output_ppm) / 1e6;
  table.number("cached_weight", 0, kMostWeight, cached);
  table.number("output_weight", 0, kMostWeight, output);
  profile.weight_cached_ppm = to_millionths(cached);
  profile.weight_output_ppm = to_millionths(output);
  table.flag("reserves_max_output", profile.reserves_max_output);
  table.flag("refused_calls_count", profile.refused_calls_count);
  table.seconds("cache_lifetime_s", 0, 86'400, profile.cache_lifetime);
  double bytes_per_token = static_cast<double>(profile.kappa_micro) / 1e6;
  // The bounds within which the gate learns it.
  table.number("bytes_per_token", 2, 8, bytes_per_token);
  profile.kappa_micro = to_millionths(bytes_per_token);
  table.evidence();
  table.finish();
}

void read_start(TomlTable& table, StartLimits& start) {
  constexpr std::int64_t kMostTokens = 1'000'000'000;
  table.integer("burst_tokens", 1, kMostTokens, start.c_burst);
  table.integer("tokens_per_second", 1, kMostTokens, start.r_tok);
  table.integer("inflight_tokens", 1, kMostTokens, start.k_inflight);
  double burst_requests = static_cast<double>(start.c_req) / 1e6;
  double requests_per_second = static_cast<double>(start.r_qps) / 1e6;
  table.number("burst_requests", 1, 1e6, burst_requests);
  table.number("requests_per_second", 0.001, 1e6, requests_per_second);
  start.c_req = to_millionths(burst_requests);
  start.r_qps = to_millionths(requests_per_second);
  table.evidence();
  table.finish();
}

void read_provider(TomlTable& table, ProviderProfile& profile) {
  table.texts("hosts", profile.hosts);
  for (std::string& host : profile.hosts) host = to_lower(host);
  table.text("default_upstream", profile.default_upstream);
  read_dialect(table, profile.main_dialect);
  std::vector<std::string> also;
  table.texts("also_speaks", also);
  for (const std::string& name : also) {
    const auto at = std::ranges::find(kDialects, name);
    if (at == kDialects.end()) {
      table.complain(
          "\"also_speaks\" names dialects: anthropic_messages, openai_chat, openai_responses, "
          "gemini_generate");
      continue;
    }
    profile.also_speaks.push_back(static_cast<Dialect>(at - kDialects.begin()));
  }
  table.texts("auth_headers", profile.auth_headers);
  table.texts("key_variables", profile.key_variables);
  table.texts("key_prefixes", profile.key_prefixes);
  table.flag("retry_after_marks_own", profile.retry_after_marks_own);
  double clock_offset_h = static_cast<double>(profile.clock_offset.count()) / 3.6e9;
  table.number("clock_offset_h", -12, 14, clock_offset_h);
  profile.clock_offset = Micros(std::llround(clock_offset_h * 3.6e9));
  if (const auto place = table.choice("stream_usage", kStreamUsages)) {
    profile.stream_usage = static_cast<ProviderProfile::StreamUsage>(*place);
  }
  if (auto charge = table.table("charge")) read_charge(*charge, profile);
  if (auto start = table.table("start")) read_start(*start, profile.start);

  std::vector<ProviderProfile::Family> families;
  for (TomlTable& row : table.tables("family")) {
    ProviderProfile::Family family;
    row.text("pattern", family.pattern);
    row.text("name", family.name);
    if (family.pattern.empty() || !is_name(family.name)) {
      row.complain(
          "a [[family]] needs \"pattern\" and a \"name\" of letters, digits, '-', '_', '.'");
    }
    row.evidence();
    row.finish();
    families.push_back(std::move(family));
  }
  // New rows stand before those that were there, because the first match decides.
  profile.families.insert(profile.families.begin(), families.begin(), families.end());

  std::vector<RefusalRule> rules;
  for (TomlTable& row : table.tables("refusal")) rules.push_back(read_rule(row));
  profile.refusals.insert(profile.refusals.begin(), rules.begin(), rules.end());
  table.evidence();
  table.finish();
}

void read_harness(TomlTable& table, HarnessProfile& profile) {
  constexpr double kDay = 86'400;
  table.texts("programs", profile.programs);
  table.texts("verified", profile.verified);
  table.texts("user_agents", profile.user_agents);
  for (std::string& agent : profile.user_agents) agent = to_lower(agent);
  read_dialect(table, profile.dialect);
  table.texts("session_headers", profile.session_headers);
  table.text("timeout_header", profile.timeout_header);
  table.seconds("hold_cap_s", 1, 3'600, profile.hold_cap);
  table.seconds("header_timeout_s", 1, kDay, profile.header_timeout);
  table.seconds("idle_timeout_s", 1, kDay, profile.idle_timeout);
  std::int64_t survived = profile.refusals_survived;
  table.integer("refusals_survived", 0, 1'000, survived);
  profile.refusals_survived = static_cast<int>(survived);
  table.seconds("retry_after_max_s", 1, kDay, profile.retry_after_max);
  table.seconds("retry_after_s", 1, kDay, profile.retry_after);
  if (profile.retry_after > profile.retry_after_max) {
    profile.retry_after = profile.retry_after_max;
  }

  for (TomlTable& row : table.tables("set")) {
    HarnessProfile::Setting setting;
    row.text("name", setting.name);
    row.text("value", setting.value);
    row.flag("only_if_unset", setting.only_if_unset);
    row.flag("only_if_set", setting.only_if_set);
    row.texts("unless", setting.unless);
    if (setting.name.empty()) row.complain("a [[set]] needs the \"name\" of a variable");
    row.evidence();
    row.finish();
    // A variable that was there already is set anew, not twice.
    std::erase_if(profile.environment, [&](const auto& old) { return old.name == setting.name; });
    profile.environment.push_back(std::move(setting));
  }
  for (TomlTable& row : table.tables("argument")) {
    HarnessProfile::Argument argument;
    row.texts("words", argument.words);
    row.texts("unless", argument.unless);
    if (argument.words.empty()) row.complain("an [[argument]] needs \"words\"");
    row.evidence();
    row.finish();
    profile.arguments.push_back(std::move(argument));
  }
  for (TomlTable& row : table.tables("file")) {
    HarnessProfile::ConfigFile file;
    row.text("variable", file.variable);
    row.text("path", file.path);
    row.text("content", file.content);
    row.flag("only_if_unset", file.only_if_unset);
    row.text("unless_file", file.unless_file);
    const bool inside = !file.path.empty() && !file.path.starts_with('/') &&
                        file.path.find("..") == std::string::npos;
    if (!inside || file.variable.empty()) {
      row.complain("a [[file]] needs \"variable\" and a relative \"path\" without \"..\"");
    }
    row.evidence();
    row.finish();
    profile.files.push_back(std::move(file));
  }
  for (TomlTable& row : table.tables("override")) {
    HarnessProfile::Override entry;
    row.texts("files", entry.files);
    row.texts("keys", entry.keys);
    row.text("wanted", entry.wanted);
    if (entry.files.empty() || entry.keys.empty()) {
      row.complain("an [[override]] needs \"files\" and \"keys\"");
    }
    row.evidence();
    row.finish();
    profile.overrides.push_back(std::move(entry));
  }
  table.evidence();
  table.finish();
}

template <typename Profile>
Profile* find_by_name(std::vector<Profile>& profiles, std::string_view name) {
  const auto at = std::ranges::find(profiles, name, &Profile::name);
  return at == profiles.end() ? nullptr : &*at;
}

template <typename Profile>
const Profile* find_by_name(const std::vector<Profile>& profiles, std::string_view name) {
  const auto at = std::ranges::find(profiles, name, &Profile::name);
  return at == profiles.end() ? nullptr : &*at;
}

// The profile of that name, or a new one: of a provider with the numbers of "generic".
ProviderProfile& provider_of_name(std::vector<ProviderProfile>& profiles, const std::string& name) {
  if (ProviderProfile* known = find_by_name(profiles, name)) return *known;
  ProviderProfile fresh;
  if (const ProviderProfile* generic = find_by_name(profiles, kGeneric)) fresh = *generic;
  fresh.name = name;
  fresh.hosts.clear();
  fresh.default_upstream.clear();
  fresh.also_speaks.clear();
  fresh.families.clear();
  fresh.key_variables.clear();
  fresh.key_prefixes.clear();
  fresh.refusals.clear();  // Those of "generic" are appended to every profile at the end.
  profiles.push_back(std::move(fresh));
  return profiles.back();
}

HarnessProfile& harness_of_name(std::vector<HarnessProfile>& profiles, const std::string& name) {
  if (HarnessProfile* known = find_by_name(profiles, name)) return *known;
  profiles.emplace_back();
  profiles.back().name = name;
  return profiles.back();
}

struct Draft {
  std::vector<ProviderProfile> providers;
  std::vector<HarnessProfile> harnesses;
};

Result<void> read_file(const ProfileText& text, Draft& draft) {
  const std::string file(text.file);
  toml::table parsed;
  try {
    parsed = toml::parse(text.text, text.file);
  } catch (const toml::parse_error& error) {
    return fail(Errc::invalid, fmt::format("{}:{}: not valid TOML: {}", file,
                                           error.source().begin.line, error.description()));
  }
  std::optional<Error> first_error;
  TomlTable table(file, "", parsed, first_error);
  std::string provider;
  std::string harness;
  table.text("provider", provider);
  table.text("harness", harness);
  const std::string& name = provider.empty() ? harness : provider;
  if (provider.empty() == harness.empty() || !is_name(name)) {
    table.complain(
        "a profile starts with either provider = \"NAME\" or harness = \"NAME\", of small letters, "
        "digits, '-', '_', '.'");
  } else if (harness.empty()) {
    read_provider(table, provider_of_name(draft.providers, name));
  } else {
    read_harness(table, harness_of_name(draft.harnesses, name));
  }
  if (first_error) return std::unexpected(*first_error);
  return {};
}

bool host_matches(std::string_view pattern, std::string_view host) {
  return pattern.find('*') != std::string_view::npos && matches_pattern(pattern, host);
}

// "api.example.com:443" and "[::1]:80" without the port.
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) return host;
  const std::size_t bracket = host.rfind(']');
  const bool bare_ipv6 = host.find(':') != colon && bracket == std::string_view::npos;
  if (bare_ipv6 || (bracket != std::string_view::npos && bracket > colon)) return host;
  return host.substr(0, colon);
}

Result<Draft> read_all(const std::vector<ProfileText>& more) {
  Draft draft;
  const auto read_embedded = [&draft](std::string_view file, std::string_view text) {
    const auto read = read_file({file, text}, draft);
    HG_ASSERT(read.has_value());
  };
  // The others are built on "generic".
  for (const bool generic_ones : {true, false}) {
    for (const auto& [file, text] : embedded_providers::files()) {
      if ((file == "generic.toml") == generic_ones) read_embedded(file, text);
    }
  }
  for (const auto& [file, text] : embedded_harnesses::files()) read_embedded(file, text);
  for (const ProfileText& text : more) {
    if (auto read = read_file(text, draft); !read) return std::unexpected(read.error());
  }
  const ProviderProfile* generic = find_by_name(draft.providers, kGeneric);
  HG_ASSERT(generic != nullptr && find_by_name(draft.harnesses, kCustom) != nullptr);
  const std::vector<RefusalRule> last_rules = generic->refusals;
  for (ProviderProfile& profile : draft.providers) {
    if (profile.name == kGeneric) continue;
    profile.refusals.insert(profile.refusals.end(), last_rules.begin(), last_rules.end());
  }
  std::ranges::sort(draft.providers, {}, &ProviderProfile::name);
  std::ranges::sort(draft.harnesses, {}, &HarnessProfile::name);
  return draft;
}

}  // namespace

bool ProviderProfile::speaks(Dialect dialect) const {
  return dialect == main_dialect || std::ranges::find(also_speaks, dialect) != also_speaks.end();
}

const Profiles& Profiles::built_in() {
  static const Profiles profiles = [] {
    auto loaded = load({});
    HG_ASSERT(loaded.has_value());
    return *std::move(loaded);
  }();
  return profiles;
}

Result<Profiles> Profiles::load(const std::vector<ProfileText>& more) {
  auto draft = read_all(more);
  if (!draft) return std::unexpected(draft.error());
  Profiles profiles;
  profiles.providers_ = std::move(draft->providers);
  profiles.harnesses_ = std::move(draft->harnesses);
  return profiles;
}

const ProviderProfile* Profiles::provider(std::string_view name) const {
  return find_by_name(providers_, name);
}

const HarnessProfile* Profiles::harness(std::string_view name) const {
  return find_by_name(harnesses_, name);
}

const ProviderProfile& Profiles::provider_for_host(std::string_view host) const {
  std::string wanted = to_lower(without_port(host));
  if (wanted.ends_with('.')) wanted.pop_back();
  // An exact name beats a suffix.
  const ProviderProfile* by_suffix = nullptr;
  for (const ProviderProfile& profile : providers_) {
    for (const std::string& pattern : profile.hosts) {
      if (pattern == wanted) return profile;
      if (by_suffix == nullptr && host_matches(pattern, wanted)) by_suffix = &profile;
    }
  }
  return by_suffix != nullptr ? *by_suffix : *provider(kGeneric);
}

const HarnessProfile& Profiles::harness_for_program(std::string_view basename) const {
  for (const HarnessProfile& profile : harnesses_) {
    if (std::ranges::find(profile.programs, basename) != profile.programs.end()) return profile;
  }
  return *harness(kCustom);
}

const HarnessProfile& Profiles::harness_for_request(const Headers& headers) const {
  const std::string agent = to_lower(headers.find("user-agent").value_or(""));
  const HarnessProfile* best = nullptr;
  std::size_t longest = 0;
  for (const HarnessProfile& profile : harnesses_) {
    for (const std::string& prefix : profile.user_agents) {
      if (prefix.size() > longest && agent.starts_with(prefix)) {
        best = &profile;
        longest = prefix.size();
      }
    }
  }
  return best != nullptr ? *best : *harness(kCustom);
}

std::string family_of(const ProviderProfile& provider, std::string_view model) {
  for (const ProviderProfile::Family& family : provider.families) {
    if (matches_pattern(family.pattern, model)) return family.name;
  }
  return std::string(model);
}

}  // namespace hg::wire
