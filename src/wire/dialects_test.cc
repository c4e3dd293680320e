// The Responses API, Gemini's generateContent and what else is read on the way: requests, answers
// in every form, and errors of our own in their shapes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/aws_frames.h"
#include "wire/dialect.h"
#include "wire/errors.h"
#include "wire/json_elements.h"
#include "wire/profiles.h"
#include "wire/refusal.h"

namespace hg::wire {
namespace {

constexpr Dialect kResponses = Dialect::openai_responses;
constexpr Dialect kGemini = Dialect::gemini_generate;
constexpr WallTime kNow{Micros{1'789'108'049'000'000}};

RequestFacts facts_of(const Endpoint& endpoint, std::string_view body) {
  auto facts = read_request(endpoint, body);
  EXPECT_TRUE(facts.has_value()) << body;
  return facts ? *facts : RequestFacts();
}

RequestFacts responses(std::string_view body) {
  return facts_of(classify("POST", "/v1/responses"), body);
}

RequestFacts gemini(std::string_view body) {
  return facts_of(classify("POST", "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"), body);
}

ResponseReader read(Dialect dialect, std::string_view type, std::string_view body,
                    std::size_t step = 7) {
  ResponseReader reader(dialect, type);
  for (std::size_t at = 0; at < body.size(); at += step) reader.feed(body.substr(at, step));
  reader.finish();
  return reader;
}

UsageReport usage(std::optional<Tokens> uncached, std::optional<Tokens> cached,
                  std::optional<Tokens> cache_write, std::optional<Tokens> output,
                  std::optional<Tokens> reasoning) {
  UsageReport report;
  report.uncached = uncached;
  report.cached = cached;
  report.cache_write = cache_write;
  report.output = output;
  report.reasoning = reasoning;
  return report;
}

TEST(ResponsesRequestTest, TextOfEveryItemCountsAndNothingElse) {
  struct Row {
    const char* why;
    std::string_view body;
    std::int64_t chars;
  };
  const Row rows[] = {
      {"a text by itself", R"({"input":"Hello"})", 5},
      {"instructions", R"({"instructions":"Be kind","input":"Hello"})", 12},
      {"a message", R"({"input":[{"role":"user","content":"Hello"}]})", 5},
      {"parts", R"({"input":[{"type":"message","role":"user","id":"msg_123","content":
        [{"type":"input_text","text":"Hel"},{"type":"input_text","text":"lo"}]}]})",
       5},
      {"a call: name and arguments",
       R"({"input":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"ls",
        "arguments":"{}","status":"completed"}]})",
       4},
      {"its output", R"({"input":[{"type":"function_call_output","call_id":"c","output":"ok"}]})",
       2},
      {"its output in parts",
       R"({"input":[{"type":"function_call_output","call_id":"c","output":
        [{"type":"input_text","text":"ok"}]}]})",
       2},
      {"a custom tool", R"({"input":[{"type":"custom_tool_call","call_id":"c","name":"sh",
        "input":"ls -l"},{"type":"custom_tool_call_output","call_id":"c","output":"x"}]})",
       8},
      {"a summary, but not what is sealed",
       R"({"input":[{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAAAB",
        "summary":[{"type":"summary_text","text":"Thought"}]}]})",
       7},
      {"a shell", R"({"input":[{"type":"local_shell_call","call_id":"c","action":
        {"type":"exec","command":["ls","-l"]}}]})",
       4},
      {"ids of a stored item", R"({"input":[{"type":"item_reference","id":"msg_1"}]})", 0},
      {"nothing to say: a connection is warmed up",
       R"({"model":"gpt","input":[],"generate":false,"prompt_cache_key":"k"})", 0},
      {"metadata", R"({"input":"a","client_metadata":{"x":"yyyyyy"},"metadata":{"z":"zz"}})", 1},
  };
  for (const Row& row : rows) EXPECT_EQ(responses(row.body).text_chars, row.chars) << row.why;
}

