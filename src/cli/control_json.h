// control_json.h: what the daemon says of itself, as JSON: pools, totals, itself.
//
// Pure. Field names are documented in docs/cli.md; within a major version they are only added.
#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "gate/types.h"
#include "proxy/call_log.h"
#include "proxy/rate_note.h"

namespace hg::cli {

// `wall` is the present, for the age of the limits.
[[nodiscard]] boost::json::object to_json(std::string_view name, const gate::PoolView& pool,
                                          WallTime wall);
[[nodiscard]] boost::json::object to_json(const proxy::UsageTotals& totals);
// What a provider last said of its limits, one row for each unit and window.
[[nodiscard]] boost::json::array to_json(const std::vector<proxy::RateNote>& notes, WallTime wall);

// {"error": "..."}: every refusal of the control endpoints.
[[nodiscard]] std::string control_error(std::string_view text);

}  // namespace hg::cli
