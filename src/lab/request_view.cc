#include "lab/request_view.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.h"

namespace hg::lab {
namespace {

namespace json = boost::json;

// Fields that are addresses or markings rather than text for the model.
bool is_framing(std::string_view key) {
  static constexpr std::array<std::string_view, 11> kKeys = {
      "cache_control", "signature",  "data", "type", "id",           "tool_use_id",
      "tool_call_id",  "media_type", "role", "name", "output_config"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

bool is_picture(const json::object& object) {
  const json::value* type = object.if_contains("type");
  if (type == nullptr || !type->is_string()) return false;
  const std::string_view word = type->get_string();
  return word == "image" || word == "image_url" || word == "document" || word == "input_audio" ||
         word == "file";
}

std::string_view text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return value->get_string();
}

std::optional<Tokens> whole_number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_int64()) return value->get_int64();
  if (value->is_uint64()) return static_cast<Tokens>(value->get_uint64());
  return std::nullopt;
}

// Text of a message's content, or of a tool result's: a string, or an array of parts.
std::string content_text(const json::value* content) {
  if (content == nullptr) return {};
  if (content->is_string()) return std::string(std::string_view(content->get_string()));
  std::string text;
  if (!content->is_array()) return text;
  for (const json::value& part : content->get_array()) {
    if (!part.is_object()) continue;
    const std::string_view piece = text_of(part.get_object(), "text");
    if (piece.empty()) continue;
    if (!text.empty()) text += '\n';
    text += piece;
  }
  return text;
}

// Walks the prompt in order, adding up tokens and chaining the hash of the prefix.
class Walker {
 public:
  Walker(const TokenRule& rule, RequestView& view) : rule_(rule), view_(view) {}

  void text(std::string_view text) {
    view_.prompt_tokens += count_tokens(text, rule_);
    hash_ = stable_hash(text, hash_);
    if (view_.working_directory.empty() && view_.assistant_turns == 0) find_directory(text);
  }

  void value(const json::value& value) {
    if (value.is_string()) {
      text(value.get_string());
    } else if (value.is_array()) {
      for (const json::value& item : value.get_array()) this->value(item);
    } else if (value.is_object()) {
      object(value.get_object());
    }
  }

  void end_block() { view_.prefix.push_back({hash_, view_.prompt_tokens}); }

 private:
  void object(const json::object& object) {
    if (object.contains("cache_control")) view_.cache_marked = true;
    if (is_picture(object)) {
      view_.prompt_tokens += rule_.per_image;
      hash_ = stable_hash(json::serialize(object), hash_);
      return;
    }
    for (const auto& member : object) {
      if (!is_framing(member.key())) value(member.value());
    }
  }

  // "Primary working directory: /path" (Claude Code), "Working directory: /path" (OpenCode).
  void find_directory(std::string_view text) {
    static constexpr std::string_view kLabel = "orking directory: ";
    const std::size_t at = text.find(kLabel);
    if (at == std::string_view::npos) return;
    const std::string_view rest = text.substr(at + kLabel.size());
    const std::string_view path = trim(rest.substr(0, rest.find_first_of("\r\n<")));
    if (path.starts_with('/')) view_.working_directory = path;
  }

