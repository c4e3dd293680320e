// leases.h: the calls at the provider now, with their running sum, and the ids that have ended.
//
// A lease lives until it is settled or its deadline passes; its owner's heartbeat moves the
// deadline. Leases owns no record: those are in Calls, and are removed here before they go. An
// ended id is remembered for a while, so that what arrives late or twice finds it.
// Pure. Thread-safety: none. Every operation costs O(log n).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "gate/calls.h"
#include "gate/string_map.h"
#include "gate/types.h"

namespace hg::gate {

class Leases {
 public:
  void add(Call& call);
  void remove(Call& call);
  void extend(Call& call, Micros ttl, Instant now);

  // The lease whose deadline passed first, if one has.
  [[nodiscard]] Call* expired(Instant now);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] Tokens sum() const { return sum_; }  // Of the estimates; 0 without leases.
  [[nodiscard]] bool empty() const { return deadlines_.empty(); }

 private:
  HookedSet<Call, &Call::by_deadline, ByDeadline> deadlines_;
  Tokens sum_ = 0;
};

class EndedIds {
 public:
  void add(std::string id, Instant until);
  [[nodiscard]] bool contains(std::string_view id, Instant now) const;
  // Only makes room: what is past its time is not contained, swept or not.
  void sweep(Instant now, int most);
  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  struct Ended {
    std::string_view id;  // The key in ids_.
    Instant until;
    SetHook by_time;
  };
  struct ByTime {
    bool operator()(const Ended& left, const Ended& right) const {
      if (left.until != right.until) return left.until < right.until;
      return left.id < right.id;
    }
  };

  StringMap<Ended> ids_;
  HookedSet<Ended, &Ended::by_time, ByTime> by_time_;
};

}  // namespace hg::gate
