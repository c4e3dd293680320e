// Whatever a provider writes into retry-after, the answer is nothing or a time to come.
#include <string_view>

#include "base/assert.h"
#include "wire/retry_after.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const hg::WallTime wall{hg::Micros(1'796'058'815'123'456)};
  for (const auto wait :
       {hg::wire::parse_retry_after(text, wall), hg::wire::parse_retry_after_ms(text),
        hg::wire::parse_go_duration(text)}) {
    HG_ASSERT(!wait || *wait >= hg::Micros(0));
  }
  return 0;
}
