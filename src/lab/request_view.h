// request_view.h: what the emulated provider sees in a request, read by eyes of its own.
//
// It counts prompt tokens by a rule that the gate does not know (hidden characters per token, noise
// by content), so that estimates are honestly off, and it shares no code with wire/, so that the
// two check each other. Prompt text is decoded JSON; images and documents have a flat price.
// request_view.cc reads the two APIs made of messages, request_view_more.cc the other two.
// Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lab/api.h"
#include "sim/model_provider.h"

namespace hg::lab {

// How this provider's tokenizer behaves. 4.3 bytes a token is what o200k measures on the bodies of
// coding agents (4.2 to 4.7); profiles start at 4.89, so first estimates are some 12 % short.
struct TokenRule {
  double bytes_per_token = 4.3;  // > 0.
  double noise = 0.05;           // Each text differs by up to this fraction, by its hash.
  Tokens per_message = 4;        // Framing of a message.
  Tokens per_image = 1500;       // Flat, whatever its base64 length.
};

// An input that is an array: of texts, or of objects with these fields.
struct ListInput {
  std::string name;
  std::vector<std::string> fields;
};

// An input that takes one of a few words, and the first of them.
struct ChoiceInput {
  std::string name;
  std::string first;
};

// A tool that the agent offers to the model.
struct OfferedTool {
  std::string name;
  std::vector<std::string> properties;  // Names of its inputs.
  std::vector<std::string> required;
  std::vector<ListInput> lists = {};      // Of the properties: those that are arrays.
  std::vector<ChoiceInput> choices = {};  // Of the properties: those with an enum of texts.
  bool freeform = false;                  // Responses: takes text instead of JSON.
  std::string space = {};  // Responses: the namespace that it stands in; "" for none.
};

struct RequestView {
  Api api = Api::openai_chat;
  std::string model;
  bool stream = false;
  bool event_stream = true;          // Gemini streams an array unless asked for events.
  bool include_usage = false;        // OpenAI: stream_options.include_usage.
  std::optional<Tokens> max_output;  // max_tokens, max_completion_tokens, max_output_tokens,
                                     // maxOutputTokens.
  bool generates = true;             // Responses: false for a prewarm (`generate`: false).
  std::string answer_schema;         // A JSON schema that the answer must follow; "" for none.
  std::vector<OfferedTool> tools;
  Tokens prompt_tokens = 0;
  std::vector<sim::PromptBlock> prefix;  // Tools, system, then one block a message.
  bool cache_marked = false;             // Anthropic: some block carries cache_control.
  int assistant_turns = 0;  // Messages by the model in the prompt: how far this conversation is.
  int tool_results = 0;
  std::string first_user_text;    // All that the user said before the model did.
  std::string last_tool_result;   // Text of the latest tool result, or, where no tools are
                                  // offered, of what the user said after the model; "": none.
  std::string working_directory;  // What the agent told the model that it is; "" if it did not.
  std::string all_text;           // Of the whole prompt, in order.
};

// Tokens of one text.
[[nodiscard]] Tokens count_tokens(std::string_view text, const TokenRule& rule);

// Errc::invalid with a message as a provider would give it. What Gemini says in the path (model,
// stream) is the caller's to add.
[[nodiscard]] Result<RequestView> view_request(Api api, std::string_view body,
                                               const TokenRule& rule);

}  // namespace hg::lab
