#include "lab/wire_shapes_more.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "lab/stream_writer.h"

namespace hg::lab {
namespace {

// --- OpenAI Responses ---

Tokens prompt_of(const ProvidedUsage& usage) {
  return usage.uncached + usage.cache_written + usage.cache_read;
}

std::string responses_usage(const ProvidedUsage& usage) {
  const Tokens prompt = prompt_of(usage);
  return fmt::format(
      R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},)"
      R"("cache_write_tokens":{}}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},)"
      R"("total_tokens":{}}})",
      prompt, usage.cache_read, usage.cache_written, usage.output, prompt + usage.output);
}

// The object that the first and the last events carry, and a whole answer is.
struct ResponseState {
  std::string_view status = "in_progress";
  std::string output = "";
  std::string usage = "null";
  std::string error = "null";
  std::string incomplete = "null";
};

std::string response_object(const Reply& reply, const ResponseState& state) {
  const bool ended = state.status == "completed";
  return fmt::format(
      R"({{"id":"resp_{}","object":"response","created_at":{},"status":"{}","background":false,)"
      R"("completed_at":{},"error":{},"frequency_penalty":0.0,"incomplete_details":{},)"
      R"("instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":{},)"
      R"("output":[{}],"parallel_tool_calls":true,"presence_penalty":0.0,)"
      R"("previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,)"
      R"("reasoning":{{"effort":"none","summary":null}},"safety_identifier":null,)"
      R"("service_tier":"default","store":false,"temperature":1.0,)"
      R"("text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto",)"
      R"("tools":[],"top_logprobs":0,"top_p":0.98,"truncation":"disabled","usage":{},)"
      R"("user":null,"metadata":{{}}}})",
      reply.id, reply.created, state.status, ended ? std::to_string(reply.created) : "null",
      state.error, state.incomplete, quoted_json(reply.model), state.output, state.usage);
}

std::string text_part(std::string_view text) {
  return fmt::format(R"({{"type":"output_text","annotations":[],"logprobs":[],"text":{}}})",
                     quoted_json(text));
}

std::string message_id(const Reply& reply) { return fmt::format("msg_{}", reply.id); }

std::string message_item(const Reply& reply, std::string_view status, std::string_view content) {
  return fmt::format(
      R"({{"id":"{}","type":"message","status":"{}","content":[{}],"role":"assistant"}})",
      message_id(reply), status, content);
}

std::string call_item_id(const Reply& reply, std::size_t index) {
  const bool freeform = reply.answer.calls[index].freeform;
  return fmt::format("{}_{}{:02}", freeform ? "ctc" : "fc", reply.id, index);
}

std::string call_item(const Reply& reply, std::size_t index, std::string_view status,
                      std::string_view input) {
  const ToolCall& call = reply.answer.calls[index];
  return fmt::format(
      R"({{"id":"{}","type":"{}","status":"{}","{}":{},"call_id":"call_{}{:02}","name":{}{}}})",
      call_item_id(reply, index), call.freeform ? "custom_tool_call" : "function_call", status,
      call.freeform ? "input" : "arguments", quoted_json(input), reply.id, index,
      quoted_json(call.name),
      call.space.empty() ? std::string()
                         : fmt::format(R"(,"namespace":{})", quoted_json(call.space)));
}

ResponseState end_state(const Reply& reply) {
  ResponseState state;
  state.status = "completed";
  if (reply.answer.stop == StopReason::max_tokens) {
    state.status = "incomplete";
    state.incomplete = R"({"reason":"max_output_tokens"})";
  }
  if (!reply.answer.text.empty()) {
    state.output = message_item(reply, state.status, text_part(reply.answer.text));
  }
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    if (!state.output.empty()) state.output += ',';
    state.output += call_item(reply, i, "completed", input_of(reply.answer.calls[i]));
  }
  state.usage = responses_usage(reply.usage);
  return state;
}

// Numbers the events of one stream.
class ResponsesWriter {
 public:
  ResponsesWriter(const Reply& reply, std::size_t delta_bytes) : out_(reply, delta_bytes) {}

