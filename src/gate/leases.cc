#include "gate/leases.h"

#include "base/assert.h"

namespace hg::gate {

void Leases::add(Lease lease) {
  deadlines_.emplace(lease.deadline, lease.id);
  ++by_shim_[lease.shim];
  sum_ += lease.estimate;
  std::string id = lease.id;
  const bool added = leases_.emplace(std::move(id), std::move(lease)).second;
  HG_ASSERT(added);
}

const Lease* Leases::find(std::string_view id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

void Leases::extend(std::string_view id, Micros ttl, Instant now) {
  const auto found = leases_.find(id);
  HG_ASSERT(found != leases_.end());
  Lease& lease = found->second;
  deadlines_.erase({lease.deadline, lease.id});
  lease.ttl = ttl;
  lease.deadline = now + ttl;
  deadlines_.emplace(lease.deadline, lease.id);
}

Lease Leases::take(std::string_view id) {
  const auto found = leases_.find(id);
  HG_ASSERT(found != leases_.end());
  Lease lease = std::move(found->second);
  leases_.erase(found);
  deadlines_.erase({lease.deadline, lease.id});
  sum_ -= lease.estimate;
  const auto owner = by_shim_.find(lease.shim);
  if (--owner->second == 0) by_shim_.erase(owner);
  HG_ASSERT(!leases_.empty() || sum_ == 0);
  return lease;
}

const Lease* Leases::expired(Instant now) const {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return nullptr;
  return find(deadlines_.begin()->second);
}

std::optional<Instant> Leases::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

bool Leases::any_of(std::string_view shim) const { return by_shim_.contains(shim); }

void EndedIds::add(std::string_view id, Instant until) {
  const bool added = ids_.emplace(std::string(id), until).second;
  if (added) by_time_.emplace(until, std::string(id));
}

bool EndedIds::contains(std::string_view id) const { return ids_.contains(id); }

void EndedIds::sweep(Instant now, int most) {
  for (int i = 0; i < most && !by_time_.empty() && by_time_.begin()->first <= now; ++i) {
    ids_.erase(ids_.find(by_time_.begin()->second));
    by_time_.erase(by_time_.begin());
  }
}

}  // namespace hg::gate
