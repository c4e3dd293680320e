#include "gate/queue.h"

namespace hg::gate {

void Queue::hide_front(Owner& owner) {
  if (owner.alive && !owner.line.empty()) fronts_.erase(fronts_.iterator_to(owner));
}

void Queue::show_front(Owner& owner) {
  if (owner.alive && !owner.line.empty()) fronts_.insert(owner);
}

// Whoever joins behind others, or leaves from behind others, changes no front.
void Queue::join_line(Call& call) {
  Owner& owner = *call.owner;
  const bool behind = !owner.line.empty() && ByRank()(*owner.line.begin(), call);
  if (!behind) hide_front(owner);
  insert_late(owner.line, call);
  if (!behind) show_front(owner);
}

void Queue::leave_line(Call& call) {
  Owner& owner = *call.owner;
  const bool behind = &*owner.line.begin() != &call;
  if (!behind) hide_front(owner);
  owner.line.erase(owner.line.iterator_to(call));
  if (!behind) show_front(owner);
}

void Queue::add(Call& call) {
  order_.insert({call.score, &call});
  insert_late(deadlines_, call);
  join_line(call);
  sums_.count += 1;
  sums_.charge += call.charge;
  sums_.estimate += call.estimate;
  sums_.output += call.output;
}

void Queue::remove(Call& call) {
  if (call.reserves) leave_line(call);
  deadlines_.erase(deadlines_.iterator_to(call));
  order_.erase({call.score, &call});
  sums_.count -= 1;
  sums_.charge -= call.charge;
  sums_.estimate -= call.estimate;
  sums_.output -= call.output;
}

void Queue::set_deadline(Call& call, Instant deadline) {
  if (call.deadline == deadline) return;
  deadlines_.erase(deadlines_.iterator_to(call));
  call.deadline = deadline;
  insert_late(deadlines_, call);
}

void Queue::set_reserves(Call& call, bool reserves) {
  if (call.reserves == reserves) return;
  call.reserves = reserves;
  if (reserves) {
    join_line(call);
  } else {
    leave_line(call);
  }
}

void Queue::set_alive(Owner& owner, bool alive) {
  if (owner.alive == alive) return;
  hide_front(owner);
  owner.alive = alive;
  show_front(owner);
}

Call* Queue::head() { return fronts_.empty() ? nullptr : &*fronts_.begin()->line.begin(); }

const Call* Queue::head() const {
  return fronts_.empty() ? nullptr : &*fronts_.begin()->line.begin();
}

std::int64_t Queue::before(const Call& call) const {
  return static_cast<std::int64_t>(order_.order_of_key({call.score, &call}));
}

Call* Queue::expired(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->deadline > now) return nullptr;
  return &*deadlines_.begin();
}

std::optional<Instant> Queue::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->deadline;
}

std::vector<const Call*> Queue::in_order() const {
  std::vector<const Call*> calls;
  calls.reserve(order_.size());
  for (const Entry& entry : order_) calls.push_back(entry.call);
  return calls;
}

}  // namespace hg::gate
