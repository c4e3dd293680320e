// The request half of dialect.h: one walk over the parsed body.
#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "wire/dialect.h"
#include "wire/hash.h"
#include "wire/json_mend.h"
#include "wire/media.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;

// Prompts of more messages than this keep their hash, but no further prefix blocks: a body of 64
// MiB could hold millions.
constexpr std::size_t kMostBlocks = 16'384;

// The first system block of Claude Code; it names the version and the caller and may differ from
// call to call of one conversation.
constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

bool one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// The value as text; "" when it is none.
std::string_view string_of(const simdjson::simdjson_result<dom::element>& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

// The member of that name, of several the last, which is the one that parsers of providers keep.
using Found = simdjson::simdjson_result<dom::element>;

Found last_of(const dom::object& object, std::string_view name) {
  Found found(simdjson::NO_SUCH_FIELD);
  for (const auto& [key, value] : object) {
    if (key == name) found = Found(dom::element(value));
  }
  return found;
}

Found last_of(const dom::element& value, std::string_view name) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return Found(simdjson::NO_SUCH_FIELD);
  return last_of(object, name);
}

Found last_of(const Found& value, std::string_view name) {
  dom::element element;
  if (value.get(element) != simdjson::SUCCESS) return Found(simdjson::NO_SUCH_FIELD);
  return last_of(element, name);
}

// A count that a caller declares: whole, not negative; anything else is not a declaration.
std::optional<Tokens> count_of(const dom::element& value) {
  if (std::int64_t number = 0; value.get(number) == simdjson::SUCCESS) {
    if (number < 0) return std::nullopt;
    return std::min(number, kMaxExact);
  }
  if (std::uint64_t number = 0; value.get(number) == simdjson::SUCCESS) return kMaxExact;
  if (double number = 0; value.get(number) == simdjson::SUCCESS) {
    if (!(number >= 0) || number != std::floor(number)) return std::nullopt;
    return number >= static_cast<double>(kMaxExact) ? kMaxExact : static_cast<Tokens>(number);
  }
  return std::nullopt;
}

// How long a number with a fraction or an exponent is, written as short as can be: never longer
// than it stood in the body, which is not kept.
std::int64_t digits_of(double number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(number),
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  if (mark == std::string_view::npos) return 1;
  const std::int64_t digits = mark == 1 ? 1 : static_cast<std::int64_t>(mark) - 1;
  std::int64_t exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), end.ptr, exponent);
  const std::int64_t plain = exponent < 0 ? digits - exponent + 1
                                          : std::max(digits + 1, exponent + 1);
  return std::min(plain, digits + 2) + (std::signbit(number) ? 1 : 0);
}

// Counts and hashes prompt text, in the order of the prompt.
class Prompt {
 public:
  Prompt(Dialect dialect, std::string_view model, std::uint64_t seed)
      : dialect_(dialect), model_(model), hash_(seed) {}

  void text(std::string_view piece) {
    chars_ += static_cast<std::int64_t>(piece.size());
    hash_.add(piece);
  }

  // Keeps parts of different kinds apart in the hash; not text.
  void mark(std::string_view name) { hash_.add(name); }

  // A JSON value that the model sees as JSON: tool inputs and schemas, counted without blanks.
  void structured(const dom::element& value);

  // A message's content: text, a list of parts, or nothing.
  void content(const dom::element& value);

  // A value of unknown shape: all of its text, and its media by their price.
  void loose(const dom::element& value);

  // A list of system blocks or one text.
  void system(const dom::element& value);

  void message(const dom::object& message);

  [[nodiscard]] std::int64_t chars() const { return chars_; }
  [[nodiscard]] Tokens flat_tokens() const { return flat_tokens_; }
  [[nodiscard]] std::int64_t flat_parts() const { return flat_parts_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_.value(); }

 private:
  void part(const dom::object& part);
  void tool_calls(const dom::element& calls);
  void function_call(const dom::object& call);
  void image(std::string_view base64_or_url, bool low_detail);
  void media(std::string_view media_type, std::string_view base64);
  void source(const dom::object& source, std::string_view kind);
  void loose_object(const dom::object& object);

  void flat(Tokens tokens, std::string_view identity) {
    flat_tokens_ += tokens;
    ++flat_parts_;
    hash_.add(identity);
  }

  Dialect dialect_;
  std::string_view model_;
  TextHash hash_;
  std::int64_t chars_ = 0;
  Tokens flat_tokens_ = 0;
  std::int64_t flat_parts_ = 0;
};

