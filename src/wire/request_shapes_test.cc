// Requests of every documented shape: their text counts by its bytes, their media by a flat price
// and never by their base64, markers and sealed blobs not at all.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/dialect.h"

namespace hg::wire {
namespace {

constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kGemini = "/v1beta/models/gemini-3-pro:generateContent";
constexpr std::string_view kConverse = "/model/amazon.nova-pro-v1:0/converse-stream";
constexpr std::string_view
    kInvokeClaude = "/model/us.anthropic.claude-sonnet-4-5-v1:0/invoke-with-response-stream";
constexpr std::string_view kInvoke = "/model/meta.llama3-70b-instruct-v1:0/invoke";

struct Row {
  std::string why;
  std::string_view path;
  std::string body;  // '@' stands for a long base64.
  std::int64_t chars;
  std::int64_t flat_parts = 0;
  std::optional<Tokens> max_output = std::nullopt;
};

RequestFacts read(const Row& row) {
  static const std::string base64(40'000, 'A');
  std::string body;
  for (const char c : row.body) {
    if (c == '@') {
      body += base64;
    } else {
      body += c;
    }
  }
  const auto facts = read_request(classify("POST", row.path), body);
  EXPECT_TRUE(facts.has_value()) << row.why;
  return facts.value_or(RequestFacts{});
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const RequestFacts facts = read(row);
    EXPECT_EQ(facts.text_chars, row.chars) << row.why;
    EXPECT_EQ(facts.flat_parts, row.flat_parts) << row.why;
    EXPECT_EQ(facts.flat_tokens > 0, row.flat_parts > 0) << row.why;
    EXPECT_EQ(facts.max_output, row.max_output) << row.why;
  }
}

std::string messages(const std::string& content) {
  return R"({"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":)" +
         content + "}]}";
}

TEST(RequestShapesTest, AnthropicMessages) {
  check({
      {"text", kMessages, messages(R"("abcd")"), 4, 0, 9},
      {"a system text", kMessages, R"({"model":"m","system":"abc","messages":[]})", 3},
      {"system blocks with a marker", kMessages,
       R"({"model":"m","system":[{"type":"text","text":"abc","cache_control":{"type":"ephemeral"}}],"messages":[]})",
       3},
      {"a PDF in base64", kMessages,
       messages(
           R"([{"type":"document","title":"ti","context":"con","source":{"type":"base64","media_type":"application/pdf","data":"@"}},{"type":"text","text":"ab"}])"),
       7, 1, 9},
      {"a document of text", kMessages,
       messages(
           R"([{"type":"document","source":{"type":"text","media_type":"text/plain","data":"abcdef"},"citations":{"enabled":true}}])"),
       6, 0, 9},
      {"a document of blocks", kMessages,
       messages(
           R"([{"type":"document","source":{"type":"content","content":[{"type":"text","text":"abc"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"@"}}]}}])"),
       3, 1, 9},
      {"documents elsewhere", kMessages,
       messages(
           R"([{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}},{"type":"image","source":{"type":"file","file_id":"file_1"}}])"),
       0, 2, 9},
      {"a tool's result with a picture", kMessages,
       messages(
           R"([{"type":"tool_result","tool_use_id":"toolu_1","is_error":false,"content":[{"type":"text","text":"abc"},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"@"}}]}])"),
       3, 1, 9},
      {"a tool's result as a text", kMessages,
       messages(R"([{"type":"tool_result","tool_use_id":"toolu_1","content":"abcde"}])"), 5, 0, 9},
      {"a tool's use", kMessages,
       messages(R"([{"type":"tool_use","id":"toolu_1","name":"run","input":{"a":[1,2]}}])"), 3 + 11,
       0, 9},
      {"thought and sealed", kMessages,
       messages(
           R"([{"type":"thinking","thinking":"abc","signature":"@"},{"type":"redacted_thinking","data":"@"}])"),
       3, 0, 9},
      {"what the provider searched", kMessages,
       messages(
           R"([{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"u","title":"tt","encrypted_content":"@"}]}])"),
       10 + 13 + 3, 0, 9},
      {"a compaction", kMessages, messages(R"([{"type":"compaction","content":"abc"}])"), 3, 0, 9},
      {"tools", kMessages,
       R"({"model":"m","tools":[{"name":"n","description":"d","input_schema":{"type":"object"}}],"messages":[]})",
       2 + 63},
  });
}

TEST(RequestShapesTest, OpenAiChat) {
  const auto user = [](const std::string& content) {
    return R"({"model":"gpt-5.5","messages":[{"role":"user","content":)" + content + "}]}";
  };
  check({
      {"a picture by address and one inside", kChat,
       user(
           R"([{"type":"text","text":"ab"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"high"}},{"type":"image_url","image_url":"data:image/png;base64,@"}])"),
       2, 2},
      {"a file inside, by id, and sound", kChat,
       user(
           R"([{"type":"file","file":{"filename":"f.pdf","file_data":"data:application/pdf;base64,@"}},{"type":"file","file":{"file_id":"file-1"}},{"type":"input_audio","input_audio":{"data":"@","format":"wav"}}])"),
       0, 3},
      {"a film, as others take it", kChat,
       user(R"([{"type":"video_url","video_url":{"url":"data:video/mp4;base64,@"}}])"), 0, 1},
      {"a document, as Mistral takes it", kChat,
       user(R"([{"type":"document_url","document_url":"data:application/pdf;base64,@"}])"), 0, 1},
      {"a tool's result in parts", kChat,
       R"({"model":"m","messages":[{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"abc"},{"type":"image_url","image_url":{"url":"data:image/png;base64,@"}}]}]})",
       3, 1},
      {"calls of tools", kChat,
       R"({"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"run","arguments":"{\"a\":1}"}}]}]})",
       3 + 7},
      {"limits", kChat,
       R"({"model":"m","max_tokens":5,"max_completion_tokens":7,"messages":[{"role":"system","content":"ab"}]})",
       2, 0, 7},
      {"reasoning sent back", kChat,
       R"({"model":"m","messages":[{"role":"assistant","reasoning_content":"abc","content":"de"}]})",
       5},
  });
}

