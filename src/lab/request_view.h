// request_view.h: what the emulated provider sees in a request, read by eyes of its own.
//
// It counts prompt tokens by a rule that the gate does not know (hidden characters per token, noise
// by content), so that estimates are honestly off, and it shares no code with wire/, so that the
// two check each other. Prompt text is decoded JSON; images and documents have a flat price.
// Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "sim/model_provider.h"
#include "wire/dialect.h"

namespace hg::lab {

// How this provider's tokenizer behaves. 4.3 bytes a token is what o200k measures on the bodies of
// coding agents (4.2 to 4.7); profiles start at 4.89, so first estimates are some 12 % short.
struct TokenRule {
  double bytes_per_token = 4.3;  // > 0.
  double noise = 0.05;           // Each text differs by up to this fraction, by its hash.
  Tokens per_message = 4;        // Framing of a message.
  Tokens per_image = 1500;       // Flat, whatever its base64 length.
};

// A tool that the agent offers to the model.
struct OfferedTool {
  std::string name;
  std::vector<std::string> properties;  // Names of its inputs.
  std::vector<std::string> required;
};

struct RequestView {
  wire::Dialect dialect = wire::Dialect::other;
  std::string model;
  bool stream = false;
  bool include_usage = false;        // OpenAI: stream_options.include_usage.
  std::optional<Tokens> max_output;  // max_tokens, max_completion_tokens.
  std::vector<OfferedTool> tools;
  Tokens prompt_tokens = 0;
  std::vector<sim::PromptBlock> prefix;  // Tools, system, then one block a message.
  bool cache_marked = false;             // Anthropic: some block carries cache_control.
  int assistant_turns = 0;  // Messages by the model in the prompt: how far this conversation is.
  int tool_results = 0;
  std::string first_user_text;    // All text of the first user message.
  std::string last_tool_result;   // Text of the latest tool result; "" if there is none.
  std::string working_directory;  // What the agent told the model that it is; "" if it did not.
};

// Tokens of one text.
[[nodiscard]] Tokens count_tokens(std::string_view text, const TokenRule& rule);

// Errc::invalid with a message as a provider would give it. `dialect` is one of the two known.
[[nodiscard]] Result<RequestView> view_request(wire::Dialect dialect, std::string_view body,
                                               const TokenRule& rule);

}  // namespace hg::lab