// The base64 of a data URL; nothing when the text is no data URL.
std::optional<std::string_view> data_url_payload(std::string_view url) {
  constexpr std::size_t kLongestType = 200;
  if (!url.starts_with("data:")) return std::nullopt;
  const std::size_t comma = url.substr(0, kLongestType).find(";base64,");
  if (comma == std::string_view::npos) return std::nullopt;
  return url.substr(comma + 8);
}

std::string_view data_url_type(std::string_view url) {
  return url.substr(5, url.find_first_of(";,") - 5);
}

void Prompt::structured(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::OBJECT: {
      chars_ += 2;
      hash_.add("{");
      std::int64_t members = 0;
      for (const auto& [key, member] : dom::object(value)) {
        // A marker for the provider, not for the model; it moves from turn to turn.
        if (key == "cache_control") continue;
        text(key);
        chars_ += 3;  // Quotes and colon.
        structured(member);
        ++members;
      }
      chars_ += std::max(members - 1, std::int64_t{0});
      hash_.add("}");
      return;
    }
    case dom::element_type::ARRAY: {
      chars_ += 2;
      hash_.add("[");
      std::int64_t members = 0;
      for (const dom::element member : dom::array(value)) {
        structured(member);
        ++members;
      }
      chars_ += std::max(members - 1, std::int64_t{0});
      hash_.add("]");
      return;
    }
    case dom::element_type::STRING: {
      std::string_view string;
      if (value.get(string) != simdjson::SUCCESS) return;
      if (const auto base64 = data_url_payload(string)) {
        media(data_url_type(string), *base64);
        return;
      }
      chars_ += 2;
      text(string);
      return;
    }
    case dom::element_type::DOUBLE: {
      double number = 0;
      if (value.get(number) != simdjson::SUCCESS) return;
      chars_ += digits_of(number);
      hash_.add(std::bit_cast<std::uint64_t>(number));
      return;
    }
    default:
      // Whole numbers, true, false, null.
      text(simdjson::minify(value));
      return;
  }
}

void Prompt::image(std::string_view base64_or_url, bool low_detail) {
  const auto payload = data_url_payload(base64_or_url);
  flat(image_tokens(dialect_, model_, png_size(payload.value_or(base64_or_url)), low_detail),
       base64_or_url);
}

void Prompt::media(std::string_view media_type, std::string_view base64) {
  const auto length = static_cast<std::int64_t>(base64.size());
  if (media_type.starts_with("image/")) {
    image(base64, false);
  } else if (media_type.starts_with("audio/") || media_type.starts_with("video/")) {
    flat(audio_tokens(length), base64);
  } else {
    flat(document_tokens(length), base64);
  }
}

// Anthropic's {"type":"base64","media_type":…,"data":…}, {"type":"url",…}, {"type":"file",…},
// {"type":"text","data":…}, {"type":"content","content":…}.
void Prompt::source(const dom::object& source, std::string_view kind) {
  const std::string_view type = string_of(last_of(source, "type"));
  const std::string_view data = string_of(last_of(source, "data"));
  if (type == "text") {
    text(data);
  } else if (type == "content") {
    if (dom::element inner; last_of(source, "content").get(inner) == simdjson::SUCCESS)
      content(inner);
  } else if (kind == "image") {
    image(data.empty() ? string_of(last_of(source, "url")) : data, false);
  } else {
    const std::string_view name = data.empty() ? string_of(last_of(source, "url")) : data;
    flat(document_tokens(static_cast<std::int64_t>(data.size())),
         name.empty() ? string_of(last_of(source, "file_id")) : name);
  }
}

