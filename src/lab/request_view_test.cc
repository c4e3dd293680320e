#include "lab/request_view.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::lab {
namespace {

const TokenRule kExact{.bytes_per_token = 4.0, .noise = 0, .per_message = 0};

TEST(RequestViewTest, ReadsWhatAnAnthropicRequestAsksFor) {
  const Result<RequestView> view = view_request(Api::anthropic_messages, R"({
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
  const Result<RequestView> view = view_request(Api::openai_chat, R"({
    "model":"gpt-6","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":9,
    "tools":[{"type":"function","function":{"name":"edit","parameters":{"type":"object",
              "description":"Your current working directory is: /tmp/w\nWhen exploring",
              "properties":{"filePath":{},"risk":{"type":"string","enum":["LOW","HIGH"]},
                            "size":{"enum":[1,2]}},"required":["filePath"]}}}],
    "messages":[{"role":"system","content":"abcdefgh"},{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
         "function":{"name":"edit","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c","content":"ok"}]})",
                                                kExact);
  ASSERT_TRUE(view) << view.error().detail;
  EXPECT_TRUE(view->include_usage);
  EXPECT_EQ(view->max_output, 9);
  EXPECT_EQ(view->tools.at(0).name, "edit");
  ASSERT_EQ(view->tools[0].choices.size(), 1U);  // Those of numbers are nothing to write.
  EXPECT_EQ(view->tools[0].choices[0].name, "risk");
  EXPECT_EQ(view->tools[0].choices[0].first, "LOW");
  EXPECT_EQ(view->working_directory, "/tmp/w");
  EXPECT_EQ(view->assistant_turns, 1);
  EXPECT_EQ(view->last_tool_result, "ok");
  EXPECT_FALSE(view->cache_marked);
}

TEST(RequestViewTest, CountsDecodedTextAndPricesPicturesFlat) {
  const auto tokens = [](std::string_view content) {
    const std::string body = R"({"model":"m","messages":[{"role":"user","content":)" +
                             std::string(content) + "}]}";
    return view_request(Api::anthropic_messages, body, kExact).value().prompt_tokens;
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
    return view_request(Api::anthropic_messages, body, TokenRule()).value().prefix;
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
    const Result<RequestView> view = view_request(Api::openai_chat, body, TokenRule());
    ASSERT_FALSE(view) << body;
    EXPECT_EQ(view.error().code, Errc::invalid);
  }
}

TEST(RequestViewTest, ReadsResponsesAsCodexWritesThem) {
  const Result<RequestView> view = view_request(Api::openai_responses, R"({
    "model": "gpt-6.2", "stream": true, "max_output_tokens": 900, "instructions": "Be brief.",
    "tools": [{"type": "web_search"}],
    "input": [
      {"type": "additional_tools", "role": "developer", "tools": [
        {"type": "namespace", "name": "functions", "tools": [
          {"type": "custom", "name": "exec", "format": {"type": "grammar"}},
          {"type": "function", "name": "wait", "parameters": {"type": "object",
            "properties": {"cell_id": {"type": "string"}, "list": {"type": "array"}},
            "required": ["cell_id"]}}]}]},
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sys"}]},
      {"type": "message", "role": "user", "content": [{"type": "input_text",
        "text": "<environment_context>\n  <cwd>/tmp/job</cwd>"}]},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it"}]},
      {"type": "reasoning", "encrypted_content": "gAAAA"},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I"}]},
      {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "text(1);"},
      {"type": "custom_tool_call_output", "call_id": "c1",
        "output": [{"type": "input_text", "text": "red"}]},
      {"type": "function_call", "call_id": "c2", "name": "wait", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c2", "output": "blue"}]
})",
                                                TokenRule());
  ASSERT_TRUE(view) << view.error().detail;
  EXPECT_EQ(view->model, "gpt-6.2");
  EXPECT_TRUE(view->stream);
  EXPECT_TRUE(view->generates);
  EXPECT_EQ(view->max_output, 900);
  ASSERT_EQ(view->tools.size(), 2U);
  EXPECT_TRUE(view->tools[0].freeform);
  EXPECT_EQ(view->tools[1].space, "functions");
  EXPECT_EQ(view->tools[1].lists.size(), 1U);
  EXPECT_EQ(view->working_directory, "/tmp/job");
  EXPECT_TRUE(view->first_user_text.contains("Do it"));
  EXPECT_EQ(view->assistant_turns, 2);
  EXPECT_EQ(view->tool_results, 2);
  EXPECT_EQ(view->last_tool_result, "blue");
  EXPECT_GT(view->prompt_tokens, 60);
  EXPECT_EQ(view->prefix.back().tokens, view->prompt_tokens);
}

TEST(RequestViewTest, APrewarmGeneratesNothing) {
  const auto prewarm = view_request(Api::openai_responses,
                                    R"({"model":"m","generate":false,"input":[]})", TokenRule());
  ASSERT_TRUE(prewarm);
  EXPECT_FALSE(prewarm->generates);
  const auto plain = view_request(Api::openai_responses, R"({"model":"m","input":"hello"})",
                                  TokenRule());
  EXPECT_EQ(plain->first_user_text, "hello");
  EXPECT_FALSE(view_request(Api::openai_responses, R"({"model":"m"})", TokenRule()));
  EXPECT_FALSE(view_request(Api::openai_responses, R"({"model":"m","input":3})", TokenRule()));
}

TEST(RequestViewTest, ReadsGeminiInEitherSpelling) {
  const Result<RequestView> view = view_request(Api::gemini_generate, R"({
    "systemInstruction": {"parts": [{"text": "You are an agent."}]},
    "tools": [{"functionDeclarations": [{"name": "read_file", "parametersJsonSchema":
      {"type": "object", "properties": {"file_path": {"type": "string"}}}}]}],
    "contents": [
      {"role": "user", "parts": [{"text": "- **Workspace Directories:**\n  - /tmp/job\n"},
                                 {"text": "Do it"}, {"inlineData": {"data": "AAAA"}}]},
      {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {"a": "b"}}}]},
      {"role": "user", "parts": [{"functionResponse": {"name": "read_file",
                                 "response": {"output": "colour = red"}}}]}],
    "generationConfig": {"maxOutputTokens": 77, "responseJsonSchema": {"type": "OBJECT"}}})",
                                                TokenRule());
  ASSERT_TRUE(view) << view.error().detail;
  ASSERT_EQ(view->tools.size(), 1U);
  EXPECT_EQ(view->tools[0].properties, std::vector<std::string>{"file_path"});
  EXPECT_EQ(view->working_directory, "/tmp/job");
  EXPECT_TRUE(view->first_user_text.contains("Do it"));
  EXPECT_EQ(view->assistant_turns, 1);
  EXPECT_EQ(view->tool_results, 1);
  EXPECT_EQ(view->last_tool_result, "colour = red");
  EXPECT_EQ(view->max_output, 77);
  EXPECT_FALSE(view->answer_schema.empty());
  EXPECT_GT(view->prompt_tokens, 1'500);  // The picture's flat price.

  const auto snake = view_request(Api::gemini_generate, R"({"generateContentRequest":{
    "system_instruction":{"parts":{"text":"s"}},
    "contents":[{"parts":[{"text":"hello"}]}]}})",
                                  TokenRule());
  ASSERT_TRUE(snake);
  EXPECT_EQ(snake->first_user_text, "hello");
  EXPECT_FALSE(view_request(Api::gemini_generate, R"({"contents":[]})", TokenRule()));
}

}  // namespace
}  // namespace hg::lab
