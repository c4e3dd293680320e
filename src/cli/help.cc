#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/terminal.h"

namespace hg::cli {

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 26;  // Of the text beside a flag.

// "  --flag VALUE            what it does", the text wrapped beside it.
std::string row(const std::string& name, const std::string& text) {
  std::string out = "  " + name;
  bool beside = out.size() + 2 <= kIndent;
  for (const std::string& line : wrap(text, kColumns - kIndent)) {
    if (!beside) out += "\n";
    const std::size_t used = beside ? out.size() : 0;
    out += std::string(kIndent - used, ' ') + line;
    beside = false;
  }
  return out + "\n";
}

// What stands for a value: CLI11's own word is "INT:INT in [0 - 65535]".
std::string value_name(const CLI::Option* option) {
  const std::string name = option->get_type_name();
  int depth = 0;
  std::size_t end = 0;
  for (; end < name.size() && (depth > 0 || name[end] != ':'); ++end) {
    depth += name[end] == '[' ? 1 : name[end] == ']' ? -1 : 0;
  }
  const std::string word = name.substr(0, end);
  if (word == "INT" || word == "UINT") return "N";
  return word == "FLOAT" ? "X" : word;
}

std::string wrapped(std::string_view text) {
  std::string out;
  for (const std::string& line : wrap(text, kColumns)) out += line + "\n";
  return out;
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name = make_option_name(option, is_positional);
  const std::string value = option->get_type_size() == 0 || is_positional
                                ? ""
                                : " " + value_name(option);
  return row(name + value, make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* app) const {
  const std::string description = app->get_description();
  return row(app->get_name(), description.substr(0, description.find('\n')));
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description());
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  const bool runs_a_program = app->get_prefix_command();
  return runs_a_program ? fmt::format("Usage: {} [OPTIONS] -- PROGRAM [ARGUMENTS...]\n", name)
                        : CLI::Formatter::make_usage(app, std::move(name));
}

std::string examples(const std::vector<std::pair<std::string_view, std::string_view>>& rows) {
  std::string text = "Examples:";
  for (const auto& [what, command] : rows) {
    for (const std::string& line : wrap(what, kColumns - 4)) text += "\n  # " + line;
    text += fmt::format("\n  {}\n", command);
  }
  text.pop_back();
  return text;
}

}  // namespace hg::cli
