// request_shapes.h: prompts of the shapes that are not a list of chat messages: OpenAI's Responses,
// Gemini's generateContent and Amazon's Converse.
//
// Pure. `facts.model` is set already; the rest of the prompt's facts are filled in. Errc::invalid
// when the body lacks what the dialect demands.
#pragma once
#include <simdjson.h>

#include <cstddef>

#include "base/result.h"
#include "wire/dialect.h"
#include "wire/prompt.h"

namespace hg::wire {

// Prompts of more messages than this keep their hash, but no further prefix blocks: a body of 64
// MiB could hold millions.
inline constexpr std::size_t kMostBlocks = 16'384;

// The prompt up to here is one more block that a later prompt may share.
void end_block(const Prompt& prompt, RequestFacts& facts);
// What the whole prompt came to.
void end_prompt(const Prompt& prompt, RequestFacts& facts);

[[nodiscard]] Result<void> read_responses(const simdjson::dom::object& body, RequestFacts& facts);

[[nodiscard]] Result<void> read_gemini(const simdjson::dom::object& body, RequestFacts& facts);

// Converse is told by its shape, because its dialect has no name here; Nova's own is the same.
[[nodiscard]] bool is_converse(const simdjson::dom::object& body);
void read_converse(const simdjson::dom::object& body, RequestFacts& facts);

}  // namespace hg::wire
