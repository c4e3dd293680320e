#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/dialect.h"

namespace hg::wire {
namespace {

constexpr Dialect kAnthropic = Dialect::anthropic_messages;
constexpr Dialect kChat = Dialect::openai_chat;
constexpr std::string_view kStream = "text/event-stream; charset=utf-8";
constexpr std::string_view kJson = "application/json";

ResponseReader read(Dialect dialect, std::string_view type, std::string_view body,
                    std::size_t step = 0) {
  ResponseReader reader(dialect, type);
  if (step == 0) step = std::max<std::size_t>(body.size(), 1);
  for (std::size_t at = 0; at < body.size(); at += step) reader.feed(body.substr(at, step));
  reader.finish();
  return reader;
}

UsageReport usage(std::optional<Tokens> uncached, std::optional<Tokens> cached,
                  std::optional<Tokens> output) {
  UsageReport report;
  report.uncached = uncached;
  report.cached = cached;
  report.output = output;
  return report;
}

// What the gate charges by; what was written to the cache and what was thought have their own rows.
UsageReport basics(UsageReport report) {
  report.cache_write.reset();
  report.reasoning.reset();
  return report;
}

constexpr std::string_view kAnthropicStream =
    "event: message_start\r\n"
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":"
    "{\"input_tokens\":10,\"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":300,"
    "\"output_tokens\":1}}}\r\n\r\n"
    "event: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n"
    "event: content_block_start\r\n"
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
    "\"text\":\"\"}}\r\n\r\n"
    "event: content_block_delta\r\n"
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
    "\"text\":\"Hello\"}}\r\n\r\n"
    "event: message_delta\r\n"
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
    "{\"output_tokens\":15}}\r\n\r\n"
    "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n";

constexpr std::string_view kChatStream =
    ": OPENROUTER PROCESSING\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":12,"
    "\"total_tokens\":402,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
    "data: [DONE]\n\n";

TEST(ResponseTest, AnthropicStreamsSetTheirCountsAndNeverAdd) {
  const ResponseReader reader = read(kAnthropic, kStream, kAnthropicStream);
  EXPECT_EQ(basics(reader.usage()), usage(30, 300, 15));
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(reader.output_seen());
  EXPECT_EQ(reader.output_chars(), 5);
  EXPECT_TRUE(reader.streaming());
  EXPECT_EQ(reader.error_event(), std::nullopt);
}

TEST(ResponseTest, ChatStreamsCountCachedTokensOutOfThePrompt) {
  const ResponseReader reader = read(kChat, kStream, kChatStream);
  EXPECT_EQ(basics(reader.usage()), usage(36, 64, 302)) << "output is what the total leaves";
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(reader.output_seen());
  EXPECT_EQ(reader.output_chars(), 2);
}

TEST(ResponseTest, AnyCutGivesTheSame) {
  for (const std::size_t step : {1, 2, 3, 5, 7, 11, 64, 1'000}) {
    EXPECT_EQ(basics(read(kAnthropic, kStream, kAnthropicStream, step).usage()),
              usage(30, 300, 15));
    EXPECT_EQ(basics(read(kChat, kStream, kChatStream, step).usage()), usage(36, 64, 302));
    EXPECT_EQ(basics(read(kChat, "", kChatStream, step).usage()), usage(36, 64, 302))
        << "no type named";
    EXPECT_TRUE(read(kChat, kStream, kChatStream, step).complete());
  }
}

TEST(ResponseTest, CutStreamsAreNotComplete) {
  for (const auto& [dialect, stream] :
       {std::pair{kAnthropic, kAnthropicStream}, std::pair{kChat, kChatStream}}) {
    const std::size_t marker = stream.rfind(dialect == kChat ? "finish_reason" : "stop_reason");
    for (std::size_t length = 0; length < marker; length += 7) {
      EXPECT_FALSE(read(dialect, kStream, stream.substr(0, length)).complete()) << length;
    }
  }
}

TEST(ResponseTest, CleanEndAfterAFinishReasonIsComplete) {
  const std::string_view done = "data: [DONE]\n\n";
  const std::string_view without = kChatStream.substr(0, kChatStream.size() - done.size());
  ResponseReader reader(kChat, kStream);
  reader.feed(without);
  EXPECT_FALSE(reader.complete()) << "usage may still come";
  reader.finish();
  EXPECT_TRUE(reader.complete());
}

TEST(ResponseTest, AbsentNullAndZeroAreThreeThings) {
  struct Row {
    const char* why;
    std::string_view usage;
    UsageReport report;
  };
  const Row rows[] = {
      {"absent", R"("x":1)", usage({}, {}, {})},
      {"null", R"("usage":null)", usage({}, {}, {})},
      {"empty", R"("usage":{})", usage({}, {}, {})},
      {"zeros", R"("usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})",
       usage(0, {}, 0)},
      {"cached null",
       R"("usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null})",
       usage(5, {}, 2)},
      {"cached zero",
       R"("usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}})",
       usage(5, 0, 2)},
      {"no prompt", R"("usage":{"completion_tokens":2})", usage({}, {}, 2)},
      {"more cached than prompt: fresh is never negative",
       R"("usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}})",
       usage(0, 9, 2)},
      {"negative is no report", R"("usage":{"prompt_tokens":-5,"completion_tokens":2})",
       usage({}, {}, 2)},
      {"a text is no report", R"("usage":{"prompt_tokens":"5"})", usage({}, {}, {})},
      {"absurd is no report", R"("usage":{"prompt_tokens":18446744073709551615})",
       usage({}, {}, {})},
      {"a number with a point", R"("usage":{"prompt_tokens":5.0,"completion_tokens":2.0})",
       usage(5, {}, 2)},
  };
  for (const Row& row : rows) {
    const std::string body = R"({"choices":[],)" + std::string(row.usage) + "}";
    EXPECT_EQ(basics(read(kChat, kJson, body).usage()), row.report) << row.why;
    EXPECT_EQ(basics(read(kChat, kStream, "data: " + body + "\n\n").usage()), row.report)
        << row.why;
  }
}

