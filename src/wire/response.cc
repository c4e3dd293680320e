// The response half of dialect.h.
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "wire/dialect.h"
#include "wire/json_mend.h"
#include "wire/json_scan.h"
#include "wire/sse.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;
using Found = simdjson::simdjson_result<dom::element>;

constexpr std::size_t kMostHeldBytes = 1024 * 1024;

bool found_object(const Found& value, dom::object& object) {
  return value.get(object) == simdjson::SUCCESS;
}

std::string_view string_of(const Found& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

// A reported count; absent, null, negative or not a number is no report.
std::optional<Tokens> count_of(const Found& value) {
  if (std::int64_t number = 0; value.get(number) == simdjson::SUCCESS) {
    if (number < 0 || number > kMaxExact) return std::nullopt;
    return number;
  }
  if (double number = 0; value.get(number) == simdjson::SUCCESS) {
    // Some gateways write counts as 12.0.
    if (!(number >= 0) || number > static_cast<double>(kMaxExact)) return std::nullopt;
    return static_cast<Tokens>(std::llround(number));
  }
  return std::nullopt;
}

std::optional<Tokens> first_count(std::initializer_list<Found> places) {
  for (const Found& place : places) {
    if (const auto count = count_of(place)) return count;
  }
  return std::nullopt;
}

// Bytes of text anywhere inside; ids, types and signatures are not text.
std::int64_t text_bytes(const dom::element& value) {
  dom::object object;
  dom::array array;
  std::string_view text;
  std::int64_t sum = 0;
  if (value.get(text) == simdjson::SUCCESS) {
    sum = static_cast<std::int64_t>(text.size());
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const dom::element member : array) sum += text_bytes(member);
  } else if (value.get(object) == simdjson::SUCCESS) {
    for (const auto& [key, member] : object) {
      if (key == "type" || key == "id" || key == "signature" || key == "role" || key == "data" ||
          key == "format" || key == "encrypted_content" || key == "tool_use_id") {
        continue;
      }
      sum += text_bytes(member);
    }
  }
  return sum;
}

std::int64_t text_bytes(const Found& value) {
  dom::element element;
  return value.get(element) == simdjson::SUCCESS ? text_bytes(element) : 0;
}

// What usage objects said, field by field: set, never added; null and absent leave what was there.
struct Counts {
  std::optional<Tokens> prompt;       // OpenAI: cached ones included. Anthropic: excluded.
  std::optional<Tokens> cache_write;  // Anthropic only.
  std::optional<Tokens> cached;
  std::optional<Tokens> output;
};

void set(std::optional<Tokens>& field, const std::optional<Tokens>& reported) {
  if (reported) field = reported;
}

void read_anthropic_usage(const dom::object& usage, Counts& counts) {
  set(counts.prompt, count_of(usage["input_tokens"]));
  auto cache_write = count_of(usage["cache_creation_input_tokens"]);
  if (!cache_write) {
    const Found parts = usage["cache_creation"];
    const auto short_lived = count_of(parts["ephemeral_5m_input_tokens"]);
    const auto long_lived = count_of(parts["ephemeral_1h_input_tokens"]);
    if (short_lived || long_lived) cache_write = short_lived.value_or(0) + long_lived.value_or(0);
  }
  set(counts.cache_write, cache_write);
  set(counts.cached, count_of(usage["cache_read_input_tokens"]));
  set(counts.output, count_of(usage["output_tokens"]));
}

void read_openai_usage(const dom::object& usage, Counts& counts) {
  // The second name is that of gateways and of the Responses API, the third Cohere's.
  const auto prompt = first_count({usage["prompt_tokens"], usage["input_tokens"],
                                   usage["tokens"]["input_tokens"], usage["promptTokenCount"]});
  set(counts.prompt, prompt);
  set(counts.cached, first_count({usage["prompt_tokens_details"]["cached_tokens"],
                                  usage["prompt_token_details"]["cached_tokens"],  // Mistral's
                                                                                   // spelling.
                                  usage["input_tokens_details"]["cached_tokens"],
                                  usage["prompt_cache_hit_tokens"],  // DeepSeek.
                                  usage["num_cached_tokens"],        // Mistral.
                                  usage["cached_tokens"],            // Moonshot, Cohere.
                                  usage["cachedContentTokenCount"]}));
  auto output = first_count({usage["completion_tokens"], usage["output_tokens"],
                             usage["tokens"]["output_tokens"], usage["candidatesTokenCount"]});
  // xAI and Gemini leave the reasoning out of the output, but not out of the total.
  const auto total = first_count({usage["total_tokens"], usage["totalTokenCount"]});
  if (total && prompt && *total >= *prompt) {
    output = std::max(output.value_or(0), *total - *prompt);
  }
  set(counts.output, output);
}

