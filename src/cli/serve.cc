// serve.cc: `headgate serve`: the long-lived daemon of a machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <memory>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/compose.h"
#include "cli/daemon.h"
#include "cli/exit_codes.h"
#include "cli/file_limit.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/run_task.h"
#include "cli/runtime_dir.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "cli/wait_signal.h"

namespace hg::cli {

namespace {

constexpr Micros kDrain = 10s;  // For calls under way, after the first signal.

struct ServeOptions {
  ConfigOptions config;
  bool json = false;
  bool keys = false;
};

int print_keys() {
  std::string scope = "-";
  for (const KeyDoc& doc : key_reference()) {
    if (doc.scope != scope) {
      scope = doc.scope;
      fmt::print("{}{}\n", scope.empty() ? "" : "\n",
                 scope.empty() ? "# headgate.toml" : "[" + scope + "]");
    }
    fmt::print("{} = ...{}{}\n", doc.key,
               doc.default_text.empty() ? "" : "  # default: ", doc.default_text);
    const std::string text = fmt::format("{}\nallowed: {}", doc.help, doc.allowed);
    for (const std::string& line : wrap(text, 76)) fmt::print("    {}\n", line);
  }
  return kExitOk;
}

void warn_of_open_listener(const Config& config) {
  if (is_loopback(config.listen_host)) return;
  const std::string text = fmt::format(
      "headgate: WARNING: listening on {}: whoever reaches this address can use the upstreams, and "
      "sees keys in the clear. 127.0.0.1 is the default.",
      config.listen_host);
  for (const std::string& line : wrap(text, 80)) fmt::print(stderr, "{}\n", line);
}

void print_banner(const Daemon& daemon) {
  const std::string url = daemon.base_url();
  fmt::print(
      "headgate {} listens on {}\n{}\nFor programs started by hand:\n"
      "  export ANTHROPIC_BASE_URL={}\n"
      "  export OPENAI_BASE_URL={}/v1\n"
      "  export NO_PROXY=127.0.0.1,localhost,::1\n",
      kVersion, url, daemon.description(), url, url);
}

int serve(const ServeOptions& options) {
  if (options.keys) return print_keys();
  auto config = options.config.load();
  if (!config) {
    complain(config.error().detail);
    return kExitUsage;
  }
  auto profiles = load_profiles(config->profiles_dir);
  if (!profiles) {
    complain(profiles.error().detail);
    return kExitUsage;
  }
  auto runtime = open_runtime_dir(config->runtime_dir);
  if (!runtime) {
    complain(runtime.error().detail);
    return kExitFailed;
  }
  std::string call_log = config->call_log.empty() ? default_call_log() : config->call_log;
  if (call_log == "none") call_log.clear();
  if (!call_log.empty()) {
    if (auto made = make_parents(call_log); !made) {
      complain(fmt::format("call_log: {}", made.error().detail));
      return kExitFailed;
    }
  }
  warn_of_open_listener(*config);
  raise_file_limit();

  boost::asio::io_context context(1);
  const OsClock clock;
  Daemon daemon(context.get_executor(), clock, *profiles, *config);
  auto started = run_task(context, daemon.start(call_log, runtime->socket()));
  if (!started) {
    complain(started.error().detail);
    if (started.error().code == Errc::conflict) {
      complain("is a daemon running already? See: headgate pools");
    }
    const int status = started.error().code == Errc::invalid ? kExitUsage : kExitFailed;
    run_task(context, daemon.stop(0s));
    return status;
  }
  if (options.json) {
    fmt::print("{}\n", daemon.version_json());
  } else {
    print_banner(daemon);
  }
  std::fflush(stdout);

  const SignalWatch signals(context.get_executor(), [&daemon](int signal) {
    log_info("signal {}: ending; calls under way have {:g} s", signal, to_seconds(kDrain));
    daemon.request_stop();
  });
  run_task(context, daemon.wait_for_end(config->idle_exit));
  run_task(context, daemon.stop(kDrain));
  return kExitOk;
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* parser = app.add_subcommand("serve",
                                        "the daemon of this machine: agents connect to it");
  options->config.add_to(*parser);
  parser->add_flag("--json", options->json, "say where it listens as one line of JSON");
  parser->add_flag("--keys", options->keys, "every key of the configuration, and end");
  parser->footer(
      examples({{"With the public providers and cautious limits", "headgate serve"},
                {"With limits of one's own",
                 "headgate serve --set pool.main.upstream=anthropic --set pool.main.r_tok=4000"},
                {"In front of the emulated provider",
                 "headgate serve --upstream http://127.0.0.1:8089 --listen 127.0.0.1:0"}}));
  return Command{parser, [options](const std::vector<std::string>&) { return serve(*options); }};
}

}  // namespace hg::cli
