#include "lab/wire_shapes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "lab/stream_writer.h"
#include "lab/wire_shapes_more.h"

namespace hg::lab {
namespace {

const char* anthropic_stop(StopReason stop) {
  switch (stop) {
    case StopReason::end_turn: return "end_turn";
    case StopReason::tool_use: return "tool_use";
    case StopReason::max_tokens: return "max_tokens";
  }
  return "end_turn";
}

const char* openai_stop(StopReason stop) {
  switch (stop) {
    case StopReason::end_turn: return "stop";
    case StopReason::tool_use: return "tool_calls";
    case StopReason::max_tokens: return "length";
  }
  return "stop";
}

std::string call_id(Api api, const Reply& reply, std::size_t index) {
  const char* prefix = api == Api::anthropic_messages ? "toolu_" : "call_";
  return fmt::format("{}{}{:02}", prefix, reply.id, index);
}

// --- Anthropic Messages ---

std::string anthropic_usage(const ProvidedUsage& usage, Tokens output) {
  return fmt::format(
      R"({{"input_tokens":{},"cache_creation_input_tokens":{},"cache_read_input_tokens":{},)"
      R"("cache_creation":{{"ephemeral_5m_input_tokens":{},"ephemeral_1h_input_tokens":0}},)"
      R"("output_tokens":{},"service_tier":"standard"}})",
      usage.uncached, usage.cache_written, usage.cache_read, usage.cache_written, output);
}

std::string anthropic_body(const Reply& reply) {
  std::string content;
  if (!reply.answer.text.empty()) {
    content = fmt::format(R"({{"type":"text","text":{}}})", quoted_json(reply.answer.text));
  }
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    const ToolCall& call = reply.answer.calls[i];
    if (!content.empty()) content += ',';
    content += fmt::format(R"({{"type":"tool_use","id":"{}","name":{},"input":{}}})",
                           call_id(Api::anthropic_messages, reply, i), quoted_json(call.name),
                           call.input_json);
  }
  return fmt::format(
      R"({{"model":{},"id":"msg_{}","type":"message","role":"assistant","content":[{}],)"
      R"("stop_reason":"{}","stop_sequence":null,"usage":{}}})",
      quoted_json(reply.model), reply.id, content, anthropic_stop(reply.answer.stop),
      anthropic_usage(reply.usage, reply.usage.output));
}

std::string anthropic_event(std::string_view type, std::string_view rest) {
  return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\"{1}}}\n\n", type, rest);
}

void anthropic_block(StreamWriter& out, std::size_t index, std::string_view start,
                     std::string_view delta_type, std::string_view delta_field,
                     std::string_view content, bool with_ping) {
  out.add(anthropic_event("content_block_start",
                          fmt::format(R"(,"index":{},"content_block":{})", index, start)));
  if (with_ping) out.append("event: ping\ndata: {\"type\": \"ping\"}\n\n");
  for (const std::string_view piece : pieces_of(content, out.delta_bytes())) {
    out.add(anthropic_event("content_block_delta",
                            fmt::format(R"(,"index":{},"delta":{{"type":"{}","{}":{}}})", index,
                                        delta_type, delta_field, quoted_json(piece))),
            piece.size());
  }
  out.add(anthropic_event("content_block_stop", fmt::format(R"(,"index":{})", index)));
}

std::vector<StreamPiece> anthropic_stream(const Reply& reply, std::size_t delta_bytes) {
  StreamWriter out(reply, delta_bytes);
  const std::string start = fmt::format(
      R"(,"message":{{"model":{},"id":"msg_{}","type":"message","role":"assistant","content":[],)"
      R"("stop_reason":null,"stop_sequence":null,"usage":{}}})",
      quoted_json(reply.model), reply.id,
      anthropic_usage(reply.usage, std::min<Tokens>(reply.usage.output, 1)));
  out.add(anthropic_event("message_start", start));
  std::size_t index = 0;
  if (!reply.answer.text.empty()) {
    anthropic_block(out, index++, R"({"type":"text","text":""})", "text_delta", "text",
                    reply.answer.text, true);
  }
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    const ToolCall& call = reply.answer.calls[i];
    const std::string block = fmt::format(
        R"({{"type":"tool_use","id":"{}","name":{},"input":{{}}}})",
        call_id(Api::anthropic_messages, reply, i), quoted_json(call.name));
    const bool first = index == 0;
    anthropic_block(out, index++, block, "input_json_delta", "partial_json", call.input_json,
                    first);
  }
  // Cumulative, and it restates the input side, as today's API does.
  out.add(anthropic_event(
      "message_delta",
      fmt::format(R"(,"delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{{)"
                  R"("input_tokens":{},"cache_creation_input_tokens":{},)"
                  R"("cache_read_input_tokens":{},"output_tokens":{}}})",
                  anthropic_stop(reply.answer.stop), reply.usage.uncached,
                  reply.usage.cache_written, reply.usage.cache_read, reply.usage.output)));
  out.append(anthropic_event("message_stop", ""));
  return out.take();
}