UsageReport to_report(Dialect dialect, const Counts& counts) {
  UsageReport report;
  report.cached = counts.cached;
  report.output = counts.output;
  if (dialect == Dialect::anthropic_messages) {
    if (counts.prompt || counts.cache_write) {
      report.uncached = counts.prompt.value_or(0) + counts.cache_write.value_or(0);
    }
  } else if (counts.prompt) {
    report.uncached = std::max(Tokens{0}, *counts.prompt - counts.cached.value_or(0));
  }
  return report;
}

bool is_event_stream(std::string_view content_type) {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  return iequals(type, "text/event-stream");
}

}  // namespace

struct ResponseReader::State {
  State(Dialect of, bool stream)
      : dialect(of),
        streaming(stream),
        sse([this](const SseEvent& event) { on_event(event); }, kMostHeldBytes) {}

  void on_bytes(std::string_view bytes);
  void on_event(const SseEvent& event);
  void on_end();

  void sniff(std::string_view bytes, bool last);
  void pass_on(std::string_view bytes);
  void hold_body(std::string_view bytes);
  bool parse(std::string_view text, dom::object& object);

  void take_object(const dom::object& object, std::string_view text, std::string_view event_type);
  void take_usage_of(const dom::object& object);
  bool take_usage(const Found& usage);
  bool take_error(const dom::object& object, std::string_view text, std::string_view event_type);
  void take_anthropic(const dom::object& object);
  void take_chat(const dom::object& object);
  void take_other(const dom::object& object);
  void take_output(std::int64_t bytes);

  Dialect dialect;
  bool streaming;
  bool sniffed = false;
  std::string start;  // What came before that was decided.
  SseParser sse;
  dom::parser parser;
  std::string body;              // Of an answer that is no stream, until it is too long.
  std::optional<JsonScan> scan;  // From then on.
  Counts counts;
  UsageReport usage;
  bool output_seen = false;
  std::int64_t output_chars = 0;
  bool complete = false;
  bool finish_reason_seen = false;
  bool first_event_seen = false;
  std::optional<std::string> error_event;
};

// Decides by the first bytes where they are plain; `last` when no more will come.
void ResponseReader::State::sniff(std::string_view bytes, bool last) {
  constexpr std::string_view kLongestSign = "event:";
  start.append(bytes);
  const std::size_t first = start.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const std::string_view text = first == std::string::npos ? std::string_view{}
                                                           : std::string_view(start).substr(first);
  if (text.starts_with('{') || text.starts_with('[')) {
    streaming = false;
  } else if (text.starts_with("data:") || text.starts_with("event:") || text.starts_with(':')) {
    streaming = true;
  } else if (text.size() < kLongestSign.size() && start.size() < kMostHeldBytes && !last) {
    return;
  }
  sniffed = true;
  pass_on(start);
  start = {};
}

void ResponseReader::State::on_bytes(std::string_view bytes) {
  if (sniffed) {
    pass_on(bytes);
  } else {
    sniff(bytes, false);
  }
}

void ResponseReader::State::pass_on(std::string_view bytes) {
  if (streaming) {
    sse.feed(bytes);
  } else {
    hold_body(bytes);
  }
}

void ResponseReader::State::hold_body(std::string_view bytes) {
  if (scan) {
    scan->feed(bytes);
    take_output(static_cast<std::int64_t>(bytes.size()));
    return;
  }
  // Blank lines before the body are keep-alives.
  if (body.empty()) {
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return;
    bytes.remove_prefix(first);
  }
  if (body.size() + bytes.size() <= kMostHeldBytes) {
    body.append(bytes);
    return;
  }
  scan.emplace();
  scan->feed(body);
  scan->feed(bytes);
  // What was generated is not told from the rest any more; nearly all of it was.
  take_output(static_cast<std::int64_t>(body.size() + bytes.size()));
  body = {};
}

