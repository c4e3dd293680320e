#include "lab/fleet.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <optional>
#include <string>

#include "lab/fairness.h"
#include "lab/socket_test_util.h"

namespace hg::lab {
namespace {

// Small, quick tasks.
sim::TaskShape small_shape() {
  sim::TaskShape shape;
  shape.turns = 3;
  shape.first_prompt = 2'000;
  shape.growth_median = 200;
  shape.output_median = 20;
  shape.time_scale = 0.001;
  return shape;
}

ProviderConfig quick_provider() {
  ProviderConfig config;
  config.model.burst_tokens = 10'000'000;
  config.model.tokens_per_second = 1'000'000;
  config.model.burst_requests = 10'000;
  config.model.requests_per_second = 1'000;
  config.model.base = 1ms;
  config.model.micros_per_uncached_token = 0;
  config.model.micros_per_output_token = 50;
  return config;
}

class FleetTest : public testing::Test {
 protected:
  void start(ProviderConfig config) {
    provider.emplace(io.get_executor(), clock, std::move(config));
    const Result<std::uint16_t> port = provider->listen(0);
    ASSERT_TRUE(port) << port.error().detail;
    base_url = "http://127.0.0.1:" + std::to_string(*port);
  }

  void TearDown() override {
    if (!provider) return;
    const auto stop = [this]() -> net::Task<bool> {
      co_await provider->stop(0s);
      co_return true;
    };
    EXPECT_TRUE(run(io, stop()));
  }

  FleetConfig fleet_config() {
    FleetConfig config;
    config.base_url = base_url;
    config.agents = 4;
    config.tasks = 8;
    config.shape = small_shape();
    config.start_within = 10ms;
    config.give_up_after = 20s;
    return config;
  }

  FleetSummary play(FleetConfig config) {
    Fleet fleet(io.get_executor(), clock, std::move(config));
    auto summary = run(io, fleet.run());
    if (!summary || !*summary) {
      ADD_FAILURE() << (summary ? summary->error().detail : "no end in time");
      return {};
    }
    FleetSummary out = std::move(**summary);
    add_account(out, provider->totals());
    return out;
  }

  boost::asio::io_context io;
  OsClock clock;
  std::optional<EmulatedProvider> provider;
  std::string base_url;
};

TEST_F(FleetTest, FinishesItsTasksAndItsCountsAgreeWithTheProviders) {
  start(quick_provider());
  const FleetSummary summary = play(fleet_config());
  EXPECT_EQ(summary.tasks_done, 8);
  EXPECT_EQ(summary.tasks_lost, 0);
  EXPECT_EQ(summary.tasks_unfinished, 0);
  EXPECT_EQ(summary.calls, 24);
  EXPECT_EQ(summary.refused_seen_by_agents, 0);
  const ProviderTotals totals = provider->totals();
  EXPECT_EQ(totals.calls, 24);
  EXPECT_EQ(totals.accepted, 24);
  EXPECT_EQ(summary.tokens, totals.accepted_prompt + totals.accepted_output);
}

TEST_F(FleetTest, CountsWhatAgentsReceivedAndRetriesAsTheyDo) {
  ProviderConfig config = quick_provider();
  config.failures = FailurePlan::parse("429=1@1-2,503@5,stream@7,cut@9").value();
  start(config);
  FleetConfig fleet = fleet_config();
  fleet.harnesses = {"claude-code"};
  fleet.tasks = 4;
  const FleetSummary summary = play(fleet);
  EXPECT_EQ(summary.tasks_done, 4);
  EXPECT_EQ(summary.refused_seen_by_agents, 4);
  EXPECT_EQ(summary.refused_by_us, 0);
  EXPECT_EQ(summary.refused_by_provider, 4);
  EXPECT_EQ(summary.cut, 1);
  EXPECT_EQ(summary.calls, 12 + 5);
}

TEST_F(FleetTest, ATaskIsLostWhenItsHarnessGivesUp) {
  ProviderConfig config = quick_provider();
  config.failures = FailurePlan::parse("quota%1").value();
  start(config);
  FleetConfig fleet = fleet_config();
  fleet.harnesses = {"claude-code"};
  fleet.tasks = 3;
  const FleetSummary summary = play(fleet);
  EXPECT_EQ(summary.tasks_lost, 3);
  ASSERT_EQ(summary.lost_why.size(), 3U);
  EXPECT_TRUE(summary.lost_why[0].starts_with("claude-code: ")) << summary.lost_why[0];
}

TEST_F(FleetTest, EndsAtItsBoundWithTasksUnfinished) {
  ProviderConfig config = quick_provider();
  config.failures = FailurePlan::parse("silence%1").value();
  start(config);
  FleetConfig fleet = fleet_config();
  fleet.give_up_after = 200ms;
  const FleetSummary summary = play(fleet);
  EXPECT_EQ(summary.tasks_unfinished, 8);
  EXPECT_LT(summary.seconds, 5.0);
}

TEST_F(FleetTest, CanBeCancelledAndShowsWhereItStands) {
  ProviderConfig config = quick_provider();
  config.failures = FailurePlan::parse("silence%1").value();
  start(config);
  Fleet fleet(io.get_executor(), clock, fleet_config());
  net::TaskGroup group(io.get_executor());
  const auto cancel = [&]() -> net::Task<void> {
    while (fleet.progress().calls_open < 4) {
      const bool slept = co_await net::sleep_for(2ms);
      if (!slept) co_return;
    }
    fleet.cancel();
  };
  group.spawn("cancel", cancel());
  const auto summary = run(io, fleet.run());
  ASSERT_TRUE(summary && *summary);
  EXPECT_EQ((*summary)->tasks_done, 0);
  EXPECT_EQ(fleet.progress().calls_open, 0);
}

TEST_F(FleetTest, RefusesAHarnessOfWhichNothingIsKnown) {
  FleetConfig config;
  config.base_url = "http://127.0.0.1:1";
  config.harnesses = {"no-such-program"};
  Fleet fleet(io.get_executor(), clock, config);
  const auto summary = run(io, fleet.run());
  ASSERT_TRUE(summary);
  EXPECT_FALSE(*summary);
}

TEST_F(FleetTest, TheSummaryHasTheNamesOfTheReport) {
  const boost::json::value json = boost::json::parse(to_json(FleetSummary()));
  for (const char* name : {"calls", "tasks_done", "tasks_lost", "refused_by_provider",
                           "refused_seen_by_agents", "refused_by_us", "limit_used"}) {
    EXPECT_NE(json.as_object().if_contains(name), nullptr) << name;
  }
}

TEST_F(FleetTest, TheFairnessRunMeasuresBothKinds) {
  FairnessConfig config;
  config.load = 0.9;
  config.duration = 1'500ms;
  config.drain_within = 5s;
  config.small_tokens = 400;
  config.large_tokens = 4'000;
  start(fairness_provider(config));
  config.base_url = base_url;
  const auto report = run(io, run_fairness(io.get_executor(), clock, config));
  ASSERT_TRUE(report && *report);
  EXPECT_GT((*report)->small.calls, 10);
  EXPECT_GT((*report)->large.calls, 0);
  EXPECT_EQ((*report)->small.answered, (*report)->small.calls);
  EXPECT_EQ((*report)->large.refused, 0);
  EXPECT_LT((*report)->small.p50_s, 1.0);  // Nothing holds anybody here.
  EXPECT_TRUE(to_text(**report).contains("p95"));
}

}  // namespace
}  // namespace hg::lab