// --- OpenAI Chat Completions ---

// Prompt tokens include those read from the cache.
std::string openai_usage(const ProvidedUsage& usage) {
  const Tokens prompt = usage.uncached + usage.cache_written + usage.cache_read;
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{},"audio_tokens":0}},)"
                     R"("completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,)"
                     R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}})",
                     prompt, usage.output, prompt + usage.output, usage.cache_read);
}

std::string openai_calls(const Reply& reply) {
  std::string calls;
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    const ToolCall& call = reply.answer.calls[i];
    if (!calls.empty()) calls += ',';
    calls += fmt::format(
        R"({{"id":"{}","type":"function","function":{{"name":{},"arguments":{}}}}})",
        call_id(Api::openai_chat, reply, i), quoted_json(call.name), quoted_json(call.input_json));
  }
  return calls;
}

std::string openai_body(const Reply& reply) {
  const std::string calls = openai_calls(reply);
  const std::string content = reply.answer.text.empty() ? "null" : quoted_json(reply.answer.text);
  return fmt::format(
      R"({{"id":"chatcmpl-{}","object":"chat.completion","created":{},"model":{},"choices":[)"
      R"({{"index":0,"message":{{"role":"assistant","content":{}{},"refusal":null,)"
      R"("annotations":[]}},"logprobs":null,"finish_reason":"{}"}}],"usage":{},)"
      R"("service_tier":"default","system_fingerprint":"fp_emulated"}})",
      reply.id, reply.created, quoted_json(reply.model), content,
      calls.empty() ? std::string() : fmt::format(R"(,"tool_calls":[{}])", calls),
      openai_stop(reply.answer.stop), openai_usage(reply.usage));
}

std::string openai_chunk(const Reply& reply, std::string_view choices, std::string_view usage) {
  return fmt::format(
      R"(data: {{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":{},"model":{},)"
      R"("service_tier":"default","system_fingerprint":"fp_emulated","choices":[{}]{}}})"
      "\n\n",
      reply.id, reply.created, quoted_json(reply.model), choices, usage);
}

std::string openai_choice(std::string_view delta, std::string_view finish) {
  return fmt::format(R"({{"index":0,"delta":{},"logprobs":null,"finish_reason":{}}})", delta,
                     finish);
}

std::vector<StreamPiece> openai_stream(const Reply& reply, bool include_usage,
                                       std::size_t delta_bytes) {
  StreamWriter out(reply, delta_bytes);
  // Where usage was asked for, every chunk before the last carries a null.
  const std::string_view none = include_usage ? R"(,"usage":null)" : "";
  const auto chunk = [&reply, none](const std::string& delta) {
    return openai_chunk(reply, openai_choice(delta, "null"), none);
  };
  out.add(chunk(R"({"role":"assistant","content":"","refusal":null})"));
  for (const std::string_view piece : pieces_of(reply.answer.text, delta_bytes)) {
    out.add(chunk(fmt::format(R"({{"content":{}}})", quoted_json(piece))), piece.size());
  }
  for (std::size_t i = 0; i < reply.answer.calls.size(); ++i) {
    const ToolCall& call = reply.answer.calls[i];
    out.add(chunk(fmt::format(
        R"({{"tool_calls":[{{"index":{},"id":"{}","type":"function","function":{{"name":{},)"
        R"("arguments":""}}}}]}})",
        i, call_id(Api::openai_chat, reply, i), quoted_json(call.name))));
    for (const std::string_view piece : pieces_of(call.input_json, delta_bytes)) {
      out.add(
          chunk(fmt::format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}]}})", i,
                            quoted_json(piece))),
          piece.size());
    }
  }
  const std::string finish = fmt::format("\"{}\"", openai_stop(reply.answer.stop));
  out.add(openai_chunk(reply, openai_choice("{}", finish), none));
  if (include_usage) {
    out.append(openai_chunk(reply, "", fmt::format(R"(,"usage":{})", openai_usage(reply.usage))));
  }
  out.append("data: [DONE]\n\n");
  return out.take();
}