TEST(ResponsesRequestTest, ToolsCountWhereverTheyStand) {
  const std::string tools = R"([{"type":"function","name":"ls","parameters":{"type":"object"}}])";
  const std::string space = R"([{"type":"namespace","name":"functions","tools":)" + tools + "}]";
  const auto top = responses(R"({"tools":)" + tools + R"(,"input":"a"})");
  const auto item = responses(
      R"({"input":[{"type":"additional_tools","id":"at_1","role":"developer",
      "tools":)" +
      space + R"(},{"role":"user","content":"a"}]})");
  EXPECT_EQ(top.text_chars, static_cast<std::int64_t>(tools.size()) + 1);
  EXPECT_EQ(item.text_chars, static_cast<std::int64_t>(space.size()) + 1);
  EXPECT_EQ(item.prefix.size(), 3U) << "head, tools, user";
}

TEST(ResponsesRequestTest, AConversationGrowsByBlocksAndKeepsItsName) {
  const std::string
      head = R"({"model":"gpt","stream":true,"instructions":"I","prompt_cache_key":"t",
      "input":[{"role":"developer","content":"D"},{"role":"user","content":"U"})";
  const RequestFacts first = responses(head + "]}");
  const RequestFacts later = responses(
      head + R"(,{"type":"function_call","name":"f","arguments":"{}","call_id":"1"},
      {"type":"function_call_output","call_id":"1","output":"o"}]})");
  ASSERT_EQ(first.prefix.size(), 3U);
  ASSERT_EQ(later.prefix.size(), 5U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(first.prefix[i].hash, later.prefix[i].hash);
  EXPECT_EQ(first.conversation_hash, later.conversation_hash);
  EXPECT_NE(first.prompt_hash, later.prompt_hash);
  EXPECT_TRUE(first.stream);
  const RequestFacts other = responses(R"({"model":"gpt","instructions":"I","prompt_cache_key":"u",
      "input":[{"role":"developer","content":"D"},{"role":"user","content":"U"}]})");
  EXPECT_NE(other.conversation_hash, first.conversation_hash) << "another thread";
  EXPECT_EQ(other.prompt_hash, first.prompt_hash) << "of the same words";
}

TEST(ResponsesRequestTest, OutputAndMediaAreKnown) {
  EXPECT_EQ(responses(R"({"input":"a","max_output_tokens":500})").max_output, 500);
  EXPECT_EQ(responses(R"({"input":"a"})").max_output, std::nullopt);
  EXPECT_EQ(responses(R"({"input":[],"generate":false})").max_output, 0);
  const RequestFacts image = responses(R"({"input":[{"role":"user","content":
      [{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]})");
  EXPECT_EQ(image.text_chars, 0);
  EXPECT_EQ(image.flat_parts, 1);
  EXPECT_GT(image.flat_tokens, 0);
  const RequestFacts shot = responses(R"({"input":[{"type":"computer_call_output","call_id":"c",
      "output":{"type":"input_image","image_url":"data:image/png;base64,AAAA"}}]})");
  EXPECT_EQ(shot.flat_parts, 1);
  EXPECT_FALSE(responses(R"({"input":"a","previous_response_id":"resp_1"})").text_counted);
  EXPECT_TRUE(responses(R"({"input":"a","previous_response_id":null})").text_counted);
  EXPECT_FALSE(read_request(kResponses, R"({"input":["a"]})").has_value());
}

TEST(GeminiRequestTest, TextOfEveryPartCountsAndNothingElse) {
  struct Row {
    const char* why;
    std::string_view body;
    std::int64_t chars;
  };
  const Row rows[] = {
      {"a text", R"({"contents":[{"role":"user","parts":[{"text":"Hello"}]}]})", 5},
      {"without a list", R"({"contents":{"parts":{"text":"Hello"}}})", 5},
      {"a system instruction",
       R"({"systemInstruction":{"parts":[{"text":"Be"}]},"contents":[{"parts":[{"text":"a"}]}]})",
       3},
      {"the other spelling", R"({"system_instruction":{"parts":{"text":"Be"}},"contents":[]})", 2},
      {"a call", R"({"contents":[{"role":"model","parts":[{"thoughtSignature":"abcdef",
        "functionCall":{"name":"ls","args":{"a":1}}}]}]})",
       9},
      {"its result", R"({"contents":[{"parts":[{"functionResponse":{"id":"x","name":"ls",
        "response":{"o":""}}}]}]})",
       10},
      {"tools", R"({"tools":[{"functionDeclarations":[]}],"contents":[]})", 29},
      {"a schema of the answer",
       R"({"generationConfig":{"topK":1,"responseSchema":{}},"contents":[]})", 2},
      {"wrapped by Code Assist",
       R"({"project":"p","request":{"contents":[{"parts":[{"text":"Hello"}]}]}})", 5},
  };
  for (const Row& row : rows) EXPECT_EQ(gemini(row.body).text_chars, row.chars) << row.why;
  EXPECT_FALSE(read_request(kGemini, "{}").has_value());
  EXPECT_FALSE(read_request(kGemini, R"({"contents":null})").has_value());
}