TEST(ResponseTest, CachedTokensUnderEveryName) {
  for (const std::string_view cached :
       {R"("prompt_tokens_details":{"cached_tokens":60})", R"("cached_tokens":60)",
        R"("prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40)",
        R"("num_cached_tokens":60)", R"("prompt_token_details":{"cached_tokens":60})"}) {
    const std::string
        body = R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,)" +
               std::string(cached) + "}}";
    EXPECT_EQ(basics(read(kChat, kJson, body).usage()), usage(40, 60, 5)) << cached;
  }
}

TEST(ResponseTest, UsageCountsWhereverItStands) {
  const std::string_view object = R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10})";
  for (const std::string& chunk :
       {R"({"choices":[],"usage":)" + std::string(object) + "}",
        R"({"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":)" +
            std::string(object) + "}",
        R"({"choices":[{"delta":{},"usage":)" + std::string(object) + "}]}",
        R"({"choices":[],"x_groq":{"usage":)" + std::string(object) + "}}",
        R"({"choices":[{"delta":{"usage":)" + std::string(object) + "}}]}"}) {
    EXPECT_EQ(basics(read(kChat, kStream, "data: " + chunk + "\n\ndata: [DONE]\n\n").usage()),
              usage(7, {}, 3))
        << chunk;
  }
}

TEST(ResponseTest, TextCutAmidACharacterHidesNoUsage) {
  const std::string_view usage_text = R"("usage":{"prompt_tokens":7,"completion_tokens":3})";
  for (const std::string_view text : {"\\ud83d", "\\ude00", "\xF0\x9F"}) {
    const std::string answer = R"({"choices":[{"delta":{"content":")" + std::string(text) +
                               R"("},"finish_reason":"stop"}],)" + std::string(usage_text) + "}";
    const ResponseReader stream = read(kChat, kStream, "data: " + answer + "\n\n");
    EXPECT_EQ(basics(stream.usage()), usage(7, {}, 3)) << text;
    EXPECT_TRUE(stream.output_seen()) << text;
    EXPECT_TRUE(stream.complete()) << text;
    EXPECT_EQ(basics(read(kChat, kJson, answer).usage()), usage(7, {}, 3)) << text;
  }
}