// --- Errors ---

std::string anthropic_error(std::string_view type, std::string_view message,
                            std::string_view request_id) {
  return fmt::format(R"({{"type":"error","error":{{"type":"{}","message":{}}},"request_id":"{}"}})",
                     type, quoted_json(message), request_id);
}

std::string openai_error(std::string_view message, std::string_view type, std::string_view code) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":null,"code":{}}}}})",
                     quoted_json(message), type,
                     code.empty() ? "null" : fmt::format("\"{}\"", code));
}

RefusalText shaped(Api api, int status, std::string body, std::string_view request_id) {
  RefusalText text;
  text.status = status;
  text.body = std::move(body);
  text.headers.add("Content-Type", "application/json");
  text.headers.add(api == Api::anthropic_messages ? "request-id" : "x-request-id", request_id);
  return text;
}

RefusalText anthropic_refusal(RefusalShape shape, std::string_view request_id) {
  const auto make = [request_id](int status, std::string_view type, std::string_view message) {
    return shaped(Api::anthropic_messages, status, anthropic_error(type, message, request_id),
                  request_id);
  };
  switch (shape) {
    case RefusalShape::rate_limit:
    case RefusalShape::rate_limit_bare:
      return make(429, "rate_limit_error",
                  "This request would exceed your organization's rate limit of input tokens per "
                  "minute.");
    case RefusalShape::overloaded: return make(529, "overloaded_error", "Overloaded");
    case RefusalShape::unavailable:
      return make(503, "api_error", "Service temporarily unavailable");
    case RefusalShape::quota:
      return make(402, "billing_error",
                  "Your credit balance is too low to access the API. Please go to Plans & Billing "
                  "to upgrade or purchase credits.");
    case RefusalShape::server_error: return make(500, "api_error", "Internal server error");
  }
  return make(500, "api_error", "Internal server error");
}

constexpr std::string_view
    kOpenaiOverloaded = "The server is currently overloaded with other requests.";

RefusalText openai_refusal(RefusalShape shape, const RefusalHints& hints,
                           std::string_view request_id) {
  const auto make = [request_id](int status, std::string_view message, std::string_view type,
                                 std::string_view code) {
    return shaped(Api::openai_chat, status, openai_error(message, type, code), request_id);
  };
  switch (shape) {
    case RefusalShape::rate_limit: {
      const sim::RateState rate = hints.rate.value_or(sim::RateState());
      const std::string message = fmt::format(
          "Rate limit reached on tokens per min (TPM): Limit {}, Used {}. Please try again in {}.",
          rate.tokens_limit, rate.tokens_limit - rate.tokens_left,
          to_go_duration(hints.retry_after.value_or(rate.tokens_reset)));
      return make(429, message, "tokens", "rate_limit_exceeded");
    }
    case RefusalShape::rate_limit_bare:
      return make(429, "Rate limit reached for requests", "requests", "rate_limit_exceeded");
    case RefusalShape::overloaded:
      return make(503, kOpenaiOverloaded, "server_error", "server_is_overloaded");
    case RefusalShape::unavailable:
      return make(503, "Slow down: too many requests at once.", "server_error", "slow_down");
    case RefusalShape::quota:
      return make(429,
                  "You exceeded your current quota, please check your plan and billing details.",
                  "insufficient_quota", "insufficient_quota");
    case RefusalShape::server_error:
      return make(500, "The server had an error while processing your request.", "server_error",
                  "");
  }
  return make(500, "The server had an error.", "server_error", "");
}

