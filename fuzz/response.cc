// A response means the same however it is cut, and usage is never negative.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "wire/dialect.h"

namespace {

hg::wire::ResponseReader read(hg::wire::Dialect dialect, std::string_view type,
                              std::string_view text, std::size_t step) {
  hg::wire::ResponseReader reader(dialect, type);
  for (std::size_t at = 0; at < text.size(); at += step) reader.feed(text.substr(at, step));
  reader.finish();
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  constexpr auto kLast = static_cast<std::uint8_t>(hg::wire::Dialect::other);
  const auto dialect = static_cast<hg::wire::Dialect>(
      input.ConsumeIntegralInRange<std::uint8_t>(0, kLast));
  const std::string_view type = input.PickValueInArray<std::string_view>(
      {"text/event-stream", "application/json", "application/vnd.amazon.eventstream"});
  const std::size_t step = input.ConsumeIntegralInRange<std::size_t>(1, 16);
  const std::string text = input.ConsumeRemainingBytesAsString();

  const auto whole = read(dialect, type, text, text.size() + 1);
  const auto pieces = read(dialect, type, text, step);
  HG_ASSERT(whole.usage() == pieces.usage());
  HG_ASSERT(whole.complete() == pieces.complete());
  HG_ASSERT(whole.output_seen() == pieces.output_seen());
  HG_ASSERT(whole.output_chars() == pieces.output_chars());
  HG_ASSERT(whole.error_event() == pieces.error_event());
  HG_ASSERT(whole.output_chars() >= 0);
  HG_ASSERT(whole.usage().uncached.value_or(0) >= 0);
  HG_ASSERT(whole.usage().cached.value_or(0) >= 0);
  HG_ASSERT(whole.usage().output.value_or(0) >= 0);
  HG_ASSERT(whole.usage().cache_write.value_or(0) >= 0);
  HG_ASSERT(whole.usage().reasoning.value_or(0) >= 0);
  return 0;
}
