// Every documented shape in which a provider says what a call used, brought to the same five
// numbers; each read whole and by one byte. The expected numbers follow from what the provider says
// of its fields: whether input leaves cache reads out, whether output leaves reasoning out.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/dialect.h"

namespace hg::wire {
namespace {

constexpr std::optional<Tokens> kNone;
constexpr std::string_view kJson = "application/json";

struct Row {
  std::string why;
  Dialect dialect;
  std::vector<std::string> pieces;  // One: a body; several: the events of a stream.
  std::optional<Tokens> uncached;   // Cache writes are among them.
  std::optional<Tokens> cached;
  std::optional<Tokens> cache_write;
  std::optional<Tokens> output;  // Reasoning is in it.
  std::optional<Tokens> reasoning = kNone;
  std::string_view type = "";  // Where neither of the usual two says how it is cut.
};

std::string stream_of(const std::vector<std::string>& events) {
  std::string text = ": keep-alive\n\n";
  for (const std::string& event : events) text += "data: " + event + "\n\n";
  return text + "data: [DONE]\n\n";
}

UsageReport read(Dialect dialect, std::string_view type, std::string_view bytes, std::size_t step) {
  ResponseReader reader(dialect, type);
  for (std::size_t at = 0; at < bytes.size(); at += step) reader.feed(bytes.substr(at, step));
  reader.finish();
  return reader.usage();
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const bool streams = row.pieces.size() > 1;
    const std::string bytes = streams ? stream_of(row.pieces) : row.pieces.front();
    for (const std::size_t step : {bytes.size(), std::size_t{1}}) {
      const std::string_view usual = streams ? "text/event-stream" : kJson;
      const UsageReport report = read(row.dialect, row.type.empty() ? usual : row.type, bytes,
                                      step);
      EXPECT_EQ(report.uncached, row.uncached) << row.why << ": uncached, by " << step;
      EXPECT_EQ(report.cached, row.cached) << row.why << ": cached, by " << step;
      EXPECT_EQ(report.cache_write, row.cache_write) << row.why << ": written, by " << step;
      EXPECT_EQ(report.output, row.output) << row.why << ": output, by " << step;
      EXPECT_EQ(report.reasoning, row.reasoning) << row.why << ": reasoning, by " << step;
    }
  }
}

TEST(UsageShapesTest, AnthropicMessages) {
  constexpr Dialect kMessages = Dialect::anthropic_messages;
  const std::string start =
      R"({"type":"message_start","message":{"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"output_tokens":1,"service_tier":"standard"}}})";
  const std::string stop = R"({"type":"message_stop"})";
  check({
      {"whole, with both lives of the cache",
       kMessages,
       {R"({"type":"message","content":[],"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"output_tokens":50,"output_tokens_details":{"thinking_tokens":11},"server_tool_use":{"web_search_requests":2},"inference_geo":"us"}})"},
       120,
       300,
       20,
       50,
       11},
      {"the lives of the cache alone",
       kMessages,
       {R"({"type":"message","content":[],"usage":{"input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"output_tokens":50}})"},
       120,
       kNone,
       20,
       50},
      {"a stream whose end says only the output",
       kMessages,
       {start,
        R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50}})",
        stop},
       120,
       300,
       20,
       50},
      {"a stream whose end says all once more",
       kMessages,
       {start,
        R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":50}})",
        stop},
       120,
       300,
       20,
       50},
      {"its own searches made the prompt longer",
       kMessages,
       {start,
        R"({"type":"message_delta","delta":{},"usage":{"input_tokens":10682,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":510,"server_tool_use":{"web_search_requests":1}}})",
        stop},
       10'682,
       0,
       0,
       510},
      {"nulls at the end take nothing back",
       kMessages,
       {start,
        R"({"type":"message_delta","delta":{},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":50}})",
        stop},
       120,
       300,
       20,
       50},
      {"others' zeros at the start: all is said at the end",
       kMessages,
       {R"({"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}})",
        R"({"type":"message_delta","delta":{},"usage":{"input_tokens":52,"output_tokens":20,"cache_read_input_tokens":448}})",
        stop},
       52,
       448,
       kNone,
       20},
      {"several output counts: the last counts",
       kMessages,
       {start, R"({"type":"message_delta","delta":{},"usage":{"output_tokens":10}})",
        R"({"type":"message_delta","delta":{},"usage":{"output_tokens":90}})", stop},
       120,
       300,
       20,
       90},
      // platform.claude.com/docs/en/build-with-claude/compaction: it counts, apart from the rest.
      {"a compaction is not in the sums",
       kMessages,
       {R"({"type":"message","content":[],"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}})"},
       203'000,
       kNone,
       kNone,
       4'500},
      {"an adviser of another model is none of this call's",
       kMessages,
       {R"({"type":"message","content":[],"usage":{"input_tokens":2411,"cache_read_input_tokens":0,"output_tokens":145,"iterations":[{"type":"message","input_tokens":1128,"output_tokens":135},{"type":"advisor_message","input_tokens":2543,"output_tokens":18},{"type":"message","input_tokens":1283,"output_tokens":10}]}})"},
       2'411,
       0,
       kNone,
       145},
  });
}

