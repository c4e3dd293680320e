// compose.h: from the configuration and the profiles to what the shim is told.
//
// Pure. Errors are Errc::invalid and name the place in the configuration and what is allowed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/config.h"
#include "proxy/shim_config.h"
#include "wire/profiles.h"

namespace hg::cli {

// Upstreams: those configured, the default one first; when there are none, the public ones of the
// provider profiles. Pools: limits that the configuration leaves out are the profile's.
[[nodiscard]] Result<proxy::ShimConfig> make_shim_config(const Config& config,
                                                         const wire::Profiles& profiles);

// Built-in profiles and the *.toml files of `directory` ("" for none).
[[nodiscard]] Result<wire::Profiles> load_profiles(const std::string& directory);

// The profile that an upstream has: by name, else by its URL's host.
[[nodiscard]] const wire::ProviderProfile& profile_of(const proxy::Upstream& upstream,
                                                      const wire::Profiles& profiles);

// The limits that a pool of this provider starts from when nobody configured any.
[[nodiscard]] gate::Limits start_limits(const wire::ProviderProfile& profile);

// "200,000 tokens burst, 40,000 tokens/s, 1,000,000 in flight, 60 requests burst, 20/s".
[[nodiscard]] std::string describe(const gate::Limits& limits);

// Equal for configurations under which a daemon decides alike: everything but where it listens,
// where its files are, how much it says, and the upstreams, which runs may add.
[[nodiscard]] std::string fingerprint(const Config& config);

}  // namespace hg::cli
