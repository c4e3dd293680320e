#include "wire/rate_headers.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hg::wire {
namespace {

namespace json = boost::json;

// 2025-03-15T08:58:00Z.
constexpr WallTime kNow{Micros{1'742'029'080'000'000}};
constexpr Micros kMinute{60'000'000};
constexpr Micros kDay{86'400'000'000};

RateReading reading(RateUnit unit, std::optional<Micros> window, std::optional<std::int64_t> limit,
                    std::optional<std::int64_t> remaining, std::optional<Micros> reset) {
  RateReading result;
  result.unit = unit;
  result.window = window;
  result.limit = limit;
  result.remaining = remaining;
  result.reset = reset;
  return result;
}

RateReading share(Micros window, std::int64_t used_ppm, Micros reset, bool rejected) {
  RateReading result = reading(RateUnit::plan, window, {}, {}, reset);
  result.used_ppm = used_ppm;
  result.rejected = rejected;
  return result;
}

TEST(RateHeadersTest, EveryProvidersFieldsAreReadToOneMeaning) {
  using Fields = std::vector<std::pair<std::string, std::string>>;
  struct Row {
    const char* why;
    Fields fields;
    std::vector<RateReading> wanted;
  };
  using enum RateUnit;
  const Row rows[] = {
      {"nothing", {{"content-type", "x"}, {"retry-after", "3"}}, {}},
      {"Anthropic: a limit each, full again at an instant",
       {{"anthropic-ratelimit-requests-limit", "4000"},
        {"anthropic-ratelimit-requests-remaining", "3999"},
        {"anthropic-ratelimit-requests-reset", "2025-03-15T08:58:01Z"},
        {"Anthropic-Ratelimit-Input-Tokens-Limit", "200000"},
        {"anthropic-ratelimit-input-tokens-remaining", "199000"},
        {"anthropic-ratelimit-output-tokens-limit", "80000"}},
       {reading(requests, kMinute, 4000, 3999, Micros(1'000'000)),
        reading(input_tokens, kMinute, 200'000, 199'000, {}),
        reading(output_tokens, kMinute, 80'000, {}, {})}},
      {"a subscription: shares of two windows",
       {{"anthropic-ratelimit-unified-5h-utilization", "1.08"},
        {"anthropic-ratelimit-unified-5h-status", "rejected"},
        {"anthropic-ratelimit-unified-5h-reset", "1742029680"},
        {"anthropic-ratelimit-unified-7d-utilization", "0.3"},
        {"anthropic-ratelimit-unified-7d-status", "allowed"},
        {"anthropic-ratelimit-unified-7d-reset", "1742029681"},
        {"anthropic-ratelimit-unified-fallback-percentage", "0.5"}},
       {share(5 * 60 * kMinute, 1'080'000, Micros(600'000'000), true),
        share(7 * kDay, 300'000, Micros(601'000'000), false)}},
      {"OpenAI: a minute, as its resets say",
       {{"x-ratelimit-limit-requests", "500"},
        {"x-ratelimit-remaining-requests", "499"},
        {"x-ratelimit-reset-requests", "120ms"},
        {"x-ratelimit-limit-tokens", "30000"},
        {"x-ratelimit-remaining-tokens", "0"},
        {"x-ratelimit-reset-tokens", "1m0s"}},
       {reading(requests, kMinute, 500, 499, Micros(120'000)),
        reading(tokens, kMinute, 30'000, 0, kMinute)}},
      {"full: the window cannot be told",
       {{"x-ratelimit-limit-tokens", "30000"},
        {"x-ratelimit-remaining-tokens", "30000"},
        {"x-ratelimit-reset-tokens", "0s"}},
       {reading(tokens, {}, 30'000, 30'000, Micros(0))}},
      {"Groq: requests of a day, tokens of a minute",
       {{"x-ratelimit-limit-requests", "14400"},
        {"x-ratelimit-remaining-requests", "14399"},
        {"x-ratelimit-reset-requests", "6s"},
        {"x-ratelimit-limit-tokens", "6000"},
        {"x-ratelimit-remaining-tokens", "5987"},
        {"x-ratelimit-reset-tokens", "130ms"}},
       {reading(requests, kDay, 14'400, 14'399, Micros(6'000'000)),
        reading(tokens, kMinute, 6'000, 5'987, Micros(130'000))}},
      {"Azure: what is left, and the window in words of its own",
       {{"x-ratelimit-remaining-tokens", "119982"}, {"x-ratelimit-renewalperiod-tokens", "60"}},
       {reading(tokens, kMinute, {}, 119'982, {})}},
      {"Mistral: three windows",
       {{"x-ratelimit-limit-req-10-second", "60"},
        {"x-ratelimit-remaining-req-10-second", "57"},
        {"x-ratelimit-limit-tokens-minute", "20000000"},
        {"x-ratelimit-remaining-tokens-minute", "19999937"},
        {"x-ratelimit-limit-tokens-month", "200000000000"},
        {"x-ratelimit-tokens-query-cost", "21"}},
       {reading(requests, Micros(10'000'000), 60, 57, {}),
        reading(tokens, kMinute, 20'000'000, 19'999'937, {}),
        reading(tokens, 30 * kDay, 200'000'000'000, {}, {})}},
      {"Fireworks: prompt, uncached prompt, generated",
       {{"x-ratelimit-limit-tokens-prompt", "3600000"},
        {"x-ratelimit-limit-tokens-cache-adjusted-prompt", "900000"},
        {"x-ratelimit-remaining-tokens-generated", "36000"}},
       {reading(tokens, kMinute, 3'600'000, {}, {}),
        reading(input_tokens, kMinute, 900'000, {}, {}),
        reading(output_tokens, kMinute, {}, 36'000, {})}},
      {"Together: requests a second",
       {{"x-ratelimit-limit", "2"}, {"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "1"}},
       {reading(requests, Micros(1'000'000), 2, 0, Micros(1'000'000))}},
      {"Codex under a plan",
       {{"X-Codex-Primary-Used-Percent", "100"},
        {"X-Codex-Primary-Window-Minutes", "300"},
        {"X-Codex-Primary-Reset-After-Seconds", "13873"},
        {"x-codex-secondary-window-minutes", "0"}},
       {share(300 * kMinute, 1'000'000, Micros(13'873'000'000), false)}},
      {"the draft of a standard",
       {{"ratelimit", R"("api";r=999;t=295)"},
        {"ratelimit-policy", R"("fixed window";"api";q=1000;w=300)"}},
       {reading(requests, Micros(300'000'000), 1'000, 999, Micros(295'000'000))}},
      {"what does not parse is not there",
       {{"x-ratelimit-limit-tokens", "many"},
        {"x-ratelimit-remaining-tokens", "-3"},
        {"x-ratelimit-reset-tokens", "soon"},
        {"x-ratelimit-limit-requests", "1e999"}},
       {}},
  };
  for (const Row& row : rows) {
    Headers headers;
    for (const auto& [name, value] : row.fields) headers.add(name, value);
    const std::vector<RateReading> readings = read_rate_headers(headers, kNow);
    ASSERT_EQ(readings.size(), row.wanted.size()) << row.why;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      EXPECT_EQ(readings[i].unit, row.wanted[i].unit) << row.why;
      EXPECT_EQ(readings[i].window, row.wanted[i].window) << row.why << " " << i;
      EXPECT_TRUE(readings[i] == row.wanted[i]) << row.why << ": " << to_string(readings[i].unit);
    }
  }
}

TEST(RateHeadersTest, RecordedAnswersGiveTheirLimits) {
  const std::filesystem::path file = std::filesystem::path(HG_SHARED_DIR) /
                                     "data/ratelimits/headers.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no rate limit headers beside the repository";
  std::ifstream lines(file);
  int answers = 0;
  int minutes = 0;
  int other = 0;
  for (std::string line; std::getline(lines, line);) {
    const json::object row = json::parse(line).as_object();
    Headers headers;
    for (const auto& [name, value] : row.at("headers").as_object()) {
      headers.add(name, std::string_view(value.as_string()));
    }
    const json::value& time = row.at("t");
    const double seconds = time.is_number() ? time.to_number<double>() : 1.7e9;
    const WallTime wall{Micros(static_cast<std::int64_t>(seconds) * 1'000'000)};
    const bool only_hint = headers.all().size() == 1 && headers.has("retry-after");
    const std::vector<RateReading> readings = read_rate_headers(headers, wall);
    EXPECT_EQ(readings.empty(), only_hint) << line.substr(0, 400);
    ++answers;
    for (const RateReading& reading : readings) {
      EXPECT_TRUE(reading.limit || reading.remaining) << line.substr(0, 400);
      if (reading.limit && reading.remaining) {
        EXPECT_LE(*reading.remaining, *reading.limit) << line.substr(0, 400);
      }
      if (reading.unit != RateUnit::tokens || !reading.reset || !reading.window) continue;
      ++(*reading.window == kMinute ? minutes : other);
    }
  }
  EXPECT_GE(answers, 500);
  EXPECT_GE(minutes, 150) << "a token limit is a minute's wherever the resets tell";
  EXPECT_LE(other, 2);
}

}  // namespace
}  // namespace hg::wire
