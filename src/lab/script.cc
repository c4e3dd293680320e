#include "lab/script.h"

#include <fmt/core.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

#include "base/text.h"
#include "lab/tool_calls.h"

namespace hg::lab {
namespace {

namespace json = boost::json;

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string replace_variables(std::string_view text,
                              const std::map<std::string, std::string>& variables) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('}', open);
    const auto found = close == std::string_view::npos
                           ? variables.end()
                           : variables.find(std::string(text.substr(open + 1, close - open - 1)));
    if (found == variables.end()) {
      out += '{';
      text.remove_prefix(open + 1);
    } else {
      out += found->second;
      text.remove_prefix(close + 1);
    }
  }
  return out;
}

void replace_in(json::value& value, const std::map<std::string, std::string>& variables) {
  if (value.is_string()) {
    value = replace_variables(std::string_view(value.get_string()), variables);
  } else if (value.is_array()) {
    for (json::value& item : value.get_array()) replace_in(item, variables);
  } else if (value.is_object()) {
    for (auto& member : value.get_object()) replace_in(member.value(), variables);
  }
}

json::value to_json(const toml::node& node) {
  if (const auto* text = node.as_string()) return json::value(text->get());
  if (const auto* number = node.as_integer()) return json::value(number->get());
  if (const auto* number = node.as_floating_point()) return json::value(number->get());
  if (const auto* flag = node.as_boolean()) return json::value(flag->get());
  if (const auto* array = node.as_array()) {
    json::array out;
    for (const toml::node& item : *array) out.push_back(to_json(item));
    return out;
  }
  json::object out;
  if (const auto* table = node.as_table()) {
    for (const auto& [key, value] : *table) out[std::string_view(key.str())] = to_json(value);
  }
  return out;
}

