// leases.h: the calls at the provider now, with their running sum, and the ids that have ended.
//
// A lease lives until it is settled or its deadline passes; its owner's heartbeat moves the
// deadline. An ended id is remembered for a while, so that what arrives late or twice finds it.
// Pure. Thread-safety: none. Every operation costs O(log n).
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "gate/string_map.h"
#include "gate/types.h"

namespace hg::gate {

struct Lease {
  std::string id, shim, alias;
  Tokens estimate = 0;
  Tokens charge = 0;
  Tokens output = 0;
  Weights weights;  // Of the admission: the settlement uses them, whatever was configured since.
  bool rebuilt = false;  // From a heartbeat: nobody knows whether its charge was drawn here.
  Instant since;
  Micros ttl{0};
  Instant deadline;
};

class Leases {
 public:
  void add(Lease lease);
  [[nodiscard]] const Lease* find(std::string_view id) const;
  void extend(std::string_view id, Micros ttl, Instant now);
  Lease take(std::string_view id);  // It must be there.

  // The lease whose deadline passed first, if one has.
  [[nodiscard]] const Lease* expired(Instant now) const;
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] Tokens sum() const { return sum_; }  // Of the estimates; 0 without leases.
  [[nodiscard]] bool empty() const { return leases_.empty(); }
  [[nodiscard]] bool any_of(std::string_view shim) const;
  [[nodiscard]] const StringMap<Lease>& all() const { return leases_; }

 private:
  struct ByDeadline {
    bool operator()(const Lease* left, const Lease* right) const {
      if (left->deadline != right->deadline) return left->deadline < right->deadline;
      return left->id < right->id;
    }
  };

  StringMap<Lease> leases_;
  std::set<const Lease*, ByDeadline> deadlines_;
  StringMap<std::int64_t> by_shim_;  // Leases of each; none of it is 0.
  Tokens sum_ = 0;
};

class EndedIds {
 public:
  void add(std::string_view id, Instant until);
  [[nodiscard]] bool contains(std::string_view id) const;
  void sweep(Instant now, int most);
  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  using Id = std::pair<const std::string, Instant>;  // And until when it is remembered.
  struct ByTime {
    bool operator()(const Id* left, const Id* right) const {
      if (left->second != right->second) return left->second < right->second;
      return left->first < right->first;
    }
  };

  StringMap<Instant> ids_;
  std::set<const Id*, ByTime> by_time_;
};

}  // namespace hg::gate
