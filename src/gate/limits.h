// limits.h: which numbers a gate can count with, and how what comes from outside is cut to them.
//
// Every product and sum of the gate's arithmetic stays below 2^53, so that Lua's doubles give the
// same digits as C++. Pure; any thread.
#pragma once
#include "base/result.h"
#include "base/time.h"
#include "gate/types.h"

namespace hg::gate {

// Capacities, rates and charges: a thousand times the largest limit that a provider sells. As
// micro-tokens that is 10^15; nine of them still fit below 2^53.
inline constexpr Tokens kTokensMax = 1'000'000'000;

// Tokens of one kind in one call, as a provider reports them; weights are at most 20.
inline constexpr Tokens kUsageMax = 100'000'000;
inline constexpr std::int64_t kWeightMaxPpm = 20'000'000;

// Request bucket: a capacity in requests, a rate in micro-requests per second.
inline constexpr std::int64_t kRequestsMax = 1'000'000;
inline constexpr MicroRequests kRequestRateMax = 8'000'000'000;

// No level goes below this debt, whatever calls turn out to have used.
inline constexpr MicroTokens kDebtMax = 4'000'000'000'000'000;

// No wait or moment is further away than this (about 31 years): "never", for people.
inline constexpr Micros kWaitMax{1'000'000'000'000'000};

inline constexpr Micros kHoldMax{3'600'000'000};     // A hold cap is minutes.
inline constexpr Micros kSeniorityMax{300'000'000};  // Longer than any hold cap in the profiles.
inline constexpr Micros kLeaseTtlMin{1'000'000};
inline constexpr Micros kLeaseTtlMax{600'000'000};
inline constexpr Micros kPauseMax{604'800'000'000};  // Seven days; a wrong date pauses no longer.
inline constexpr Micros kHeadStartMax{300'000'000};

// Errc::invalid with the field's name and what is allowed.
[[nodiscard]] Result<void> validate(const PoolConfig& config);

// The request with every number cut to its range: a shim with a fault cannot spoil the books.
[[nodiscard]] Demand in_range(Demand demand, const PoolConfig& config);
[[nodiscard]] AcquireRequest in_range(AcquireRequest request, const PoolConfig& config);
[[nodiscard]] SettleRequest in_range(SettleRequest request);
[[nodiscard]] LeaseRenewal in_range(LeaseRenewal lease);

}  // namespace hg::gate