// Reads one script; stops at the first error.
class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

  Result<Script> script(const toml::table& root) {
    static constexpr std::array<std::string_view, 2> kKeys = {"variables", "conversation"};
    Script script;
    if (auto ok = only(root, kKeys); !ok) return std::unexpected(ok.error());
    if (const toml::node* node = root.get("variables")) {
      if (!node->is_table()) return bad(*node, "variables must be a table of texts");
      for (const auto& [key, value] : *node->as_table()) {
        if (!value.is_string()) return bad(value, "a variable must be a text");
        script.variables[std::string(key.str())] = value.as_string()->get();
      }
    }
    const toml::node* node = root.get("conversation");
    if (node == nullptr) return script;
    if (!node->is_array_of_tables()) return bad(*node, "write [[conversation]]");
    for (const toml::node& item : *node->as_array()) {
      Result<ScriptConversation> one = conversation(*item.as_table());
      if (!one) return std::unexpected(one.error());
      script.conversations.push_back(std::move(*one));
    }
    return script;
  }

 private:
  Result<ScriptConversation> conversation(const toml::table& table) {
    static constexpr std::array<std::string_view, 5> kKeys = {"model", "tools", "prompt", "said",
                                                              "turn"};
    ScriptConversation conversation;
    if (auto ok = only(table, kKeys); !ok) return std::unexpected(ok.error());
    if (auto ok = text(table, "model", conversation.model); !ok) return std::unexpected(ok.error());
    if (auto ok = text(table, "prompt", conversation.prompt); !ok) {
      return std::unexpected(ok.error());
    }
    if (const toml::node* said = table.get("said")) {
      if (auto ok = texts(*said, "said", conversation.said); !ok) {
        return std::unexpected(ok.error());
      }
    }
    if (const toml::node* tools = table.get("tools")) {
      if (!tools->is_boolean()) return bad(*tools, "tools must be true or false");
      conversation.tools = tools->as_boolean()->get();
    }
    const toml::node* turns = table.get("turn");
    if (turns == nullptr || !turns->is_array_of_tables()) {
      return bad(table, "a conversation needs at least one [[conversation.turn]]");
    }
    for (const toml::node& item : *turns->as_array()) {
      Result<ScriptTurn> one = turn(*item.as_table());
      if (!one) return std::unexpected(one.error());
      conversation.turns.push_back(std::move(*one));
    }
    return conversation;
  }

  Result<ScriptTurn> turn(const toml::table& table) {
    static constexpr std::array<std::string_view, 3> kKeys = {"text", "expect_result", "call"};
    ScriptTurn turn;
    if (auto ok = only(table, kKeys); !ok) return std::unexpected(ok.error());
    if (auto ok = text(table, "text", turn.text); !ok) return std::unexpected(ok.error());
    if (auto ok = text(table, "expect_result", turn.expect_result); !ok) {
      return std::unexpected(ok.error());
    }
    const toml::node* calls = table.get("call");
    if (calls == nullptr) return turn;
    if (!calls->is_array_of_tables()) return bad(*calls, "write [[conversation.turn.call]]");
    for (const toml::node& item : *calls->as_array()) {
      Result<ScriptCall> one = call(*item.as_table());
      if (!one) return std::unexpected(one.error());
      turn.calls.push_back(std::move(*one));
    }
    return turn;
  }

  Result<ScriptCall> call(const toml::table& table) {
    if (table.contains("name")) return named_call(table);
    ScriptCall call;
    const auto* word = table.get_as<std::string>("use");
    if (word == nullptr) return bad(table, "a call needs `use` or `name`");
    if (!is_tool_kind(word->get())) {
      return bad(*word, "use must be read, edit, write, bash or finish");
    }
    call.kind = word->get();
    json::object input;
    for (const auto& [key, value] : table) {
      if (key == "use") continue;
      const std::string_view name = key.str();
      if (!is_tool_input(name)) {
        return bad(value, "an input is one of path, old, new, content, command, result");
      }
      input[name] = to_json(value);
    }
    call.input_json = json::serialize(input);
    return call;
  }

  Result<ScriptCall> named_call(const toml::table& table) {
    static constexpr std::array<std::string_view, 2> kKeys = {"name", "input"};
    ScriptCall call;
    if (auto ok = only(table, kKeys); !ok) return std::unexpected(ok.error());
    const toml::node& name = *table.get("name");
    if (auto ok = texts(name, "name", call.names); !ok) return std::unexpected(ok.error());
    call.input_json = "{}";
    if (const toml::node* input = table.get("input")) {
      if (!input->is_table()) return bad(*input, "input must be a table");
      call.input_json = json::serialize(to_json(*input));
    }
    return call;
  }

  template <typename Keys>
  Result<void> only(const toml::table& table, const Keys& keys) {
    for (const auto& [key, value] : table) {
      if (contains(keys, key.str())) continue;
      std::string allowed;
      for (const std::string_view name : keys) {
        if (!allowed.empty()) allowed += ", ";
        allowed += name;
      }
      return bad(value, fmt::format("unknown key '{}' (allowed: {})", std::string_view(key.str()),
                                    allowed));
    }
    return {};
  }

  Result<void> text(const toml::table& table, std::string_view key, std::string& into) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return {};
    if (!node->is_string()) return bad(*node, fmt::format("{} must be a text", key));
    into = node->as_string()->get();
    return {};
  }

  // One text or a list of some.
  Result<void> texts(const toml::node& node, std::string_view key, std::vector<std::string>& into) {
    const auto wrong = [&] {
      return bad(node, fmt::format("{} must be a text or a list of texts", key));
    };
    if (const auto* one = node.as_string()) {
      into.push_back(one->get());
    } else if (const auto* many = node.as_array()) {
      for (const toml::node& item : *many) {
        if (!item.is_string()) return wrong();
        into.push_back(item.as_string()->get());
      }
    }
    if (into.empty()) return wrong();
    return {};
  }

  std::unexpected<Error> bad(const toml::node& node, std::string_view what) const {
    return fail(Errc::invalid, fmt::format("{}:{}: {}", file_, node.source().begin.line, what));
  }

  std::string_view file_;
};

Answer mismatch(std::string text) {
  Answer answer;
  answer.text = "The script cannot go on: " + std::move(text);
  answer.mismatch = true;
  return answer;
}

