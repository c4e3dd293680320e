#include "wire/output_shapes.h"

#include "wire/json_read.h"

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

// Bytes of text anywhere inside; ids, types and signatures are not text.
std::int64_t text_bytes(const dom::element& value) {
  dom::object object;
  dom::array array;
  std::string_view text;
  std::int64_t sum = 0;
  if (value.get(text) == simdjson::SUCCESS) {
    sum = static_cast<std::int64_t>(text.size());
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const dom::element member : array) sum += text_bytes(member);
  } else if (value.get(object) == simdjson::SUCCESS) {
    for (const auto& [key, member] : object) {
      if (one_of(key, {"type", "id", "signature", "role", "data", "format", "encrypted_content",
                       "tool_use_id", "call_id", "status", "toolUseId", "thoughtSignature"})) {
        continue;
      }
      sum += text_bytes(member);
    }
  }
  return sum;
}

std::int64_t text_bytes(const Found& value) {
  dom::element element;
  return value.get(element) == simdjson::SUCCESS ? text_bytes(element) : 0;
}

void add(OutputFacts& facts, std::int64_t chars) {
  if (chars <= 0) return;
  facts.chars += chars;
  facts.seen = true;
}

bool there(const Found& value) {
  dom::element element;
  return value.get(element) == simdjson::SUCCESS && !element.is_null();
}

OutputFacts of_anthropic(const dom::object& object, Whole whole) {
  OutputFacts facts;
  const std::string_view type = string_of(object["type"]);
  if (type == "message_stop") {
    facts.complete = true;
  } else if (type == "content_block_delta") {
    // Citations and signatures are deltas too, but not generated text.
    const Found delta = object["delta"];
    add(facts, text_bytes(delta["text"]) + text_bytes(delta["thinking"]) +
                   text_bytes(delta["partial_json"]));
  } else if (type == "content_block_start") {
    const Found block = object["content_block"];
    add(facts,
        text_bytes(block["text"]) + text_bytes(block["thinking"]) + text_bytes(block["name"]));
    if (string_of(block["type"]) == "redacted_thinking") facts.seen = true;
  } else if (type == "message_delta") {
    facts.finish = !string_of(object["delta"]["stop_reason"]).empty();
  } else if (whole == Whole::body) {
    add(facts, text_bytes(object["content"]));
  }
  return facts;
}

void of_choices(const dom::array& choices, OutputFacts& facts) {
  for (const dom::element choice : choices) {
    for (const std::string_view name : {"delta", "message"}) {
      dom::object message;
      if (choice[name].get(message) != simdjson::SUCCESS) continue;
      std::int64_t reasoning = text_bytes(message["reasoning_content"]);
      // OpenRouter sends the same reasoning as text and as details.
      if (reasoning == 0) reasoning = text_bytes(message["reasoning"]);
      if (reasoning == 0) reasoning = text_bytes(message["reasoning_details"]);
      add(facts, reasoning + text_bytes(message["content"]) + text_bytes(message["refusal"]) +
                     text_bytes(message["tool_calls"]) + text_bytes(message["function_call"]));
    }
    add(facts, text_bytes(choice["text"]));
    if (!string_of(choice["finish_reason"]).empty()) facts.finish = true;
  }
}

OutputFacts of_chat(const dom::object& object, Whole whole) {
  OutputFacts facts;
  if (dom::array choices; object["choices"].get(choices) == simdjson::SUCCESS) {
    of_choices(choices, facts);
    return facts;
  }
  // Cohere's own shape: content-delta events, message-end.
  const std::string_view type = string_of(object["type"]);
  if (one_of(type, {"content-delta", "tool-call-delta", "tool-plan-delta"})) {
    add(facts, text_bytes(object["delta"]));
  } else if (type == "message-end") {
    facts.finish = true;
  } else if (whole == Whole::body) {
    add(facts, text_bytes(object["message"]) + text_bytes(object["text"]));
  }
  return facts;
}

