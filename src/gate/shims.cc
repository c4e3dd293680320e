#include "gate/shims.h"

#include <algorithm>
#include <string>

#include "base/assert.h"

namespace hg::gate {

Shims::Touched Shims::touch(std::string_view name, Instant now) {
  auto found = shims_.find(name);
  const bool is_new = found == shims_.end();
  if (is_new) {
    found = shims_.try_emplace(std::string(name)).first;
    found->second.name = found->first;
  }
  Shim& shim = found->second;
  const bool came = !shim.live;
  if (!came && shim.seen_at == now) return {shim, came};
  if (!is_new) {
    Seen& among = shim.live ? live_ : dead_;
    among.erase(among.iterator_to(shim));
  }
  give_back(shim);
  shim.seen_at = now;
  shim.live = true;
  insert_late(live_, shim);
  return {shim, came};
}

void Shims::admitted(std::string_view name, Instant now) {
  const auto found = shims_.find(name);
  if (found != shims_.end()) found->second.admissions.add(now);
  admissions_.add(now);
}

std::int64_t Shims::share_ppm(const Shim& shim, Instant now) const {
  const std::int64_t all = admissions_.count(now);
  return all == 0 ? 0 : shim.admissions.count(now) * kMicro / all;
}

Shims::Shim* Shims::silent(Instant now) {
  if (live_.empty() || live_.begin()->seen_at + kShimLives > now) return nullptr;
  return &*live_.begin();
}

void Shims::die(Shim& shim) {
  live_.erase(live_.iterator_to(shim));
  shim.live = false;
  insert_late(dead_, shim);
}

void Shims::bury(Shim& shim, Had had, Instant now) {
  HG_ASSERT(shim.live);
  die(shim);
  if (had == Had::nothing) return;
  shim.withheld_ppm = share_ppm(shim, now) * kWithheldPpm / kMicro;
  if (shim.withheld_ppm == 0) return;
  shim.withheld_until = now + kWithheldFor;
  insert_late(withheld_, shim);
  withheld_sum_ += shim.withheld_ppm;
}

void Shims::give_back(Shim& shim) {
  if (shim.withheld_ppm == 0) return;
  withheld_.erase(withheld_.iterator_to(shim));
  withheld_sum_ -= shim.withheld_ppm;
  shim.withheld_ppm = 0;
}

void Shims::sweep(Instant now, int most) {
  for (int i = 0; i < most && !withheld_.empty() && withheld_.begin()->withheld_until <= now; ++i) {
    give_back(*withheld_.begin());
  }
  for (int i = 0; i < most && !dead_.empty() && dead_.begin()->seen_at + kShimKept <= now; ++i) {
    Shim& oldest = *dead_.begin();
    give_back(oldest);
    dead_.erase(dead_.begin());
    shims_.erase(shims_.find(oldest.name));
  }
}

void Shims::farewell(std::string_view name) {
  const auto found = shims_.find(name);
  if (found == shims_.end()) return;
  give_back(found->second);
  if (found->second.live) die(found->second);
}

std::int64_t Shims::withheld_ppm() const { return std::min(withheld_sum_, kWithheldPpm); }

std::optional<Instant> Shims::next_death() const {
  if (live_.empty()) return std::nullopt;
  return live_.begin()->seen_at + kShimLives;
}

std::optional<Instant> Shims::next_release() const {
  if (withheld_.empty()) return std::nullopt;
  return withheld_.begin()->withheld_until;
}

}  // namespace hg::gate
