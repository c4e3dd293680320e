#include "lab/request_view_more.h"

#include <boost/json.hpp>

namespace hg::lab {
namespace {

namespace json = boost::json;

// --- OpenAI Responses ---

// A function, a freeform tool, or a namespace of either.
void offer_tool(const json::object& tool, std::string_view space, RequestView& view) {
  const std::string_view type = text_of(tool, "type");
  if (type == "namespace") {
    const json::array* tools = array_in(tool, "tools");
    if (tools == nullptr) return;
    for (const json::value& one : *tools) {
      if (one.is_object()) offer_tool(one.get_object(), text_of(tool, "name"), view);
    }
    return;
  }
  if (type != "function" && type != "custom") return;  // web_search and its like run elsewhere.
  OfferedTool offered = tool_of(text_of(tool, "name"), object_in(tool, "parameters"));
  offered.freeform = type == "custom";
  offered.space = space;
  view.tools.push_back(std::move(offered));
}

void offer_tools(const json::array& tools, PromptWalker& walker, RequestView& view) {
  for (const json::value& tool : tools) {
    if (!tool.is_object()) continue;
    offer_tool(tool.get_object(), "", view);
    walker.text(json::serialize(tool));
  }
  walker.end_block();
}

void note_item(const json::object& item, PromptWalker& walker) {
  const std::string_view type = text_of(item, "type");
  if (type.ends_with("_call_output")) {
    const json::value* output = item.if_contains("output");
    walker.tool_result(content_text(output));
  } else if (type.ends_with("_call") || type == "reasoning") {
    walker.by_model();
  } else if (type.empty() || type == "message") {
    const std::string_view role = text_of(item, "role");
    if (role == "assistant") walker.by_model();
    if (role == "user") walker.by_user(content_text(item.if_contains("content")));
  }
}

// --- Gemini ---

// Either spelling of a member: the API takes both.
const json::object* either_object(const json::object& object, std::string_view camel,
                                  std::string_view snake) {
  const json::object* found = object_in(object, camel);
  return found != nullptr ? found : object_in(object, snake);
}

const json::array* either_array(const json::object& object, std::string_view camel,
                                std::string_view snake) {
  const json::array* found = array_in(object, camel);
  return found != nullptr ? found : array_in(object, snake);
}

void offer_declarations(const json::array& tools, PromptWalker& walker, RequestView& view) {
  for (const json::value& tool : tools) {
    if (!tool.is_object()) continue;
    const json::array* declared = either_array(tool.get_object(), "functionDeclarations",
                                               "function_declarations");
    if (declared == nullptr) continue;
    for (const json::value& one : *declared) {
      if (!one.is_object()) continue;
      const json::object& function = one.get_object();
      const json::object* schema = object_in(function, "parametersJsonSchema");
      if (schema == nullptr) schema = object_in(function, "parameters");
      view.tools.push_back(tool_of(text_of(function, "name"), schema));
      walker.text(json::serialize(one));
    }
  }
  walker.end_block();
}

// What a function answered: the texts below `response`.
std::string response_text(const json::value& value) {
  if (value.is_string()) return std::string(std::string_view(value.get_string()));
  std::string text;
  const auto add = [&text](const json::value& part) {
    const std::string piece = response_text(part);
    if (piece.empty()) return;
    if (!text.empty()) text += '\n';
    text += piece;
  };
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) add(member.value());
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) add(item);
  }
  return text;
}

void note_content(const json::object& content, PromptWalker& walker) {
  if (text_of(content, "role") == "model") {
    walker.by_model();
    return;
  }
  bool results = false;
  const json::array* parts = array_in(content, "parts");
  if (parts == nullptr) return;
  for (const json::value& part : *parts) {
    const json::object* object = part.if_object();
    const json::object* answer = object == nullptr ? nullptr
                                                   : either_object(*object, "functionResponse",
                                                                   "function_response");
    if (answer == nullptr) continue;
    const json::value* response = answer->if_contains("response");
    walker.tool_result(response != nullptr ? response_text(*response) : std::string());
    results = true;
  }
  if (!results) walker.by_user(content_text(content.if_contains("parts")));
}

}  // namespace

Result<void> view_responses(const json::object& request, PromptWalker& walker, RequestView& view) {
  if (view.model.empty()) {
    return fail(Errc::invalid, "Missing required parameter: 'model'.");
  }
  view.max_output = whole_number(request, "max_output_tokens");
  view.include_usage = true;
  if (const json::value* generate = request.if_contains("generate")) {
    view.generates = !generate->is_bool() || generate->get_bool();
  }
  if (const json::object* text = object_in(request, "text")) {
    const json::object* format = object_in(*text, "format");
    const json::object* schema = format != nullptr ? object_in(*format, "schema") : nullptr;
    if (schema != nullptr) view.answer_schema = json::serialize(*schema);
  }
  if (const json::array* tools = array_in(request, "tools")) offer_tools(*tools, walker, view);
  if (const std::string_view instructions = text_of(request, "instructions");
      !instructions.empty()) {
    walker.text(instructions);
    walker.end_block();
  }
  const json::value* input = request.if_contains("input");
  if (input == nullptr) {
    return fail(Errc::invalid, "Missing required parameter: 'input'.");
  }
  if (input->is_string()) {
    walker.by_user(std::string(std::string_view(input->get_string())));
    walker.message(*input);
    return {};
  }
  if (!input->is_array()) {
    return fail(Errc::invalid, "Invalid type for 'input': expected a string or an array.");
  }
  for (const json::value& item : input->get_array()) {
    if (!item.is_object()) return fail(Errc::invalid, "Invalid type for 'input[]'.");
    if (text_of(item.get_object(), "type") == "additional_tools") {  // As Codex gives its own.
      if (const json::array* tools = array_in(item.get_object(), "tools")) {
        offer_tools(*tools, walker, view);
      }
      continue;
    }
    note_item(item.get_object(), walker);
    walker.message(item);
  }
  return {};
}

Result<void> view_gemini(const json::object& request, PromptWalker& walker, RequestView& view) {
  // countTokens may wrap the request.
  if (const json::object* whole = object_in(request, "generateContentRequest")) {
    return view_gemini(*whole, walker, view);
  }
  view.include_usage = true;
  if (const json::object* config = either_object(request, "generationConfig",
                                                 "generation_config")) {
    view.max_output = whole_number(*config, "maxOutputTokens");
    const json::object* schema = object_in(*config, "responseJsonSchema");
    if (schema == nullptr) schema = object_in(*config, "responseSchema");
    if (schema != nullptr) view.answer_schema = json::serialize(*schema);
  }
  if (const json::array* tools = array_in(request, "tools")) {
    offer_declarations(*tools, walker, view);
  }
  if (const json::object* system = either_object(request, "systemInstruction",
                                                 "system_instruction")) {
    walker.value(*system);
    walker.end_block();
  }
  const json::array* contents = array_in(request, "contents");
  if (contents == nullptr || contents->empty()) {
    return fail(Errc::invalid, "* GenerateContentRequest.contents: contents is not specified");
  }
  for (const json::value& content : *contents) {
    if (!content.is_object()) {
      return fail(Errc::invalid, "Invalid value at 'contents' (type: Content)");
    }
    note_content(content.get_object(), walker);
    walker.message(content);
  }
  return {};
}

}  // namespace hg::lab