OutputFacts of_responses(const dom::object& object, bool before) {
  OutputFacts facts;
  const std::string_view type = string_of(object["type"]);
  if (type.empty()) {
    add(facts, text_bytes(object["output"]));
    return facts;
  }
  if (one_of(type, {"response.completed", "response.incomplete", "response.failed",
                    "response.cancelled"})) {
    facts.complete = true;
    // The whole answer once more; gateways that send no deltas say it here alone.
    if (!before) add(facts, text_bytes(object["response"]["output"]));
  } else if (one_of(type,
                    {"response.audio.delta", "response.image_generation_call.partial_image"})) {
    facts.seen = true;
  } else if (type.ends_with(".delta")) {
    add(facts, text_bytes(object["delta"]));
  } else if (type == "response.output_item.added") {
    add(facts, text_bytes(object["item"]["name"]));
  }
  return facts;
}

OutputFacts of_gemini(dom::object object) {
  OutputFacts facts;
  // The Code Assist API wraps the same.
  if (dom::object inner; object["response"].get(inner) == simdjson::SUCCESS) object = inner;
  // A prompt that is refused outright has no candidates.
  if (!string_of(object["promptFeedback"]["blockReason"]).empty()) facts.finish = true;
  dom::array candidates;
  if (object["candidates"].get(candidates) != simdjson::SUCCESS) return facts;
  for (const dom::element candidate : candidates) {
    if (!string_of(candidate["finishReason"]).empty()) facts.finish = true;
    dom::array parts;
    if (candidate["content"]["parts"].get(parts) != simdjson::SUCCESS) continue;
    for (const dom::element part : parts) {
      add(facts, text_bytes(part["text"]) + text_bytes(part["functionCall"]["name"]) +
                     text_bytes(part["functionCall"]["args"]) +
                     text_bytes(part["executableCode"]["code"]) +
                     text_bytes(part["codeExecutionResult"]["output"]));
      if (there(part["inlineData"]) || there(part["functionCall"])) facts.seen = true;
    }
  }
  return facts;
}

// Amazon's Converse, whose stream names its events outside of the JSON.
OutputFacts of_converse(const dom::object& object, std::string_view event_type) {
  OutputFacts facts;
  if (event_type == "contentBlockDelta") {
    const Found delta = object["delta"];
    add(facts, text_bytes(delta["text"]) + text_bytes(delta["toolUse"]["input"]) +
                   text_bytes(delta["reasoningContent"]["text"]));
    if (there(delta["reasoningContent"])) facts.seen = true;
  } else if (event_type == "contentBlockStart") {
    add(facts, text_bytes(object["start"]["toolUse"]["name"]));
  } else if (event_type == "messageStop") {
    facts.finish = true;
  } else {
    add(facts, text_bytes(object["output"]["message"]["content"]));
  }
  return facts;
}

// A shape is told by its own signs, as far as it shows any.
OutputFacts of_other(const dom::object& object, std::string_view event_type, Whole whole,
                     bool before) {
  const std::string_view type = string_of(object["type"]);
  if (there(object["candidates"]) || there(object["promptFeedback"])) return of_gemini(object);
  if (there(object["choices"]) || type.ends_with("-delta") || type == "message-end") {
    return of_chat(object, whole);
  }
  if (type.starts_with("response.") || string_of(object["object"]) == "response") {
    return of_responses(object, before);
  }
  if (type.starts_with("content_block") || type.starts_with("message_") || type == "message") {
    return of_anthropic(object, whole);
  }
  if (there(object["stopReason"]) || there(object["delta"]) || there(object["start"]) ||
      there(object["output"]["message"])) {
    OutputFacts facts = of_converse(object, event_type);
    if (!facts.seen && type.ends_with(".delta")) add(facts, text_bytes(object["delta"]));
    return facts;
  }
  OutputFacts facts;
  // Writer's stream; Cohere's and llama.cpp's own bodies; Ollama's.
  add(facts, text_bytes(object["value"]) + text_bytes(object["text"]) +
                 text_bytes(object["content"]) + text_bytes(object["message"]) +
                 text_bytes(object["response"]));
  if (bool done = false; object["done"].get(done) == simdjson::SUCCESS && done) facts.finish = true;
  return facts;
}

}  // namespace

OutputFacts output_of(Dialect dialect, const dom::object& object, std::string_view event_type,
                      Whole whole, bool before) {
  switch (dialect) {
    case Dialect::anthropic_messages: return of_anthropic(object, whole);
    case Dialect::openai_chat: return of_chat(object, whole);
    case Dialect::openai_responses: return of_responses(object, before);
    case Dialect::gemini_generate: return of_gemini(object);
    case Dialect::other: return of_other(object, event_type, whole, before);
  }
  return {};
}

}  // namespace hg::wire
