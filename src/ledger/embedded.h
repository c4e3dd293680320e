// embedded.h: the price files of data/prices, as the build put them into the program.
//
// Generated definitions (cmake/HgEmbed.cmake); each pair is a file's name and its text, and both
// live as long as the program. Pure.
#pragma once
#include <span>
#include <string_view>
#include <utility>

namespace hg::ledger::embedded_prices {
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> files();
}  // namespace hg::ledger::embedded_prices