TEST(UsageShapesTest, OpenAiChatAndWhoFollowsIt) {
  constexpr Dialect kChat = Dialect::openai_chat;
  const std::string delta = R"({"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null})";
  const std::string last = R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})";
  check({
      {"whole",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":300,"total_tokens":1500,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":128,"accepted_prediction_tokens":0}}})"},
       176,
       1'024,
       kNone,
       300,
       128},
      {"null in every chunk, then a chunk without choices",
       kChat,
       {delta, last,
        R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":0}}})"},
       12,
       0,
       kNone,
       3},
      {"in the last chunk with choices",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}})"},
       12,
       kNone,
       kNone,
       3},
      {"in every chunk, growing",
       kChat,
       {R"({"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":13}})",
        R"({"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14}})",
        R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}})"},
       12,
       kNone,
       kNone,
       3},
      {"DeepSeek's hits and misses",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":9},"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}})"},
       36,
       64,
       kNone,
       30,
       9},
      {"DeepSeek's hits alone",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}})"},
       36,
       64,
       kNone,
       30},
      {"Moonshot: inside the choice, cached beside the prompt",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":16}}]})"},
       3,
       16,
       kNone,
       13},
      {"Together: cached beside the prompt",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":4,"total_tokens":54,"cached_tokens":32}})"},
       18,
       32,
       kNone,
       4},
      {"Mistral",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":210,"total_tokens":230,"completion_tokens":20,"num_cached_tokens":128,"prompt_token_details":{"cached_tokens":128},"prompt_audio_seconds":{}}})"},
       82,
       128,
       kNone,
       20},
      {"xAI leaves reasoning out of the output, not out of the total",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"text_tokens":32,"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94},"num_sources_used":0}})"},
       26,
       6,
       kNone,
       103,
       94},
      {"xAI without a total",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}})"},
       32,
       kNone,
       kNone,
       103,
       94},
      {"Groq in its corner",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"queue_time":0.01,"prompt_tokens":40,"prompt_time":0.002,"completion_tokens":7,"completion_time":0.01,"total_tokens":47,"total_time":0.012,"prompt_tokens_details":{"cached_tokens":32}}}})"},
       8,
       32,
       kNone,
       7},
      {"OpenRouter: with cost, cache writes among the prompt",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":2572,"completion_tokens":100,"total_tokens":2672,"cost":0.0034,"is_byok":false,"prompt_tokens_details":{"cached_tokens":2240,"cache_write_tokens":329,"audio_tokens":0},"cost_details":{"upstream_inference_cost":null},"completion_tokens_details":{"reasoning_tokens":0}}})"},
       332,
       2'240,
       329,
       100,
       0},
      {"Gemini through OpenAI's dialect: thoughts only in the total",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45}})"},
       10,
       kNone,
       kNone,
       35},
      {"a gateway that answers with Anthropic's words",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":420,"completion_tokens":50,"total_tokens":470,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"prompt_tokens_details":{"cached_tokens":300}}})"},
       120,
       300,
       20,
       50},
      {"Perplexity: reasoning beside", kChat, {R"({"choices":[],"usage":{"prompt_tokens":33,"completion_tokens":50,"total_tokens":83,"reasoning_tokens":20,"citation_tokens":5,"num_search_queries":2}})"}, 33, kNone, kNone, 50, 20},
      {"Cohere: billed and true",
       kChat,
       {R"({"message":{"content":[]},"usage":{"billed_units":{"input_tokens":5,"output_tokens":7},"tokens":{"input_tokens":71,"output_tokens":9},"cached_tokens":16}})"},
       55,
       16,
       kNone,
       9},
      {"Cohere at the end of a stream",
       kChat,
       {R"({"type":"content-delta","delta":{"message":{"content":{"text":"x"}}}})",
        R"({"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":5,"output_tokens":7},"tokens":{"input_tokens":71,"output_tokens":9}}}})"},
       71,
       kNone,
       kNone,
       9},
      {"vLLM",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":9,"total_tokens":20,"completion_tokens":11,"prompt_tokens_details":null},"prompt_logprobs":null,"kv_transfer_params":null})"},
       9,
       kNone,
       kNone,
       11},
      {"SGLang: reasoning beside, in the output",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":9,"total_tokens":20,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":8},"reasoning_tokens":4}})"},
       1,
       8,
       kNone,
       11,
       4},
      {"llama.cpp: what was reused stands among its times",
       kChat,
       {R"({"choices":[],"usage":{"completion_tokens":40,"prompt_tokens":410,"total_tokens":450},"timings":{"cache_n":290,"prompt_n":120,"prompt_ms":900.0,"predicted_n":40}})"},
       120,
       290,
       kNone,
       40},
      {"llama.cpp's stream that was not asked: its times alone",
       kChat,
       {delta,
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":290,"prompt_n":120,"predicted_n":40}})"},
       120,
       290,
       kNone,
       40},
      {"counts written with a point",
       kChat,
       {R"({"choices":[],"usage":{"prompt_tokens":12.0,"completion_tokens":3.0,"total_tokens":15.0}})"},
       12,
       kNone,
       kNone,
       3},
      {"no usage at all", kChat, {delta, last}, kNone, kNone, kNone, kNone},
  });
}

