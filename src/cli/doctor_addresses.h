// doctor_addresses.h: whether the base URLs that programs will read lead to a gate: variables of
// the environment, and the programs' own settings files.
//
// Pure: who answers at an address is asked by a function of the caller's. No text of a variable is
// repeated unless it is a URL without user, password and query.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/config.h"
#include "cli/doctor_findings.h"
#include "net/url.h"
#include "wire/profiles.h"

namespace hg::cli {

enum class Listener : std::uint8_t { nobody, gate, other, not_asked };
using AskListener = std::function<Listener(const net::Url&)>;

// A variable that programs read their base URL from, and what stands behind the gate's address.
struct BaseVariable {
  std::string name;
  std::string suffix;  // "" or "/v1".
};
[[nodiscard]] std::vector<BaseVariable> base_variables(const wire::Profiles& profiles);

// Where people are sent: the running daemon's base URL, "" when there is none.
[[nodiscard]] Findings check_base_variables(const Environment& environment,
                                            const wire::Profiles& profiles, const std::string& gate,
                                            const AskListener& ask);

// Variables by which calls to loopback go to a proxy.
[[nodiscard]] Findings check_proxy_variables(const Environment& environment);

// The texts that a settings file has at these keys ("providers.*.base_url"; a "*" is any key or
// element). Errc::invalid: neither JSON (with comments) nor, for a name that ends so, TOML.
struct SettingsValue {
  std::string key;
  std::string value;
};
[[nodiscard]] Result<std::vector<SettingsValue>> settings_values(
    std::string_view file, std::string_view text, const std::vector<std::string>& keys);

// What such a file means for this program.
[[nodiscard]] Findings check_settings_file(const wire::HarnessProfile& harness,
                                           const wire::HarnessProfile::Override& rule,
                                           std::string_view file, std::string_view text,
                                           const std::string& gate, const AskListener& ask);

}  // namespace hg::cli