bool ResponseReader::State::parse(std::string_view text, dom::object& object) {
  dom::element root;
  if (parser.parse(text.data(), text.size(), true).get(root) != simdjson::SUCCESS) {
    // An emoji cut between two deltas must not hide the usage beside it.
    const std::optional<std::string> mended = mend_json(text);
    if (!mended) return false;
    if (parser.parse(mended->data(), mended->size(), true).get(root) != simdjson::SUCCESS) {
      return false;
    }
  }
  // Google wraps errors in a list.
  if (dom::array list; root.get(list) == simdjson::SUCCESS) {
    return list.size() == 1 && list.at(0).get(object) == simdjson::SUCCESS;
  }
  return root.get(object) == simdjson::SUCCESS;
}

void ResponseReader::State::on_event(const SseEvent& event) {
  if (event.data == "[DONE]") {
    first_event_seen = true;
    complete = true;
    return;
  }
  if (event.type == "ping") return;
  dom::object object;
  if (!parse(event.data, object)) {
    // Mistral sends "[503] The request queue is full." in place of JSON.
    const bool error_text = event.data.size() > 5 && event.data[0] == '[' && event.data[4] == ']' &&
                            parse_integer(event.data.substr(1, 3)).value_or(0) >= 400;
    if (event.type == "error" || error_text) {
      std::string message;
      for (const char c : event.data) {
        if (c == '"' || c == '\\') message += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) message += c;
      }
      const std::string code = error_text ? std::string(event.data.substr(1, 3)) : "null";
      error_event = R"({"error":{"message":")" + message + R"(","code":)" + code + "}}";
    }
    first_event_seen = true;
    return;
  }
  if (string_of(object["type"]) == "ping") return;
  first_event_seen = true;
  take_object(object, event.data, event.type);
}

void ResponseReader::State::on_end() {
  if (!sniffed) sniff({}, true);
  if (streaming) {
    sse.finish();
    // Not every provider sends [DONE]: an end after a finish reason is an end.
    complete = complete || finish_reason_seen;
    return;
  }
  dom::object object;
  if (!scan) {
    if (parse(body, object)) {
      first_event_seen = true;
      complete = true;
      take_object(object, body, "");
    }
    body = {};
    return;
  }
  complete = scan->closed();
  first_event_seen = true;
  const auto take_member = [&](std::string_view name, const std::optional<std::string>& value) {
    if (!value) return;
    const std::string wrapped = "{\"" + std::string(name) + "\":" + *value + "}";
    if (parse(wrapped, object)) take_usage_of(object);
  };
  take_member("x_groq", scan->x_groq());
  take_member("usage", scan->usage());
  if (scan->error() && scan->error()->find('{') != std::string::npos) {
    error_event = R"({"error":)" + *scan->error() + "}";
    output_seen = false;
    output_chars = 0;
  }
}

void ResponseReader::State::take_output(std::int64_t bytes) {
  if (bytes <= 0) return;
  output_seen = true;
  output_chars += bytes;
}

bool ResponseReader::State::take_usage(const Found& value) {
  dom::object object;
  if (!found_object(value, object)) return false;
  if (dialect == Dialect::anthropic_messages) {
    read_anthropic_usage(object, counts);
  } else {
    read_openai_usage(object, counts);
  }
  usage = to_report(dialect, counts);
  return true;
}

// Usage counts wherever a usage object stands: on its own chunk, on the last one with choices, on
// every one, inside a choice, or in a provider's own corner.
void ResponseReader::State::take_usage_of(const dom::object& object) {
  take_usage(object["x_groq"]["usage"]);
  take_usage(object["message"]["usage"]);
  take_usage(object["response"]["usage"]);
  take_usage(object["delta"]["usage"]);
  if (dom::array choices; object["choices"].get(choices) == simdjson::SUCCESS) {
    for (const dom::element choice : choices) {
      take_usage(choice["usage"]);
      take_usage(choice["delta"]["usage"]);
    }
  }
  take_usage(object["usageMetadata"]);
  take_usage(object["meta"]);  // Cohere's older shape.
  take_usage(object["usage"]);
}

bool ResponseReader::State::take_error(const dom::object& object, std::string_view text,
                                       std::string_view event_type) {
  dom::element error;
  const bool has_error = (object["error"].get(error) == simdjson::SUCCESS && !error.is_null()) ||
                         // OpenRouter may put it into the choice.
                         (object["choices"].at(0)["error"].get(error) == simdjson::SUCCESS &&
                          !error.is_null());
  const std::string_view type = string_of(object["type"]);
  if (!has_error && type != "error" && event_type != "error" && type != "response.failed" &&
      string_of(object["object"]) != "error") {
    return false;
  }
  error_event = std::string(text);
  return true;
}