TEST(UsageShapesTest, OpenAiResponses) {
  constexpr Dialect kResponses = Dialect::openai_responses;
  const std::string usage =
      R"("usage":{"input_tokens":900,"input_tokens_details":{"cached_tokens":768},"output_tokens":120,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":1020})";
  check({
      {"whole",
       kResponses,
       {R"({"object":"response","status":"completed","output":[],)" + usage + "}"},
       132,
       768,
       kNone,
       120,
       64},
      {"null until the end",
       kResponses,
       {R"({"type":"response.created","response":{"usage":null}})",
        R"({"type":"response.output_text.delta","delta":"x"})",
        R"({"type":"response.completed","response":{"output":[],)" + usage + "}}"},
       132,
       768,
       kNone,
       120,
       64},
      {"an end before its time",
       kResponses,
       {R"({"type":"response.created","response":{"usage":null}})",
        R"({"type":"response.incomplete","response":{"output":[],)" + usage + "}}"},
       132,
       768,
       kNone,
       120,
       64},
      {"with what was written to the cache",
       kResponses,
       {R"({"object":"response","output":[],"usage":{"input_tokens":900,"input_tokens_details":{"cached_tokens":512,"cache_write_tokens":256},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":912,"cost":0.1}})"},
       388,
       512,
       256,
       12,
       0},
  });
}

TEST(UsageShapesTest, GeminiAndVertex) {
  constexpr Dialect kGemini = Dialect::gemini_generate;
  check({
      {"cached, thought, and what its own tools brought in",
       kGemini,
       {R"({"candidates":[],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":800,"candidatesTokenCount":50,"thoughtsTokenCount":200,"toolUsePromptTokenCount":30,"totalTokenCount":1280,"promptTokensDetails":[{"modality":"TEXT","tokenCount":1000}]}})"},
       230,
       800,
       kNone,
       250,
       200},
      {"growing in a stream",
       kGemini,
       {R"({"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}})",
        R"({"candidates":[{"content":{"parts":[{"text":"b"}]}}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":10}})",
        R"({"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5,"thoughtsTokenCount":40,"totalTokenCount":52}})"},
       7,
       kNone,
       kNone,
       45,
       40},
      {"Vertex",
       kGemini,
       {R"({"candidates":[],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":12,"trafficType":"ON_DEMAND"}})"},
       7,
       kNone,
       kNone,
       5},
      {"all of it thought",
       kGemini,
       {R"({"candidates":[],"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":60,"totalTokenCount":67}})"},
       7,
       kNone,
       kNone,
       60,
       60},
      {"Code Assist wraps it",
       kGemini,
       {R"({"response":{"candidates":[],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":12}}})"},
       7,
       kNone,
       kNone,
       5},
      {"Interactions, whole",
       Dialect::other,
       {R"({"id":"v1_x","status":"completed","usage":{"total_input_tokens":90,"total_cached_tokens":64,"total_output_tokens":79,"total_thought_tokens":12,"total_tool_use_tokens":3,"total_tokens":184}})"},
       29,
       64,
       kNone,
       91,
       12},
      {"Interactions, a stream",
       Dialect::other,
       {R"({"event_type":"content.delta","delta":{"text":"x"}})",
        R"({"event_type":"interaction.complete","interaction":{"usage":{"total_input_tokens":9,"total_output_tokens":79,"total_thought_tokens":12,"total_tokens":100}}})"},
       9,
       kNone,
       kNone,
       91,
       12},
  });
}