TEST(RequestShapesTest, OpenAiResponses) {
  const auto items = [](const std::string& list) {
    return R"({"model":"gpt-5.5","input":[)" + list + "]}";
  };
  check({
      {"a text", kResponses,
       R"({"model":"m","instructions":"ab","input":"cde","max_output_tokens":4})", 5, 0, 4},
      {"a picture and a file", kResponses,
       items(
           R"({"role":"user","content":[{"type":"input_text","text":"ab"},{"type":"input_image","image_url":"data:image/png;base64,@"},{"type":"input_image","file_id":"file-1"},{"type":"input_file","filename":"f.pdf","file_data":"data:application/pdf;base64,@"},{"type":"input_file","file_url":"https://x/f.pdf"}]})"),
       2, 4},
      {"a tool's result in parts", kResponses,
       items(
           R"({"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"abc"},{"type":"input_image","image_url":"data:image/png;base64,@"}]})"),
       3, 1},
      {"a tool's result as a text", kResponses,
       items(R"({"type":"function_call_output","call_id":"c","output":"abcd"})"), 4},
      {"a screen", kResponses,
       items(
           R"({"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,@"}})"),
       0, 1},
      {"a picture that was made", kResponses,
       items(R"({"type":"image_generation_call","id":"ig","status":"completed","result":"@"})"), 0,
       1},
      {"thought, sealed and summed up", kResponses,
       items(
           R"({"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"abc"}],"encrypted_content":"@"})"),
       3},
      {"a compaction, sealed", kResponses,
       items(R"({"type":"compaction","id":"cmp","encrypted_content":"@"})"), 0},
      {"an answer sent back", kResponses,
       items(
           R"({"type":"message","id":"msg","status":"completed","role":"assistant","content":[{"type":"output_text","text":"abc","annotations":[]}]})"),
       3},
      {"calls of tools", kResponses,
       items(
           R"({"type":"function_call","id":"fc","call_id":"c","name":"run","arguments":"{\"a\":1}","status":"completed"},{"type":"custom_tool_call","call_id":"d","name":"sh","input":"ls"})"),
       3 + 7 + 2 + 2},
  });
}

