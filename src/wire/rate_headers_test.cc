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
      {"a plan's week of one family binds before the week of all",
       {{"anthropic-ratelimit-unified-7d-utilization", "0.4"},
        {"anthropic-ratelimit-unified-7d-reset", "1742029680"},
        {"anthropic-ratelimit-unified-7d-status", "allowed"},
        {"anthropic-ratelimit-unified-7d_opus-utilization", "1.0"},
        {"anthropic-ratelimit-unified-7d_opus-reset", "1742029681"},
        {"anthropic-ratelimit-unified-7d_opus-status", "rejected"},
        {"anthropic-ratelimit-unified-overage-status", "rejected"}},
       {share(7 * kDay, 1'000'000, Micros(601'000'000), true)}},
      {"what was bought beside the usual limit is none",
       {{"anthropic-priority-input-tokens-limit", "10000"},
        {"anthropic-priority-input-tokens-remaining", "0"}},
       {}},
      {"Azure: resets are bare milliseconds",
       {{"x-ratelimit-limit-requests", "120"},
        {"x-ratelimit-remaining-requests", "119"},
        {"x-ratelimit-reset-requests", "500"},
        {"x-ratelimit-renewalperiod-requests", "60"},
        {"x-ratelimit-limit-tokens", "120000"},
        {"x-ratelimit-remaining-tokens", "119986"},
        {"x-ratelimit-reset-tokens", "7"},
        {"x-ratelimit-renewalperiod-tokens", "60"},
        {"x-ratelimit-abusepenalty-active", "False"}},
       {reading(requests, kMinute, 120, 119, Micros(500'000)),
        reading(tokens, kMinute, 120'000, 119'986, Micros(7'000))}},
      {"GitHub: the same fields, where seconds are the even refill",
       {{"x-ratelimit-limit-requests", "5"},
        {"x-ratelimit-remaining-requests", "4"},
        {"x-ratelimit-reset-requests", "12"},
        {"x-ratelimit-renewalperiod-requests", "60"}},
       {reading(requests, kMinute, 5, 4, Micros(12'000'000))}},
      {"Azure without a limit: minus one is none",
       {{"x-ratelimit-limit-tokens", "-1"},
        {"x-ratelimit-remaining-tokens", "-1"},
        {"x-ratelimit-reset-tokens", "0"}},
       {reading(tokens, {}, {}, {}, Micros(0))}},
      {"Cerebras: minutes, hours and days by name",
       {{"x-ratelimit-limit-requests-day", "14400"},
        {"x-ratelimit-remaining-requests-day", "14399"},
        {"x-ratelimit-reset-requests-day", "33011.382867097855"},
        {"x-ratelimit-limit-requests-minute", "30"},
        {"x-ratelimit-remaining-requests-minute", "29"},
        {"x-ratelimit-limit-tokens-minute", "60000"},
        {"x-ratelimit-remaining-tokens-minute", "52000"},
        {"x-ratelimit-reset-tokens-minute", "11.5"},
        {"x-ratelimit-limit-tokens-hour", "1000000"},
        {"x-ratelimit-limit-tokens-day", "1000000"}},
       {reading(requests, kMinute, 30, 29, {}),
        reading(requests, kDay, 14'400, 14'399, Micros(33'011'382'868)),
        reading(tokens, kMinute, 60'000, 52'000, Micros(11'500'000)),
        reading(tokens, 60 * kMinute, 1'000'000, {}, {}),
        reading(tokens, kDay, 1'000'000, {}, {})}},
      {"Mistral: minutes and seconds",
       {{"x-ratelimit-limit-req-minute", "720"},
        {"x-ratelimit-remaining-req-minute", "717"},
        {"x-ratelimit-limit-req-second", "6"},
        {"ratelimitbysize-reset", "45"},
        {"x-ratelimitbysize-limit-minute", "500000"},
        {"x-ratelimitbysize-remaining-minute", "499000"}},
       {reading(requests, Micros(1'000'000), 6, {}, {}), reading(requests, kMinute, 720, 717, {}),
        reading(tokens, kMinute, 500'000, 499'000, Micros(45'000'000))}},
      {"OpenRouter: the end of the window in milliseconds since 1970",
       {{"X-RateLimit-Limit", "20"},
        {"X-RateLimit-Remaining", "0"},
        {"X-RateLimit-Reset", "1742029140000"}},
       {reading(requests, kMinute, 20, 0, kMinute)}},
      {"a project's limit below the organisation's",
       {{"x-ratelimit-limit-tokens", "2000000"},
        {"x-ratelimit-remaining-tokens", "1990000"},
        {"x-ratelimit-reset-tokens", "300ms"},
        {"x-ratelimit-limit-project-tokens", "200000"},
        {"x-ratelimit-remaining-project-tokens", "190000"},
        {"x-ratelimit-reset-project-tokens", "3s"},
        {"x-ratelimit-limit-input-images", "50000"}},
       {reading(tokens, kMinute, 200'000, 190'000, Micros(3'000'000))}},
      {"xAI: limits and what is left",
       {{"x-ratelimit-limit-requests", "480"},
        {"x-ratelimit-limit-tokens", "2000000"},
        {"x-ratelimit-remaining-requests", "479"},
        {"x-ratelimit-remaining-tokens", "1999000"}},
       {reading(requests, {}, 480, 479, {}), reading(tokens, {}, 2'000'000, 1'999'000, {})}},
      {"Fireworks marks what went over by a word",
       {{"x-ratelimit-limit-requests", "60"},
        {"x-ratelimit-remaining-requests", "0"},
        {"x-ratelimit-over-limit", "yes"}},
       {reading(requests, {}, 60, 0, {})}},
      {"a gateway's plain words",
       {{"X-RateLimit-Limit-Minute", "100"}, {"X-RateLimit-Remaining-Minute", "98"}},
       {reading(requests, kMinute, 100, 98, {})}},
      {"other words are nothing",
       {{"x-limit", "5"}, {"x-amz-limit-requests", "5"}, {"x-ratelimit-limit-frogs", "5"}},
       {}},
      {"Codex: the end of a window as an instant",
       {{"x-codex-secondary-used-percent", "80"},
        {"x-codex-secondary-window-minutes", "10080"},
        {"x-codex-secondary-reset-at", "1742029680"}},
       {share(7 * kDay, 800'000, Micros(600'000'000), false)}},
      {"an older draft: a field each",
       {{"ratelimit-limit", "100, 100;w=60"},
        {"ratelimit-remaining", "50"},
        {"ratelimit-reset", "30"}},
       {reading(requests, kMinute, 100, 50, Micros(30'000'000))}},
      {"a later draft: one field, and its policy",
       {{"ratelimit", "limit=100, remaining=50, reset=5"}, {"ratelimit-policy", "100;w=10"}},
       {reading(requests, Micros(10'000'000), 100, 50, Micros(5'000'000))}},
      {"the newest draft: several limits, told apart by name and unit",
       {{"RateLimit-Policy",
         R"("burst";q=100;w=60,"daily";q=1000;w=86400,"size";q=65535;qu="content-bytes";w=10,"toks";q=9000;qu="tokens";w=60)"},
        {"RateLimit", R"("burst";r=50;t=30,"daily";r=900;t=40000,"toks";r=7)"}},
       {reading(requests, kMinute, 100, 50, Micros(30'000'000)),
        reading(requests, kDay, 1'000, 900, Micros(40'000'000'000)),
        reading(tokens, kMinute, 9'000, 7, {})}},
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