void Prompt::part(const dom::object& part) {
  const std::string_view type = string_of(last_of(part, "type"));
  mark(type);
  dom::element member;
  dom::object object;
  if (type == "text" || type == "input_text" || type == "output_text") {
    text(string_of(last_of(part, "text")));
  } else if (type == "thinking") {
    // Its signature is base64 with an accounting of its own. Mistral's is a list of parts.
    if (last_of(part, "thinking").get(member) == simdjson::SUCCESS) content(member);
  } else if (type == "redacted_thinking") {
    mark(string_of(last_of(part, "data")));
  } else if (one_of(type, {"tool_use", "server_tool_use", "mcp_tool_use"})) {
    text(string_of(last_of(part, "name")));
    if (last_of(part, "input").get(member) == simdjson::SUCCESS) structured(member);
  } else if (type == "tool_result" || type == "mcp_tool_result") {
    if (last_of(part, "content").get(member) == simdjson::SUCCESS) content(member);
  } else if (type == "image" || type == "document") {
    if (last_of(part, "source").get(object) == simdjson::SUCCESS) source(object, type);
    text(string_of(last_of(part, "title")));
    text(string_of(last_of(part, "context")));
  } else if (type == "image_url" || type == "input_image") {
    const auto url = last_of(part, "image_url");
    const bool low = string_of(last_of(part, "detail")) == "low" ||
                     string_of(last_of(url, "detail")) == "low";
    std::string_view address = string_of(last_of(url, "url"));
    if (address.empty()) address = string_of(url);
    image(address, low);
  } else if (type == "input_audio" || type == "audio") {
    const std::string_view data = string_of(last_of(last_of(part, "input_audio"), "data"));
    flat(audio_tokens(static_cast<std::int64_t>(data.size())), data);
  } else if (type == "file" || type == "input_file") {
    std::string_view data = string_of(last_of(last_of(part, "file"), "file_data"));
    if (data.empty()) data = string_of(last_of(part, "file_data"));
    flat(document_tokens(static_cast<std::int64_t>(data.size())), data);
  } else if (type == "refusal") {
    text(string_of(last_of(part, "refusal")));
  } else {
    loose_object(part);
  }
}

void Prompt::content(const dom::element& value) {
  if (std::string_view string; value.get(string) == simdjson::SUCCESS) {
    // As one part of type text, for callers that change between the two forms.
    mark("text");
    text(string);
    return;
  }
  dom::array parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    if (!value.is_null()) loose(value);
    return;
  }
  for (const dom::element member : parts) {
    if (dom::object object; member.get(object) == simdjson::SUCCESS) {
      part(object);
    } else {
      loose(member);
    }
  }
}

void Prompt::loose(const dom::element& value) {
  dom::object object;
  dom::array array;
  std::string_view string;
  if (value.get(object) == simdjson::SUCCESS) {
    loose_object(object);
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const dom::element member : array) loose(member);
  } else if (value.get(string) == simdjson::SUCCESS) {
    if (const auto base64 = data_url_payload(string)) {
      media(data_url_type(string), *base64);
    } else {
      text(string);
    }
  }
}

void Prompt::loose_object(const dom::object& object) {
  // Anthropic's, Gemini's and Google's other spelling of the type of embedded data.
  std::string_view media_type = string_of(last_of(object, "media_type"));
  if (media_type.empty()) media_type = string_of(last_of(object, "mimeType"));
  if (media_type.empty()) media_type = string_of(last_of(object, "mime_type"));
  const std::string_view data = string_of(last_of(object, "data"));
  if (!media_type.empty() && !data.empty()) {
    media(media_type, data);
    return;
  }
  for (const auto& [key, member] : object) {
    // Markers, names of things and sealed blobs: not text of the prompt.
    if (one_of(key, {"cache_control", "type", "id", "tool_use_id", "call_id", "signature",
                     "thoughtSignature", "encrypted_content", "encrypted_index"})) {
      continue;
    }
    loose(member);
  }
}

void Prompt::system(const dom::element& value) {
  dom::array blocks;
  if (value.get(blocks) != simdjson::SUCCESS) {
    content(value);
    return;
  }
  for (const dom::element block : blocks) {
    const std::string_view block_text = string_of(last_of(block, "text"));
    if (block_text.starts_with(kBillingBlock)) {
      chars_ += static_cast<std::int64_t>(block_text.size());
      continue;
    }
    if (dom::object object; block.get(object) == simdjson::SUCCESS) {
      part(object);
    } else {
      loose(block);
    }
  }
}

void Prompt::function_call(const dom::object& call) {
  text(string_of(last_of(call, "name")));
  for (const std::string_view name : {"arguments", "input"}) {
    dom::element arguments;
    if (last_of(call, name).get(arguments) != simdjson::SUCCESS) continue;
    if (std::string_view string; arguments.get(string) == simdjson::SUCCESS) {
      text(string);
    } else {
      structured(arguments);
    }
  }
}

void Prompt::tool_calls(const dom::element& calls) {
  dom::array list;
  if (calls.get(list) != simdjson::SUCCESS) return;
  for (const dom::element call : list) {
    mark("tool_call");
    for (const std::string_view name : {"function", "custom"}) {
      if (dom::object function; last_of(call, name).get(function) == simdjson::SUCCESS) {
        function_call(function);
      }
    }
  }
}

