// fairness.h: the fairness run over real sockets: small and large calls arrive as two Poisson
// streams, tokens split evenly between them; who waits how long?
//
// The caller puts a gate between and tells it the limits below; nothing here knows of it. The wait
// of a call is the time to the head of its answer, because this provider thinks in no time.
// One thread.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "lab/emulated_provider.h"
#include "net/task.h"

namespace hg::lab {

struct FairnessConfig {
  std::string base_url;
  double load = 1.3;  // Asked for, as a multiple of the rate.
  Tokens capacity = 200'000;
  std::int64_t tokens_per_second = 40'000;
  Tokens small_tokens = 8'000;
  Tokens large_tokens = 130'000;
  Micros duration{120'000'000};      // Of arrivals; the queue then drains.
  Micros drain_within{100'000'000};  // The hold cap.
  std::uint64_t seed = 1;
};

struct WaitStats {
  std::int64_t calls = 0;
  std::int64_t answered = 0;
  std::int64_t refused = 0;  // Any status but 200, or no answer.
  double p50_s = 0;
  double p95_s = 0;
  double p99_s = 0;
  double max_s = 0;
};

struct FairnessReport {
  WaitStats small;
  WaitStats large;
};

// A provider with such limits and slack above them, no latency, one token of output.
[[nodiscard]] ProviderConfig fairness_provider(const FairnessConfig& config);

[[nodiscard]] net::Task<Result<FairnessReport>> run_fairness(const net::Executor& executor,
                                                             const Clock& clock,
                                                             FairnessConfig config);

// A table of two rows, for people.
[[nodiscard]] std::string to_text(const FairnessReport& report);

}  // namespace hg::lab