TEST(ResponseTest, TheLastOfEveryFieldWins) {
  const std::string_view stream =
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1,"
      "\"total_tokens\":8}}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
      "\"total_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
      "data: "
      "{\"choices\":[],\"usage\":{\"completion_tokens\":5,\"prompt_tokens_details\":null}}\n\n"
      "data: {\"choices\":[],\"usage\":null}\n\n";
  EXPECT_EQ(basics(read(kChat, kStream, stream).usage()), usage(3, 4, 5));
}

TEST(ResponseTest, AnthropicUsageMayBeRestatedOrComeLate) {
  const std::string_view stream =
      "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":0,"
      "\"output_tokens\":0}}}\n\n"
      "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"input_tokens\":12,"
      "\"cache_read_input_tokens\":30,\"cache_creation_input_tokens\":null,\"cache_creation\":"
      "{\"ephemeral_5m_input_tokens\":3,\"ephemeral_1h_input_tokens\":2},\"output_tokens\":9}}\n\n";
  EXPECT_EQ(basics(read(kAnthropic, kStream, stream).usage()), usage(17, 30, 9));
  const std::string_view zeros =
      "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":12,"
      "\"cache_read_input_tokens\":30,\"output_tokens\":1}}}\n\n"
      "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"input_tokens\":0,"
      "\"cache_read_input_tokens\":0,\"cache_creation_input_tokens\":0,\"output_tokens\":9}}\n\n";
  EXPECT_EQ(read(kAnthropic, kStream, zeros).usage(), usage(12, 30, 9))
      << "zeros at the end take no count back";
}

TEST(ResponseTest, WholeBodiesOfBothDialects) {
  const ResponseReader anthropic = read(
      kAnthropic, kJson,
      R"({"type":"message","content":[{"type":"text","text":"abc"}],"usage":{"input_tokens":4,"cache_creation_input_tokens":5,"cache_read_input_tokens":6,"output_tokens":7}})");
  EXPECT_EQ(basics(anthropic.usage()), usage(9, 6, 7));
  EXPECT_TRUE(anthropic.complete());
  EXPECT_FALSE(anthropic.streaming());
  EXPECT_EQ(anthropic.output_chars(), 3);

  const ResponseReader chat = read(
      kChat, kJson,
      "\n\n  \n{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"abcd\"}}],"
      "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":7,\"total_tokens\":11}}\n",
      1);
  EXPECT_EQ(basics(chat.usage()), usage(4, {}, 7)) << "blank lines before the body are keep-alives";
  EXPECT_TRUE(chat.complete());
  EXPECT_EQ(chat.output_chars(), 4);
}

TEST(ResponseTest, TruncatedBodiesAreNotComplete) {
  const std::string_view
      body = R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":7}})";
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(read(kChat, kJson, body.substr(0, length)).complete()) << length;
  }
}

TEST(ResponseTest, TheTypeMayLie) {
  EXPECT_EQ(basics(read(kChat, kJson, kChatStream).usage()), usage(36, 64, 302));
  const ResponseReader error = read(kChat, kStream,
                                    R"({"error":{"message":"overloaded","code":503}})");
  EXPECT_FALSE(error.streaming());
  EXPECT_TRUE(error.error_event().has_value());
}