TEST(GeminiRequestTest, ModelStreamLimitAndMediaAreKnown) {
  const RequestFacts facts = gemini(R"({"model":"ignored","contents":[{"parts":[
      {"inlineData":{"mimeType":"image/png","data":"AAAA"}},
      {"fileData":{"mimeType":"application/pdf","fileUri":"gs://b/f"}}]}],
      "generationConfig":{"maxOutputTokens":777}})");
  EXPECT_EQ(facts.model, "gemini-x");
  EXPECT_TRUE(facts.stream);
  EXPECT_EQ(facts.max_output, 777);
  EXPECT_EQ(facts.flat_parts, 2);
  EXPECT_EQ(facts.text_chars, 0);
  EXPECT_FALSE(gemini(R"({"contents":[],"cachedContent":"cachedContents/1"})").text_counted);
  const RequestFacts assist = facts_of(
      classify("POST", "/v1internal:generateContent"),
      R"({"model":"gemini-y","request":{"contents":[],"generationConfig":{"maxOutputTokens":5}}})");
  EXPECT_EQ(assist.model, "gemini-y");
  EXPECT_EQ(assist.max_output, 5);
  EXPECT_FALSE(assist.stream);
}

TEST(GeminiRequestTest, AConversationGrowsByBlocks) {
  const std::string head = R"({"systemInstruction":{"parts":[{"text":"S"}]},"contents":[
      {"role":"user","parts":[{"text":"U"}]})";
  const RequestFacts first = gemini(head + "]}");
  const RequestFacts later = gemini(head + R"(,{"role":"model","parts":[{"text":"A"}]}]})");
  ASSERT_EQ(first.prefix.size(), 2U);
  ASSERT_EQ(later.prefix.size(), 3U);
  EXPECT_EQ(first.prefix[1].hash, later.prefix[1].hash);
  EXPECT_EQ(first.conversation_hash, later.conversation_hash);
}

constexpr std::string_view kCompleted =
    "event: response.created\n"
    "data: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"error\":null,"
    "\"usage\":null}}\n\n"
    "event: response.output_text.delta\n"
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n"
    "event: response.completed\n"
    "data: {\"type\":\"response.completed\",\"response\":{\"error\":null,\"output\":[{\"type\":"
    "\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello\"}]}],\"usage\":{"
    "\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":60,\"cache_write_tokens\":7},"
    "\"output_tokens\":30,\"output_tokens_details\":{\"reasoning_tokens\":20},\"total_tokens\":130}"
    "}}\n\n";

