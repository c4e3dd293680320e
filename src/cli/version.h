// version.h: the program's version, as --version says it and the daemon tells its clients.
#pragma once
#include <string_view>

namespace hg::cli {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace hg::cli
