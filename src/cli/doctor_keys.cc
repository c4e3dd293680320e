#include "cli/doctor_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace hg::cli {

namespace {

constexpr std::string_view kAbout = "keys";

bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

std::vector<std::string> set_variables(const Environment& environment,
                                       const wire::ProviderProfile& profile) {
  std::vector<std::string> there;
  for (const std::string& name : profile.key_variables) {
    if (value_of(environment, name)) there.push_back(name);
  }
  return there;
}

// Whether two of the variables hold different keys.
bool contradict(const Environment& environment, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return value_of(environment, name) != value_of(environment, names.front());
  });
}

std::optional<Finding> check_variable(const Environment& environment, const std::string& name,
                                      const wire::ProviderProfile& profile,
                                      const std::vector<KeyedUpstream>& upstreams,
                                      const wire::Profiles& profiles) {
  const std::string_view key = *value_of(environment, name);
  if (key.empty()) {
    return warning("keys.empty", std::string(kAbout), fmt::format("{} is set, but empty", name),
                   fmt::format("Set it to your key of {}, or unset it: some programs take an empty "
                               "key for one.",
                               profile.name));
  }
  if (const std::string_view mistake = key_mistake(key); !mistake.empty()) {
    return problem("keys.malformed", std::string(kAbout), fmt::format("{} {}", name, mistake),
                   fmt::format("Set {} anew: the key alone, as the provider showed it, without "
                               "quotation marks, blanks or line breaks.",
                               name));
  }
  const std::string other = provider_of_key(key, profiles);
  if (other.empty() || other == profile.name) return std::nullopt;
  // Programs take a gateway's key from the variable of the dialect that the gateway speaks.
  const bool meant = std::any_of(upstreams.begin(), upstreams.end(), [&](const auto& upstream) {
    return upstream.profile->name == other;
  });
  if (meant) return std::nullopt;
  return problem(
      "keys.of_another", std::string(kAbout),
      fmt::format("{} holds what begins like a key of {}, not of {}", name, other, profile.name),
      fmt::format("Put a key of {} into {}, or name {} as the upstream "
                  "(--upstream {}).",
                  profile.name, name, other, other));
}

}  // namespace

std::optional<std::string_view> value_of(const Environment& environment, std::string_view name) {
  for (const auto& [variable, value] : environment) {
    if (variable == name) return value;
  }
  return std::nullopt;
}

std::string_view key_mistake(std::string_view key) {
  if (key.empty()) return "is empty";
  if (is_quote(key.front()) || is_quote(key.back())) return "is in quotation marks";
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  if (is_blank(key.front()) || is_blank(key.back())) {
    return "has a blank or a line break at its start or end";
  }
  if (to_lower(key).starts_with("bearer ")) return "begins with the word Bearer";
  if (std::any_of(key.begin(), key.end(), is_blank)) return "has a blank or a line break inside";
  if (key.front() == '$') return "is the name of another variable, which no shell has replaced";
  if (std::any_of(key.begin(), key.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x21 || static_cast<unsigned char>(c) > 0x7e;
      })) {
    return "has characters that no key has";
  }
  const std::string lower = to_lower(key);
  if (lower.find("...") != std::string::npos || key.front() == '<' || key.back() == '>' ||
      lower.starts_with("your") ||
      holds_any(lower, {"xxxx", "your-", "your_", "changeme", "change-me", "change_me",
                        "placeholder", "paste", "insert-", "api-key-here", "key-here", "****"})) {
    return "is a placeholder from some example";
  }
  return "";
}

std::string provider_of_key(std::string_view key, const wire::Profiles& profiles) {
  std::string owner;
  std::size_t longest = 0;
  for (const wire::ProviderProfile& profile : profiles.providers()) {
    for (const std::string& prefix : profile.key_prefixes) {
      if (prefix.size() <= longest || !key.starts_with(prefix)) continue;
      longest = prefix.size();
      owner = profile.name;
    }
  }
  return owner;
}

Findings check_keys(const Environment& environment, const std::vector<KeyedUpstream>& upstreams,
                    const wire::Profiles& profiles) {
  Findings findings;
  std::vector<std::string> wrong;
  for (const wire::ProviderProfile& profile : profiles.providers()) {
    const std::vector<std::string> there = set_variables(environment, profile);
    for (const std::string& name : there) {
      auto finding = check_variable(environment, name, profile, upstreams, profiles);
      if (!finding) continue;
      wrong.push_back(name);
      findings.push_back(std::move(*finding));
    }
    if (there.size() > 1 && contradict(environment, there)) {
      findings.push_back(warning(
          "keys.contradict", std::string(kAbout),
          fmt::format("{} are set to different keys", joined(there, " and ")),
          "Unset all but one: which of them a program sends is its own affair, and some send "
          "both."));
    }
  }
  std::vector<std::string> said;
  for (const KeyedUpstream& upstream : upstreams) {
    const wire::ProviderProfile& profile = *upstream.profile;
    if (profile.key_variables.empty()) continue;
    if (std::find(said.begin(), said.end(), profile.name) != said.end()) continue;
    said.push_back(profile.name);
    std::vector<std::string> good = set_variables(environment, profile);
    std::erase_if(good, [&](const std::string& name) {
      return std::find(wrong.begin(), wrong.end(), name) != wrong.end();
    });
    if (!good.empty()) {
      findings.push_back(fine("keys.present", std::string(kAbout),
                              fmt::format("{}: {} is set", profile.name, joined(good, ", "))));
    } else if (set_variables(environment, profile).empty()) {
      findings.push_back(warning(
          "keys.missing", std::string(kAbout),
          profile.key_variables.size() == 1
              ? fmt::format("{}: {} is not set", profile.name, profile.key_variables.front())
              : fmt::format("{}: none of {} is set", profile.name,
                            joined(profile.key_variables, ", ")),
          fmt::format("Set {} to your key, unless your programs have a login of their own.",
                      profile.key_variables.front())));
    }
  }
  return findings;
}

std::optional<std::string> usable_key_variable(const Environment& environment,
                                               const wire::ProviderProfile& profile,
                                               const wire::Profiles& profiles) {
  for (const std::string& name : profile.key_variables) {
    const auto key = value_of(environment, name);
    if (!key || !key_mistake(*key).empty()) continue;
    // A key goes to its own provider and to nobody else.
    const std::string owner = provider_of_key(*key, profiles);
    if (owner.empty() || owner == profile.name) return name;
  }
  return std::nullopt;
}

std::vector<std::string> key_variables(const wire::Profiles& profiles) {
  std::vector<std::string> names;
  for (const wire::ProviderProfile& profile : profiles.providers()) {
    names.insert(names.end(), profile.key_variables.begin(), profile.key_variables.end());
  }
  return names;
}

}  // namespace hg::cli
