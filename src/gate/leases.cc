#include "gate/leases.h"

#include <utility>

#include "base/assert.h"

namespace hg::gate {

void Leases::add(Call& call) {
  insert_late(deadlines_, call);
  sum_ += call.estimate;
}

void Leases::remove(Call& call) {
  deadlines_.erase(deadlines_.iterator_to(call));
  sum_ -= call.estimate;
  HG_ASSERT(!deadlines_.empty() || sum_ == 0);
}

void Leases::extend(Call& call, Micros ttl, Instant now) {
  deadlines_.erase(deadlines_.iterator_to(call));
  call.ttl = ttl;
  call.deadline = now + ttl;
  insert_late(deadlines_, call);
}

Call* Leases::expired(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->deadline > now) return nullptr;
  return &*deadlines_.begin();
}

std::optional<Instant> Leases::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->deadline;
}

void EndedIds::add(std::string id, Instant until) {
  const auto [at, added] = ids_.try_emplace(std::move(id));
  at->second.id = at->first;
  if (!added) by_time_.erase(by_time_.iterator_to(at->second));  // Past its time, not swept yet.
  at->second.until = until;
  insert_late(by_time_, at->second);
}

bool EndedIds::contains(std::string_view id, Instant now) const {
  const auto found = ids_.find(id);
  return found != ids_.end() && found->second.until > now;
}

void EndedIds::sweep(Instant now, int most) {
  for (int i = 0; i < most && !by_time_.empty() && by_time_.begin()->until <= now; ++i) {
    const auto id = ids_.find(by_time_.begin()->id);
    by_time_.erase(by_time_.begin());
    ids_.erase(id);
  }
}

}  // namespace hg::gate
