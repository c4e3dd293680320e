#include "gate/calls.h"

#include <utility>

#include "base/assert.h"

namespace hg::gate {

Call* Calls::find(std::string_view id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

Call& Calls::add(const Call& call, std::string_view id, std::string_view shim,
                 std::string_view alias) {
  auto owner = owners_.find(shim);
  if (owner == owners_.end()) {
    owner = owners_.try_emplace(std::string(shim)).first;
    owner->second.name = owner->first;
  }
  const auto [at, added] = calls_.try_emplace(std::string(id), call);
  HG_ASSERT(added);
  Call& record = at->second;
  record.id = at->first;
  record.owner = &owner->second;
  record.alias = alias;
  owner->second.calls += 1;
  return record;
}

std::string Calls::remove(const Call& call) {
  Owner& owner = *call.owner;
  if (--owner.calls == 0) owners_.erase(owners_.find(owner.name));
  auto taken = calls_.extract(calls_.find(call.id));
  return std::move(taken.key());
}

Owner* Calls::owner(std::string_view shim) {
  const auto found = owners_.find(shim);
  return found == owners_.end() ? nullptr : &found->second;
}

}  // namespace hg::gate
