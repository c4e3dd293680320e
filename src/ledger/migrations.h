// migrations.h: the schema of the ledger, as steps that are only ever appended. docs/ledger.md
// describes what they come to.
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ledger/database.h"

namespace hg::ledger {

// The number of steps: the version of a database that has them all.
[[nodiscard]] std::int64_t latest_version();

// The statements that bring a database from `version` to `version` + 1. 0 <= version <
// latest_version().
[[nodiscard]] std::vector<std::string> migration_from(std::int64_t version, Place::Kind kind);

}  // namespace hg::ledger
