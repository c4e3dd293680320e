// Whatever headgate.toml holds: a configuration, or an error that names the file.
#include <string_view>

#include "base/assert.h"
#include "cli/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = hg::cli::parse_config(text, "headgate.toml", {});
  if (!config) {
    HG_ASSERT(config.error().code == hg::Errc::invalid);
    HG_ASSERT(config.error().detail.find("headgate.toml") != std::string::npos);
  }
  return 0;
}
