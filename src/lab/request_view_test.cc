#include "lab/request_view.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::lab {
namespace {

using wire::Dialect;

const TokenRule kExact{.bytes_per_token = 4.0, .noise = 0, .per_message = 0};

TEST(RequestViewTest, ReadsWhatAnAnthropicRequestAsksFor) {
  const Result<RequestView> view = view_request(Dialect::anthropic_messages, R"({
    "model":"claude-opus-5-5","stream":true,"max_tokens":128000,
    "system":[{"type":"text","text":"abcd","cache_control":{"type":"ephemeral"}}],
    "tools":[{"name":"Read","description":"d","input_schema":{"type":"object",
              "properties":{"file_path":{"type":"string"}},"required":["file_path"]}}],
    "messages":[
      {"role":"user","content":[{"type":"text","text":"Change the colour"}]},
      {"role":"system","content":[{"type":"text","text":" - Primary working directory: /tmp/w \n - x"}]},
      {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/a"}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",
                                 "content":[{"type":"text","text":"it is red"}]}]}]})",
                                                kExact);
  ASSERT_TRUE(view) << view.error().detail;
  EXPECT_EQ(view->model, "claude-opus-5-5");
  EXPECT_TRUE(view->stream);
  EXPECT_EQ(view->max_output, 128'000);
  ASSERT_EQ(view->tools.size(), 1U);
  EXPECT_EQ(view->tools[0].name, "Read");
  EXPECT_EQ(view->tools[0].properties, std::vector<std::string>{"file_path"});
  EXPECT_EQ(view->assistant_turns, 1);
  EXPECT_EQ(view->tool_results, 1);
  EXPECT_EQ(view->first_user_text, "Change the colour");
  EXPECT_EQ(view->last_tool_result, "it is red");
  EXPECT_EQ(view->working_directory, "/tmp/w");
  EXPECT_TRUE(view->cache_marked);
  EXPECT_EQ(view->prefix.size(), 6U);  // Tools, system, four messages.
  EXPECT_EQ(view->prefix.back().tokens, view->prompt_tokens);
}

TEST(RequestViewTest, ReadsWhatAChatRequestAsksFor) {
  const Result<RequestView> view = view_request(Dialect::openai_chat, R"({
    "model":"gpt-6","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":9,
    "tools":[{"type":"function","function":{"name":"edit","parameters":{"type":"object",
              "properties":{"filePath":{}},"required":["filePath"]}}}],
    "messages":[{"role":"system","content":"abcdefgh"},{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
         "function":{"name":"edit","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c","content":"ok"}]})",
                                                kExact);
  ASSERT_TRUE(view) << view.error().detail;
  EXPECT_TRUE(view->include_usage);
  EXPECT_EQ(view->max_output, 9);
  EXPECT_EQ(view->tools.at(0).name, "edit");
  EXPECT_EQ(view->assistant_turns, 1);
  EXPECT_EQ(view->last_tool_result, "ok");
  EXPECT_FALSE(view->cache_marked);
}

TEST(RequestViewTest, CountsDecodedTextAndPricesPicturesFlat) {
  const auto tokens = [](std::string_view content) {
    const std::string body = R"({"model":"m","messages":[{"role":"user","content":)" +
                             std::string(content) + "}]}";
    return view_request(Dialect::anthropic_messages, body, kExact).value().prompt_tokens;
  };
  EXPECT_EQ(tokens(R"("abcdefgh")"), 2);
  EXPECT_EQ(tokens(R"("\u4e2d\u6587\u4e2d\u6587")"), 3);  // 12 bytes of UTF-8.
  EXPECT_EQ(tokens(R"([{"type":"image","source":{"type":"base64","data":")" +
                   std::string(40'000, 'A') + R"("}}])"),
            1500);
}

TEST(RequestViewTest, PrefixesAreEqualExactlyAsFarAsPromptsAre) {
  const auto prefix = [](std::string_view last) {
    const std::string
        body = R"({"model":"m","system":"s","messages":[{"role":"user","content":"a"},)"
               R"({"role":"user","content":")" +
               std::string(last) + R"("}]})";
    return view_request(Dialect::anthropic_messages, body, TokenRule()).value().prefix;
  };
  const auto left = prefix("b");
  const auto right = prefix("c");
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(left[1].hash, right[1].hash);
  EXPECT_NE(left[2].hash, right[2].hash);
}

TEST(RequestViewTest, NoiseStaysWithinItsShareAndDependsOnTheText) {
  const TokenRule rule{.bytes_per_token = 4.0, .noise = 0.1};
  bool differ = false;
  for (int i = 0; i < 50; ++i) {
    const std::string text = std::to_string(1'000 + i) + std::string(39'996, 'x');
    const Tokens tokens = count_tokens(text, rule);
    EXPECT_EQ(tokens, count_tokens(text, rule));
    EXPECT_NEAR(static_cast<double>(tokens), 10'000.0, 1'001.0);
    differ = differ || tokens != 10'000;
  }
  EXPECT_TRUE(differ);
}

TEST(RequestViewTest, RefusesWhatAProviderWouldRefuse) {
  for (const char* body :
       {"", "{", "[]", "{}", R"({"model":"m"})", R"({"model":"m","messages":[]})",
        R"({"messages":[{"role":"user","content":"x"}]})", R"({"model":"m","messages":[1]})"}) {
    const Result<RequestView> view = view_request(Dialect::openai_chat, body, TokenRule());
    ASSERT_FALSE(view) << body;
    EXPECT_EQ(view.error().code, Errc::invalid);
  }
}

}  // namespace
}  // namespace hg::lab
