#include "cli/control_json.h"

#include <boost/json.hpp>

#include "base/units.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

double whole(std::int64_t micro) { return static_cast<double>(micro) / 1e6; }

json::object limits_json(const gate::Limits& limits) {
  json::object object;
  object["c_burst"] = limits.c_burst;
  object["r_tok"] = limits.r_tok;
  object["k_inflight"] = limits.k_inflight;
  object["c_req"] = limits.c_req;
  object["r_qps"] = whole(limits.r_qps);
  if (limits.c_out) object["c_out"] = *limits.c_out;
  if (limits.r_out) object["r_out"] = *limits.r_out;
  return object;
}

}  // namespace

json::object to_json(std::string_view name, const gate::PoolView& pool, WallTime wall) {
  json::object object;
  object["name"] = name;
  object["limits"] = limits_json(pool.config.limits);
  object["cached_weight"] = whole(pool.config.weights.cached_ppm);
  object["output_weight"] = whole(pool.config.weights.output_ppm);
  object["version"] = pool.version;
  json::object seed;
  seed["source"] = pool.config.seed_source;
  seed["at"] = to_rfc3339(pool.config.seeded_at);
  seed["age_seconds"] = to_seconds(wall.since_epoch - pool.config.seeded_at.since_epoch);
  object["seed"] = seed;
  object["tokens"] = floor_div(pool.tokens, kMicro);
  object["requests"] = whole(pool.requests);
  if (pool.out) object["out"] = floor_div(*pool.out, kMicro);
  object["inflight"] = pool.inflight;
  object["kappa"] = whole(pool.kappa_micro);
  object["paused_seconds"] = to_seconds(pool.paused_for);
  json::array leases;
  for (const gate::LeaseView& lease : pool.leases) {
    json::object row;
    row["id"] = lease.id;
    row["alias"] = lease.alias;
    row["estimate"] = lease.estimate;
    row["age_seconds"] = to_seconds(lease.age);
    row["left_seconds"] = to_seconds(lease.left);
    leases.push_back(std::move(row));
  }
  object["leases"] = std::move(leases);
  json::array waiters;
  std::int64_t place = 0;
  for (const gate::WaiterView& waiter : pool.waiters) {
    json::object row;
    row["place"] = place++;
    row["id"] = waiter.id;
    row["alias"] = waiter.alias;
    row["estimate"] = waiter.estimate;
    row["charge"] = waiter.charge;
    row["waited_seconds"] = to_seconds(waiter.waited);
    row["predicted_seconds"] = to_seconds(waiter.predicted_wait);
    waiters.push_back(std::move(row));
  }
  object["waiters"] = std::move(waiters);
  // The trailing minute: six windows of ten seconds.
  gate::Window minute;
  const std::size_t skip = pool.windows.size() > 6 ? pool.windows.size() - 6 : 0;
  for (std::size_t index = skip; index < pool.windows.size(); ++index) {
    const gate::Window& window = pool.windows[index];
    minute.admitted += window.admitted;
    minute.waited_long += window.waited_long;
    minute.timeouts += window.timeouts;
    minute.accepted += window.accepted;
    minute.overloads += window.overloads;
  }
  json::object recent;
  recent["admitted"] = minute.admitted;
  recent["waited_long"] = minute.waited_long;
  recent["timeouts"] = minute.timeouts;
  recent["accepted_tokens"] = minute.accepted;
  recent["overloads"] = minute.overloads;
  object["last_minute"] = recent;
  return object;
}

json::object to_json(const proxy::UsageTotals& totals) {
  json::object object;
  object["calls"] = totals.calls;
  object["failed"] = totals.failed;
  object["overloads_absorbed"] = totals.overloads_absorbed;
  object["refused_by_us"] = totals.refused_by_us;
  object["uncached"] = totals.uncached;
  object["cached"] = totals.cached;
  object["output"] = totals.output;
  object["waited_seconds"] = to_seconds(totals.waited);
  return object;
}

json::array to_json(const std::vector<proxy::RateNote>& notes, WallTime wall) {
  json::array rows;
  for (const proxy::RateNote& note : notes) {
    const wire::RateReading& reading = note.reading;
    json::object row;
    row["unit"] = wire::to_string(reading.unit);
    if (reading.window) row["window_seconds"] = to_seconds(*reading.window);
    if (reading.limit) row["limit"] = *reading.limit;
    if (reading.remaining) row["remaining"] = *reading.remaining;
    if (reading.reset) row["reset_seconds"] = to_seconds(*reading.reset);
    if (reading.used_ppm) row["used"] = whole(*reading.used_ppm);
    if (reading.rejected) row["rejected"] = true;
    row["at"] = to_rfc3339(note.at);
    row["age_seconds"] = to_seconds(wall.since_epoch - note.at.since_epoch);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string control_error(std::string_view text) {
  json::object object;
  object["error"] = text;
  return json::serialize(object);
}

}  // namespace hg::cli