  const TokenRule& rule_;
  RequestView& view_;
  std::uint64_t hash_ = 0;
};

OfferedTool offered_tool(const json::object& object) {
  OfferedTool tool;
  const json::object* function = &object;  // OpenAI nests it.
  if (const json::value* nested = object.if_contains("function"); nested && nested->is_object()) {
    function = &nested->get_object();
  }
  tool.name = text_of(*function, "name");
  const json::value* schema = function->if_contains("input_schema");
  if (schema == nullptr) schema = function->if_contains("parameters");
  if (schema == nullptr || !schema->is_object()) return tool;
  const json::value* properties = schema->get_object().if_contains("properties");
  if (properties != nullptr && properties->is_object()) {
    for (const auto& member : properties->get_object()) tool.properties.emplace_back(member.key());
  }
  const json::value* required = schema->get_object().if_contains("required");
  if (required != nullptr && required->is_array()) {
    for (const json::value& name : required->get_array()) {
      if (name.is_string()) tool.required.emplace_back(std::string_view(name.get_string()));
    }
  }
  return tool;
}

// Tool results inside an Anthropic user message.
void note_tool_results(const json::value* content, RequestView& view) {
  if (content == nullptr || !content->is_array()) return;
  for (const json::value& part : content->get_array()) {
    if (!part.is_object() || text_of(part.get_object(), "type") != "tool_result") continue;
    ++view.tool_results;
    view.last_tool_result = content_text(part.get_object().if_contains("content"));
  }
}

void note_message(const json::object& message, RequestView& view) {
  const std::string_view role = text_of(message, "role");
  const json::value* content = message.if_contains("content");
  if (role == "assistant") {
    ++view.assistant_turns;
  } else if (role == "tool") {
    ++view.tool_results;
    view.last_tool_result = content_text(content);
  } else if (role == "user") {
    note_tool_results(content, view);
    if (view.first_user_text.empty()) view.first_user_text = content_text(content);
  }
}

}  // namespace

Tokens count_tokens(std::string_view text, const TokenRule& rule) {
  if (text.empty()) return 0;
  const double unit = static_cast<double>(stable_hash(text, 0x70c5) >> 11) * 0x1p-53;  // [0, 1).
  const double factor = 1.0 + rule.noise * (2.0 * unit - 1.0);
  const double tokens = static_cast<double>(text.size()) / rule.bytes_per_token * factor;
  return std::max<Tokens>(1, static_cast<Tokens>(std::llround(tokens)));
}

Result<RequestView> view_request(wire::Dialect dialect, std::string_view body,
                                 const TokenRule& rule) {
  json::parse_options options;
  options.max_depth = 256;
  boost::system::error_code parse_ec;
  const json::value root = json::parse(body, parse_ec, {}, options);
  if (parse_ec) return fail(Errc::invalid, "The request body is not valid JSON.");
  if (!root.is_object()) return fail(Errc::invalid, "The request body is not a JSON object.");
  const json::object& object = root.get_object();

  RequestView view;
  view.dialect = dialect;
  view.model = text_of(object, "model");
  if (view.model.empty()) return fail(Errc::invalid, "model: Field required");
  const json::value* messages = object.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) {
    return fail(Errc::invalid, "messages: Field required");
  }
  if (messages->get_array().empty()) {
    return fail(Errc::invalid, "messages: at least one message is required");
  }
  if (const json::value* stream = object.if_contains("stream"); stream && stream->is_bool()) {
    view.stream = stream->get_bool();
  }
  view.max_output = whole_number(object, "max_tokens");
  if (!view.max_output) view.max_output = whole_number(object, "max_completion_tokens");
  if (const json::value* more = object.if_contains("stream_options"); more && more->is_object()) {
    const json::value* usage = more->get_object().if_contains("include_usage");
    view.include_usage = usage != nullptr && usage->is_bool() && usage->get_bool();
  }

  Walker walker(rule, view);
  if (const json::value* tools = object.if_contains("tools"); tools && tools->is_array()) {
    for (const json::value& tool : tools->get_array()) {
      if (!tool.is_object()) continue;
      view.tools.push_back(offered_tool(tool.get_object()));
      walker.text(json::serialize(tool));
      if (tool.get_object().contains("cache_control")) view.cache_marked = true;
    }
    walker.end_block();
  }
  if (const json::value* system = object.if_contains("system")) {
    walker.value(*system);
    walker.end_block();
  }
  for (const json::value& message : messages->get_array()) {
    if (!message.is_object()) return fail(Errc::invalid, "messages: each must be an object");
    note_message(message.get_object(), view);
    walker.value(message);
    view.prompt_tokens += rule.per_message;
    walker.end_block();
  }
  return view;
}

}  // namespace hg::lab