TEST(ResponsesAnswerTest, AStreamEndsWithItsUsage) {
  for (const std::size_t step : {1U, 13U, 10'000U}) {
    const ResponseReader reader = read(kResponses, "text/event-stream", kCompleted, step);
    EXPECT_EQ(reader.usage(), usage(40, 60, 7, 30, 20));
    EXPECT_TRUE(reader.complete());
    EXPECT_EQ(reader.output_chars(), 5) << "the repetition at the end counts nothing";
    EXPECT_EQ(reader.error_event(), std::nullopt);
  }
  const std::string_view cut = kCompleted.substr(0, kCompleted.find("event: response.completed"));
  EXPECT_FALSE(read(kResponses, "text/event-stream", cut).complete());
  EXPECT_TRUE(read(kResponses, "text/event-stream", cut).output_seen());
}

TEST(ResponsesAnswerTest, EndingsAndFaultsAreToldApart) {
  struct Row {
    const char* why;
    std::string_view data;
    bool complete;  // By a marker; a fault is told as a fault.
    bool error;
    RefusalKind kind;
  };
  const Row rows[] = {
      {"cut by a limit", R"({"type":"response.incomplete","response":{"usage":null}})", true, false,
       RefusalKind::none},
      {"load", R"({"type":"response.failed","response":{"status":"failed","error":
        {"code":"server_is_overloaded","message":"at capacity"}}})",
       false, true, RefusalKind::overload},
      {"pace, with a time", R"({"type":"response.failed","response":{"error":
        {"code":"rate_limit_exceeded","message":"Please try again in 11.054s."}}})",
       false, true, RefusalKind::overload},
      {"quota", R"({"type":"response.failed","response":{"error":{"code":"insufficient_quota",
        "message":"billing"}}})",
       false, true, RefusalKind::quota},
      {"an event of its own", R"({"type":"error","code":"rate_limit_exceeded","message":"slow"})",
       false, true, RefusalKind::overload},
      {"wrapped", R"({"type":"error","status":429,"error":{"type":"usage_limit_reached"}})", false,
       true, RefusalKind::quota},
      {"the caller's", R"({"type":"response.failed","response":{"error":{"code":"invalid_prompt",
        "message":"no"}}})",
       false, true, RefusalKind::request},
  };
  const ProviderProfile& openai = *Profiles::built_in().provider("openai");
  for (const Row& row : rows) {
    std::string line(row.data);
    std::erase(line, '\n');
    const ResponseReader reader = read(kResponses, "text/event-stream", "data: " + line + "\n\n");
    EXPECT_EQ(reader.complete(), row.complete) << row.why;
    ASSERT_EQ(reader.error_event().has_value(), row.error) << row.why;
    EXPECT_FALSE(reader.output_seen()) << row.why;
    if (!row.error) continue;
    EXPECT_EQ(classify_stream_error(openai, *reader.error_event(), kNow).kind, row.kind) << row.why;
  }
  const auto hint = classify_stream_error(
      openai,
      R"({"response":{"error":{"code":"rate_limit_exceeded","message":"try again in 11.054s."}}})",
      kNow);
  EXPECT_EQ(hint.retry_after, Micros(11'054'000));
}

TEST(ResponsesAnswerTest, AClosingEventTooLongToHoldStillTellsItsUsage) {
  const std::string text(1'500'000, 'x');
  const std::string stream =
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":"
      "[{\"text\":\"" +
      text +
      "\\\"usage\\\":{1}\"}],\"usage\":{\"input_tokens\":100,"
      "\"input_tokens_details\":{\"cached_tokens\":60},\"output_tokens\":30,\"total_tokens\":130},"
      "\"user\":null,\"metadata\":{}},\"sequence_number\":9}\n\n";
  for (const std::size_t step : {1'000U, 4'000'000U}) {
    const ResponseReader reader = read(kResponses, "text/event-stream", stream, step);
    EXPECT_EQ(reader.usage(), usage(40, 60, {}, 30, {})) << step;
    EXPECT_TRUE(reader.complete());
    EXPECT_TRUE(reader.output_seen());
  }
  const ResponseReader image = read(
      kGemini, "text/event-stream",
      "data: {\"candidates\":[{\"content\":{\"parts\":[{\"inlineData\":{\"data\":\"" + text +
          "\"}}]},\"finishReason\":\"STOP\"}],\"usageMetadata\": {\"promptTokenCount\":9,"
          "\"candidatesTokenCount\":1290,\"totalTokenCount\":1299}}\r\n\r\n",
      3'000);
  EXPECT_EQ(image.usage(), usage(9, {}, {}, 1'290, {}));
  EXPECT_TRUE(image.complete());
}

TEST(ResponsesAnswerTest, ABodyByItselfIsRead) {
  const ResponseReader reader = read(kResponses, "application/json",
                                     R"({"object":"response","status":"completed","error":null,
      "output":[{"type":"function_call","id":"fc_1","call_id":"c","name":"ls","arguments":"{}"}],
      "usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11}})");
  EXPECT_EQ(reader.usage(), usage(9, {}, {}, 2, {}));
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.output_chars(), 4);
}

constexpr std::string_view kChunks[] = {
    R"({"candidates":[{"content":{"parts":[{"text":"Thinking","thought":true}],"role":"model"}}],
      "usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"thoughtsTokenCount":5,
      "totalTokenCount":105}})",
    R"({"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}],
      "usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"thoughtsTokenCount":20,
      "candidatesTokenCount":3,"toolUsePromptTokenCount":7,"totalTokenCount":130}})"};

