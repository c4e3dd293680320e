// harness_list.cc: `headgate harness`: what is known of each agent program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/compose.h"
#include "cli/exit_codes.h"
#include "cli/harness_table.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace hg::cli {

namespace {

struct HarnessOptions {
  ConfigOptions config;
  bool json = false;
};

int list(const HarnessOptions& options) {
  const auto config = options.config.load();
  if (!config) {
    complain(config.error().detail);
    return kExitUsage;
  }
  const auto profiles = load_profiles(config->profiles_dir);
  if (!profiles) {
    complain(profiles.error().detail);
    return kExitUsage;
  }
  fmt::print("{}",
             options.json ? harness_json(*profiles) : harness_table(*profiles, columns_of(stdout)));
  return kExitOk;
}

}  // namespace

Command add_harness(CLI::App& app) {
  auto options = std::make_shared<HarnessOptions>();
  CLI::App* parser = app.add_subcommand(
      "harness",
      "the agent programs that exec knows\n"
      "How long each one's calls may be held, how many 429s it survives and which retry-after it "
      "obeys, and what points it at the shim. Your own profiles (--profiles-dir) are among them.");
  parser->add_flag("--json", options->json, "one JSON array, with every number");
  static constexpr std::string_view kKeys[] = {"profiles_dir"};
  options->config.add_to(*parser, kKeys);
  parser->footer(examples(
      {{"All of them", "headgate harness"},
       {"The numbers of one", "headgate harness --json | jq '.[] | select(.name == \"codex\")'"}}));
  return Command{parser, [options](const std::vector<std::string>&) { return list(*options); }};
}

}  // namespace hg::cli
