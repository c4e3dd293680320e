// provider.cc: `headgate provider`: an emulated provider with hidden limits, over real HTTP.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/run_task.h"
#include "cli/wait_signal.h"
#include "lab/emulated_provider.h"

namespace hg::cli {

namespace {

struct ProviderOptions {
  int port = 0;
  lab::ProviderConfig config;
  double pace = 1.0;
  std::optional<Tokens> max_inflight;
  std::optional<Tokens> quota;
  std::vector<std::string> steps;
  std::string failures;
  std::string script;
  std::vector<std::string> variables;
  std::string hint = "seconds";
  bool no_rate_headers = false;
  bool json = false;
};

Result<void> read_steps(const ProviderOptions& options, sim::RatePlan& plan) {
  for (const std::string& text : options.steps) {
    const auto equals = text.find('=');
    const auto at = parse_duration(text.substr(0, equals));
    char* end = nullptr;
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    const double factor = std::strtod(number.c_str(), &end);
    if (!at || number.empty() || *end != '\0' || factor < 0 || factor > 1000) {
      return fail(Errc::invalid, "--step: WHEN=FACTOR is allowed, such as --step 30s=0.5");
    }
    plan.steps.push_back({*at, factor});
  }
  return {};
}

Result<void> read_script(const ProviderOptions& options, lab::Script& script) {
  if (!options.script.empty()) {
    std::ifstream stream(options.script, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream) {
      return fail(Errc::invalid, fmt::format("--script {}: cannot read it", options.script));
    }
    auto parsed = lab::parse_script(text.str(), options.script);
    if (!parsed) return std::unexpected(parsed.error());
    script = std::move(*parsed);
  }
  for (const std::string& text : options.variables) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Errc::invalid, "--var: NAME=VALUE is allowed, such as --var file=notes.txt");
    }
    script.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return {};
}

// What the flags make; the pace multiplies every latency.
Result<lab::ProviderConfig> make_provider(const ProviderOptions& options) {
  lab::ProviderConfig config = options.config;
  sim::ProviderModel& model = config.model;
  model.max_inflight = options.max_inflight;
  model.quota = options.quota;
  model.rate_headers = !options.no_rate_headers;
  model.hint = options.hint == "none"           ? sim::ProviderModel::Hint::none
               : options.hint == "milliseconds" ? sim::ProviderModel::Hint::milliseconds
                                                : sim::ProviderModel::Hint::seconds;
  model.base = Micros(static_cast<std::int64_t>(to_seconds(model.base) * 1e6 * options.pace));
  model.micros_per_uncached_token *= options.pace;
  model.micros_per_cached_token *= options.pace;
  model.micros_per_output_token *= options.pace;
  if (auto steps = read_steps(options, model.plan); !steps) {
    return std::unexpected(steps.error());
  }
  if (auto script = read_script(options, config.script); !script) {
    return std::unexpected(script.error());
  }
  auto failures = lab::FailurePlan::parse(options.failures);
  if (!failures) return std::unexpected(failures.error());
  config.failures = std::move(*failures);
  return config;
}

int provide(const ProviderOptions& options) {
  auto config = make_provider(options);
  if (!config) {
    complain(config.error().detail);
    return kExitUsage;
  }
  boost::asio::io_context context(1);
  const OsClock clock;
  lab::EmulatedProvider provider(context.get_executor(), clock, *config);
  auto port = provider.listen(static_cast<std::uint16_t>(options.port));
  if (!port) {
    complain(port.error().detail);
    return kExitFailed;
  }
  const std::string url = fmt::format("http://127.0.0.1:{}", *port);
  if (options.json) {
    fmt::print("{{\"base_url\":\"{}\",\"port\":{}}}\n", url, *port);
  } else {
    fmt::print(
        "emulated provider listens on {}\n"
        "  hidden limits: {} tokens burst, {:g} tokens/s, {:g} requests burst, {:g}/s\n"
        "  its account: {}/_emulated/stats\n"
        "To put a gate in front of it:\n"
        "  headgate exec --upstream {} -- claude -p \"...\"\n",
        url, config->model.burst_tokens, config->model.tokens_per_second,
        config->model.burst_requests, config->model.requests_per_second, url, url);
  }
  std::fflush(stdout);
  net::Event end(context.get_executor());
  const SignalWatch signals(context.get_executor(), [&end](int) { end.notify(); });
  const auto until_told = [&end]() -> net::Task<void> {
    while (true) {
      const net::Woken woken = co_await end.wait_for(3600s);
      if (woken != net::Woken::deadline) break;
    }
  };
  run_task(context, until_told());
  run_task(context, provider.stop(0s));
  log_debug("account: {}", lab::to_json(provider.totals()));
  return kExitOk;
}

}  // namespace

