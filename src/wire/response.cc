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
#include "wire/aws_frames.h"
#include "wire/dialect.h"
#include "wire/json_elements.h"
#include "wire/json_mend.h"
#include "wire/json_read.h"
#include "wire/json_scan.h"
#include "wire/output_shapes.h"
#include "wire/sse.h"
#include "wire/usage.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;
constexpr std::size_t kMostHeldBytes = 1024 * 1024;

bool found_object(const Found& value, dom::object& object) {
  return value.get(object) == simdjson::SUCCESS;
}

// How the body is cut into objects.
enum class Cut : std::uint8_t {
  body,      // One object.
  events,    // An event stream.
  elements,  // A list that streams its elements, or an object a line.
  frames,    // Amazon's binary events.
};

Cut cut_of(std::string_view content_type) {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (iequals(type, "text/event-stream")) return Cut::events;
  if (iequals(type, "application/vnd.amazon.eventstream")) return Cut::frames;
  if (iequals(type, "application/x-ndjson")) return Cut::elements;
  return Cut::body;
}

// Of the standard alphabet; up to the first byte that is none of it.
std::string decode_base64(std::string_view text) {
  constexpr std::string_view
      kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(held)) & 0xFFU);
  }
  return bytes;
}

// A message of a provider as a JSON string's inside.
std::string quoted(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result;
}

}  // namespace

struct ResponseReader::State {
  State(Dialect of, Cut as)
      : dialect(of),
        cut(as),
        sniffed(as == Cut::frames),
        sse([this](const SseEvent& event) { on_event(event); }, kMostHeldBytes),
        elements([this](std::string_view text) { on_element(text); }, kMostHeldBytes),
        frames([this](const AwsEvent& event) { on_frame(event); }, kMostHeldBytes) {
    sse.on_cut([this](const SseEvent& event) { on_cut(event.data); });
  }

  void on_bytes(std::string_view bytes);
  void on_event(const SseEvent& event);
  void on_cut(std::string_view tail);
  void on_element(std::string_view text);
  void on_frame(const AwsEvent& event);
  void on_end();

  void sniff(std::string_view bytes, bool last);
  void pass_on(std::string_view bytes);
  void hold_body(std::string_view bytes);
  static bool parse(KeptParser& parser, std::string_view text, dom::object& object);

  void take_object(const dom::object& object, std::string_view text, std::string_view event_type);
  void take_usage_of(const dom::object& object);
  bool take_usage(const Found& usage);
  bool take_error(const dom::object& object, std::string_view text, std::string_view event_type);
  void take_output(std::int64_t bytes);

