// Any error body of any provider gets a meaning, without a crash and with no wait in the past.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "wire/profiles.h"
#include "wire/refusal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hg::WallTime wall{hg::Micros(1'796'058'815'123'456)};
  const auto& providers = hg::wire::Profiles::built_in().providers();
  FuzzedDataProvider input(data, size);
  const auto&
      provider = providers[input.ConsumeIntegralInRange<std::size_t>(0, providers.size() - 1)];
  const int status = input.ConsumeIntegralInRange(100, 599);
  hg::Headers headers;
  if (input.ConsumeBool()) headers.add("retry-after", input.ConsumeRandomLengthString(32));
  const std::string body = input.ConsumeRemainingBytesAsString();

  const auto refusal = hg::wire::classify_response(provider, status, headers, body, wall);
  HG_ASSERT(!refusal.retry_after || *refusal.retry_after >= hg::Micros(0));
  const auto in_stream = hg::wire::classify_stream_error(provider, body, wall);
  HG_ASSERT(!in_stream.retry_after || *in_stream.retry_after >= hg::Micros(0));
  return 0;
}
