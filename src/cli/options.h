// options.h: the flags that subcommands share, and the configuration that they make.
//
// One thread, while arguments are parsed.
#pragma once
#include <CLI/App.hpp>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/config.h"

namespace hg::cli {

// --config, --set, --upstream and one flag for each top-level key. Lives as long as the parser.
class ConfigOptions {
 public:
  void add_to(CLI::App& app);
  // For a subcommand that looks at a daemon and is none: --config, and flags for these keys.
  void add_to(CLI::App& app, std::span<const std::string_view> keys);

  // What file, environment and flags make together; notes go to the log. Also sets the log level.
  [[nodiscard]] Result<Config> load() const;
  // The same; what would be logged is put into `notes`.
  [[nodiscard]] Result<Config> load(std::vector<std::string>& notes) const;

  // What --upstream said, "" if nothing.
  [[nodiscard]] const std::string& upstream() const { return upstream_; }

  // The flags as arguments for a daemon that is to have the same configuration, file names
  // absolute.
  [[nodiscard]] std::vector<std::string> arguments() const;

 private:
  struct Flag {
    std::string key;
    std::string value;
  };
  void add_file(CLI::App& app);
  void add_flag(CLI::App& app, const KeyDoc& doc);
  [[nodiscard]] Result<std::vector<Setting>> settings(std::vector<std::string>& notes) const;

  std::string config_file_;
  std::string upstream_;
  std::vector<std::string> sets_;
  std::deque<Flag> flags_;  // A deque, because CLI11 keeps references.
};

// The variables of this process.
[[nodiscard]] Environment present_environment();

// The keys of a subcommand that asks the running daemon.
inline constexpr std::string_view kClientKeys[] = {"runtime_dir", "log_level"};

// The name that --upstream URL gives its upstream.
inline constexpr std::string_view kFlagUpstream = "main";

}  // namespace hg::cli
