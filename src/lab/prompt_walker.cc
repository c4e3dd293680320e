#include "lab/prompt_walker.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/text.h"

namespace hg::lab {
namespace {

namespace json = boost::json;

// Fields that are addresses or markings rather than text for the model.
bool is_framing(std::string_view key) {
  static constexpr std::array<std::string_view, 17> kKeys = {
      "cache_control",     "signature",  "data",   "type",      "id",           "tool_use_id",
      "tool_call_id",      "media_type", "role",   "name",      "call_id",      "thoughtSignature",
      "encrypted_content", "mimeType",   "status", "namespace", "output_config"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

bool is_picture(const json::object& object) {
  if (object.contains("inlineData") || object.contains("fileData")) return true;
  const std::string_view word = text_of(object, "type");
  return word == "image" || word == "image_url" || word == "document" || word == "input_audio" ||
         word == "file" || word == "input_image" || word == "input_file";
}

ListInput list_input(std::string_view name, const json::object& schema) {
  ListInput list;
  list.name = name;
  const json::object* items = object_in(schema, "items");
  const json::object* fields = items != nullptr ? object_in(*items, "properties") : nullptr;
  if (fields == nullptr) return list;
  for (const auto& member : *fields) list.fields.emplace_back(member.key());
  return list;
}

}  // namespace

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

const json::array* array_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_array();
}

const json::object* object_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

bool is_true(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

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

OfferedTool tool_of(std::string_view name, const json::object* schema) {
  OfferedTool tool;
  tool.name = name;
  if (schema == nullptr) return tool;
  if (const json::object* properties = object_in(*schema, "properties")) {
    for (const auto& member : *properties) {
      tool.properties.emplace_back(member.key());
      const json::object* property = member.value().if_object();
      if (property == nullptr) continue;
      if (text_of(*property, "type") == "array") {
        tool.lists.push_back(list_input(member.key(), *property));
      }
      const json::array* choices = array_in(*property, "enum");
      if (choices != nullptr && !choices->empty() && choices->front().is_string()) {
        tool.choices.push_back(
            {std::string(member.key()), std::string(choices->front().get_string())});
      }
    }
  }
  if (const json::array* required = array_in(*schema, "required")) {
    for (const json::value& one : *required) {
      if (one.is_string()) tool.required.emplace_back(std::string_view(one.get_string()));
    }
  }
  return tool;
}

void PromptWalker::text(std::string_view text) {
  view_.prompt_tokens += count_tokens(text, rule_);
  hash_ = stable_hash(text, hash_);
  view_.all_text += text;
  view_.all_text += '\n';
  if (view_.assistant_turns > 0) return;
  if (view_.working_directory.empty()) find_directory(text);
}

void PromptWalker::value(const json::value& value) {
  if (value.is_string()) {
    text(value.get_string());
  } else if (value.is_array()) {
    for (const json::value& item : value.get_array()) this->value(item);
  } else if (value.is_object()) {
    object(value.get_object());
  }
}

void PromptWalker::message(const json::value& message) {
  value(message);
  view_.prompt_tokens += rule_.per_message;
  end_block();
}

void PromptWalker::by_model() {
  if (!model_speaks_) ++view_.assistant_turns;
  model_speaks_ = true;
}

void PromptWalker::by_user(const std::string& text) {
  model_speaks_ = false;
  if (text.empty()) return;
  if (view_.assistant_turns > 0) {
    if (view_.tools.empty()) view_.last_tool_result = text;
    return;
  }
  if (!view_.first_user_text.empty()) view_.first_user_text += '\n';
  view_.first_user_text += text;
}

void PromptWalker::tool_result(std::string text) {
  model_speaks_ = false;
  ++view_.tool_results;
  view_.last_tool_result = std::move(text);
}

void PromptWalker::object(const json::object& object) {
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

// "Primary working directory: /path" (Claude Code), "Working directory: /path" (OpenCode),
// "<cwd>/path</cwd>" (Codex), "directory: /path" or a list of them (Gemini and Qwen CLI), "working
// directory is: /path" (OpenHands, in a tool's description: escaped).
void PromptWalker::find_directory(std::string_view text) {
  for (const std::string_view label :
       {"orking directory: ", "<cwd>", "orkspace Directories:**\n  - ",
        "orking in the directory: ", "orking in directory: ", "orking Directory (",
        "orking directory is: ", "irectory: ", "\"cwd\": \"", "CWD: "}) {
    const std::size_t at = text.find(label);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = text.substr(at + label.size());
    const std::string_view path = trim(rest.substr(0, rest.find_first_of("\r\n<)\"`\\")));
    if (!path.starts_with('/')) continue;
    view_.working_directory = path;
    return;
  }
}

}  // namespace hg::lab