TEST(RequestShapesTest, Gemini) {
  check({
      {"text, picture, and a file elsewhere", kGemini,
       R"({"contents":[{"role":"user","parts":[{"text":"abc"},{"inlineData":{"mimeType":"image/png","data":"@"}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://x/v"}}]}],"generationConfig":{"maxOutputTokens":8}})",
       3, 2, 8},
      {"the protocol's spelling", kGemini,
       R"({"system_instruction":{"parts":[{"text":"ab"}]},"contents":[{"parts":[{"inline_data":{"mime_type":"application/pdf","data":"@"}}]}],"generation_config":{"max_output_tokens":8}})",
       2, 1, 8},
      {"a system text", kGemini, R"({"systemInstruction":"abc","contents":[]})", 3},
      {"calls and results, with a picture", kGemini,
       R"({"contents":[{"role":"model","parts":[{"functionCall":{"name":"run","args":{"a":1}},"thoughtSignature":"@"}]},{"role":"user","parts":[{"functionResponse":{"name":"run","response":{"o":"k"},"parts":[{"inlineData":{"mimeType":"image/png","data":"@"}}]}}]}]})",
       3 + 7 + 3 + 9, 1},
      {"seals by themselves", kGemini,
       R"({"contents":[{"role":"model","parts":[{"thoughtSignature":"@"},{"thought_signature":"@"},{"text":"ab","thought":true}]}]})",
       2},
  });
}

TEST(RequestShapesTest, AmazonBedrock) {
  check({
      {"Converse: text and limit", kConverse,
       R"({"system":[{"text":"abc"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"de"}]}],"inferenceConfig":{"maxTokens":6,"temperature":0.5}})",
       5, 0, 6},
      {"Converse: a picture, a document and a film", kConverse,
       R"({"messages":[{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"@"}}},{"document":{"format":"pdf","name":"nam","source":{"bytes":"@"}}},{"video":{"format":"mp4","source":{"s3Location":{"uri":"s3://b/v"}}}}]}]})",
       3, 3},
      {"Converse: a document of text", kConverse,
       R"({"messages":[{"role":"user","content":[{"document":{"format":"txt","name":"n","source":{"text":"abcd"}}}]}]})",
       5},
      {"Converse: a tool's use and result", kConverse,
       R"({"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"tooluse_1","name":"run","input":{"a":1}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_1","status":"success","content":[{"text":"ab"},{"json":{"k":2}},{"image":{"format":"jpeg","source":{"bytes":"@"}}}]}}]}]})",
       3 + 7 + 2 + 7, 1},
      {"Converse: thought and sealed", kConverse,
       R"({"messages":[{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"abc","signature":"@"}}},{"reasoningContent":{"redactedContent":"@"}}]}]})",
       3},
      {"Converse: tools", kConverse,
       R"({"toolConfig":{"tools":[{"toolSpec":{"name":"n","description":"d","inputSchema":{"json":{}}}}]},"messages":[]})",
       71},
      {"Claude by InvokeModel", kInvokeClaude,
       R"({"anthropic_version":"bedrock-2023-05-31","max_tokens":6,"system":"ab","messages":[{"role":"user","content":[{"type":"text","text":"cde"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"@"}}]}]})",
       5, 1, 6},
      {"Llama", kInvoke, R"({"prompt":"abcd","max_gen_len":6,"temperature":0.5})", 4, 0, 6},
      {"Titan", kInvoke, R"({"inputText":"abcd","textGenerationConfig":{"maxTokenCount":6}})", 4, 0,
       6},
  });
}

TEST(RequestShapesTest, ClaudeAtAmazonSharesPrefixesAsElsewhere) {
  const Endpoint endpoint = classify("POST", kInvokeClaude);
  EXPECT_EQ(endpoint.dialect, Dialect::anthropic_messages);
  EXPECT_TRUE(endpoint.generates);
  EXPECT_TRUE(endpoint.streams);
  EXPECT_EQ(endpoint.model, "us.anthropic.claude-sonnet-4-5-v1:0");
  EXPECT_EQ(classify("POST", kInvoke).dialect, Dialect::other);
}

TEST(RequestShapesTest, ServersOfOnesOwn) {
  check({
      {"llama.cpp's completion", "/completion", R"({"prompt":"abcd","n_predict":6})", 4, 0, 6},
      {"Ollama", "/api/chat",
       R"({"model":"m","messages":[{"role":"user","content":"abcd","images":["@"]}],"options":{"num_predict":6}})",
       8, 1, 6},
      {"SGLang", "/generate", R"({"text":"abcd","sampling_params":{"max_new_tokens":6}})", 4, 0, 6},
      {"a text-generation server", "/generate",
       R"({"inputs":"abcd","parameters":{"max_new_tokens":6}})", 4, 0, 6},
  });
}

}  // namespace
}  // namespace hg::wire
