#include "lab/tool_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <span>

#include "base/text.h"

namespace hg::lab {
namespace {

namespace json = boost::json;
using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 9> kRead = {"Read",
                                                   "read",
                                                   "read_file",
                                                   "view",
                                                   "view_file",
                                                   "read_files",
                                                   "file_editor",
                                                   "str_replace_editor",
                                                   "str_replace_based_edit_tool"};
constexpr std::array<std::string_view, 9> kEdit = {"Edit",
                                                   "edit",
                                                   "replace",
                                                   "str_replace",
                                                   "edit_file",
                                                   "editor",
                                                   "file_editor",
                                                   "str_replace_editor",
                                                   "str_replace_based_edit_tool"};
constexpr std::array<std::string_view, 5> kWrite = {"Write", "write", "write_file", "create_file",
                                                    "create"};
constexpr std::array<std::string_view, 11> kShell = {"Bash",
                                                     "bash",
                                                     "run_shell_command",
                                                     "shell",
                                                     "exec_command",
                                                     "run_commands",
                                                     "execute_command",
                                                     "shell_command",
                                                     "execute_bash",
                                                     "terminal",
                                                     "exec"};
constexpr std::array<std::string_view, 5> kFinish = {"attempt_completion", "submit_and_exit",
                                                     "finish", "submit", "task_complete"};

struct Kind {
  std::string_view word;
  Words names;
};
constexpr std::array<Kind, 5> kKinds = {
    {{"read", kRead}, {"edit", kEdit}, {"write", kWrite}, {"bash", kShell}, {"finish", kFinish}}};

struct Input {
  std::string_view word;
  std::array<std::string_view, 8> names;
};
constexpr std::array<Input, 6> kInputs = {{
    {"path", {"file_path", "filePath", "absolute_path", "path", "filename", "file", "files"}},
    {"old", {"old_string", "oldString", "old_str", "old_text", "search", "old", "find", "before"}},
    {"new",
     {"new_string", "newString", "new_str", "new_text", "replace", "new", "replacement", "after"}},
    {"content", {"content", "contents", "file_text", "text", "body", "data", "value"}},
    {"command", {"command", "cmd", "script", "commands", "code", "bash_command", "input"}},
    {"result", {"result", "message", "summary", "answer", "output", "text", "reason"}},
}};

// What mini-swe-agent waits for in the output of a command.
constexpr std::string_view kMiniFinish = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Words names_of(std::string_view kind) {
  for (const Kind& one : kKinds) {
    if (one.word == kind) return one.names;
  }
  return {};
}

template <typename Names>
const OfferedTool* offered(const std::vector<OfferedTool>& tools, const Names& names) {
  for (const auto& name : names) {
    const auto found = std::ranges::find_if(
        tools, [&name](const OfferedTool& tool) { return tool.name == name; });
    if (found != tools.end()) return &*found;
  }
  return nullptr;
}

// What fills an input that the script says nothing of: one of its own words, or any text.
std::string filler(const OfferedTool& tool, std::string_view name) {
  const auto found = std::ranges::find(tool.choices, name,
                                       [](const ChoiceInput& one) { return one.name; });
  return found != tool.choices.end() ? found->first : "A scripted step";
}

const ListInput* list_named(const OfferedTool& tool, std::string_view name) {
  const auto found = std::ranges::find_if(
      tool.lists, [name](const ListInput& list) { return list.name == name; });
  return found != tool.lists.end() ? &*found : nullptr;
}

// One input under the name and in the form that the tool wants.
void put_input(std::string_view word, const json::value& value, const OfferedTool& tool,
               json::object& into) {
  std::string_view name = word;
  const Input* known = nullptr;
  for (const Input& one : kInputs) {
    if (one.word == word) known = &one;
  }
  if (known != nullptr) {
    const auto found = std::ranges::find_if(
        known->names, [&tool](std::string_view one) { return contains(tool.properties, one); });
    if (found != known->names.end()) name = *found;
  }
  const ListInput* list = list_named(tool, name);
  if (list == nullptr) {
    into[name] = value;
    return;
  }
  if (list->fields.empty()) {
    // An argv (Codex' older shell) or a list of whole commands (Cline).
    into[name] = name == "command" ? json::array{"bash", "-lc", value} : json::array{value};
    return;
  }
  for (const std::string_view field : known != nullptr ? known->names : decltype(Input::names)()) {
    if (!contains(list->fields, field)) continue;
    into[name] = json::array{json::object{{field, value}}};
    return;
  }
  into[name] = json::array{value};
}

// The editors of SWE-agent and OpenHands have one tool with a word for what to do.
void put_editor_command(std::string_view kind, const OfferedTool& tool, json::object& into) {
  if (!contains(tool.properties, "command") || !contains(tool.properties, "old_str")) return;
  into["command"] = kind == "read" ? "view" : "str_replace";
}

json::object inputs_for(std::string_view kind, const json::object& generic,
                        const OfferedTool& tool) {
  json::object input;
  for (const auto& member : generic) put_input(member.key(), member.value(), tool, input);
  put_editor_command(kind, tool, input);
  // Descriptions, instructions: many tools want to be told what they are used for.
  for (const std::string& name : tool.required) {
    if (!input.contains(name) && list_named(tool, name) == nullptr) {
      input[name] = filler(tool, name);
    }
  }
  return input;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      out += "'\\''";
    } else {
      out += letter;
    }
  }
  return out + "'";
}

