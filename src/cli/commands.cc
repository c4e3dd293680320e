#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/version.h"

namespace hg::cli {

void complain(const std::string& text) {
  fmt::print(stderr, "headgate: {}\n", escape_controls(text));
}

int run_headgate(const std::vector<std::string>& arguments) {
  CLI::App app("Headgate keeps a fleet of coding agents inside a model provider's limits.",
               "headgate");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", fmt::format("headgate {}", kVersion), "the version");
  app.require_subcommand(1);
  app.footer(
      examples({{"See the whole thing work; no key needed", "headgate demo"},
                {"Run an agent behind a gate", "headgate exec -- claude -p \"mend the tests\""},
                {"What a subcommand takes", "headgate exec --help"}}));
  const Command commands[] = {add_exec(app),    add_serve(app), add_pools(app),
                              add_harness(app), add_demo(app),  add_provider(app)};
  for (const Command& command : commands) command.parser->set_help_flag("-h,--help", "this text");

  // What stands behind "--" belongs to the agent and is nobody else's to read.
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own(arguments.begin(), separator);
  std::vector<std::string> rest;
  if (separator != arguments.end()) rest.assign(separator + 1, arguments.end());
  if (own.empty() && rest.empty()) {
    fmt::print("{}", app.help());
    return kExitUsage;
  }
  std::reverse(own.begin(), own.end());  // As CLI11 wants them.
  try {
    app.parse(own);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    complain(fmt::format("{} (see headgate --help)", error.what()));
    return kExitUsage;
  }
  for (const Command& command : commands) {
    if (!command.parser->parsed()) continue;
    std::vector<std::string> words = command.parser->remaining();
    words.insert(words.end(), rest.begin(), rest.end());
    return command.run(words);
  }
  return kExitUsage;
}

}  // namespace hg::cli