// Which turn a prompt asks for. Where every turn but the last makes calls, the results that came
// back tell: a harness may keep the cut part of an answer as a message of its own and ask again.
std::size_t turn_index(const ScriptConversation& conversation, const RequestView& request) {
  std::size_t answered = static_cast<std::size_t>(request.tool_results);
  std::size_t index = 0;
  while (index + 1 < conversation.turns.size()) {
    const std::size_t calls = conversation.turns[index].calls.size();
    if (calls == 0) return static_cast<std::size_t>(request.assistant_turns);
    if (answered < calls) return index;
    answered -= calls;
    ++index;
  }
  // The last turn's own calls are made once.
  const std::size_t calls = conversation.turns[index].calls.size();
  return calls > 0 && answered >= calls ? index + 1 : index;
}

Answer play(const ScriptConversation& conversation,
            const std::map<std::string, std::string>& variables, const RequestView& request) {
  const std::size_t index = turn_index(conversation, request);
  const bool past_end = index >= conversation.turns.size();
  const ScriptTurn& turn = past_end ? conversation.turns.back() : conversation.turns[index];
  Answer answer;
  answer.text = replace_variables(turn.text, variables);
  if (past_end) return answer;
  const std::string expected = replace_variables(turn.expect_result, variables);
  if (!request.last_tool_result.contains(expected)) {
    return mismatch(fmt::format("the last tool result does not contain '{}', it begins '{}'",
                                expected, request.last_tool_result.substr(0, 300)));
  }
  for (const ScriptCall& call : turn.calls) {
    json::value input = json::parse(call.input_json);  // Serialized by parse_script.
    replace_in(input, variables);
    if (call.kind == "finish" && !wants_finish(request)) continue;
    std::optional<ToolCall> made = call.kind.empty()
                                       ? named_tool_call(call.names, input.get_object(), request)
                                       : kind_tool_call(call.kind, input.get_object(), request);
    if (!made) {
      return mismatch(
          fmt::format("no tool '{}' is offered", call.kind.empty() ? call.names[0] : call.kind));
    }
    answer.calls.push_back(std::move(*made));
  }
  if (!answer.calls.empty()) answer.stop = StopReason::tool_use;
  return answer;
}

bool matches(const ScriptConversation& conversation,
             const std::map<std::string, std::string>& variables, const RequestView& request) {
  if (!glob_matches(conversation.model, request.model)) return false;
  if (conversation.tools && *conversation.tools == request.tools.empty()) return false;
  if (!request.first_user_text.contains(replace_variables(conversation.prompt, variables))) {
    return false;
  }
  return std::ranges::all_of(conversation.said, [&](const std::string& text) {
    return request.all_text.contains(replace_variables(text, variables));
  });
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
    if (glob_matches(rest, text.substr(skipped))) return true;
  }
  return false;
}

Result<Script> parse_script(std::string_view toml_text, std::string_view file) {
  try {
    const toml::table root = toml::parse(toml_text, file);
    return Parser(file).script(root);
  } catch (const toml::parse_error& error) {
    return fail(Errc::invalid,
                fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
}

std::string filler_text(Tokens tokens, const TokenRule& rule) {
  static constexpr std::string_view kSentence =
      "The change keeps the interface as it is, and the tests that name it still hold. ";
  const auto bytes = static_cast<std::size_t>(static_cast<double>(std::max<Tokens>(tokens, 1)) *
                                              rule.bytes_per_token);
  std::string text;
  text.reserve(bytes + kSentence.size());
  while (text.size() < bytes) text += kSentence;
  text.resize(std::max<std::size_t>(bytes, 1));
  return text;
}

Answer answer_for(const Script& script, const RequestView& request, const TokenRule& rule,
                  Tokens default_tokens) {
  std::map<std::string, std::string> variables = script.variables;
  variables.try_emplace("cwd", request.working_directory.empty() ? "." : request.working_directory);
  // A variable may be made of others, {cwd} above all.
  for (auto& [name, value] : variables) value = replace_variables(value, variables);
  for (const ScriptConversation& conversation : script.conversations) {
    if (matches(conversation, variables, request)) return play(conversation, variables, request);
  }
  Answer answer;
  if (!request.answer_schema.empty() && request.tools.empty()) {
    answer.text = schema_instance(request.answer_schema);
    return answer;
  }
  const bool side_call = !script.conversations.empty() && request.tools.empty();
  answer.text = side_call ? "A short title" : filler_text(default_tokens, rule);
  return answer;
}

}  // namespace hg::lab