void Prompt::message(const dom::object& message) {
  mark(string_of(last_of(message, "role")));
  text(string_of(last_of(message, "name")));
  dom::element member;
  // Reasoning that a caller sends back; the plain text and the list of details hold the same.
  bool reasoning_seen = false;
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    const std::string_view reasoning = string_of(last_of(message, name));
    if (reasoning.empty() || reasoning_seen) continue;
    text(reasoning);
    reasoning_seen = true;
  }
  if (!reasoning_seen && last_of(message, "reasoning_details").get(member) == simdjson::SUCCESS) {
    loose(member);
  }
  if (last_of(message, "content").get(member) == simdjson::SUCCESS) content(member);
  text(string_of(last_of(message, "refusal")));
  if (last_of(message, "tool_calls").get(member) == simdjson::SUCCESS) tool_calls(member);
  if (dom::object call; last_of(message, "function_call").get(call) == simdjson::SUCCESS) {
    function_call(call);
  }
}

// The fields of a body that are read; of one that is there twice the last, as providers do.
struct Fields {
  std::optional<dom::element> model;
  std::optional<dom::element> stream;
  std::optional<dom::element> stream_options;
  std::optional<dom::element> messages;
  std::optional<dom::element> system;
  std::optional<dom::element> tools;
  std::optional<dom::element> functions;
  std::optional<dom::element> response_format;
  std::optional<dom::element> output_config;
  std::optional<dom::element> max_tokens;
  std::optional<dom::element> max_completion_tokens;
  std::optional<dom::element> max_output_tokens;
  std::optional<dom::element> max_tokens_to_sample;
  std::optional<dom::element> generation_config;  // Gemini's.

  // Where the field of that name is kept; null for one that is not read.
  std::optional<dom::element>* place(std::string_view name);
};

std::optional<dom::element>* Fields::place(std::string_view name) {
  struct Row {
    std::string_view name;
    std::optional<dom::element> Fields::* field;
  };
  static constexpr std::array<Row, 14> kRows = {
      {{"model", &Fields::model},
       {"stream", &Fields::stream},
       {"stream_options", &Fields::stream_options},
       {"messages", &Fields::messages},
       {"system", &Fields::system},
       {"tools", &Fields::tools},
       {"functions", &Fields::functions},
       {"response_format", &Fields::response_format},
       {"output_config", &Fields::output_config},
       {"max_tokens", &Fields::max_tokens},
       {"max_completion_tokens", &Fields::max_completion_tokens},
       {"max_output_tokens", &Fields::max_output_tokens},
       {"max_tokens_to_sample", &Fields::max_tokens_to_sample},
       {"generationConfig", &Fields::generation_config}}};
  for (const Row& row : kRows) {
    if (row.name == name) return &(this->*row.field);
  }
  return nullptr;
}

Fields fields_of(const dom::object& body) {
  Fields fields;
  for (const auto& [key, value] : body) {
    if (std::optional<dom::element>* place = fields.place(key)) *place = value;
  }
  return fields;
}

std::optional<Tokens> largest_limit(const Fields& fields) {
  std::optional<Tokens> largest;
  const auto consider = [&](const dom::element& value) {
    const std::optional<Tokens> count = count_of(value);
    if (count && (!largest || *count > *largest)) largest = count;
  };
  for (const auto& field : {fields.max_tokens, fields.max_completion_tokens,
                            fields.max_output_tokens, fields.max_tokens_to_sample}) {
    if (field) consider(*field);
  }
  if (dom::element limit;
      fields.generation_config &&
      last_of(*fields.generation_config, "maxOutputTokens").get(limit) == simdjson::SUCCESS) {
    consider(limit);
  }
  return largest;
}

Result<void> read_head(const Fields& fields, RequestFacts& facts) {
  if (fields.model) {
    std::string_view model;
    if (fields.model->get(model) != simdjson::SUCCESS) {
      return fail(Errc::invalid, "\"model\" must be a string");
    }
    facts.model = model;
  }
  if (bool stream = false; fields.stream && fields.stream->get(stream) == simdjson::SUCCESS) {
    facts.stream = stream;
  }
  if (bool include = false;
      fields.stream_options &&
      last_of(*fields.stream_options, "include_usage").get(include) == simdjson::SUCCESS) {
    facts.asks_stream_usage = include;
  }
  facts.max_output = largest_limit(fields);
  return {};
}

