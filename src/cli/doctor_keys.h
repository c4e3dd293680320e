// doctor_keys.h: whether the keys that programs will send are there, and whether they can be right.
//
// No text of a key, nor any part of one, is in what these functions answer. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "cli/doctor_findings.h"
#include "wire/profiles.h"

namespace hg::cli {

// The value of a variable; nothing when it is unset.
[[nodiscard]] std::optional<std::string_view> value_of(const Environment& environment,
                                                       std::string_view name);

// What is wrong with this text as a key of anybody ("is in quotation marks"); "" for nothing.
[[nodiscard]] std::string_view key_mistake(std::string_view key);

// The provider by whose prefix the key begins; "" when no prefix tells.
[[nodiscard]] std::string provider_of_key(std::string_view key, const wire::Profiles& profiles);

// An upstream that calls will go to, and its profile.
struct KeyedUpstream {
  std::string name;
  const wire::ProviderProfile* profile = nullptr;
};

// One finding or more for each upstream whose provider has keys, and for each variable of any
// provider that holds what cannot be its key.
[[nodiscard]] Findings check_keys(const Environment& environment,
                                  const std::vector<KeyedUpstream>& upstreams,
                                  const wire::Profiles& profiles);

// The variable whose key a look at this provider may send, if there is one that can be right.
[[nodiscard]] std::optional<std::string> usable_key_variable(const Environment& environment,
                                                             const wire::ProviderProfile& profile,
                                                             const wire::Profiles& profiles);

// All names of variables that hold keys.
[[nodiscard]] std::vector<std::string> key_variables(const wire::Profiles& profiles);

}  // namespace hg::cli