void add_anthropic_family(Headers& headers, std::string_view family, std::int64_t limit,
                          std::int64_t left, const std::string& reset) {
  headers.add(fmt::format("anthropic-ratelimit-{}-limit", family), std::to_string(limit));
  headers.add(fmt::format("anthropic-ratelimit-{}-remaining", family), std::to_string(left));
  headers.add(fmt::format("anthropic-ratelimit-{}-reset", family), reset);
}

// "2026-11-30T17:13:35Z": the provider writes whole seconds, rounded up here so that it is never
// too early.
std::string reset_instant(WallTime wall, Micros in) {
  const std::int64_t seconds = ceil_div((wall.since_epoch + in).count(), kMicro);
  std::string text = to_rfc3339(WallTime{std::chrono::seconds(seconds)});
  const std::size_t dot = text.find('.');
  if (dot != std::string::npos) text = text.substr(0, dot) + "Z";
  return text;
}

}  // namespace

std::string reply_body(Api api, const Reply& reply) {
  switch (api) {
    case Api::anthropic_messages: return anthropic_body(reply);
    case Api::openai_chat: return openai_body(reply);
    case Api::openai_responses: return responses_body(reply);
    case Api::gemini_generate: return gemini_body(reply);
  }
  return {};
}

std::vector<StreamPiece> reply_stream(Api api, const Reply& reply, bool include_usage,
                                      std::size_t delta_bytes) {
  switch (api) {
    case Api::anthropic_messages: return anthropic_stream(reply, delta_bytes);
    case Api::openai_chat: return openai_stream(reply, include_usage, delta_bytes);
    case Api::openai_responses: return responses_stream(reply, delta_bytes);
    case Api::gemini_generate: return gemini_stream(reply, delta_bytes);
  }
  return {};
}

void add_rate_headers(Api api, const sim::RateState& state, WallTime wall, Headers& headers) {
  if (api == Api::gemini_generate) return;
  const Tokens tokens_left = std::clamp<Tokens>(state.tokens_left, 0, state.tokens_limit);
  const std::int64_t requests_left = std::clamp<std::int64_t>(state.requests_left, 0,
                                                              state.requests_limit);
  if (api == Api::anthropic_messages) {
    const std::string token_reset = reset_instant(wall, state.tokens_reset);
    const Tokens rounded = std::min(state.tokens_limit, (tokens_left + 500) / 1000 * 1000);
    add_anthropic_family(headers, "input-tokens", state.tokens_limit, rounded, token_reset);
    const Tokens output = state.tokens_limit / 5;
    add_anthropic_family(headers, "output-tokens", output, output, reset_instant(wall, Micros{0}));
    add_anthropic_family(headers, "requests", state.requests_limit, requests_left,
                         reset_instant(wall, state.requests_reset));
    add_anthropic_family(headers, "tokens", state.tokens_limit, rounded, token_reset);
    return;
  }
  headers.add("x-ratelimit-limit-requests", std::to_string(state.requests_limit));
  headers.add("x-ratelimit-limit-tokens", std::to_string(state.tokens_limit));
  headers.add("x-ratelimit-remaining-requests", std::to_string(requests_left));
  headers.add("x-ratelimit-remaining-tokens", std::to_string(tokens_left));
  headers.add("x-ratelimit-reset-requests", to_go_duration(state.requests_reset));
  headers.add("x-ratelimit-reset-tokens", to_go_duration(state.tokens_reset));
}

RefusalText refusal_text(Api api, RefusalShape shape, const RefusalHints& hints, WallTime wall,
                         std::string_view request_id) {
  // Gemini's only hint is in the body.
  if (api == Api::gemini_generate) return gemini_refusal(shape, hints);
  RefusalText text = api == Api::anthropic_messages ? anthropic_refusal(shape, request_id)
                                                    : openai_refusal(shape, hints, request_id);
  if (shape == RefusalShape::rate_limit && hints.rate) {
    add_rate_headers(api, *hints.rate, wall, text.headers);
  }
  if (hints.retry_after) {
    const std::int64_t seconds = ceil_div(hints.retry_after->count(), kMicro);
    text.headers.add("retry-after", std::to_string(std::max<std::int64_t>(1, seconds)));
  }
  if (hints.retry_after_ms) {
    text.headers.add("retry-after-ms",
                     std::to_string(ceil_div(hints.retry_after_ms->count(), 1000)));
  }
  return text;
}

