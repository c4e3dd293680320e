// Gemini's generateContent: system instruction, tools, and contents made of parts. Both spellings
// of its names are taken: JSON's (inlineData) and the protocol's own (inline_data).
#include <initializer_list>

#include "wire/hash.h"
#include "wire/json_read.h"
#include "wire/request_shapes.h"

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

Found either(const dom::object& object, std::string_view name, std::string_view other) {
  Found found = last_of(object, name);
  return found.error() == simdjson::SUCCESS ? found : last_of(object, other);
}

void call(Prompt& prompt, const dom::object& call, std::string_view values) {
  dom::element member;
  prompt.text(string_of(last_of(call, "name")));
  if (last_of(call, values).get(member) == simdjson::SUCCESS) prompt.structured(member);
}

void parts(Prompt& prompt, const dom::element& list);

void part(Prompt& prompt, const dom::object& part) {
  dom::object object;
  if (std::string_view text; last_of(part, "text").get(text) == simdjson::SUCCESS) {
    prompt.mark("text");
    prompt.text(text);
  } else if (either(part, "inlineData", "inline_data").get(object) == simdjson::SUCCESS) {
    prompt.media(string_of(either(object, "mimeType", "mime_type")),
                 string_of(last_of(object, "data")));
  } else if (either(part, "fileData", "file_data").get(object) == simdjson::SUCCESS) {
    prompt.media(string_of(either(object, "mimeType", "mime_type")), "",
                 string_of(either(object, "fileUri", "file_uri")));
  } else if (either(part, "functionCall", "function_call").get(object) == simdjson::SUCCESS) {
    prompt.mark("call");
    call(prompt, object, "args");
  } else if (either(part, "functionResponse", "function_response").get(object) ==
             simdjson::SUCCESS) {
    prompt.mark("result");
    call(prompt, object, "response");
    if (dom::element inner; last_of(object, "parts").get(inner) == simdjson::SUCCESS) {
      parts(prompt, inner);
    }
  } else {
    prompt.object(part);
  }
}

// A list of parts, one part by itself, or a text.
void parts(Prompt& prompt, const dom::element& list) {
  dom::array array;
  dom::object object;
  if (list.get(array) == simdjson::SUCCESS) {
    for (const dom::element element : array) parts(prompt, element);
  } else if (list.get(object) == simdjson::SUCCESS) {
    part(prompt, object);
  } else {
    prompt.content(list);
  }
}

void content(Prompt& prompt, const dom::element& content) {
  dom::object object;
  dom::element list;
  if (content.get(object) != simdjson::SUCCESS) {
    prompt.content(content);
    return;
  }
  prompt.mark(string_of(last_of(object, "role")));
  if (last_of(object, "parts").get(list) == simdjson::SUCCESS) parts(prompt, list);
}

void head(Prompt& prompt, const dom::object& body) {
  dom::element member;
  if (last_of(body, "tools").get(member) == simdjson::SUCCESS) prompt.structured(member);
  prompt.mark("system");
  if (either(body, "systemInstruction", "system_instruction").get(member) == simdjson::SUCCESS) {
    content(prompt, member);
  }
  dom::object config;
  if (either(body, "generationConfig", "generation_config").get(config) != simdjson::SUCCESS) {
    return;
  }
  for (const std::string_view name : {"responseSchema", "responseJsonSchema"}) {
    if (last_of(config, name).get(member) == simdjson::SUCCESS) prompt.structured(member);
  }
}

bool is_user(const dom::element& content) {
  const std::string_view role = string_of(last_of(content, "role"));
  return role.empty() || role == "user";
}

}  // namespace

Result<void> read_gemini(const dom::object& body, RequestFacts& facts) {
  const Found contents = last_of(body, "contents");
  dom::element sole;
  dom::array list;
  const bool listed = contents.get(list) == simdjson::SUCCESS;
  if (!listed && (contents.get(sole) != simdjson::SUCCESS || sole.is_null())) {
    return fail(Errc::invalid, "\"contents\" must be a list");
  }
  // The cached part is named, not sent.
  if (!string_of(either(body, "cachedContent", "cached_content")).empty()) {
    facts.text_counted = false;
  }
  TextHash model_hash;
  model_hash.add(facts.model);
  Prompt prompt(Dialect::gemini_generate, facts.model, model_hash.value());
  head(prompt, body);
  end_block(prompt, facts);

  Prompt conversation(Dialect::gemini_generate, "", 1);
  head(conversation, body);
  bool user_seen = false;
  const auto take = [&](const dom::element& element) {
    content(prompt, element);
    end_block(prompt, facts);
    if (user_seen) return;
    content(conversation, element);
    user_seen = is_user(element);
  };
  if (listed) {
    for (const dom::element element : list) take(element);
  } else {
    take(sole);
  }
  facts.conversation_hash = conversation.hash();
  end_prompt(prompt, facts);
  return {};
}

}  // namespace hg::wire
