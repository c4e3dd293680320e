// demo_fairness.h: `headgate demo --fairness`: small and large calls through one gate over real
// sockets; who waits how long?
//
// The limits are those of the promise: 200,000 tokens burst, 40,000 tokens/s, hold cap 100 s. One
// thread; runs its own event loop.
#pragma once
#include <cstdint>

namespace hg::cli {

struct FairnessOptions {
  double load = 1.3;     // Asked for, as a multiple of the rate.
  double seconds = 120;  // Of arrivals.
  std::uint64_t seed = 1;
};

// Prints the report; answers the exit status: kExitFailed when a call got no answer. Two minutes
// hold too few large calls for a judgement; the simulator's hour is the test.
[[nodiscard]] int run_fairness_demo(const FairnessOptions& options);

}  // namespace hg::cli
