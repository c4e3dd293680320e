// No request body breaks the reader, and what it answers can be counted with.
#include <fuzzer/FuzzedDataProvider.h>

#include <string>

#include "base/assert.h"
#include "wire/dialect.h"
#include "wire/json_mend.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  constexpr auto kLast = static_cast<std::uint8_t>(hg::wire::Dialect::other);
  const auto dialect = static_cast<hg::wire::Dialect>(
      input.ConsumeIntegralInRange<std::uint8_t>(0, kLast));
  const std::string body = input.ConsumeRemainingBytesAsString();
  const auto facts = hg::wire::read_request(dialect, body);
  const auto mended = hg::wire::mend_json(body);
  if (mended) {
    HG_ASSERT(hg::wire::mend_json(*mended) == *mended);
    const auto again = hg::wire::read_request(dialect, *mended);
    HG_ASSERT(again.has_value() == facts.has_value());
  }
  if (!facts) {
    HG_ASSERT(facts.error().code == hg::Errc::invalid && !facts.error().detail.empty());
    // Well-formed JSON is refused only for what it says.
    HG_ASSERT(!mended || !facts.error().detail.starts_with("the body is not valid JSON"));
    return 0;
  }
  // Unescaping only shortens a string, so a prompt is never longer than its body.
  HG_ASSERT(facts->text_chars >= 0 && facts->text_chars <= std::int64_t(body.size()));
  HG_ASSERT(facts->flat_tokens >= 0 && facts->flat_parts >= 0);
  std::int64_t before = 0;
  for (const auto& block : facts->prefix) {
    HG_ASSERT(block.chars >= before);
    before = block.chars;
  }
  return 0;
}
