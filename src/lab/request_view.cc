#include "lab/request_view.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.h"
#include "lab/prompt_walker.h"
#include "lab/request_view_more.h"

namespace hg::lab {
namespace {

namespace json = boost::json;

OfferedTool offered_tool(const json::object& object) {
  const json::object* function = object_in(object, "function");  // OpenAI nests it.
  if (function == nullptr) function = &object;
  const json::object* schema = object_in(*function, "input_schema");
  if (schema == nullptr) schema = object_in(*function, "parameters");
  return tool_of(text_of(*function, "name"), schema);
}

// Tool results inside an Anthropic user message; whether there were any.
bool note_tool_results(const json::array& content, PromptWalker& walker) {
  bool any = false;
  for (const json::value& part : content) {
    if (!part.is_object() || text_of(part.get_object(), "type") != "tool_result") continue;
    walker.tool_result(content_text(part.get_object().if_contains("content")));
    any = true;
  }
  return any;
}

void note_message(const json::object& message, PromptWalker& walker) {
  const std::string_view role = text_of(message, "role");
  const json::value* content = message.if_contains("content");
  if (role == "assistant") {
    walker.by_model();
  } else if (role == "tool") {
    walker.tool_result(content_text(content));
  } else if (role == "user") {
    const json::array* parts = array_in(message, "content");
    const bool results = parts != nullptr && note_tool_results(*parts, walker);
    if (!results) walker.by_user(content_text(content));
  }
}

// The schema of a structured answer, where either API has it.
std::string answer_schema(const json::object& request) {
  const json::object* format = object_in(request, "response_format");
  if (format != nullptr) {
    const json::object* named = object_in(*format, "json_schema");
    const json::object* schema = named != nullptr ? object_in(*named, "schema") : nullptr;
    return schema != nullptr ? json::serialize(*schema) : std::string();
  }
  const json::object* output = object_in(request, "output_config");
  format = output != nullptr ? object_in(*output, "format") : object_in(request, "output_format");
  const json::object* schema = format != nullptr ? object_in(*format, "schema") : nullptr;
  return schema != nullptr ? json::serialize(*schema) : std::string();
}

Result<void> view_messages(const json::object& object, PromptWalker& walker, RequestView& view) {
  if (view.model.empty()) return fail(Errc::invalid, "model: Field required");
  const json::array* messages = array_in(object, "messages");
  if (messages == nullptr) return fail(Errc::invalid, "messages: Field required");
  if (messages->empty()) {
    return fail(Errc::invalid, "messages: at least one message is required");
  }
  view.max_output = whole_number(object, "max_tokens");
  if (!view.max_output) view.max_output = whole_number(object, "max_completion_tokens");
  if (const json::object* more = object_in(object, "stream_options")) {
    view.include_usage = is_true(*more, "include_usage");
  }
  view.answer_schema = answer_schema(object);
  if (const json::array* tools = array_in(object, "tools")) {
    for (const json::value& tool : *tools) {
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
  for (const json::value& message : *messages) {
    if (!message.is_object()) return fail(Errc::invalid, "messages: each must be an object");
    note_message(message.get_object(), walker);
    walker.message(message);
  }
  return {};
}

}  // namespace

Tokens count_tokens(std::string_view text, const TokenRule& rule) {
  if (text.empty()) return 0;
  const double unit = static_cast<double>(stable_hash(text, 0x70c5) >> 11) * 0x1p-53;  // [0, 1).
  const double factor = 1.0 + rule.noise * (2.0 * unit - 1.0);
  const double tokens = static_cast<double>(text.size()) / rule.bytes_per_token * factor;
  return std::max<Tokens>(1, static_cast<Tokens>(std::llround(tokens)));
}

Result<RequestView> view_request(Api api, std::string_view body, const TokenRule& rule) {
  json::parse_options options;
  options.max_depth = 256;
  boost::system::error_code parse_ec;
  const json::value root = json::parse(body, parse_ec, {}, options);
  if (parse_ec) return fail(Errc::invalid, "The request body is not valid JSON.");
  if (!root.is_object()) return fail(Errc::invalid, "The request body is not a JSON object.");
  const json::object& object = root.get_object();

  RequestView view;
  view.api = api;
  view.model = text_of(object, "model");
  view.stream = is_true(object, "stream");
  PromptWalker walker(rule, view);
  Result<void> read;
  switch (api) {
    case Api::anthropic_messages:
    case Api::openai_chat: read = view_messages(object, walker, view); break;
    case Api::openai_responses: read = view_responses(object, walker, view); break;
    case Api::gemini_generate: read = view_gemini(object, walker, view); break;
  }
  if (!read) return std::unexpected(read.error());
  return view;
}

}  // namespace hg::lab