TEST(GeminiAnswerTest, EventsAndListsAndBodiesEndWithTheLastCounts) {
  std::string events;
  std::string list = "[";
  for (const std::string_view chunk : kChunks) {
    std::string line(chunk);
    std::erase(line, '\n');
    events += "data: " + line + "\r\n\r\n";
    list += (list.size() > 1 ? ",\r\n" : "") + std::string(chunk);
  }
  list += "\n]";
  for (const auto& [type, body] : std::vector<std::pair<std::string, std::string>>{
           {"text/event-stream", events}, {"application/json", list}}) {
    for (const std::size_t step : {1U, 50U, 10'000U}) {
      const ResponseReader reader = read(kGemini, type, body, step);
      EXPECT_EQ(reader.usage(), usage(47, 60, {}, 23, 20)) << type;
      EXPECT_TRUE(reader.streaming()) << type;
      EXPECT_TRUE(reader.complete()) << type;
      EXPECT_EQ(reader.output_chars(), 10) << type;
    }
  }
  const ResponseReader whole = read(kGemini, "application/json", kChunks[1]);
  EXPECT_EQ(whole.usage(), usage(47, 60, {}, 23, 20));
  EXPECT_TRUE(whole.complete());
  const ResponseReader assist = read(kGemini, "application/json",
                                     R"({"response":)" + std::string(kChunks[1]) + "}");
  EXPECT_EQ(assist.usage(), usage(47, 60, {}, 23, 20));
  EXPECT_EQ(assist.output_chars(), 2);
}

TEST(GeminiAnswerTest, EndingsAndFaultsAreToldApart) {
  const std::string first(kChunks[0].substr(0, kChunks[0].find(",\n")));
  const ResponseReader cut = read(kGemini, "text/event-stream", "data: " + first + "}\n\n");
  EXPECT_FALSE(cut.complete());
  EXPECT_TRUE(cut.output_seen());
  const ResponseReader blocked = read(
      kGemini, "text/event-stream",
      "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{"
      "\"promptTokenCount\":4,\"totalTokenCount\":4}}\n\n");
  EXPECT_TRUE(blocked.complete());
  EXPECT_EQ(blocked.usage(), usage(4, {}, {}, 0, {}));
  const std::string error =
      R"({"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED",)"
      R"("details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}})";
  for (const std::string& body : {"data: " + error + "\n\n", "[" + error + "]", error}) {
    const ResponseReader reader = read(kGemini, "", body);
    ASSERT_TRUE(reader.error_event()) << body;
    EXPECT_FALSE(reader.output_seen());
    const Refusal refusal = classify_stream_error(*Profiles::built_in().provider("gemini"),
                                                  *reader.error_event(), kNow);
    EXPECT_EQ(refusal.kind, RefusalKind::overload);
    EXPECT_EQ(refusal.retry_after, Micros(34'070'000));
  }
}

std::string frame(const std::vector<std::pair<std::string, std::string>>& headers,
                  const std::string& payload) {
  std::string packed;
  for (const auto& [name, value] : headers) {
    packed += static_cast<char>(name.size()) + name + '\7' + '\0' +
              static_cast<char>(value.size()) + value;
  }
  const auto big = [](std::size_t number) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((number >> shift) & 0xFFU);
    return bytes;
  };
  return big(packed.size() + payload.size() + 16) + big(packed.size()) + "CRC1" + packed + payload +
         "CRC2";
}

constexpr std::string_view kFrames = "application/vnd.amazon.eventstream";

TEST(AmazonAnswerTest, ConverseStreamsAreReadFromTheirFrames) {
  const auto event = [](const std::string& type, const std::string& payload) {
    return frame({{":event-type", type}, {":message-type", "event"}}, payload);
  };
  const std::string body = event("messageStart", R"({"role":"assistant"})") +
                           event("contentBlockDelta",
                                 R"({"contentBlockIndex":0,"delta":{"text":"Hello"}})") +
                           event("messageStop", R"({"stopReason":"end_turn"})") +
                           event("metadata",
                                 R"({"usage":{"inputTokens":10,"outputTokens":4,"totalTokens":77,
          "cacheReadInputTokens":60,"cacheWriteInputTokens":3}})");
  for (const std::size_t step : {1U, 5U, 10'000U}) {
    const ResponseReader reader = read(Dialect::other, kFrames, body, step);
    EXPECT_EQ(reader.usage(), usage(13, 60, 3, 4, {}));
    EXPECT_EQ(reader.output_chars(), 5);
    EXPECT_TRUE(reader.complete());
    EXPECT_TRUE(reader.streaming());
  }
}

