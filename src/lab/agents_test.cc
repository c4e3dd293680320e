#include "lab/agents.h"

#include <gtest/gtest.h>

#include <string>

#include "lab/request_view.h"
#include "wire/profiles.h"

namespace hg::lab {
namespace {

Api api_of(wire::Dialect dialect) {
  if (dialect == wire::Dialect::openai_responses) return Api::openai_responses;
  return dialect == wire::Dialect::anthropic_messages ? Api::anthropic_messages : Api::openai_chat;
}

sim::AgentCall call_of(std::vector<sim::PromptBlock> blocks) {
  sim::AgentCall call;
  call.blocks = std::move(blocks);
  call.prompt_tokens = call.blocks.back().tokens;
  call.max_output = 32'000;
  return call;
}

TEST(RequestBodyTest, HasAboutTheTokensThatThePolicyAsksFor) {
  for (const char* harness : {"claude-code", "opencode", "codex", "openai-sdk"}) {
    const AgentWire wire = wire_of(harness);
    const sim::AgentCall call = call_of({{1, 11'000}, {2, 20'000}, {3, 21'500}});
    const Result<RequestView> view = view_request(api_of(wire.dialect), request_body(wire, call),
                                                  TokenRule());
    ASSERT_TRUE(view) << view.error().detail;
    EXPECT_NEAR(static_cast<double>(view->prompt_tokens), 21'500, 1'075) << harness;
    EXPECT_EQ(view->stream, true);
    if (wire.profile != "codex") {  // It limits nothing.
      EXPECT_EQ(view->max_output, 32'000);
    }
    EXPECT_EQ(view->assistant_turns, 1);
    EXPECT_FALSE(view->tools.empty());
  }
}

TEST(RequestBodyTest, ALaterTurnSharesAllEarlierText) {
  for (const char* harness : {"claude-code", "opencode", "codex"}) {
    const AgentWire wire = wire_of(harness);
    const auto prefix = [&](const sim::AgentCall& call) {
      return view_request(api_of(wire.dialect), request_body(wire, call), TokenRule())
          .value()
          .prefix;
    };
    const auto early = prefix(call_of({{1, 1'100}, {2, 2'000}}));
    const auto late = prefix(call_of({{1, 1'100}, {2, 2'000}, {3, 2'500}}));
    ASSERT_LT(early.size(), late.size());
    for (std::size_t i = 0; i < early.size(); ++i) EXPECT_EQ(early[i].hash, late[i].hash);
  }
}

TEST(RequestBodyTest, EqualCallsGiveEqualBytes) {
  const AgentWire wire = wire_of("claude-code");
  const sim::AgentCall call = call_of({{1, 100}, {2, 200}});
  EXPECT_EQ(request_body(wire, call), request_body(wire, call));
}

TEST(AgentWireTest, TheWireReadersUnderstandWhatAgentsSend) {
  for (const char* harness : {"claude-code", "opencode", "codex", "mini-swe-agent", "openai-sdk"}) {
    const AgentWire wire = wire_of(harness);
    const sim::AgentCall call = call_of({{1, 1'000}, {2, 3'000}});
    const Result<wire::RequestFacts> facts = wire::read_request(wire.dialect,
                                                                request_body(wire, call));
    ASSERT_TRUE(facts) << harness << ": " << facts.error().detail;
    EXPECT_NEAR(static_cast<double>(facts->text_chars), 3'000 * kBytesPerToken, 400) << harness;
    EXPECT_TRUE(facts->stream);
    EXPECT_NE(wire::Profiles::built_in().harness(wire.profile), nullptr) << harness;
    Headers headers;
    headers.add("User-Agent", wire.user_agent);
    EXPECT_EQ(wire::Profiles::built_in().harness_for_request(headers).name, wire.profile);
  }
}

}  // namespace
}  // namespace hg::lab
