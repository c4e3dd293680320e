#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>

#include "base/text.h"
#include "cli/config_values.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/version.h"

namespace hg::cli {

void complain(const std::string& text) {
  fmt::print(stderr, "headgate: {}\n", escape_controls(text));
}

namespace {

// " (did you mean serve?)", if one of the words is near enough.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  std::string_view nearest;
  std::size_t nearest_distance = 3;  // More edits than two are another word.
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(candidate, word);
    if (distance < std::min(nearest_distance, candidate.size())) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
}

std::vector<std::string> names_of(std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.parser->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// What is wrong with the arguments, where help stands, and what was probably meant.
void complain_of(const CLI::ParseError& error, const CLI::App& app,
                 const std::vector<std::string>& arguments) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& speaker = parsed.empty() ? app : *parsed.front();
  std::string hint;
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::vector<std::string> flags = flags_of(speaker);
    for (const std::string& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      const bool known = std::find(flags.begin(), flags.end(), word) != flags.end();
      if (word.starts_with("--") && !known && hint.empty()) hint = suggestion(word, flags);
    }
  }
  const std::string whose = parsed.empty() ? "" : parsed.front()->get_name() + " ";
  complain(fmt::format("{}{}; see headgate {}--help", error.what(), hint, whose));
}

}  // namespace

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
  const Command commands[] = {add_exec(app),    add_serve(app), add_doctor(app),  add_pools(app),
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
  const std::vector<std::string> names = names_of(commands);
  if (!own.empty() && !own[0].starts_with('-') &&
      std::find(names.begin(), names.end(), own[0]) == names.end()) {
    complain(fmt::format("no such subcommand: {}{}; see headgate --help", own[0].substr(0, 80),
                         suggestion(own[0], names)));
    return kExitUsage;
  }
  const std::vector<std::string> as_written = own;
  std::reverse(own.begin(), own.end());  // As CLI11 wants them.
  try {
    app.parse(own);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    complain_of(error, app, as_written);
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
