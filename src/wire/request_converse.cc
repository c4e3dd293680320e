// Amazon's Converse: system, tools, and messages whose parts are named by their only member
// ({"text":…}, {"image":{…}}, {"toolUse":{…}}) instead of by a type.
#include <string>

#include "wire/json_read.h"
#include "wire/request_shapes.h"

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

void parts(Prompt& prompt, const dom::element& list);

// {"format":"png","source":{"bytes":…}}, or {"s3Location":{"uri":…}}, {"text":…}, {"content":[…]}.
void media(Prompt& prompt, std::string_view kind, const dom::object& media) {
  const std::string_view format = string_of(last_of(media, "format"));
  const auto source = last_of(media, "source");
  prompt.text(string_of(last_of(media, "name")));
  prompt.text(string_of(last_of(media, "context")));
  if (const std::string_view text = string_of(last_of(source, "text")); !text.empty()) {
    prompt.text(text);
  } else if (dom::element inner; last_of(source, "content").get(inner) == simdjson::SUCCESS) {
    parts(prompt, inner);
  } else {
    const std::string type = std::string(kind == "document" ? "application" : kind) + "/" +
                             std::string(format);
    prompt.media(type, string_of(last_of(source, "bytes")),
                 string_of(last_of(last_of(source, "s3Location"), "uri")));
  }
}

void part(Prompt& prompt, const dom::object& part) {
  for (const auto& [kind, value] : part) {
    dom::object object;
    dom::element member;
    prompt.mark(kind);
    if (std::string_view text; kind == "text" && value.get(text) == simdjson::SUCCESS) {
      prompt.text(text);
    } else if (value.get(object) != simdjson::SUCCESS) {
      prompt.loose(value);
    } else if (one_of(kind, {"image", "document", "video", "audio"})) {
      media(prompt, kind, object);
    } else if (kind == "toolUse") {
      prompt.text(string_of(last_of(object, "name")));
      if (last_of(object, "input").get(member) == simdjson::SUCCESS) prompt.structured(member);
    } else if (kind == "toolResult") {
      if (last_of(object, "content").get(member) == simdjson::SUCCESS) parts(prompt, member);
    } else if (kind == "json") {
      prompt.structured(value);
    } else if (kind == "reasoningContent") {
      prompt.text(string_of(last_of(last_of(object, "reasoningText"), "text")));
      prompt.mark(string_of(last_of(object, "redactedContent")));
    } else if (kind != "cachePoint") {
      prompt.object(object);
    }
  }
}

void parts(Prompt& prompt, const dom::element& list) {
  dom::array array;
  if (list.get(array) != simdjson::SUCCESS) {
    prompt.content(list);
    return;
  }
  for (const dom::element element : array) {
    if (dom::object object; element.get(object) == simdjson::SUCCESS) {
      part(prompt, object);
    } else {
      prompt.loose(element);
    }
  }
}

void head(Prompt& prompt, const dom::object& body) {
  dom::element member;
  if (last_of(last_of(body, "toolConfig"), "tools").get(member) == simdjson::SUCCESS) {
    prompt.structured(member);
  }
  prompt.mark("system");
  if (last_of(body, "system").get(member) == simdjson::SUCCESS) parts(prompt, member);
}

void message(Prompt& prompt, const dom::element& message) {
  dom::element content;
  prompt.mark(string_of(last_of(message, "role")));
  if (last_of(message, "content").get(content) == simdjson::SUCCESS) parts(prompt, content);
}

}  // namespace

bool is_converse(const dom::object& body) {
  dom::array messages;
  if (last_of(body, "messages").get(messages) != simdjson::SUCCESS) return false;
  if (body["toolConfig"].error() == simdjson::SUCCESS) return true;
  for (const dom::element element : messages) {
    dom::array content;
    if (last_of(element, "content").get(content) != simdjson::SUCCESS) return false;
    for (const dom::element part : content) {
      dom::object object;
      return part.get(object) == simdjson::SUCCESS && object["type"].error() != simdjson::SUCCESS;
    }
  }
  return body["inferenceConfig"].error() == simdjson::SUCCESS;
}

void read_converse(const dom::object& body, RequestFacts& facts) {
  TextHash model_hash;
  model_hash.add(facts.model);
  Prompt prompt(Dialect::other, facts.model, model_hash.value());
  head(prompt, body);
  end_block(prompt, facts);
  Prompt conversation(Dialect::other, "", 1);
  head(conversation, body);
  bool user_seen = false;
  dom::array messages;
  if (last_of(body, "messages").get(messages) != simdjson::SUCCESS) return;
  for (const dom::element element : messages) {
    message(prompt, element);
    end_block(prompt, facts);
    if (user_seen) continue;
    message(conversation, element);
    user_seen = string_of(last_of(element, "role")) == "user";
  }
  facts.conversation_hash = conversation.hash();
  end_prompt(prompt, facts);
}

}  // namespace hg::wire