// System and first user message; of the OpenAI dialect all messages up to that one.
std::uint64_t conversation_of(Dialect dialect, const Fields& fields, const dom::array& messages) {
  Prompt prompt(dialect, "", 1);
  if (fields.system) prompt.system(*fields.system);
  for (const dom::element element : messages) {
    dom::object message;
    if (element.get(message) != simdjson::SUCCESS) continue;
    const std::string_view role = string_of(last_of(message, "role"));
    const bool user = role != "system" && role != "developer";
    // Anthropic's system role inside the messages follows the first user message in practice.
    if (!user && dialect == Dialect::anthropic_messages) continue;
    prompt.message(message);
    if (user) break;
  }
  return prompt.hash();
}

Result<void> read_chat(Dialect dialect, const Fields& fields, RequestFacts& facts) {
  dom::array messages;
  if (!fields.messages || fields.messages->get(messages) != simdjson::SUCCESS) {
    return fail(Errc::invalid, "\"messages\" must be a list");
  }
  TextHash model_hash;
  model_hash.add(facts.model);
  Prompt prompt(dialect, facts.model, model_hash.value());

  const auto end_block = [&] {
    if (facts.prefix.size() >= kMostBlocks) return;
    facts.prefix.push_back({prompt.hash(), prompt.chars(), prompt.flat_tokens()});
  };

  // The order in which providers lay a prompt out, and with which caches break.
  for (const auto& field : {fields.tools, fields.functions}) {
    if (field) prompt.structured(*field);
  }
  prompt.mark("system");
  if (fields.system) prompt.system(*fields.system);
  for (const auto& field : {fields.response_format, fields.output_config}) {
    if (!field) continue;
    dom::element schema;
    if (last_of(*field, "json_schema").get(schema) == simdjson::SUCCESS ||
        last_of(*field, "format").get(schema) == simdjson::SUCCESS) {
      prompt.structured(schema);
    }
  }
  end_block();

  for (const dom::element element : messages) {
    dom::object message;
    if (element.get(message) != simdjson::SUCCESS) {
      return fail(Errc::invalid, "every one of \"messages\" must be an object");
    }
    prompt.message(message);
    end_block();
  }
  facts.text_chars = prompt.chars();
  facts.flat_tokens = prompt.flat_tokens();
  facts.flat_parts = prompt.flat_parts();
  facts.prompt_hash = prompt.hash();
  facts.conversation_hash = conversation_of(dialect, fields, messages);
  return {};
}

// A shape that is not understood: all of its text, so that a call is paced by its size.
void read_other(const dom::object& body, RequestFacts& facts) {
  Prompt prompt(Dialect::other, facts.model, 2);
  for (const auto& [key, value] : body) {
    if (one_of(key, {"model", "stream", "metadata", "user", "client_metadata", "prompt_cache_key",
                     "safety_identifier", "previous_response_id"})) {
      continue;
    }
    if (key == "tools") {
      prompt.structured(value);
    } else {
      prompt.loose(value);
    }
  }
  facts.text_chars = prompt.chars();
  facts.flat_tokens = prompt.flat_tokens();
  facts.flat_parts = prompt.flat_parts();
  facts.prompt_hash = prompt.hash();
}

}  // namespace

Result<RequestFacts> read_request(Dialect dialect, std::string_view body) {
  if (body.empty()) return fail(Errc::invalid, "the body is empty");
  dom::parser parser;
  dom::element root;
  // Copies once, into a buffer with the room that the parser reads past the end.
  auto error = parser.parse(body.data(), body.size(), true).get(root);
  if (error != simdjson::SUCCESS) {
    // More than this parser takes is not yet wrong: the provider may take it.
    const std::optional<std::string> mended = mend_json(body);
    if (mended) error = parser.parse(mended->data(), mended->size(), true).get(root);
  }
  if (error != simdjson::SUCCESS) {
    return fail(Errc::invalid,
                fmt::format("the body is not valid JSON: {}", simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return fail(Errc::invalid, "the body must be a JSON object");
  }
  const Fields fields = fields_of(object);

  RequestFacts facts;
  if (auto head = read_head(fields, facts); !head) return std::unexpected(head.error());
  if (dialect == Dialect::other) {
    read_other(object, facts);
    return facts;
  }
  if (auto chat = read_chat(dialect, fields, facts); !chat) return std::unexpected(chat.error());
  return facts;
}

}  // namespace hg::wire