TEST(AmazonAnswerTest, AnInvokedModelsOwnEventsAreUnpacked) {
  // {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":5,
  // "cache_read_input_tokens":2,"output_tokens":9}}
  const std::string body = frame(
      {{":event-type", "chunk"}, {":message-type", "event"}},
      R"({"bytes":"eyJ0eXBlIjoibWVzc2FnZV9kZWx0YSIsImRlbHRhIjp7InN0b3BfcmVhc29uIjoiZW5kX3R1cm4ifSwidXNhZ2UiOnsiaW5wdXRfdG9rZW5zIjo1LCJjYWNoZV9yZWFkX2lucHV0X3Rva2VucyI6Miwib3V0cHV0X3Rva2VucyI6OX19"})");
  const ResponseReader reader = read(Dialect::other, kFrames, body);
  EXPECT_EQ(reader.usage(), usage(5, 2, {}, 9, {}));
  EXPECT_TRUE(reader.complete());
}

TEST(AmazonAnswerTest, AnExceptionAmidAStreamIsARefusal) {
  const std::string body = frame(
      {{":exception-type", "throttlingException"}, {":message-type", "exception"}},
      R"({"message":"Too many tokens, please wait before trying again."})");
  const ResponseReader reader = read(Dialect::other, kFrames, body);
  ASSERT_TRUE(reader.error_event());
  EXPECT_EQ(
      classify_stream_error(*Profiles::built_in().provider("generic"), *reader.error_event(), kNow)
          .kind,
      RefusalKind::overload);
}

TEST(AmazonAnswerTest, BytesThatAreNoFramesAreLeftAlone) {
  int events = 0;
  AwsFrames frames([&](const AwsEvent&) { ++events; }, 100);
  frames.feed("<html>no such thing</html>");
  EXPECT_EQ(events, 0);
  AwsFrames bounded([&](const AwsEvent&) { ++events; }, 100);
  bounded.feed(frame({}, std::string(500, 'x')) + frame({}, "{}"));
  EXPECT_EQ(events, 1) << "the long one is skipped, the next one read";
  EXPECT_EQ(bounded.oversize_frames(), 1U);
}

TEST(JsonElementsTest, AnElementEndsWhereItEndsAtAnyCut) {
  const std::string list = R"([ {"a":"]}\"[{"} , {"b":[{},{}]},"x",[1],{} ] trailing {)";
  const std::vector<std::string> wanted = {R"({"a":"]}\"[{"})", R"({"b":[{},{}]})", "[1]", "{}"};
  for (std::size_t step = 1; step <= list.size(); ++step) {
    std::vector<std::string> seen;
    JsonElements elements([&](std::string_view text) { seen.emplace_back(text); }, 100);
    for (std::size_t at = 0; at < list.size(); at += step) {
      elements.feed(std::string_view(list).substr(at, step));
    }
    EXPECT_EQ(seen, wanted) << step;
    EXPECT_TRUE(elements.closed());
  }
}

TEST(OwnErrorsTest, GooglesShapeCarriesTheDelayInItsBody) {
  const std::string body = error_body(kGemini, 429, "hold-cap", "busy", Micros(29'500'000));
  EXPECT_EQ(body,
            R"({"error":{"code":429,"message":"Headgate: busy","status":"RESOURCE_EXHAUSTED",)"
            R"("details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",)"
            R"("reason":"headgate_hold-cap","domain":"headgate"},)"
            R"({"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"30s"}]}})");
  EXPECT_EQ(error_body(kGemini, 400, "x", "y").find("RetryInfo"), std::string::npos);
  EXPECT_NE(error_body(kResponses, 429, "hold-cap", "busy").find(R"("type":"rate_limit_error")"),
            std::string::npos);
}

}  // namespace
}  // namespace hg::wire
