// tool_calls.h: a generic step (read this file, replace that text) as a call of a tool that an
// agent offers, whatever it calls that tool and its inputs.
//
// It knows the tools of Claude Code 2.1, OpenCode 1.18, Codex 0.171, Gemini CLI 0.61, Qwen Code
// 0.24, Cline 3.0, Goose 1.37, mini-swe-agent, SWE-agent and OpenHands 1.16, as their requests list
// them. Where an agent has a shell and nothing else, the step becomes a command. Pure; any thread.
#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/request_view.h"
#include "lab/script.h"

namespace hg::lab {

// read, edit, write, bash, finish.
[[nodiscard]] bool is_tool_kind(std::string_view word);
// path, old, new, content, command, result.
[[nodiscard]] bool is_tool_input(std::string_view word);

// Nothing if the agent offers no tool that can do it. `input` has the generic words.
[[nodiscard]] std::optional<ToolCall> kind_tool_call(std::string_view kind,
                                                     const boost::json::object& input,
                                                     const RequestView& request);

// The first of `names` that is offered, with `input` as it is.
[[nodiscard]] std::optional<ToolCall> named_tool_call(const std::vector<std::string>& names,
                                                      const boost::json::object& input,
                                                      const RequestView& request);

// Whether this agent wants a tool call at the end of a task instead of plain text.
[[nodiscard]] bool wants_finish(const RequestView& request);

// A JSON text that follows a schema, as far as object, array, enum and simple types go.
[[nodiscard]] std::string schema_instance(std::string_view schema_json);

}  // namespace hg::lab