std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char letter : text) {
    if (special.contains(letter)) out += '\\';
    out += letter;
  }
  return out;
}

// The step as a command line; nothing for a kind that is none.
std::optional<std::string> shell_command(std::string_view kind, const json::object& input) {
  const auto word = [&input](std::string_view name) {
    const json::value* value = input.if_contains(name);
    const bool is_text = value != nullptr && value->is_string();
    return is_text ? std::string(std::string_view(value->get_string())) : std::string();
  };
  if (kind == "bash") return word("command");
  if (kind == "read") return "cat " + quoted(word("path"));
  if (kind == "write") {
    return fmt::format("printf %s {} > {}", quoted(word("content")), quoted(word("path")));
  }
  if (kind == "edit") {
    const std::string sed = fmt::format("s/{}/{}/", escaped(word("old"), R"(\/.*[]^$)"),
                                        escaped(word("new"), R"(\/&)"));
    return fmt::format("sed -i {} {}", quoted(sed), quoted(word("path")));
  }
  if (kind == "finish") return fmt::format("echo {}", kMiniFinish);
  return std::nullopt;
}

ToolCall call_of(const OfferedTool& tool) {
  ToolCall call;
  call.name = tool.name;
  call.space = tool.space;
  call.freeform = tool.freeform;
  return call;
}

// Codex' `exec` takes JavaScript that calls the tools inside.
std::string script_of_command(std::string_view command) {
  return fmt::format("const done = await tools.exec_command({{cmd: {}}});\ntext(done.output);\n",
                     json::serialize(json::string(command)));
}

json::value instance_of(const json::object& schema, int depth) {
  const auto text = [&schema](std::string_view key) {
    const json::value* value = schema.if_contains(key);
    const bool is_text = value != nullptr && value->is_string();
    return is_text ? std::string(std::string_view(value->get_string())) : std::string();
  };
  if (const json::value* one = schema.if_contains("const")) return *one;
  if (const json::value* options = schema.if_contains("enum")) {
    if (options->is_array() && !options->get_array().empty()) return options->get_array()[0];
  }
  std::string type = text("type");
  std::ranges::transform(type, type.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  if (type == "integer" || type == "number") return 10;
  if (type == "boolean") return true;
  if (type == "array") return json::array();
  if (type != "object") return "A short title";
  json::object object;
  const json::value* properties = schema.if_contains("properties");
  if (properties == nullptr || !properties->is_object() || depth > 8) return object;
  for (const auto& member : properties->get_object()) {
    if (!member.value().is_object()) continue;
    object[member.key()] = instance_of(member.value().get_object(), depth + 1);
  }
  return object;
}

}  // namespace

bool is_tool_kind(std::string_view word) { return !names_of(word).empty(); }

bool is_tool_input(std::string_view word) {
  return std::ranges::any_of(kInputs, [word](const Input& one) { return one.word == word; });
}

std::optional<ToolCall> kind_tool_call(std::string_view kind, const json::object& input,
                                       const RequestView& request) {
  const OfferedTool* tool = offered(request.tools, names_of(kind));
  if (tool != nullptr && !tool->freeform) {
    ToolCall call = call_of(*tool);
    call.input_json = json::serialize(inputs_for(kind, input, *tool));
    return call;
  }
  const OfferedTool* shell = offered(request.tools, Words(kShell));
  const std::optional<std::string> command = shell_command(kind, input);
  if (shell == nullptr || !command) return std::nullopt;
  ToolCall call = call_of(*shell);
  if (shell->freeform) {
    call.text = script_of_command(*command);
  } else {
    const json::object generic = {{"command", *command}};
    call.input_json = json::serialize(inputs_for("bash", generic, *shell));
  }
  return call;
}

std::optional<ToolCall> named_tool_call(const std::vector<std::string>& names,
                                        const json::object& input, const RequestView& request) {
  const OfferedTool* tool = offered(request.tools, names);
  if (tool == nullptr) return std::nullopt;
  ToolCall call = call_of(*tool);
  call.input_json = json::serialize(input);
  call.text = call.input_json;
  return call;
}

bool wants_finish(const RequestView& request) {
  if (offered(request.tools, Words(kFinish)) != nullptr) return true;
  return request.all_text.contains(kMiniFinish) && offered(request.tools, Words(kShell)) != nullptr;
}

std::string schema_instance(std::string_view schema_json) {
  boost::system::error_code parse_ec;
  const json::value schema = json::parse(schema_json, parse_ec);
  if (parse_ec || !schema.is_object()) return "{}";
  return json::serialize(instance_of(schema.get_object(), 0));
}

}  // namespace hg::lab
