// help.h: how `--help` looks: at most 80 columns, examples last.
//
// One thread.
#pragma once
#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hg::cli {

// CLI11's own layout, wrapped.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* app) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
};

// "Examples:" and one command a line with what it does above it, for App::footer.
[[nodiscard]] std::string examples(
    const std::vector<std::pair<std::string_view, std::string_view>>& rows);

}  // namespace hg::cli
