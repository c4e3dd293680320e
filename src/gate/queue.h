// queue.h: the calls that wait, in the order in which they are served.
//
// Ordered by score (lower is earlier), ties by id. The head is the first whose shim is alive and
// that has not lost its reservation. Two levels keep that cheap: each owner's line in order, and
// the fronts of the living lines in order, so that a shim that dies or returns with hundreds of
// waiters moves one entry. Owns no record: those are in Calls, and are removed here before they go.
// Pure. Thread-safety: none. Every operation costs O(log n).
#pragma once
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gate/calls.h"
#include "gate/types.h"

namespace hg::gate {

class Queue {
 public:
  void add(Call& call);  // It waits and reserves.
  void remove(Call& call);

  void set_deadline(Call& call, Instant deadline);
  void set_reserves(Call& call, bool reserves);
  void set_alive(Owner& owner, bool alive);

  // Whom the next tokens are kept for; nothing when nobody living waits.
  [[nodiscard]] Call* head();
  [[nodiscard]] const Call* head() const;

  // How many waiters stand before this call, dead ones included; it need not be in the queue.
  [[nodiscard]] std::int64_t before(const Call& call) const;

  // The waiter whose hold ended first, if one has.
  [[nodiscard]] Call* expired(Instant now);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  // Sums over all waiters, for predictions.
  struct Sums {
    std::int64_t count = 0;
    Tokens charge = 0;
    Tokens estimate = 0;
    Tokens output = 0;
  };
  [[nodiscard]] const Sums& sums() const { return sums_; }
  [[nodiscard]] bool empty() const { return sums_.count == 0; }
  [[nodiscard]] std::vector<const Call*> in_order() const;

 private:
  // The score stands here once more so that a search seldom has to look at the calls themselves.
  struct Entry {
    Micros score;
    const Call* call = nullptr;

    friend bool operator<(const Entry& left, const Entry& right) {
      if (left.score != right.score) return left.score < right.score;
      return left.call->id < right.call->id;
    }
  };
  // A tree that also knows the position of each entry.
  using Order = __gnu_pbds::tree<Entry, __gnu_pbds::null_type, std::less<>, __gnu_pbds::rb_tree_tag,
                                 __gnu_pbds::tree_order_statistics_node_update>;
  struct ByFront {
    bool operator()(const Owner& left, const Owner& right) const {
      return ByRank()(*left.line.begin(), *right.line.begin());
    }
  };

  void join_line(Call& call);
  void leave_line(Call& call);
  void hide_front(Owner& owner);
  void show_front(Owner& owner);

  Order order_;
  HookedSet<Call, &Call::by_deadline, ByDeadline> deadlines_;
  HookedSet<Owner, &Owner::in_fronts, ByFront> fronts_;
  Sums sums_;
};

}  // namespace hg::gate
