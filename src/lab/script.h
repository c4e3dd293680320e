// script.h: scripted answers, so that a real harness completes a real task against the emulated
// provider: reads a file, edits it, finishes.
//
// A script is a TOML file (example: src/lab/testdata/edit_file.toml):
//
//   [variables]                   # {name} in any text or input is replaced; {cwd} is the directory
//   file = "{cwd}/notes.txt"      # that the agent told the model (or --var cwd=...), else ".".
//
//   [[conversation]]              # The first one whose conditions all hold is used.
//   model = "claude-*"            # A glob over the model's name; default any.
//   tools = true                  # The request offers tools (false: offers none); default either.
//   prompt = "colour"             # What the user said first contains this; default any.
//   said = ["a", "{file}"]        # The whole prompt, system and results too, contains these.
//   [[conversation.turn]]         # Played in order, by the tool results in the prompt (or, where
//   text = "Let me look."         # a turn before the last makes no call, by the model's messages);
//                                 # past the last turn its text is repeated, without calls.
//   [[conversation.turn.call]]
//   use = "read"                  # read, edit, write, bash: the offered tool of that kind, by its
//   path = "{file}"               # known names; inputs named as the offered tool names them. Where
//                                 # only a shell is offered, a command does the same. finish: the
//                                 # tool that ends a task; no call where none is needed.
//   [[conversation.turn]]
//   expect_result = "red"         # The latest result must contain this, else the answer is a
//   [[conversation.turn.call]]    # text that says so, the conversation ends, and it is counted.
//   use = "edit"
//   path = "{file}"
//   old = "red"
//   new = "green"
//   [[conversation.turn]]
//   text = "Done."
//
// A call may name a tool outright instead: `name = ["Glob", "glob"]`, `input = { pattern = "*" }`.
// Stateless: the turn follows from the prompt alone, so a retry gets the same answer. Side calls
// (title generation, no tools offered) that no conversation matches get a short text.
// Pure; an immutable Script may be read from any thread.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lab/request_view.h"

namespace hg::lab {

struct ToolCall {
  std::string name;
  std::string input_json;  // An object.
  std::string text = {};   // For a tool that takes text (`freeform`): this instead.
  bool freeform = false;
  std::string space = {};  // Responses: the tool's namespace; "" for none.
};

enum class StopReason { end_turn, tool_use, max_tokens };

// What the model says.
struct Answer {
  std::string text;
  std::vector<ToolCall> calls;
  StopReason stop = StopReason::end_turn;
  bool mismatch = false;  // The script expected something else; `text` says what.
};

struct ScriptCall {
  std::string kind;                // "read" ...; inputs are generic words then. "": by name.
  std::vector<std::string> names;  // By name: candidates, the first that is offered is called.
  std::string input_json;          // An object, placeholders in its strings.
};

struct ScriptTurn {
  std::string text;
  std::vector<ScriptCall> calls;
  std::string expect_result;
};

struct ScriptConversation {
  std::string model = "*";
  std::optional<bool> tools;
  std::string prompt;
  std::vector<std::string> said;
  std::vector<ScriptTurn> turns;  // At least one.
};

struct Script {
  std::map<std::string, std::string> variables;
  std::vector<ScriptConversation> conversations;
};

// Errc::invalid with file, line and what is allowed. `file` is the name used in errors.
[[nodiscard]] Result<Script> parse_script(std::string_view toml_text, std::string_view file);

// The answer to a request: scripted if a conversation matches, what a schema asks for if it offers
// no tools and has one, a short text for a call that offers no tools while there is a script, else
// filler of `default_tokens` tokens.
[[nodiscard]] Answer answer_for(const Script& script, const RequestView& request,
                                const TokenRule& rule, Tokens default_tokens);

// Words of about `tokens` tokens.
[[nodiscard]] std::string filler_text(Tokens tokens, const TokenRule& rule);

// '*' stands for any run of characters.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace hg::lab
