#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"

namespace hg::cli {

namespace {

// What --help writes for a value, by what is allowed.
std::string placeholder(std::string_view allowed) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"a duration", "TIME"},         {"a size", "SIZE"},     {"a whole number", "N"},
      {"a file name", "FILE"},        {"a directory", "DIR"}, {"host names", "NAMES"},
      {"[HOST:]PORT", "[HOST:]PORT"}, {"debug,", "LEVEL"}};
  for (const auto& [start, word] : kWords) {
    if (allowed.starts_with(start)) return std::string(word);
  }
  return "VALUE";
}

std::string flag_name(std::string_view key) {
  std::string name = fmt::format("--{}", key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_url(std::string_view text) { return text.find("://") != std::string_view::npos; }

}  // namespace

Environment present_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

void ConfigOptions::add_file(CLI::App& app) {
  app.add_option("--config", config_file_,
                 "configuration file; default: ./headgate.toml or "
                 "~/.config/headgate/headgate.toml, if there is one")
      ->type_name("FILE");
}

void ConfigOptions::add_flag(CLI::App& app, const KeyDoc& doc) {
  Flag& flag = flags_.emplace_back(Flag{std::string(doc.key), ""});
  app.add_option(flag_name(doc.key), flag.value, std::string(doc.help))
      ->type_name(placeholder(doc.allowed))
      ->group("Configuration");
}

void ConfigOptions::add_to(CLI::App& app, std::span<const std::string_view> keys) {
  add_file(app);
  for (const KeyDoc& doc : key_reference()) {
    const bool wanted = std::find(keys.begin(), keys.end(), doc.key) != keys.end();
    if (doc.scope.empty() && wanted) add_flag(app, doc);
  }
}

void ConfigOptions::add_to(CLI::App& app) {
  add_file(app);
  app.add_option("--upstream", upstream_,
                 "the provider: a URL, or the name of a configured upstream; default: the public "
                 "one of the dialect")
      ->type_name("URL");
  app.add_option("--set", sets_, "any key of the configuration, such as pool.main.r_tok=4000")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  for (const KeyDoc& doc : key_reference()) {
    if (!doc.scope.empty() || doc.key == "default_upstream") continue;
    add_flag(app, doc);
  }
}

Result<std::vector<Setting>> ConfigOptions::settings(std::vector<std::string>& notes) const {
  std::vector<std::string> unknown;
  auto settings = settings_from_environment(present_environment(), unknown);
  if (!settings) return settings;
  for (const std::string& name : unknown) {
    notes.push_back(fmt::format("{}: no such variable is read (see headgate serve --keys)", name));
  }
  if (is_url(upstream_)) {
    settings->push_back({fmt::format("upstream.{}.url", kFlagUpstream), upstream_, "--upstream"});
    settings->push_back({"default_upstream", std::string(kFlagUpstream), "--upstream"});
  } else if (!upstream_.empty()) {
    settings->push_back({"default_upstream", upstream_, "--upstream"});
  }
  for (const Flag& flag : flags_) {
    if (flag.value.empty()) continue;
    settings->push_back({flag.key, flag.value, flag_name(flag.key)});
  }
  for (const std::string& text : sets_) {
    auto setting = parse_set(text);
    if (!setting) return std::unexpected(setting.error());
    settings->push_back(*setting);
  }
  return settings;
}

Result<Config> ConfigOptions::load(std::vector<std::string>& notes) const {
  auto all = settings(notes);
  if (!all) return std::unexpected(all.error());
  std::string file = config_file_;
  const char* variable = std::getenv("HEADGATE_CONFIG");  // NOLINT(concurrency-mt-unsafe)
  if (file.empty() && variable != nullptr) file = variable;
  return load_config(file, *all, notes);
}

Result<Config> ConfigOptions::load() const {
  std::vector<std::string> notes;
  auto config = load(notes);
  if (config) set_log_level(config->log_level);
  for (const std::string& note : notes) log_warn("{}", note);
  return config;
}

std::vector<std::string> ConfigOptions::arguments() const {
  const auto absolute = [](const std::string& file) {
    std::error_code error;
    return (std::filesystem::current_path(error) / file).lexically_normal().string();
  };
  std::vector<std::string> arguments;
  for (const std::string& text : sets_) arguments.insert(arguments.end(), {"--set", text});
  for (const Flag& flag : flags_) {
    // The runtime directory is where the daemon is, not what it is to do.
    if (flag.value.empty() || flag.key == "runtime_dir") continue;
    const std::string name = flag_name(flag.key);
    const bool file = flag.key == "call_log" || flag.key == "ca_file" || flag.key.ends_with("_dir");
    const bool is_path = file && flag.value != "none";
    arguments.insert(arguments.end(), {name, is_path ? absolute(flag.value) : flag.value});
  }
  return arguments;
}

}  // namespace hg::cli