TEST(ResponseTest, OutputIsGeneratedContentAndNothingElse) {
  struct Row {
    const char* why;
    Dialect dialect;
    std::string_view data;
    bool output;
  };
  const Row rows[] = {
      {"a role", kChat, R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", false},
      {"a null", kChat, R"({"choices":[{"delta":{"content":null}}]})", false},
      {"Azure's filter results", kChat, R"({"choices":[],"prompt_filter_results":[{"a":"b"}]})",
       false},
      {"text", kChat, R"({"choices":[{"delta":{"content":"x"}}]})", true},
      {"parts", kChat, R"({"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]})", true},
      {"reasoning", kChat, R"({"choices":[{"delta":{"reasoning_content":"x"}}]})", true},
      {"reasoning, OpenRouter", kChat, R"({"choices":[{"delta":{"content":"","reasoning":"x"}}]})",
       true},
      {"a tool call", kChat,
       R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"ls","arguments":""}}]}}]})",
       true},
      {"a refusal", kChat, R"({"choices":[{"delta":{"refusal":"no"}}]})", true},
      {"an error", kChat, R"({"error":{"message":"long text"}})", false},
      {"an error beside choices", kChat,
       R"({"choices":[{"delta":{"content":"sorry"},"finish_reason":"error"}],"error":{"code":502}})",
       false},
      {"the start", kAnthropic, R"({"type":"message_start","message":{"content":[]}})", false},
      {"an empty block", kAnthropic,
       R"({"type":"content_block_start","content_block":{"type":"text","text":""}})", false},
      {"a tool's name", kAnthropic,
       R"({"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"ls","input":{}}})",
       true},
      {"thinking", kAnthropic,
       R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"x"}})", true},
      {"tool input", kAnthropic,
       R"({"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}})",
       true},
      {"a signature", kAnthropic,
       R"({"type":"content_block_delta","delta":{"type":"signature_delta","signature":"QUFB"}})",
       false},
      {"a citation", kAnthropic,
       R"({"type":"content_block_delta","delta":{"type":"citations_delta","citation":{"cited_text":"long"}}})",
       false},
      {"an error event", kAnthropic,
       R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})", false},
      {"the end", kAnthropic, R"({"type":"message_stop"})", false},
  };
  for (const Row& row : rows) {
    const std::string stream = "data: " + std::string(row.data) + "\n\n";
    EXPECT_EQ(read(row.dialect, kStream, stream).output_seen(), row.output) << row.why;
  }
}

TEST(ResponseTest, ErrorEventsAreKeptAsJson) {
  struct Row {
    const char* why;
    Dialect dialect;
    std::string_view stream;
    std::optional<std::string> error;
  };
  const Row rows[] = {
      {"Anthropic", kAnthropic,
       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
       R"({"type":"error","error":{"type":"overloaded_error"}})"},
      {"chat", kChat, "data: {\"error\":{\"code\":503}}\n\n", R"({"error":{"code":503}})"},
      {"error null is none", kChat, "data: {\"choices\":[],\"error\":null}\n\n", std::nullopt},
      {"in the choice", kChat, "data: {\"choices\":[{\"error\":{\"code\":429}}]}\n\n",
       R"({"choices":[{"error":{"code":429}}]})"},
      {"Mistral's text", kChat, "data: [503] The request queue is \"full\".\n\n",
       R"({"error":{"message":"[503] The request queue is \"full\".","code":503}})"},
      {"an error event without JSON", kChat, "event: error\ndata: boom\n\n",
       R"({"error":{"message":"boom","code":null}})"},
      {"text that is no JSON", kChat, "data: boom\n\n", std::nullopt},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(read(row.dialect, kStream, row.stream).error_event(), row.error) << row.why;
  }
}

TEST(ResponseTest, PingsAndCommentsAreNoFirstEvent) {
  ResponseReader reader(kAnthropic, kStream);
  reader.feed(": keep-alive\n\n");
  reader.feed("event: ping\ndata: {\"type\":\"ping\"}\n\n");
  reader.feed("data: {\"type\":\"ping\"}\n\n");
  EXPECT_FALSE(reader.first_event_seen());
  reader.feed("data: {\"type\":\"message_start\",\"message\":{}}\n");
  EXPECT_FALSE(reader.first_event_seen()) << "not whole yet";
  reader.feed("\n");
  EXPECT_TRUE(reader.first_event_seen());
}

