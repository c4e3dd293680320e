// A long history of real calls through spool, thread and database: what `usage` sums must be what
// an independent program sums from the input, to the token and the cent.
//
// HG_REPLAY_CALLS: how many (20,000; a million in `make soak`).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "ledger/ledger.h"
#include "ledger/prices.h"
#include "ledger/queries.h"
#include "ledger/test_ledger.h"

namespace hg::ledger {
namespace {

constexpr std::int64_t kJuly2026 = 1'782'864'000'000'000;

// One request of data/claude_code_sessions, as its columns say.
struct Request {
  std::string trace;
  std::int64_t at_us = 0;
  std::string model;
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t output = 0;
};

std::vector<Request> read_requests() {
  std::vector<Request> requests;
  std::ifstream file(HG_SHARED_DIR "/data/claude_code_sessions/fit_requests_1.csv");
  std::string line;
  std::getline(file, line);  // trace,sub,turn,t_s,streamed,model,prompt,cached,out,...
  while (std::getline(file, line)) {
    std::array<std::string, 9> cells;
    std::istringstream stream(line);
    for (std::string& cell : cells) std::getline(stream, cell, ',');
    Request request;
    request.trace = cells[0];
    request.at_us = std::llround(std::strtod(cells[3].c_str(), nullptr) * 1e6);
    request.model = "claude-" + cells[5];
    request.prompt = parse_integer(cells[6]).value_or(0);
    request.cached = parse_integer(cells[7]).value_or(0);
    request.output = parse_integer(cells[8]).value_or(0);
    requests.push_back(request);
  }
  return requests;
}

// Dollars for a million tokens, as Anthropic's page says them: in, cached, out.
struct Dollars {
  long double input, cached, output;
};

Dollars dollars_of(const Request& request) {
  const std::string& model = request.model;
  if (model.find("opus-4-1") != std::string::npos) return {15, 1.5L, 75};
  if (model.find("opus-4-5") != std::string::npos) return {5, 0.5L, 25};
  if (model.find("opus-4-6") != std::string::npos) return {5, 0.5L, 25};
  if (model.find("haiku-4-5") != std::string::npos) return {1, 0.1L, 5};
  if (model.find("sonnet-4") != std::string::npos) {
    return request.prompt > 200'000 ? Dollars{6, 0.6L, 22.5L} : Dollars{3, 0.3L, 15};
  }
  return {0, 0, 0};
}

struct Sum {
  std::int64_t calls = 0;
  std::int64_t uncached = 0;
  std::int64_t cached = 0;
  std::int64_t output = 0;
  long double dollars = 0;
};

std::int64_t calls_wanted() {
  const char* text = std::getenv("HG_REPLAY_CALLS");
  return text == nullptr ? 20'000 : parse_integer(text).value_or(20'000);
}

using ReplayTest = EachDatabase;

TEST_P(ReplayTest, UsageIsWhatAnIndependentSumOfTheInputIs) {
  const std::vector<Request> requests = read_requests();
  if (requests.empty()) GTEST_SKIP() << "no data/claude_code_sessions here";
  const std::unique_ptr<Ledger> ledger = open_ledger(options());
  std::map<std::string, Sum> by_model;
  std::map<std::string, Sum> by_run;
  const std::int64_t wanted = calls_wanted();
  for (std::int64_t i = 0; i < wanted; ++i) {
    const Request& request = requests[static_cast<std::size_t>(i) % requests.size()];
    const std::int64_t round = i / static_cast<std::int64_t>(requests.size());
    CallRow row = test_row("replay." + std::to_string(i));
    row.run = "round-" + std::to_string(round);
    row.task = request.trace;
    row.model = request.model;
    row.started_at_us = kJuly2026 + round * 3'600'000'000 + request.at_us;
    row.uncached_tokens = request.prompt - request.cached;
    row.cached_tokens = request.cached;
    row.output_tokens = request.output;
    Prices::built_in().put_cost(row, std::nullopt);
    ledger->record(row);
    const Dollars price = dollars_of(request);
    for (Sum* sum : {&by_model[row.model], &by_run[row.run]}) {
      ++sum->calls;
      sum->uncached += request.prompt - request.cached;
      sum->cached += request.cached;
      sum->output += request.output;
      sum->dollars += ((request.prompt - request.cached) * price.input +
                       request.cached * price.cached + request.output * price.output) /
                      1e6L;
    }
  }
  ledger->close(600s);
  ASSERT_EQ(ledger->health().stored, static_cast<std::uint64_t>(wanted));
  const std::unique_ptr<Database> database = open();
  const auto compare = [&](UsageBy by, std::string Usage::* key,
                           const std::map<std::string, Sum>& expected) {
    const auto usage = find_usage(*database, by, {});
    ASSERT_TRUE(usage.has_value()) << usage.error().detail;
    ASSERT_EQ(usage->size(), expected.size());
    for (const Usage& line : *usage) {
      const Sum& sum = expected.at(line.*key);
      EXPECT_EQ(line.calls, sum.calls) << line.*key;
      EXPECT_EQ(line.uncached_tokens, sum.uncached) << line.*key;
      EXPECT_EQ(line.cached_tokens, sum.cached) << line.*key;
      EXPECT_EQ(line.output_tokens, sum.output) << line.*key;
      EXPECT_EQ(line.without_cost, 0) << line.*key;
      EXPECT_EQ(std::llround(static_cast<long double>(line.cost_micro_usd) / 1e4L),
                std::llround(sum.dollars * 100))
          << line.*key << ": cents";
    }
  };
  compare(UsageBy::model, &Usage::model, by_model);
  compare(UsageBy::run, &Usage::run, by_run);
}

INSTANTIATE_TEST_SUITE_P(On, ReplayTest,
                         ::testing::Values(Place::Kind::sqlite, Place::Kind::postgresql),
                         kind_name);

}  // namespace
}  // namespace hg::ledger
