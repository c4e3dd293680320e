// harness_table.h: what `headgate harness` shows of the harness profiles.
//
// Pure.
#pragma once
#include <cstddef>
#include <string>

#include "wire/profiles.h"

namespace hg::cli {

// One row a harness: its programs, how long a call may be held, its patience, how `exec` points it
// at the shim. The table is for people, at most `width` columns wide (0: any).
[[nodiscard]] std::string harness_table(const wire::Profiles& profiles, std::size_t width);

// The same as a JSON array, with every number of the profiles; ends with a line break.
[[nodiscard]] std::string harness_json(const wire::Profiles& profiles);

}  // namespace hg::cli