  // `rest`: the members after the type, with a comma before each.
  std::string event(std::string_view type, std::string_view rest) {
    return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\"{1},\"sequence_number\":{2}}}\n\n",
                       type, rest, sequence_++);
  }

  void add(std::string_view type, const std::string& rest, std::size_t generated = 0) {
    out_.add(event(type, rest), generated);
  }
  void append(std::string_view type, const std::string& rest) { out_.append(event(type, rest)); }

  [[nodiscard]] StreamWriter& out() { return out_; }

 private:
  StreamWriter out_;
  std::size_t sequence_ = 0;
};

void stream_message(const Reply& reply, std::size_t output_index, ResponsesWriter& to) {
  const std::string place = fmt::format(R"(,"item_id":"{}","output_index":{},"content_index":0)",
                                        message_id(reply), output_index);
  to.add("response.output_item.added",
         fmt::format(R"(,"item":{},"output_index":{})", message_item(reply, "in_progress", ""),
                     output_index));
  to.append("response.content_part.added", fmt::format(R"({},"part":{})", place, text_part("")));
  for (const std::string_view piece : pieces_of(reply.answer.text, to.out().delta_bytes())) {
    to.add("response.output_text.delta",
           fmt::format(R"({},"delta":{},"logprobs":[])", place, quoted_json(piece)), piece.size());
  }
  to.add("response.output_text.done",
         fmt::format(R"({},"text":{},"logprobs":[])", place, quoted_json(reply.answer.text)));
  to.append("response.content_part.done",
            fmt::format(R"({},"part":{})", place, text_part(reply.answer.text)));
  to.append(
      "response.output_item.done",
      fmt::format(R"(,"item":{},"output_index":{})",
                  message_item(reply, "completed", text_part(reply.answer.text)), output_index));
}

void stream_call(const Reply& reply, std::size_t index, std::size_t output_index,
                 ResponsesWriter& to) {
  const ToolCall& call = reply.answer.calls[index];
  const std::string place = fmt::format(R"(,"item_id":"{}","output_index":{})",
                                        call_item_id(reply, index), output_index);
  const char* verb = call.freeform ? "response.custom_tool_call_input"
                                   : "response.function_call_arguments";
  to.add("response.output_item.added",
         fmt::format(R"(,"item":{},"output_index":{})", call_item(reply, index, "in_progress", ""),
                     output_index));
  for (const std::string_view piece : pieces_of(input_of(call), to.out().delta_bytes())) {
    to.add(fmt::format("{}.delta", verb),
           fmt::format(R"({},"delta":{})", place, quoted_json(piece)), piece.size());
  }
  to.add(fmt::format("{}.done", verb),
         fmt::format(R"({},"{}":{})", place, call.freeform ? "input" : "arguments",
                     quoted_json(input_of(call))));
  to.append("response.output_item.done",
            fmt::format(R"(,"item":{},"output_index":{})",
                        call_item(reply, index, "completed", input_of(call)), output_index));
}

// --- Gemini ---

std::string gemini_usage(const ProvidedUsage& usage, Tokens output) {
  const Tokens prompt = prompt_of(usage);
  const std::string cached = usage.cache_read > 0
                                 ? fmt::format(R"("cachedContentTokenCount":{},)", usage.cache_read)
                                 : std::string();
  return fmt::format(
      R"({{"promptTokenCount":{0},"candidatesTokenCount":{1},"totalTokenCount":{2},{3})"
      R"("promptTokensDetails":[{{"modality":"TEXT","tokenCount":{0}}}],"thoughtsTokenCount":0}})",
      prompt, output, prompt + output, cached);
}

std::string gemini_part(const std::string& text) {
  return fmt::format(R"({{"text":{}}})", quoted_json(text));
}

std::string gemini_call(const ToolCall& call, std::string_view id) {
  return fmt::format(R"({{"functionCall":{{"name":{},"args":{},"id":"{}"}}}})",
                     quoted_json(call.name), call.input_json, id);
}

