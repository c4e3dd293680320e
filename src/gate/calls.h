// calls.h: the calls that a pool knows by id, waiting or at the provider, each with its owner.
//
// One record a call, from its first denial or its admission to its end: an operation looks an id up
// once and hands the record on. Queue and Leases sort these records by hooks inside them, own
// nothing and allocate nothing. Pure. Thread-safety: none. Every operation costs O(1).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "gate/hooked_set.h"
#include "gate/string_map.h"
#include "gate/types.h"
#include "gate/windows.h"

namespace hg::gate {

struct Owner;

struct Call {
  enum class Stage : std::uint8_t { waiting, at_provider };

  std::string_view id;     // The key in Calls.
  Owner* owner = nullptr;  // In the same Calls.
  std::string alias;
  WindowRing* windows = nullptr;  // The alias', once anything was counted there.
  Stage stage = Stage::waiting;
  Tokens estimate = 0;  // As charge, output and weights, those of the first ask.
  Tokens charge = 0;
  Tokens output = 0;
  Weights weights;   // Of the admission: the settlement uses them, whatever was configured since.
  Instant since;     // When this stage began; seniority earned before is in the score only.
  Instant deadline;  // Of the hold or of the lease.

  // While it waits.
  Micros score{0};       // Where it stands in the order; fixed at the first denial.
  bool reserves = true;  // False: it was the head, could have gone, and did not ask.

  // At the provider.
  Micros ttl{0};
  bool rebuilt = false;  // From a heartbeat: nobody knows whether its charge was drawn here.

  SetHook by_deadline;
  SetHook in_line;  // Of its owner, while it waits and reserves.
};

// Earlier scores first, ties by id.
struct ByRank {
  bool operator()(const Call& left, const Call& right) const {
    if (left.score != right.score) return left.score < right.score;
    return left.id < right.id;
  }
};

struct ByDeadline {
  bool operator()(const Call& left, const Call& right) const {
    if (left.deadline != right.deadline) return left.deadline < right.deadline;
    return left.id < right.id;
  }
};

// A shim that has calls here: for as long as it has any, also when it was forgotten meanwhile.
struct Owner {
  std::string_view name;  // The key in Calls.
  std::int64_t calls = 0;
  bool alive = true;
  HookedSet<Call, &Call::in_line, ByRank> line;
  SetHook in_fronts;  // While it is alive and its line is not empty.
};

class Calls {
 public:
  [[nodiscard]] Call* find(std::string_view id);

  // A copy of `call` under this id, which is new. Of a living shim: an owner begins alive.
  Call& add(const Call& call, std::string_view id, std::string_view shim, std::string_view alias);

  // In no set any more. Answers its id.
  std::string remove(const Call& call);

  [[nodiscard]] Owner* owner(std::string_view shim);  // Null if it has no calls.
  [[nodiscard]] bool empty() const { return calls_.empty(); }
  [[nodiscard]] const StringMap<Call>& all() const { return calls_; }

 private:
  StringMap<Call> calls_;
  StringMap<Owner> owners_;
};

}  // namespace hg::gate