  Dialect dialect;
  Cut cut;
  bool sniffed;
  std::string start;  // What came before that was decided.
  SseParser sse;
  JsonElements elements;
  AwsFrames frames;
  std::string body;              // Of an answer that is no stream, until it is too long.
  std::optional<JsonScan> scan;  // From then on.
  UsageCounts counts;
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
    if (text.starts_with('{') && cut == Cut::elements) {
      elements.feed("[");
    } else {
      // Only Gemini streams a list; others wrap an error in one.
      const bool streams_list = text.starts_with('[') && dialect == Dialect::gemini_generate;
      cut = streams_list ? Cut::elements : Cut::body;
    }
  } else if (text.starts_with("data:") || text.starts_with("event:") || text.starts_with(':')) {
    cut = Cut::events;
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
  switch (cut) {
    case Cut::body: hold_body(bytes); return;
    case Cut::events: sse.feed(bytes); return;
    case Cut::elements: elements.feed(bytes); return;
    case Cut::frames: frames.feed(bytes); return;
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

bool ResponseReader::State::parse(KeptParser& parser, std::string_view text, dom::object& object) {
  dom::element root;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) {
    // An emoji cut between two deltas must not hide the usage beside it.
    const std::optional<std::string> mended = mend_json(text);
    if (!mended) return false;
    if (parser.parse(*mended).get(root) != simdjson::SUCCESS) return false;
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
  KeptParser parser;
  dom::object object;
  if (!parse(parser, event.data, object)) {
    // Mistral sends "[503] The request queue is full." in place of JSON.
    const bool error_text = event.data.size() > 5 && event.data[0] == '[' && event.data[4] == ']' &&
                            parse_integer(event.data.substr(1, 3)).value_or(0) >= 400;
    if (event.type == "error" || error_text) {
      const std::string code = error_text ? std::string(event.data.substr(1, 3)) : "null";
      error_event = R"({"error":{"message":")" + quoted(event.data) + R"(","code":)" + code + "}}";
    }
    first_event_seen = true;
    return;
  }
  if (string_of(object["type"]) == "ping") return;
  first_event_seen = true;
  take_object(object, event.data, event.type);
}

// The tail of an event too long to be held. A quote inside a text is escaped, so that what looks
// like a member here is one.
void ResponseReader::State::on_cut(std::string_view tail) {
  first_event_seen = true;
  output_seen = true;
  for (const std::string_view name : {"\"usage\":", "\"usageMetadata\":"}) {
    const std::size_t at = tail.rfind(name);
    if (at == std::string_view::npos || at == 0 || tail[at - 1] == '\\') continue;
    JsonElements value(
        [this, taken = false](std::string_view text) mutable {
          KeptParser parser;
          dom::object object;
          if (std::exchange(taken, true) || !parse(parser, text, object)) return;
          counts.read(dialect, object);
          usage = counts.report();
        },
        kMostHeldBytes);
    // Read as the one element of a list; the first that ends is it.
    std::string list = "[";
    list += tail.substr(at + name.size());
    const std::size_t open = list.find_first_not_of(" \t", 1);
    if (open == std::string::npos || list[open] != '{') continue;
    value.feed(list);
  }
}

void ResponseReader::State::on_element(std::string_view text) {
  first_event_seen = true;
  KeptParser parser;
  if (dom::object object; parse(parser, text, object)) take_object(object, text, "");
}

void ResponseReader::State::on_frame(const AwsEvent& event) {
  first_event_seen = true;
  if (event.exception) {
    error_event = R"({"error":{"message":")" + quoted(event.payload) + R"(","code":")" +
                  quoted(event.type) + "\"}}";
    return;
  }
  KeptParser parser;
  dom::object object;
  if (!parse(parser, event.payload, object)) return;
  std::string_view inner;
  if (event.type != "chunk" || object["bytes"].get(inner) != simdjson::SUCCESS) {
    take_object(object, event.payload, event.type);
    return;
  }
  // InvokeModel streams the model's own events, packed once more.
  const std::string text = decode_base64(inner);
  if (parse(parser, text, object)) take_object(object, text, "");
}

void ResponseReader::State::on_end() {
  if (!sniffed) sniff({}, true);
  if (cut != Cut::body) {
    sse.finish();
    // Not every provider sends [DONE]: an end after a finish reason is an end. An event too long to
    // be held may have been the last one, which holds the whole answer once more.
    complete = complete || finish_reason_seen || sse.oversize_events() > 0 ||
               elements.oversize_elements() > 0 || frames.oversize_frames() > 0;
    return;
  }
  KeptParser parser;
  dom::object object;
  if (!scan) {
    if (parse(parser, body, object)) {
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
    if (parse(parser, wrapped, object)) take_usage_of(object);
  };
  take_member("x_groq", scan->x_groq());
  take_member("usageMetadata", scan->usage_metadata());
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
  counts.read(dialect, object);
  usage = counts.report();
  return true;
}

// Usage counts wherever a usage object stands: on its own chunk, on the last one with choices, on
// every one, inside a choice, or in a provider's own corner.
void ResponseReader::State::take_usage_of(const dom::object& object) {
  take_usage(object["x_groq"]["usage"]);
  take_usage(object["message"]["usage"]);
  take_usage(object["response"]["usage"]);
  take_usage(object["response"]["usageMetadata"]);  // Google's Code Assist.
  take_usage(object["delta"]["usage"]);
  if (dom::array choices; object["choices"].get(choices) == simdjson::SUCCESS) {
    for (const dom::element choice : choices) {
      take_usage(choice["usage"]);
      take_usage(choice["delta"]["usage"]);
    }
  }
  take_usage(object["interaction"]["usage"]);  // Google's Interactions.
  take_usage(object["usageMetadata"]);
  take_usage(object["amazon-bedrock-invocationMetrics"]);
  take_usage(object["meta_info"]);  // SGLang's own shape.
  take_usage(object["meta"]);       // Cohere's older shape.
  take_usage(object["usage"]);
  if (dialect == Dialect::other || object["timings"].error() == simdjson::SUCCESS) {
    counts.read_beside(object);
    usage = counts.report();
  }
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
  const OutputFacts facts = output_of(dialect, object, event_type,
                                      cut == Cut::body ? Whole::body : Whole::event, output_seen);
  take_output(facts.chars);
  output_seen = output_seen || facts.seen;
  finish_reason_seen = finish_reason_seen || facts.finish;
  complete = complete || facts.complete;
}

ResponseReader::ResponseReader(Dialect dialect, std::string_view content_type)
    : state_(std::make_unique<State>(dialect, cut_of(content_type))) {}
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;

void ResponseReader::feed(std::string_view bytes) { state_->on_bytes(bytes); }
void ResponseReader::finish() { state_->on_end(); }
bool ResponseReader::streaming() const { return state_->cut != Cut::body; }
const UsageReport& ResponseReader::usage() const { return state_->usage; }
bool ResponseReader::output_seen() const { return state_->output_seen; }
std::int64_t ResponseReader::output_chars() const { return state_->output_chars; }
bool ResponseReader::complete() const { return state_->complete; }
bool ResponseReader::first_event_seen() const { return state_->first_event_seen; }
const std::optional<std::string>& ResponseReader::error_event() const {
  return state_->error_event;
}

}  // namespace hg::wire
