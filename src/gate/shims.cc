#include "gate/shims.h"

#include <algorithm>

#include "base/assert.h"

namespace hg::gate {

Shims::Shim& Shims::touch(std::string_view name, Instant now) {
  auto found = shims_.find(name);
  if (found == shims_.end()) {
    found = shims_.emplace(std::string(name), Shim{}).first;
    found->second.name = found->first;
    live_.emplace(now, found->first);
  } else if (!found->second.live || found->second.seen_at != now) {
    move_to(live_, found->second.live ? live_ : dead_, found->second, now);
  }
  Shim& shim = found->second;
  give_back(shim);
  shim.seen_at = now;
  shim.live = true;
  return shim;
}

// Keeps the entry's memory: every call moves one.
void Shims::move_to(BySeen& to, BySeen& from, const Shim& shim, Instant seen_at) {
  auto entry = from.extract({shim.seen_at, shim.name});
  entry.value().first = seen_at;
  to.insert(std::move(entry));
}

void Shims::admitted(std::string_view name, Instant now) {
  const auto found = shims_.find(name);
  HG_ASSERT(found != shims_.end());
  found->second.admissions.add(now);
  admissions_.add(now);
}

std::int64_t Shims::share_ppm(std::string_view name, Instant now) const {
  const auto found = shims_.find(name);
  const std::int64_t all = admissions_.count(now);
  if (found == shims_.end() || all == 0) return 0;
  return found->second.admissions.count(now) * kMicro / all;
}

const Shims::Shim* Shims::silent(Instant now) const {
  if (live_.empty() || live_.begin()->first + kShimLives > now) return nullptr;
  return &shims_.find(live_.begin()->second)->second;
}

void Shims::bury(std::string_view name, Had had, Instant now) {
  Shim& shim = shims_.find(name)->second;
  HG_ASSERT(shim.live);
  live_.erase({shim.seen_at, shim.name});
  shim.live = false;
  dead_.emplace(shim.seen_at, shim.name);
  if (had == Had::nothing) return;
  shim.withheld_ppm = share_ppm(name, now) * kWithheldPpm / kMicro;
  if (shim.withheld_ppm == 0) return;
  shim.withheld_until = now + kWithheldFor;
  withheld_.emplace(shim.withheld_until, shim.name);
  withheld_sum_ += shim.withheld_ppm;
}

void Shims::give_back(Shim& shim) {
  if (shim.withheld_ppm == 0) return;
  withheld_.erase({shim.withheld_until, shim.name});
  withheld_sum_ -= shim.withheld_ppm;
  shim.withheld_ppm = 0;
}

void Shims::sweep(Instant now, int most) {
  for (int i = 0; i < most && !withheld_.empty() && withheld_.begin()->first <= now; ++i) {
    give_back(shims_.find(withheld_.begin()->second)->second);
  }
  for (int i = 0; i < most && !dead_.empty() && dead_.begin()->first + kShimKept <= now; ++i) {
    const auto oldest = shims_.find(dead_.begin()->second);
    give_back(oldest->second);
    shims_.erase(oldest);
    dead_.erase(dead_.begin());
  }
}

void Shims::farewell(std::string_view name) {
  const auto found = shims_.find(name);
  if (found == shims_.end()) return;
  Shim& shim = found->second;
  give_back(shim);
  if (!shim.live) return;
  live_.erase({shim.seen_at, shim.name});
  shim.live = false;
  dead_.emplace(shim.seen_at, shim.name);
}

std::int64_t Shims::withheld_ppm() const { return std::min(withheld_sum_, kWithheldPpm); }

std::optional<Instant> Shims::next_death() const {
  if (live_.empty()) return std::nullopt;
  return live_.begin()->first + kShimLives;
}

std::optional<Instant> Shims::next_release() const {
  if (withheld_.empty()) return std::nullopt;
  return withheld_.begin()->first;
}

}  // namespace hg::gate
