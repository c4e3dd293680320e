// The defaults of TaskShape and ProviderModel against the sessions they were taken from, where
// those are at hand: published Claude Code sessions, one line a request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/model_agent.h"
#include "sim/model_provider.h"

namespace hg::sim {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

double number(const Row& row, const std::string& name) {
  const auto found = row.find(name);
  return found == row.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// The sessions' own requests, in order, without sub-agents and repeated histories.
std::map<std::string, std::vector<Row>> read_sessions(std::istream& file) {
  std::map<std::string, std::vector<Row>> sessions;
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = split(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    Row row;
    for (std::size_t i = 0; i < std::min(names.size(), fields.size()); ++i)
      row[names[i]] = fields[i];
    if (row["dup"] != "1" && row["sub"].empty()) sessions[row["trace"]].push_back(row);
  }
  return sessions;
}

TEST(SessionsTest, DefaultsAreThoseOfRealSessions) {
  const std::string path = std::string(HG_SOURCE_DIR) +
                           "/../shared/data/claude_code_sessions/fit_requests_1.csv";
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << "the recorded sessions are not here: " << path;

  std::vector<double> turns, growth, output, think, first_byte, modelled;
  const ProviderModel provider;
  for (const auto& [name, rows] : read_sessions(file)) {
    turns.push_back(static_cast<double>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      if (number(row, "out") > 0) output.push_back(number(row, "out"));
      if (const double took = number(row, "ttft_s"); took > 0) {
        const double cached = number(row, "cached");
        const double uncached = number(row, "prompt") - cached;
        first_byte.push_back(took);
        modelled.push_back(to_seconds(provider.base) +
                           uncached * provider.micros_per_uncached_token / 1e6 +
                           cached * provider.micros_per_cached_token / 1e6);
      }
      if (i == 0) continue;
      const double grown = number(row, "prompt") - number(rows[i - 1], "prompt");
      if (grown > 0 && grown < 20'000) growth.push_back(grown);
      if (number(row, "after_tool") == 1) think.push_back(number(row, "think_s"));
    }
  }
  const TaskShape shape;
  EXPECT_NEAR(quantile(turns, 0.5), shape.turns, 5);
  EXPECT_NEAR(quantile(growth, 0.5), shape.growth_median, 65);
  EXPECT_NEAR(quantile(growth, 0.9), shape.growth_median * std::exp(1.2816 * shape.growth_sigma),
              360);
  EXPECT_NEAR(quantile(output, 0.5), shape.output_median, 22);
  EXPECT_NEAR(quantile(output, 0.9), shape.output_median * std::exp(1.2816 * shape.output_sigma),
              90);
  EXPECT_NEAR(quantile(think, 0.5), shape.think_median_s, 1);
  EXPECT_NEAR(quantile(think, 0.75), shape.think_median_s * std::exp(0.6745 * shape.think_sigma),
              2);
  EXPECT_NEAR(quantile(modelled, 0.5), quantile(first_byte, 0.5), 0.25);
}

}  // namespace
}  // namespace hg::sim
