#include "gate/queue.h"

#include <utility>

#include "base/assert.h"

namespace hg::gate {

void Queue::hide_front(const Line& line) {
  if (line.alive && !line.reserving.empty()) fronts_.erase(*line.reserving.begin());
}

void Queue::show_front(const Line& line) {
  if (line.alive && !line.reserving.empty()) fronts_.insert(*line.reserving.begin());
}

Waiter& Queue::at(std::string_view id) {
  const auto found = waiters_.find(id);
  HG_ASSERT(found != waiters_.end());
  return *found->second;
}

void Queue::add(Waiter waiter) {
  auto owned = std::make_unique<Waiter>(std::move(waiter));
  const Waiter* added = owned.get();
  const bool is_new = waiters_.emplace(added->rank.id, std::move(owned)).second;
  HG_ASSERT(is_new);
  order_.insert(by_rank(*added));
  deadlines_.insert(by_deadline(*added));
  sums_.count += 1;
  sums_.charge += added->charge;
  sums_.estimate += added->estimate;
  sums_.output += added->output;
  Line& line = lines_[added->shim];
  line.waiters += 1;
  hide_front(line);
  line.reserving.insert(by_rank(*added));
  show_front(line);
}

const Waiter* Queue::find(std::string_view id) const {
  const auto found = waiters_.find(id);
  return found == waiters_.end() ? nullptr : found->second.get();
}

Waiter Queue::take(std::string_view id) {
  const auto owner = waiters_.find(id);
  HG_ASSERT(owner != waiters_.end());
  const Waiter& waiter = *owner->second;
  const auto line = lines_.find(waiter.shim);
  hide_front(line->second);
  line->second.reserving.erase(by_rank(waiter));
  show_front(line->second);
  if (--line->second.waiters == 0) lines_.erase(line);
  order_.erase(by_rank(waiter));
  deadlines_.erase(by_deadline(waiter));
  sums_.count -= 1;
  sums_.charge -= waiter.charge;
  sums_.estimate -= waiter.estimate;
  sums_.output -= waiter.output;
  Waiter taken = std::move(*owner->second);
  waiters_.erase(owner);
  return taken;
}

void Queue::set_deadline(std::string_view id, Instant deadline) {
  Waiter& waiter = at(id);
  if (waiter.deadline == deadline) return;
  deadlines_.erase(by_deadline(waiter));
  waiter.deadline = deadline;
  deadlines_.insert(by_deadline(waiter));
}

void Queue::set_reserves(std::string_view id, bool reserves) {
  Waiter& waiter = at(id);
  if (waiter.reserves == reserves) return;
  Line& line = lines_.find(waiter.shim)->second;
  hide_front(line);
  waiter.reserves = reserves;
  if (reserves) {
    line.reserving.insert(by_rank(waiter));
  } else {
    line.reserving.erase(by_rank(waiter));
  }
  show_front(line);
}

void Queue::set_alive(std::string_view shim, bool alive) {
  const auto found = lines_.find(shim);
  if (found == lines_.end() || found->second.alive == alive) return;
  hide_front(found->second);
  found->second.alive = alive;
  show_front(found->second);
}

const Waiter* Queue::head() const { return fronts_.empty() ? nullptr : fronts_.begin()->waiter; }

std::int64_t Queue::before(const Rank& rank) const {
  if (const Waiter* waiting = find(rank.id); waiting != nullptr && waiting->rank == rank) {
    return static_cast<std::int64_t>(order_.order_of_key(by_rank(*waiting)));
  }
  Waiter probe;
  probe.rank = rank;
  return static_cast<std::int64_t>(order_.order_of_key(by_rank(probe)));
}

const Waiter* Queue::expired(Instant now) const {
  if (deadlines_.empty() || deadlines_.begin()->key > now.since_zero) return nullptr;
  return deadlines_.begin()->waiter;
}

std::optional<Instant> Queue::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->waiter->deadline;
}

std::vector<const Waiter*> Queue::in_order() const {
  std::vector<const Waiter*> waiters;
  waiters.reserve(waiters_.size());
  for (const Entry& entry : order_) waiters.push_back(entry.waiter);
  return waiters;
}

}  // namespace hg::gate