std::string stream_error(Api api, RefusalShape shape, const RefusalHints& hints, const Reply& reply,
                         std::size_t sequence) {
  const bool rate = shape == RefusalShape::rate_limit;
  const std::string back = to_go_duration(hints.retry_after.value_or(Micros{1'000'000}));
  const std::string limited = fmt::format(
      "Rate limit reached for {} on tokens per min (TPM). Please try again in {}.", reply.model,
      back);
  switch (api) {
    case Api::anthropic_messages:
      return rate ? "event: error\n"
                    R"(data: {"type":"error","error":{"type":"rate_limit_error","message":)"
                    R"("This request would exceed your organization's rate limit."}})"
                    "\n\n"
                  : "event: error\n"
                    R"(data: {"type":"error","error":{"type":"overloaded_error","message":)"
                    R"("Overloaded"}})"
                    "\n\n";
    case Api::openai_chat:
      return "data: " +
             (rate ? openai_error(limited, "tokens", "rate_limit_exceeded")
                   : openai_error(kOpenaiOverloaded, "server_error", "server_is_overloaded")) +
             "\n\n";
    case Api::openai_responses:
      return rate ? responses_failed(reply, "rate_limit_exceeded", limited, sequence)
                  : responses_failed(reply, "server_is_overloaded", kOpenaiOverloaded, sequence);
    case Api::gemini_generate: return "data: " + gemini_refusal(shape, hints).body + "\r\n\r\n";
  }
  return {};
}

RefusalText client_error(Api api, int status, std::string_view message,
                         std::string_view request_id) {
  if (api == Api::gemini_generate) return gemini_client_error(status, message);
  const std::string_view type = status == 404   ? "not_found_error"
                                : status == 413 ? "request_too_large"
                                                : "invalid_request_error";
  std::string body = api == Api::anthropic_messages
                         ? anthropic_error(type, message, request_id)
                         : openai_error(message, "invalid_request_error", "");
  return shaped(api, status, std::move(body), request_id);
}

std::string models_body(Api api, const std::vector<std::string>& models) {
  if (api == Api::gemini_generate) return gemini_models(models);
  std::string items;
  for (const std::string& model : models) {
    if (!items.empty()) items += ',';
    items += api == Api::anthropic_messages
                 ? fmt::format(R"({{"type":"model","id":{0},"display_name":{0},)"
                               R"("created_at":"2026-01-01T00:00:00Z"}})",
                               quoted_json(model))
                 : fmt::format(R"({{"id":{},"object":"model","created":1767225600,)"
                               R"("owned_by":"emulated"}})",
                               quoted_json(model));
  }
  if (api == Api::anthropic_messages) {
    return fmt::format(R"({{"data":[{}],"has_more":false,"first_id":{},"last_id":{}}})", items,
                       models.empty() ? "null" : quoted_json(models.front()),
                       models.empty() ? "null" : quoted_json(models.back()));
  }
  return fmt::format(R"({{"object":"list","data":[{}]}})", items);
}

std::string token_count_body(Api api, Tokens input_tokens) {
  if (api == Api::gemini_generate) return gemini_token_count(input_tokens);
  return fmt::format(R"({{"input_tokens":{}}})", input_tokens);
}

std::string to_go_duration(Micros duration) {
  std::int64_t millis = std::max<std::int64_t>(0, ceil_div(duration.count(), 1000));
  if (millis == 0) return "0s";
  if (millis < 1000) return fmt::format("{}ms", millis);
  std::string text;
  if (millis >= 3'600'000) text += fmt::format("{}h", millis / 3'600'000);
  if (millis >= 60'000) text += fmt::format("{}m", millis / 60'000 % 60);
  millis %= 60'000;
  std::string seconds = fmt::format("{}.{:03}", millis / 1000, millis % 1000);
  while (seconds.ends_with('0')) seconds.pop_back();
  if (seconds.ends_with('.')) seconds.pop_back();
  return text + seconds + "s";
}

}  // namespace hg::lab