TEST(UsageShapesTest, AmazonBedrock) {
  check({
      {"Converse",
       Dialect::other,
       {R"({"output":{"message":{"content":[]}},"stopReason":"end_turn","usage":{"inputTokens":25,"outputTokens":70,"totalTokens":420,"cacheReadInputTokens":300,"cacheWriteInputTokens":25},"metrics":{"latencyMs":1}})"},
       50,
       300,
       25,
       70},
      {"Converse without a cache",
       Dialect::other,
       {R"({"output":{"message":{"content":[]}},"usage":{"inputTokens":25,"outputTokens":70,"totalTokens":95}})"},
       25,
       kNone,
       kNone,
       70},
      {"Claude by InvokeModel",
       Dialect::other,
       {R"({"type":"message","content":[],"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":50}})"},
       120,
       300,
       20,
       50},
      {"Claude by InvokeModel, a stream with Amazon's measures behind",
       Dialect::anthropic_messages,
       {R"({"type":"message_start","message":{"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":1}}})",
        R"({"type":"message_delta","delta":{},"usage":{"output_tokens":50}})",
        R"({"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":100,"outputTokenCount":50,"invocationLatency":9,"firstByteLatency":4,"cacheReadInputTokenCount":300,"cacheWriteInputTokenCount":20}})"},
       120,
       300,
       20,
       50},
      {"Nova",
       Dialect::other,
       {R"({"output":{"message":{"content":[]}},"usage":{"inputTokens":9,"outputTokens":3,"totalTokens":12,"cacheReadInputTokenCount":0,"cacheWriteInputTokenCount":0}})"},
       9,
       0,
       0,
       3},
      {"Llama",
       Dialect::other,
       {R"({"generation":"x","prompt_token_count":25,"generation_token_count":7,"stop_reason":"stop"})"},
       25,
       kNone,
       kNone,
       7},
      {"Titan",
       Dialect::other,
       {R"({"inputTextTokenCount":6,"results":[{"tokenCount":8,"outputText":"x","completionReason":"FINISH"}]})"},
       6,
       kNone,
       kNone,
       8},
  });
}

// Longer than what a parser's memory is kept for, shorter than what is held.
TEST(UsageShapesTest, AVeryLongAnswerTellsItsUsageInEveryPlace) {
  const std::string text(700'000, 'x');
  for (const std::string usage :
       {R"("x_groq":{"usage":{"prompt_tokens":12,"completion_tokens":3}})",
        R"("usage":{"prompt_tokens":12,"completion_tokens":3})"}) {
    const std::string body = R"({"choices":[{"message":{"content":")" + text + "\"}}]," + usage +
                             "}";
    const UsageReport report = read(Dialect::openai_chat, kJson, body, 65'536);
    EXPECT_EQ(report.uncached, 12);
    EXPECT_EQ(report.output, 3);
  }
}

TEST(UsageShapesTest, ServersOfOnesOwn) {
  check({
      {"llama.cpp's completion",
       Dialect::other,
       {R"({"content":"x","stop":true,"tokens_evaluated":410,"tokens_predicted":40,"tokens_cached":449,"timings":{"cache_n":290,"prompt_n":120,"predicted_n":40}})"},
       120,
       290,
       kNone,
       40},
      {"SGLang's generate",
       Dialect::other,
       {R"({"text":"x","meta_info":{"prompt_tokens":9,"completion_tokens":11,"cached_tokens":8,"finish_reason":{"type":"stop"}}})"},
       1,
       8,
       kNone,
       11},
      {"Ollama, whole",
       Dialect::other,
       {R"({"model":"m","message":{"role":"assistant","content":"x"},"done":true,"prompt_eval_count":26,"eval_count":12})"},
       26,
       kNone,
       kNone,
       12},
      {"Ollama, a line an event",
       Dialect::other,
       {"{\"message\":{\"content\":\"x\"},\"done\":false}\n{\"message\":{\"content\":\"\"},"
        "\"done\":"
        "true,\"prompt_eval_count\":26,\"eval_count\":12}\n"},
       26,
       kNone,
       kNone,
       12,
       kNone,
       "application/x-ndjson"},
      {"a text-generation server",
       Dialect::other,
       {R"({"generated_text":"x","details":{"generated_tokens":12,"prefill":[]}})"},
       kNone,
       kNone,
       kNone,
       12},
  });
}

}  // namespace
}  // namespace hg::wire
