// commands.h: the subcommands, each in a file of its name.
//
// A subcommand adds its parser and says what to do when it was chosen; main runs that and ends with
// its status. The state behind a command lives as long as the command.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

namespace hg::cli {

struct Command {
  CLI::App* parser = nullptr;
  // `rest` is what stood behind "--" (only exec takes any). Answers the exit status.
  std::function<int(const std::vector<std::string>& rest)> run;
};

[[nodiscard]] Command add_serve(CLI::App& app);
[[nodiscard]] Command add_exec(CLI::App& app);
[[nodiscard]] Command add_doctor(CLI::App& app);
[[nodiscard]] Command add_pools(CLI::App& app);
[[nodiscard]] Command add_harness(CLI::App& app);
[[nodiscard]] Command add_provider(CLI::App& app);
[[nodiscard]] Command add_demo(CLI::App& app);

// The program: arguments without its own name. Answers the exit status.
[[nodiscard]] int run_headgate(const std::vector<std::string>& arguments);

// "headgate: text" on stderr.
void complain(const std::string& text);

}  // namespace hg::cli
