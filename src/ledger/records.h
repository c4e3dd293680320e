// records.h: what the ledger keeps beside calls: the planner's ticks, measured seeds, what
// discovery saw, and the settings that operators want, each change of which is written for good.
//
// Every write is one transaction. Functions on a Database: one thread with it. Errc::unavailable:
// the database did not answer; nothing was written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ledger/call_row.h"
#include "ledger/database.h"

namespace hg::ledger {

// One decision of the planner.
struct Tick {
  WallTime at;
  std::string pool;  // "": of all pools together.
  std::string run;
  std::string mode;     // "off", "observe", "live".
  std::string binding;  // The constraint that set the ceiling.
  Number ceiling;
  std::string decision;  // The whole of it, as a JSON text.
};
[[nodiscard]] Result<void> add_tick(Database& database, const Tick& tick);
[[nodiscard]] Result<std::vector<Tick>> latest_ticks(Database& database, std::int64_t most);

// A measured value of a pool's constant ("r_tok"), in that constant's unit.
struct Seed {
  std::string pool;
  std::string name;
  std::int64_t value = 0;
  std::string source;  // "discovery", "operator", ...
  WallTime measured_at;
};
[[nodiscard]] Result<void> add_seeds(Database& database, const std::vector<Seed>& seeds);
// The latest of each constant of the pool, by name.
[[nodiscard]] Result<std::vector<Seed>> latest_seeds(Database& database, const std::string& pool);

// What a phase of discovery saw.
struct Observation {
  WallTime at;
  std::string pool;
  std::string phase;
  std::string data;  // A JSON text.
};
[[nodiscard]] Result<void> add_observation(Database& database, const Observation& observation);
[[nodiscard]] Result<std::vector<Observation>> observations_of(Database& database,
                                                               const std::string& pool);

// A setting that an operator wants, and the change that made it so.
struct Setting {
  std::string scope;  // "pool/main", "run/17", "global".
  std::string name;
  std::string value;  // "": back to what it is without an operator.
  std::int64_t version = 0;
};
struct Edit {
  WallTime at;
  std::string actor;
  std::string reason;
  std::string scope;
  std::string name;
  std::string old_value;
  std::string new_value;
  std::int64_t version = 0;  // Of the setting, after the edit: 1, 2, ...
};

// Writes the wanted setting and its audit row together, or neither. `edit` names at, actor, reason,
// scope, name and new_value; old_value and version are answered. Errc::conflict: the setting has
// another version than `expected` (0: it must be new), or somebody else was faster.
[[nodiscard]] Result<Edit> edit_setting(Database& database, const Edit& edit,
                                        std::optional<std::int64_t> expected);
[[nodiscard]] Result<std::vector<Setting>> settings_of(Database& database,
                                                       const std::string& scope);
// The newest first; "" is every scope.
[[nodiscard]] Result<std::vector<Edit>> latest_edits(Database& database, const std::string& scope,
                                                     std::int64_t most);

}  // namespace hg::ledger