Command add_provider(CLI::App& app) {
  auto options = std::make_shared<ProviderOptions>();
  ProviderOptions& to = *options;
  sim::ProviderModel& model = to.config.model;
  CLI::App* parser = app.add_subcommand(
      "provider",
      "an emulated provider with hidden limits: Anthropic Messages, OpenAI Chat and "
      "Responses, Gemini");
  parser->add_option("--port", to.port, "port on loopback; 0, the default: any free one")
      ->check(CLI::Range(0, 65535));
  parser->add_option("--burst-tokens", model.burst_tokens, "capacity of the token bucket: 200000")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->group("Limits");
  parser->add_option("--tokens-per-second", model.tokens_per_second, "its refill: 40000")
      ->check(CLI::Range(0.001, 1e9))
      ->group("Limits");
  parser->add_option("--burst-requests", model.burst_requests, "capacity of the request bucket: 60")
      ->check(CLI::Range(1.0, 1e6))
      ->group("Limits");
  parser->add_option("--requests-per-second", model.requests_per_second, "its refill: 20")
      ->check(CLI::Range(0.001, 1e6))
      ->group("Limits");
  parser->add_option("--max-inflight", to.max_inflight, "prompt tokens at once; past it: 529")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->group("Limits");
  parser->add_option("--quota", to.quota, "accepted tokens after which the quota is exhausted")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}))
      ->group("Limits");
  parser->add_option("--step", to.steps, "the rates change, such as 30s=0.5")
      ->type_name("WHEN=FACTOR")
      ->allow_extra_args(false)
      ->group("Limits");
  parser->add_option("--drift", model.plan.drift_amplitude, "the rates swing by this share, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Limits");
  parser
      ->add_option("--tenants", model.tenants.tokens_per_second,
                   "tokens a second that others draw on the same limits")
      ->check(CLI::Range(0.0, 1e9))
      ->group("Limits");
  parser
      ->add_option(
          "--fail", to.failures,
          "faults on order, such as 429:2,529:1,503@7,drop@9,cut%10,silence~0.01; kinds: "
          "429 (429=3: retry-after 3), 429-bare (without hints), 529, 503, 500, quota; in a "
          "200 stream: stream (overload as its first event), stream-429, stream-begun "
          "(before any output), stream-late (after some); drop (reset before the first "
          "byte), cut (reset amid the answer), silence=70 (seconds before the headers; "
          "without a number: for ever), stall=70 (seconds after them)")
      ->type_name("PLAN")
      ->group("Failures");
  const auto chance = [&](const char* name, double& into, const char* text) {
    parser->add_option(name, into, text)->check(CLI::Range(0.0, 1.0))->group("Failures");
  };
  chance("--overloaded", model.mishaps.overloaded, "probability of 529");
  chance("--unavailable", model.mishaps.unavailable, "probability of 503");
  chance("--stray", model.mishaps.stray_rate_limit, "probability of 429 although there is room");
  chance("--in-stream", model.mishaps.error_in_stream,
         "share of the overloads that come inside a 200 stream");
  chance("--drop", model.mishaps.drop_before_answer, "probability of a closed connection");
  chance("--cut", model.mishaps.drop_in_answer, "probability of a cut answer");
  parser->add_option("--hint", to.hint, "what a 429 says: none, seconds or milliseconds")
      ->check(CLI::IsMember({"none", "seconds", "milliseconds"}))
      ->group("Failures");
  parser->add_flag("--no-rate-headers", to.no_rate_headers, "answers tell no limits")
      ->group("Failures");
  parser->add_option("--pace", to.pace, "multiplies every latency; 0: none")
      ->check(CLI::Range(0.0, 1000.0));
  parser->add_option("--script", to.script, "scripted answers (TOML); else filler")
      ->type_name("FILE");
  parser->add_option("--var", to.variables, "a variable of the script")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  parser->add_flag("--gzip", to.config.gzip, "pack answers for clients that accept gzip");
  parser->add_option("--log", to.config.log_path, "one JSON line a call is appended here")
      ->type_name("FILE");
  parser->add_option("--seed", to.config.seed, "of its randomness");
  parser->add_flag("--json", to.json, "say where it listens as one line of JSON");
  parser->footer(
      examples({{"A provider for trying things by hand", "headgate provider --port 8089"},
                {"One that is tight, and refuses its first two calls",
                 "headgate provider --tokens-per-second 2000 --burst-tokens 30000 --fail 429:2"}}));
  return Command{parser, [options](const std::vector<std::string>&) { return provide(*options); }};
}

}  // namespace hg::cli
