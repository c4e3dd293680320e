// OpenAI's Responses API: instructions, tools and a list of items.
#include "wire/hash.h"
#include "wire/json_read.h"
#include "wire/request_shapes.h"

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

// Results of tools: a text, a list of parts, or a screenshot.
void tool_output(Prompt& prompt, const Found& output) {
  dom::element value;
  if (output.get(value) != simdjson::SUCCESS) return;
  dom::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    prompt.part(object);
  } else {
    prompt.content(value);
  }
}

void item(Prompt& prompt, const dom::object& item) {
  const std::string_view type = string_of(last_of(item, "type"));
  dom::element member;
  if (type.empty() || type == "message") {
    prompt.message(item);
    return;
  }
  prompt.mark(type);
  if (one_of(type, {"function_call", "custom_tool_call", "mcp_call"})) {
    prompt.function_call(item);
    prompt.text(string_of(last_of(item, "output")));
  } else if (type.ends_with("_call_output")) {
    tool_output(prompt, last_of(item, "output"));
  } else if (type == "reasoning") {
    // What is sealed in encrypted_content has an accounting of its own.
    for (const std::string_view name : {"summary", "content"}) {
      if (last_of(item, name).get(member) == simdjson::SUCCESS) prompt.content(member);
    }
  } else if (type == "additional_tools" || type == "mcp_list_tools") {
    // Codex declares its tools in the first item.
    if (last_of(item, "tools").get(member) == simdjson::SUCCESS) prompt.structured(member);
  } else if (type == "image_generation_call") {
    prompt.image(string_of(last_of(item, "result")), false);
  } else if (type != "item_reference") {
    prompt.object(item);
  }
}

// Whether an item is what the user said first.
bool is_user(const dom::element& element) { return string_of(last_of(element, "role")) == "user"; }

void head(Prompt& prompt, const dom::object& body) {
  dom::element member;
  if (last_of(body, "tools").get(member) == simdjson::SUCCESS) prompt.structured(member);
  prompt.mark("system");
  if (last_of(body, "instructions").get(member) == simdjson::SUCCESS) prompt.content(member);
  if (last_of(last_of(body, "text"), "format").get(member) == simdjson::SUCCESS) {
    if (string_of(last_of(member, "type")) != "text") prompt.structured(member);
  }
  // A stored prompt's variables.
  if (last_of(last_of(body, "prompt"), "variables").get(member) == simdjson::SUCCESS) {
    prompt.loose(member);
  }
}

std::uint64_t conversation_of(const dom::object& body, const dom::array& items) {
  Prompt prompt(Dialect::openai_responses, "", 1);
  head(prompt, body);
  // Several agents in one folder begin with the same words; Codex names its thread here.
  prompt.mark(string_of(last_of(body, "prompt_cache_key")));
  for (const dom::element element : items) {
    dom::object object;
    if (element.get(object) != simdjson::SUCCESS) continue;
    item(prompt, object);
    if (is_user(element)) break;
  }
  return prompt.hash();
}

}  // namespace

Result<void> read_responses(const dom::object& body, RequestFacts& facts) {
  // Codex warms its connection up with a request that generates nothing and costs nothing.
  bool generate = true;
  if (last_of(body, "generate").get(generate) == simdjson::SUCCESS && !generate) {
    facts.max_output = 0;
  }
  // Turns that the provider keeps are part of the prompt, but not of the body.
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"}) {
    dom::element kept;
    if (last_of(body, name).get(kept) == simdjson::SUCCESS && !kept.is_null()) {
      facts.text_counted = false;
    }
  }
  TextHash model_hash;
  model_hash.add(facts.model);
  Prompt prompt(Dialect::openai_responses, facts.model, model_hash.value());
  head(prompt, body);
  end_block(prompt, facts);

  const Found input = last_of(body, "input");
  if (dom::array items; input.get(items) == simdjson::SUCCESS) {
    for (const dom::element element : items) {
      dom::object object;
      if (element.get(object) != simdjson::SUCCESS) {
        return fail(Errc::invalid, "every one of \"input\" must be an object");
      }
      item(prompt, object);
      end_block(prompt, facts);
    }
    facts.conversation_hash = conversation_of(body, items);
  } else if (std::string_view text; input.get(text) == simdjson::SUCCESS) {
    prompt.mark("user");
    prompt.mark("text");
    prompt.text(text);
    end_block(prompt, facts);
    facts.conversation_hash = prompt.hash();
  }
  end_prompt(prompt, facts);
  return {};
}

}  // namespace hg::wire
