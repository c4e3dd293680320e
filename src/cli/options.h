// options.h: the flags that subcommands share, and the configuration that they make.
//
// One thread, while arguments are parsed.
#pragma once
#include <CLI/App.hpp>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/config.h"

namespace hg::cli {

// --config, --set, --upstream and one flag for each top-level key. Lives as long as the parser.
class ConfigOptions {
 public:
  void add_to(CLI::App& app);

  // What file, environment and flags make together; notes go to the log. Also sets the log level.
  [[nodiscard]] Result<Config> load() const;

  // The flags as arguments for a daemon that is to have the same configuration, file names
  // absolute.
  [[nodiscard]] std::vector<std::string> arguments() const;

 private:
  struct Flag {
    std::string key;
    std::string value;
  };
  [[nodiscard]] Result<std::vector<Setting>> settings() const;

  std::string config_file_;
  std::string upstream_;
  std::vector<std::string> sets_;
  std::deque<Flag> flags_;  // A deque, because CLI11 keeps references.
};

// The name that --upstream URL gives its upstream.
inline constexpr std::string_view kFlagUpstream = "main";

}  // namespace hg::cli
