// queue.h: the calls that wait, in the order in which they are served.
//
// Ordered by score (lower is earlier), ties by id. The head is the first whose shim is alive and
// that has not lost its reservation. Two levels keep that cheap: each shim's line in order, and the
// fronts of the living lines in order, so that a shim that dies or returns with hundreds of waiters
// moves one entry. Pure. Thread-safety: none. Every operation costs O(log n).
#pragma once
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "gate/string_map.h"
#include "gate/types.h"

namespace hg::gate {

// Where a call stands in the order.
struct Rank {
  Micros score{0};
  std::string id;

  friend auto operator<=>(const Rank&, const Rank&) = default;
};

struct Waiter {
  Rank rank;  // Fixed at the first denial.
  std::string shim, alias;
  Tokens estimate = 0;  // As charge and output, those of the first ask.
  Tokens charge = 0;
  Tokens output = 0;
  Weights weights;
  Instant registered;  // Its first denial here; seniority earned before is in the score only.
  Instant deadline;
  bool reserves = true;  // False: it was the head, could have gone, and did not ask.
};

class Queue {
 public:
  void add(Waiter waiter);  // It reserves; its id is new.
  [[nodiscard]] const Waiter* find(std::string_view id) const;
  Waiter take(std::string_view id);  // It must be there.

  void set_deadline(std::string_view id, Instant deadline);
  void set_reserves(std::string_view id, bool reserves);
  void set_alive(std::string_view shim, bool alive);  // New lines are alive.

  // Whom the next tokens are kept for; nothing when nobody living waits.
  [[nodiscard]] const Waiter* head() const;

  // How many waiters stand before this rank, dead ones included.
  [[nodiscard]] std::int64_t before(const Rank& rank) const;

  // The waiter whose hold ended first, if one has.
  [[nodiscard]] const Waiter* expired(Instant now) const;
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  // Sums over all waiters, for predictions.
  struct Sums {
    std::int64_t count = 0;
    Tokens charge = 0;
    Tokens estimate = 0;
    Tokens output = 0;
  };
  [[nodiscard]] const Sums& sums() const { return sums_; }
  [[nodiscard]] bool empty() const { return waiters_.empty(); }
  [[nodiscard]] bool any_of(std::string_view shim) const { return lines_.contains(shim); }
  [[nodiscard]] std::vector<const Waiter*> in_order() const;

 private:
  // A waiter under what it is sorted by, its score or its deadline; ties by id. The key stands here
  // once more so that a search seldom has to look at the waiters themselves.
  struct Entry {
    Micros key;
    const Waiter* waiter = nullptr;

    friend bool operator<(const Entry& left, const Entry& right) {
      if (left.key != right.key) return left.key < right.key;
      return left.waiter->rank.id < right.waiter->rank.id;
    }
  };
  static Entry by_rank(const Waiter& waiter) { return {waiter.rank.score, &waiter}; }
  static Entry by_deadline(const Waiter& waiter) { return {waiter.deadline.since_zero, &waiter}; }

  struct Line {
    std::set<Entry> reserving;  // By rank.
    std::int64_t waiters = 0;   // Of this shim, with those that reserve nothing.
    bool alive = true;
  };
  // A tree that also knows the position of each entry.
  using Order = __gnu_pbds::tree<Entry, __gnu_pbds::null_type, std::less<>, __gnu_pbds::rb_tree_tag,
                                 __gnu_pbds::tree_order_statistics_node_update>;

  Waiter& at(std::string_view id);
  void hide_front(const Line& line);
  void show_front(const Line& line);

  StringMap<std::unique_ptr<Waiter>> waiters_;
  Order order_;                // By rank.
  std::set<Entry> deadlines_;  // By deadline.
  StringMap<Line> lines_;      // By shim; those with waiters.
  std::set<Entry> fronts_;     // By rank: the first reserving waiter of each living line.
  Sums sums_;
};

}  // namespace hg::gate
