// A user's profile file: loaded, or an error that names the file.
#include <string_view>

#include "base/assert.h"
#include "wire/profiles.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profiles = hg::wire::Profiles::load({{"mine.toml", text}});
  if (!profiles) {
    HG_ASSERT(profiles.error().code == hg::Errc::invalid);
    HG_ASSERT(profiles.error().detail.find("mine.toml") != std::string::npos);
  }
  return 0;
}
