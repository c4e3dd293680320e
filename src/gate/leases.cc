#include "gate/leases.h"

#include "base/assert.h"

namespace hg::gate {

void Leases::add(Lease lease) {
  ++by_shim_[lease.shim];
  sum_ += lease.estimate;
  std::string id = lease.id;
  const auto [at, added] = leases_.emplace(std::move(id), std::move(lease));
  HG_ASSERT(added);
  deadlines_.insert(&at->second);
}

const Lease* Leases::find(std::string_view id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

void Leases::extend(std::string_view id, Micros ttl, Instant now) {
  const auto found = leases_.find(id);
  HG_ASSERT(found != leases_.end());
  Lease& lease = found->second;
  deadlines_.erase(&lease);
  lease.ttl = ttl;
  lease.deadline = now + ttl;
  deadlines_.insert(&lease);
}

Lease Leases::take(std::string_view id) {
  const auto found = leases_.find(id);
  HG_ASSERT(found != leases_.end());
  deadlines_.erase(&found->second);
  Lease lease = std::move(found->second);
  leases_.erase(found);
  sum_ -= lease.estimate;
  const auto owner = by_shim_.find(lease.shim);
  if (--owner->second == 0) by_shim_.erase(owner);
  HG_ASSERT(!leases_.empty() || sum_ == 0);
  return lease;
}

const Lease* Leases::expired(Instant now) const {
  if (deadlines_.empty() || (*deadlines_.begin())->deadline > now) return nullptr;
  return *deadlines_.begin();
}

std::optional<Instant> Leases::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return (*deadlines_.begin())->deadline;
}

bool Leases::any_of(std::string_view shim) const { return by_shim_.contains(shim); }

void EndedIds::add(std::string_view id, Instant until) {
  const auto [at, added] = ids_.emplace(std::string(id), until);
  if (added) by_time_.insert(&*at);
}

bool EndedIds::contains(std::string_view id) const { return ids_.contains(id); }

void EndedIds::sweep(Instant now, int most) {
  for (int i = 0; i < most && !by_time_.empty() && (*by_time_.begin())->second <= now; ++i) {
    const auto id = ids_.find((*by_time_.begin())->first);
    by_time_.erase(by_time_.begin());
    ids_.erase(id);
  }
}

}  // namespace hg::gate
