// Whatever a provider writes into its rate fields, a reading is nothing or a number that can be
// counted with.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "wire/rate_headers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hg::WallTime wall{hg::Micros(1'796'058'815'123'456)};
  FuzzedDataProvider input(data, size);
  hg::Headers headers;
  while (input.remaining_bytes() > 0) {
    const auto name = input.PickValueInArray<std::string_view>(
        {"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
         "anthropic-ratelimit-requests-reset", "anthropic-ratelimit-unified-5h-utilization",
         "x-ratelimit-renewalperiod-requests", "x-codex-primary-window-minutes",
         "x-codex-primary-used-percent", "ratelimit", "ratelimit-policy", "x-tokenlimit-limit"});
    headers.add(name, input.ConsumeRandomLengthString(64));
  }
  for (const hg::wire::RateReading& reading : hg::wire::read_rate_headers(headers, wall)) {
    HG_ASSERT(reading.limit.value_or(0) >= 0 && reading.remaining.value_or(0) >= 0);
    HG_ASSERT(reading.used_ppm.value_or(0) >= 0);
    HG_ASSERT(reading.reset.value_or(hg::Micros(0)) >= hg::Micros(0));
    HG_ASSERT(reading.window.value_or(hg::Micros(1)) > hg::Micros(0));
  }
  return 0;
}
