// embedded.h: the profile files of data/, as the build put them into the program.
//
// Generated definitions (cmake/HgEmbed.cmake); each pair is a file's name and its text, and both
// live as long as the program. Pure.
#pragma once
#include <span>
#include <string_view>
#include <utility>

namespace hg::wire::embedded_providers {
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> files();
}  // namespace hg::wire::embedded_providers

namespace hg::wire::embedded_harnesses {
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> files();
}  // namespace hg::wire::embedded_harnesses