TEST(ResponseTest, AHugeEventIsSkippedAndUsageStillFound) {
  std::string stream = "data: {\"choices\":[{\"delta\":{\"content\":\"";
  stream += std::string(3 * 1024 * 1024, 'x') + "\"}}]}\n\n";
  stream += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":7}}\n\n";
  EXPECT_EQ(basics(read(kChat, kStream, stream, 65'536).usage()), usage(4, {}, 7));
}

TEST(ResponseTest, AHugeBodyKeepsItsUsageInBoundedMemory) {
  const std::string big(3 * 1024 * 1024, 'x');
  struct Row {
    const char* why;
    std::string body;
  };
  const std::string choices = R"("choices":[{"message":{"content":"\"usage\":{\\)" + big + "\"}}]";
  const std::string object = R"({"prompt_tokens":4,"completion_tokens":7})";
  const Row rows[] = {
      {"at the end", "{" + choices + R"(,"usage":)" + object + "}"},
      {"at the start", R"({"usage":)" + object + "," + choices + "}"},
      {"under x_groq", "{" + choices + R"(,"x_groq":{"id":"r","usage":)" + object + "}}"},
      {"blanks", "{ " + choices + " ,\n \"usage\" :\t" + object + "\n}\n"},
      {"a decoy deeper down", R"({"x":{"usage":{"prompt_tokens":1}},)" + choices + R"(,"usage":)" +
                                  object + R"(,"y":[{"usage":{"prompt_tokens":2}}]})"},
  };
  for (const Row& row : rows) {
    for (const std::size_t step : {std::size_t{100'003}, row.body.size()}) {
      const ResponseReader reader = read(kChat, kJson, row.body, step);
      EXPECT_EQ(basics(reader.usage()), usage(4, {}, 7)) << row.why;
      EXPECT_TRUE(reader.complete()) << row.why;
      EXPECT_TRUE(reader.output_seen()) << row.why;
    }
    EXPECT_FALSE(read(kChat, kJson, row.body.substr(0, row.body.size() - 10)).complete())
        << row.why;
  }
}

TEST(ResponseTest, HostileBytesDoNoHarm) {
  for (const std::string_view text :
       {"", "\n", "data", "data:", "data:\n\n", "data: {\n\n", "data: [\n\n", "data: null\n\n",
        "data: [[[[\n\n", "data: {\"usage\":[]}\n\n", "data: {\"choices\":{}}\n\n",
        "data: {\"choices\":[5]}\n\n", "data: {\"choices\":[{\"delta\":5}]}\n\n",
        "data: \xFF\xFE\n\n", "[1,2]", "{\"a\":\"\\ud800\"}", "\xEF\xBB\xBF{}", "<html>"}) {
    for (const Dialect dialect : {kAnthropic, kChat, Dialect::other}) {
      for (const std::string_view type : {kStream, kJson, std::string_view("")}) {
        const ResponseReader reader = read(dialect, type, text);
        EXPECT_FALSE(reader.usage().any()) << text;
        EXPECT_FALSE(reader.output_seen()) << text;
      }
    }
  }
}

TEST(ResponseTest, OtherShapesAreReadFarEnoughToSettle) {
  const ResponseReader responses = read(
      Dialect::other, kStream,
      "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\","
      "\"delta\":\"hi\"}\n\n"
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"error\":"
      "null,\"usage\":{\"input_tokens\":50,\"input_tokens_details\":{\"cached_tokens\":20},"
      "\"output_tokens\":8,\"total_tokens\":58}}}\n\n");
  EXPECT_EQ(basics(responses.usage()), usage(30, 20, 8));
  EXPECT_TRUE(responses.complete());
  EXPECT_TRUE(responses.output_seen());
  const ResponseReader gemini = read(
      Dialect::other, kJson,
      R"({"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":859,"cachedContentTokenCount":594,"candidatesTokenCount":20,"thoughtsTokenCount":8,"totalTokenCount":887}})");
  EXPECT_EQ(basics(gemini.usage()), usage(265, 594, 28));
}

TEST(ResponseTest, MovingAReaderKeepsItsPlace) {
  ResponseReader first(kChat, kStream);
  first.feed(kChatStream.substr(0, 200));
  ResponseReader second(std::move(first));
  second.feed(kChatStream.substr(200));
  second.finish();
  EXPECT_EQ(basics(second.usage()), usage(36, 64, 302));
}

}  // namespace
}  // namespace hg::wire