// `finish`: "" while the answer goes on.
std::string gemini_answer(const Reply& reply, std::string_view parts, std::string_view finish,
                          Tokens output) {
  const std::string ended = finish.empty() ? std::string()
                                           : fmt::format(R"("finishReason":"{}",)", finish);
  return fmt::format(
      R"({{"candidates":[{{"content":{{"parts":[{}],"role":"model"}},{}"index":0}}],)"
      R"("usageMetadata":{},"modelVersion":{},"responseId":"{}"}})",
      parts, ended, gemini_usage(reply.usage, output), quoted_json(reply.model), reply.id);
}

const char* gemini_finish(StopReason stop) {
  return stop == StopReason::max_tokens ? "MAX_TOKENS" : "STOP";
}

std::string call_id_of(const Reply& reply, std::size_t index) {
  return fmt::format("{}{:02}", reply.id.substr(0, 6), index);
}

const char* gemini_status(int code) {
  switch (code) {
    case 400: return "INVALID_ARGUMENT";
    case 404: return "NOT_FOUND";
    case 413: return "INVALID_ARGUMENT";
    case 429: return "RESOURCE_EXHAUSTED";
    case 503: return "UNAVAILABLE";
    default: return "INTERNAL";
  }
}

RefusalText gemini_error(int code, std::string_view message, std::string_view details = "") {
  RefusalText text;
  text.status = code;
  text.headers.add("Content-Type", "application/json; charset=UTF-8");
  text.body = fmt::format(
      R"({{"error":{{"code":{},"message":{},"status":"{}"{}}}}})", code, quoted_json(message),
      gemini_status(code),
      details.empty() ? std::string() : fmt::format(R"(,"details":[{}])", details));
  return text;
}

// Input tokens a minute, of a refusal that knows no limit.
constexpr std::int64_t kGeminiLimit = 1'000'000;

// As recorded: which quota, where to read about it, when to return.
std::string quota_details(std::string_view quota_id, std::string_view metric, std::int64_t limit,
                          std::string_view retry_delay) {
  std::string details = fmt::format(
      R"({{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{)"
      R"("quotaMetric":"generativelanguage.googleapis.com/{}","quotaId":"{}",)"
      R"("quotaDimensions":{{"location":"global"}},"quotaValue":"{}"}}]}},)"
      R"({{"@type":"type.googleapis.com/google.rpc.Help","links":[{{"description":)"
      R"("Learn more about Gemini API quotas","url":"https://ai.google.dev/gemini-api/docs/)"
      R"(rate-limits"}}]}})",
      metric, quota_id, limit);
  if (!retry_delay.empty()) {
    details += fmt::format(
        R"(,{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{}"}})",
        retry_delay);
  }
  return details;
}

// "3s", "1.500s": protobuf's durations.
std::string proto_duration(Micros duration) {
  const std::int64_t millis = std::max<std::int64_t>(0, ceil_div(duration.count(), 1000));
  if (millis % 1000 == 0) return fmt::format("{}s", millis / 1000);
  return fmt::format("{}.{:03}s", millis / 1000, millis % 1000);
}

}  // namespace

std::string responses_body(const Reply& reply) { return response_object(reply, end_state(reply)); }

std::vector<StreamPiece> responses_stream(const Reply& reply, std::size_t delta_bytes) {
  ResponsesWriter to(reply, delta_bytes);
  const std::string begun = fmt::format(R"(,"response":{})",
                                        response_object(reply, ResponseState()));
  to.add("response.created", begun);
  to.append("response.in_progress", begun);
  std::size_t output_index = 0;
  if (!reply.answer.text.empty()) stream_message(reply, output_index++, to);
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    stream_call(reply, i, output_index++, to);
  }
  const ResponseState state = end_state(reply);
  to.add(state.status == "completed" ? "response.completed" : "response.incomplete",
         fmt::format(R"(,"response":{})", response_object(reply, state)));
  return to.out().take();
}

std::string responses_failed(const Reply& reply, std::string_view code, std::string_view message,
                             std::size_t sequence) {
  ResponseState state;
  state.status = "failed";
  state.error = fmt::format(R"({{"code":"{}","message":{}}})", code, quoted_json(message));
  return fmt::format(
      "event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{},"
      "\"sequence_number\":{}}}\n\n",
      response_object(reply, state), sequence);
}