void ResponseReader::State::take_object(const dom::object& object, std::string_view text,
                                        std::string_view event_type) {
  take_usage_of(object);
  // The text of an error was never generated, so it is never output.
  if (take_error(object, text, event_type)) return;
  switch (dialect) {
    case Dialect::anthropic_messages: take_anthropic(object); return;
    case Dialect::openai_chat: take_chat(object); return;
    case Dialect::other: take_other(object); return;
  }
}

void ResponseReader::State::take_anthropic(const dom::object& object) {
  const std::string_view type = string_of(object["type"]);
  if (type == "message_stop") {
    complete = true;
  } else if (type == "content_block_delta") {
    // Citations and signatures are deltas too, but not generated text.
    const Found delta = object["delta"];
    take_output(text_bytes(delta["text"]) + text_bytes(delta["thinking"]) +
                text_bytes(delta["partial_json"]));
  } else if (type == "content_block_start") {
    const Found block = object["content_block"];
    take_output(text_bytes(block["text"]) + text_bytes(block["thinking"]) +
                text_bytes(block["name"]));
    if (string_of(block["type"]) == "redacted_thinking") output_seen = true;
  } else if (type == "message_delta") {
    if (!string_of(object["delta"]["stop_reason"]).empty()) finish_reason_seen = true;
  } else if (!streaming) {
    take_output(text_bytes(object["content"]));
  }
}

void ResponseReader::State::take_chat(const dom::object& object) {
  dom::array choices;
  if (object["choices"].get(choices) == simdjson::SUCCESS) {
    for (const dom::element choice : choices) {
      for (const std::string_view name : {"delta", "message"}) {
        dom::object message;
        if (!found_object(choice[name], message)) continue;
        std::int64_t reasoning = text_bytes(message["reasoning_content"]);
        // OpenRouter sends the same reasoning as text and as details.
        if (reasoning == 0) reasoning = text_bytes(message["reasoning"]);
        if (reasoning == 0) reasoning = text_bytes(message["reasoning_details"]);
        take_output(reasoning + text_bytes(message["content"]) + text_bytes(message["refusal"]) +
                    text_bytes(message["tool_calls"]) + text_bytes(message["function_call"]));
      }
      take_output(text_bytes(choice["text"]));
      if (!string_of(choice["finish_reason"]).empty()) finish_reason_seen = true;
    }
    return;
  }
  // Cohere's own shape: content-delta events, message-end.
  const std::string_view type = string_of(object["type"]);
  if (type == "content-delta" || type == "tool-call-delta" || type == "tool-plan-delta") {
    take_output(text_bytes(object["delta"]));
  } else if (type == "message-end") {
    finish_reason_seen = true;
  } else if (!streaming) {
    take_output(text_bytes(object["message"]) + text_bytes(object["text"]));
  }
}

// Enough of other shapes to settle by: the Responses API and Gemini.
void ResponseReader::State::take_other(const dom::object& object) {
  const std::string_view type = string_of(object["type"]);
  if (type == "response.completed" || type == "response.incomplete") {
    complete = true;
  } else if (type.ends_with(".delta")) {
    take_output(text_bytes(object["delta"]));
  } else if (type.empty()) {
    take_output(text_bytes(object["candidates"]) + text_bytes(object["output"]));
    dom::array candidates;
    if (object["candidates"].get(candidates) != simdjson::SUCCESS) return;
    for (const dom::element candidate : candidates) {
      if (!string_of(candidate["finishReason"]).empty()) finish_reason_seen = true;
    }
  }
}

ResponseReader::ResponseReader(Dialect dialect, std::string_view content_type)
    : state_(std::make_unique<State>(dialect, is_event_stream(content_type))) {}
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;

void ResponseReader::feed(std::string_view bytes) { state_->on_bytes(bytes); }
void ResponseReader::finish() { state_->on_end(); }
bool ResponseReader::streaming() const { return state_->streaming; }
const UsageReport& ResponseReader::usage() const { return state_->usage; }
bool ResponseReader::output_seen() const { return state_->output_seen; }
std::int64_t ResponseReader::output_chars() const { return state_->output_chars; }
bool ResponseReader::complete() const { return state_->complete; }
bool ResponseReader::first_event_seen() const { return state_->first_event_seen; }
const std::optional<std::string>& ResponseReader::error_event() const {
  return state_->error_event;
}

}  // namespace hg::wire
