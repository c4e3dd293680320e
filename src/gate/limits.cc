#include "gate/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hg::gate {
namespace {

struct Field {
  const char* name;
  std::int64_t value;
  std::int64_t least;
  std::int64_t most;
};

template <std::size_t N>
Result<void> check(const std::array<Field, N>& fields, const char* prefix) {
  for (const Field& field : fields) {
    if (field.value < field.least || field.value > field.most) {
      return fail(Errc::invalid, fmt::format("{}{} is {}; allowed are {} to {}", prefix, field.name,
                                             field.value, field.least, field.most));
    }
  }
  return {};
}

Result<void> check_limits(const Limits& limits, const char* prefix) {
  const std::array<Field, 7> fields = {{
      {"c_burst", limits.c_burst, 1, kTokensMax},
      {"r_tok", limits.r_tok, 1, kTokensMax},
      {"k_inflight", limits.k_inflight, 1, kTokensMax},
      {"c_req", limits.c_req, 1, kRequestsMax},
      {"r_qps", limits.r_qps, 1, kRequestRateMax},
      {"c_out", limits.c_out.value_or(1), 1, kTokensMax},
      {"r_out", limits.r_out.value_or(1), 1, kTokensMax},
  }};
  if (Result<void> checked = check(fields, prefix); !checked) return checked;
  if (limits.c_out.has_value() != limits.r_out.has_value()) {
    return fail(Errc::invalid,
                fmt::format("{}c_out and {}r_out: give both or neither", prefix, prefix));
  }
  return {};
}

Tokens cut(Tokens tokens, Tokens most) { return std::clamp<Tokens>(tokens, 0, most); }

Weights cut(Weights weights) {
  return {cut(weights.cached_ppm, kWeightMaxPpm), cut(weights.output_ppm, kWeightMaxPpm)};
}

}  // namespace

Result<void> validate(const PoolConfig& config) {
  if (Result<void> checked = check_limits(config.limits, ""); !checked) return checked;
  // A pool may be made without a seed: then its limits are the seed.
  if (!(config.seed == Limits{})) {
    if (Result<void> checked = check_limits(config.seed, "seed."); !checked) return checked;
  }
  const std::array<Field, 4> fields = {{
      {"weights.cached_ppm", config.weights.cached_ppm, 0, kWeightMaxPpm},
      {"weights.output_ppm", config.weights.output_ppm, 0, kWeightMaxPpm},
      {"kappa_micro", config.kappa_micro, 2'000'000, 8'000'000},
      {"priority_head_start_max (us)", config.priority_head_start_max.count(), 0,
       kHeadStartMax.count()},
  }};
  return check(fields, "");
}

Demand in_range(Demand demand, const PoolConfig& config) {
  demand.estimate = cut(demand.estimate, kTokensMax);
  demand.charge = cut(demand.charge, kTokensMax);
  demand.output = cut(demand.output, kTokensMax);
  demand.hold_left = std::clamp(demand.hold_left, Micros{0}, kHoldMax);
  demand.head_start = std::clamp(demand.head_start, Micros{0}, config.priority_head_start_max);
  demand.since = std::clamp(demand.since, Micros{0}, kSeniorityMax);
  demand.lease_ttl = std::clamp(demand.lease_ttl, kLeaseTtlMin, kLeaseTtlMax);
  demand.weights = cut(demand.weights);
  return demand;
}

AcquireRequest in_range(AcquireRequest request, const PoolConfig& config) {
  static_cast<Demand&>(request) = in_range(static_cast<const Demand&>(request), config);
  return request;
}

SettleRequest in_range(SettleRequest request) {
  request.usage.uncached = cut(request.usage.uncached, kUsageMax);
  request.usage.cached = cut(request.usage.cached, kUsageMax);
  request.usage.output = cut(request.usage.output, kUsageMax);
  request.text_chars = cut(request.text_chars, kTokensMax);
  request.flat_tokens = cut(request.flat_tokens, kUsageMax);
  return request;
}

LeaseRenewal in_range(LeaseRenewal lease) {
  lease.estimate = cut(lease.estimate, kTokensMax);
  lease.charge = cut(lease.charge, kTokensMax);
  lease.output = cut(lease.output, kTokensMax);
  lease.weights = cut(lease.weights);
  return lease;
}

}  // namespace hg::gate