std::string gemini_body(const Reply& reply) {
  std::string parts;
  if (!reply.answer.text.empty()) parts = gemini_part(reply.answer.text);
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    if (!parts.empty()) parts += ',';
    parts += gemini_call(reply.answer.calls[i], call_id_of(reply, i));
  }
  return gemini_answer(reply, parts, gemini_finish(reply.answer.stop), reply.usage.output);
}

std::vector<StreamPiece> gemini_stream(const Reply& reply, std::size_t delta_bytes) {
  StreamWriter out(reply, delta_bytes);
  const auto add = [&reply, &out](const std::string& part, std::string_view finish,
                                  std::size_t generated) {
    out.add(fmt::format("data: {}\r\n\r\n",
                        gemini_answer(reply, part, finish, out.output_after(generated))),
            generated);
  };
  for (const std::string_view piece : pieces_of(reply.answer.text, delta_bytes)) {
    add(gemini_part(std::string(piece)), "", piece.size());
  }
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    const ToolCall& call = reply.answer.calls[i];
    add(gemini_call(call, call_id_of(reply, i)), "", call.input_json.size());
  }
  out.add(fmt::format("data: {}\r\n\r\n",
                      gemini_answer(reply, R"({"text":""})", gemini_finish(reply.answer.stop),
                                    reply.usage.output)));
  return out.take();
}

RefusalText gemini_refusal(RefusalShape shape, const RefusalHints& hints) {
  switch (shape) {
    case RefusalShape::rate_limit: {
      // "limit: 0" would mean that this model is none of yours.
      const std::int64_t limit = hints.rate ? hints.rate->tokens_limit : kGeminiLimit;
      const Micros back = hints.rate ? hints.rate->tokens_reset : Micros{1'000'000};
      const std::string delay = proto_duration(hints.retry_after.value_or(back));
      const std::string message = fmt::format(
          "You exceeded your current quota, please check your plan and billing details. * Quota "
          "exceeded for metric: generativelanguage.googleapis.com/"
          "generate_content_paid_tier_input_token_count, limit: {}. Please retry in {}.",
          limit, delay);
      return gemini_error(
          429, message,
          quota_details("GenerateContentPaidTierInputTokensPerModelPerMinute",
                        "generate_content_paid_tier_input_token_count", limit, delay));
    }
    case RefusalShape::rate_limit_bare:
      return gemini_error(429, "Resource has been exhausted (e.g. check quota).");
    case RefusalShape::overloaded:
    case RefusalShape::unavailable:
      return gemini_error(503, "The model is overloaded. Please try again later.");
    case RefusalShape::quota:
      return gemini_error(
          429,
          "You exceeded your current quota, please check your plan and billing details. * Quota "
          "exceeded for metric: generativelanguage.googleapis.com/"
          "generate_requests_per_model_per_day, limit: 250",
          quota_details("GenerateRequestsPerDayPerProjectPerModel",
                        "generate_requests_per_model_per_day", 250, ""));
    case RefusalShape::server_error:
      return gemini_error(500, "An internal error has occurred. Please retry.");
  }
  return gemini_error(500, "An internal error has occurred.");
}

RefusalText gemini_client_error(int status, std::string_view message) {
  return gemini_error(status, message);
}

std::string gemini_models(const std::vector<std::string>& models) {
  std::string items;
  for (const std::string& model : models) {
    if (!items.empty()) items += ',';
    items += fmt::format(
        R"({{"name":{},"version":"001","displayName":{},"inputTokenLimit":1048576,)"
        R"("outputTokenLimit":65536,"supportedGenerationMethods":["generateContent",)"
        R"("countTokens"]}})",
        quoted_json("models/" + model), quoted_json(model));
  }
  return fmt::format(R"({{"models":[{}]}})", items);
}

std::string gemini_token_count(Tokens tokens) {
  return fmt::format(
      R"({{"totalTokens":{0},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{0}}}]}})",
      tokens);
}

}  // namespace hg::lab
