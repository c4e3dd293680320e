#include "cli/harness_table.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "cli/terminal.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

// What exec sets that leads to the shim; the rest of a profile's settings only prepare the program.
std::vector<std::string> pointers(const wire::HarnessProfile& harness) {
  constexpr std::string_view kUrl = "{url}";
  std::vector<std::string> result;
  for (const auto& setting : harness.environment) {
    if (setting.value.find(kUrl) != std::string::npos) result.push_back(setting.name);
  }
  for (const auto& argument : harness.arguments) {
    const std::string words = joined(argument.words, " ");
    if (words.find(kUrl) != std::string::npos) result.push_back(words);
  }
  for (const auto& file : harness.files) {
    if (file.content.find(kUrl) != std::string::npos)
      result.push_back("a file by " + file.variable);
  }
  return result;
}

json::value seconds_or_null(const std::optional<Micros>& duration) {
  return duration ? json::value(to_seconds(*duration)) : json::value(nullptr);
}

json::array texts(const std::vector<std::string>& words) {
  json::array result;
  for (const std::string& word : words) result.emplace_back(word);
  return result;
}

}  // namespace

std::string harness_table(const wire::Profiles& profiles, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"harness", "programs", "held up to", "429s survived", "retry-after up to",
                  "pointed at the shim by"});
  for (const wire::HarnessProfile& harness : profiles.harnesses()) {
    rows.push_back({harness.name, harness.programs.empty() ? "-" : joined(harness.programs, ", "),
                    short_duration(harness.hold_cap), fmt::format("{}", harness.refusals_survived),
                    short_duration(harness.retry_after_max), joined(pointers(harness), ", ")});
  }
  return fitted_table(rows, rows.front().size(), width);
}

std::string harness_json(const wire::Profiles& profiles) {
  json::array list;
  for (const wire::HarnessProfile& harness : profiles.harnesses()) {
    json::object row;
    row["name"] = harness.name;
    row["programs"] = texts(harness.programs);
    row["user_agents"] = texts(harness.user_agents);
    row["hold_cap_seconds"] = to_seconds(harness.hold_cap);
    row["header_timeout_seconds"] = seconds_or_null(harness.header_timeout);
    row["idle_timeout_seconds"] = seconds_or_null(harness.idle_timeout);
    row["refusals_survived"] = harness.refusals_survived;
    row["retry_after_max_seconds"] = to_seconds(harness.retry_after_max);
    row["retry_after_seconds"] = to_seconds(harness.retry_after);
    row["timeout_header"] = harness.timeout_header;
    row["session_headers"] = texts(harness.session_headers);
    row["pointed_by"] = texts(pointers(harness));
    list.emplace_back(std::move(row));
  }
  return json_text(list) + "\n";
}

}  // namespace hg::cli
