// testing.h: short spellings for tests of the gate: a pool's configuration and a call's request.
#pragma once
#include <string>

#include "gate/pool.h"

namespace hg::gate::testing {

inline constexpr Instant kStart{1000s};

// The pool of the fairness rule: capacity 200,000, 40,000 tokens/s, everything else out of the way.
inline PoolConfig roomy_config() {
  PoolConfig config;
  config.limits = {200'000, 40'000, 100'000'000, 100'000, 1'000'000'000, {}, {}};
  config.seed = config.limits;
  return config;
}

inline AcquireRequest call(std::string id, Tokens tokens, Micros hold_left = 100s) {
  AcquireRequest request;
  request.shim = id.substr(0, id.find('.'));
  request.id = std::move(id);
  request.alias = "pool/harness";
  request.estimate = tokens;
  request.charge = tokens;
  request.hold_left = hold_left;
  return request;
}

inline SettleRequest used(std::string id, Tokens uncached) {
  SettleRequest request;
  request.id = std::move(id);
  request.by = Settlement::usage;
  request.usage.uncached = uncached;
  return request;
}

inline SettleRequest refund(std::string id) {
  SettleRequest request;
  request.id = std::move(id);
  request.by = Settlement::refund;
  return request;
}

}  // namespace hg::gate::testing
