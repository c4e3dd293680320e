#include "wire/prompt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "wire/json_read.h"
#include "wire/media.h"

namespace hg::wire {
namespace {

namespace dom = simdjson::dom;

// The first system block of Claude Code; it names the version and the caller and may differ from
// call to call of one conversation.
constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

// How long a number with a fraction or an exponent is, written as short as can be: never longer
// than it stood in the body, which is not kept.
std::int64_t digits_of(double number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(number),
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  if (mark == std::string_view::npos) return 1;
  const std::int64_t digits = mark == 1 ? 1 : static_cast<std::int64_t>(mark) - 1;
  std::int64_t exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), end.ptr, exponent);
  const std::int64_t plain = exponent < 0 ? digits - exponent + 1
                                          : std::max(digits + 1, exponent + 1);
  return std::min(plain, digits + 2) + (std::signbit(number) ? 1 : 0);
}

std::string_view data_url_type(std::string_view url) {
  return url.substr(5, url.find_first_of(";,") - 5);
}

}  // namespace

std::optional<std::string_view> data_url_payload(std::string_view url) {
  constexpr std::size_t kLongestType = 200;
  if (!url.starts_with("data:")) return std::nullopt;
  const std::size_t comma = url.substr(0, kLongestType).find(";base64,");
  if (comma == std::string_view::npos) return std::nullopt;
  return url.substr(comma + 8);
}

void Prompt::structured(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::OBJECT: {
      chars_ += 2;
      hash_.add("{");
      std::int64_t members = 0;
      for (const auto& [key, member] : dom::object(value)) {
        // A marker for the provider, not for the model; it moves from turn to turn.
        if (key == "cache_control") continue;
        text(key);
        chars_ += 3;  // Quotes and colon.
        structured(member);
        ++members;
      }
      chars_ += std::max(members - 1, std::int64_t{0});
      hash_.add("}");
      return;
    }
    case dom::element_type::ARRAY: {
      chars_ += 2;
      hash_.add("[");
      std::int64_t members = 0;
      for (const dom::element member : dom::array(value)) {
        structured(member);
        ++members;
      }
      chars_ += std::max(members - 1, std::int64_t{0});
      hash_.add("]");
      return;
    }
    case dom::element_type::STRING: {
      std::string_view string;
      if (value.get(string) != simdjson::SUCCESS) return;
      if (const auto base64 = data_url_payload(string)) {
        media(data_url_type(string), *base64);
        return;
      }
      chars_ += 2;
      text(string);
      return;
    }
    case dom::element_type::DOUBLE: {
      double number = 0;
      if (value.get(number) != simdjson::SUCCESS) return;
      chars_ += digits_of(number);
      hash_.add(std::bit_cast<std::uint64_t>(number));
      return;
    }
    default:
      // Whole numbers, true, false, null.
      text(simdjson::minify(value));
      return;
  }
}

void Prompt::image(std::string_view base64_or_url, bool low_detail) {
  const auto payload = data_url_payload(base64_or_url);
  flat(image_tokens(dialect_, model_, png_size(payload.value_or(base64_or_url)), low_detail),
       base64_or_url);
}

void Prompt::media(std::string_view media_type, std::string_view base64, std::string_view name) {
  const auto length = static_cast<std::int64_t>(base64.size());
  const std::string_view identity = base64.empty() ? name : base64;
  if (media_type.starts_with("image/")) {
    image(identity, false);
  } else if (media_type.starts_with("audio/") || media_type.starts_with("video/")) {
    flat(audio_tokens(length), identity);
  } else {
    flat(document_tokens(length), identity);
  }
}

// Anthropic's {"type":"base64","media_type":…,"data":…}, {"type":"url",…}, {"type":"file",…},
// {"type":"text","data":…}, {"type":"content","content":…}.
void Prompt::source(const dom::object& source, std::string_view kind) {
  const std::string_view type = string_of(last_of(source, "type"));
  const std::string_view data = string_of(last_of(source, "data"));
  if (type == "text") {
    text(data);
  } else if (type == "content") {
    if (dom::element inner; last_of(source, "content").get(inner) == simdjson::SUCCESS)
      content(inner);
  } else if (kind == "image") {
    image(data.empty() ? string_of(last_of(source, "url")) : data, false);
  } else {
    const std::string_view name = data.empty() ? string_of(last_of(source, "url")) : data;
    flat(document_tokens(static_cast<std::int64_t>(data.size())),
         name.empty() ? string_of(last_of(source, "file_id")) : name);
  }
}

void Prompt::part(const dom::object& part) {
  const std::string_view type = string_of(last_of(part, "type"));
  mark(type);
  dom::element member;
  dom::object object;
  if (type == "text" || type == "input_text" || type == "output_text") {
    text(string_of(last_of(part, "text")));
  } else if (type == "thinking") {
    // Its signature is base64 with an accounting of its own. Mistral's is a list of parts.
    if (last_of(part, "thinking").get(member) == simdjson::SUCCESS) content(member);
  } else if (type == "redacted_thinking") {
    mark(string_of(last_of(part, "data")));
  } else if (one_of(type, {"tool_use", "server_tool_use", "mcp_tool_use"})) {
    text(string_of(last_of(part, "name")));
    if (last_of(part, "input").get(member) == simdjson::SUCCESS) structured(member);
  } else if (type == "tool_result" || type == "mcp_tool_result") {
    if (last_of(part, "content").get(member) == simdjson::SUCCESS) content(member);
  } else if (type == "image" || type == "document") {
    if (last_of(part, "source").get(object) == simdjson::SUCCESS) source(object, type);
    text(string_of(last_of(part, "title")));
    text(string_of(last_of(part, "context")));
  } else if (type == "image_url" || type == "input_image") {
    const auto url = last_of(part, "image_url");
    const bool low = string_of(last_of(part, "detail")) == "low" ||
                     string_of(last_of(url, "detail")) == "low";
    std::string_view address = string_of(last_of(url, "url"));
    if (address.empty()) address = string_of(url);
    image(address, low);
  } else if (type == "input_audio" || type == "audio") {
    const std::string_view data = string_of(last_of(last_of(part, "input_audio"), "data"));
    flat(audio_tokens(static_cast<std::int64_t>(data.size())), data);
  } else if (type == "file" || type == "input_file") {
    std::string_view data = string_of(last_of(last_of(part, "file"), "file_data"));
    if (data.empty()) data = string_of(last_of(part, "file_data"));
    flat(document_tokens(static_cast<std::int64_t>(data.size())), data);
  } else if (type == "refusal") {
    text(string_of(last_of(part, "refusal")));
  } else {
    this->object(part);
  }
}

void Prompt::content(const dom::element& value) {
  if (std::string_view string; value.get(string) == simdjson::SUCCESS) {
    // As one part of type text, for callers that change between the two forms.
    mark("text");
    text(string);
    return;
  }
  dom::array parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    if (!value.is_null()) loose(value);
    return;
  }
  for (const dom::element member : parts) {
    if (dom::object object; member.get(object) == simdjson::SUCCESS) {
      part(object);
    } else {
      loose(member);
    }
  }
}

void Prompt::loose(const dom::element& value) {
  dom::object object;
  dom::array array;
  std::string_view string;
  if (value.get(object) == simdjson::SUCCESS) {
    this->object(object);
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const dom::element member : array) loose(member);
  } else if (value.get(string) == simdjson::SUCCESS) {
    if (const auto base64 = data_url_payload(string)) {
      media(data_url_type(string), *base64);
    } else {
      text(string);
    }
  }
}

void Prompt::object(const dom::object& object) {
  // Anthropic's, Gemini's and Google's other spelling of the type of embedded data.
  std::string_view media_type = string_of(last_of(object, "media_type"));
  if (media_type.empty()) media_type = string_of(last_of(object, "mimeType"));
  if (media_type.empty()) media_type = string_of(last_of(object, "mime_type"));
  const std::string_view data = string_of(last_of(object, "data"));
  if (!media_type.empty() && !data.empty()) {
    media(media_type, data);
    return;
  }
  for (const auto& [key, member] : object) {
    // Markers, names of things and sealed blobs: not text of the prompt.
    if (one_of(key,
               {"cache_control", "type", "id", "tool_use_id", "call_id", "signature",
                "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index"})) {
      continue;
    }
    // Ollama's, as bare base64 beside the text.
    if (dom::array images; key == "images" && member.get(images) == simdjson::SUCCESS) {
      for (const dom::element picture : images) {
        if (std::string_view text; picture.get(text) == simdjson::SUCCESS) {
          image(text, false);
        } else {
          loose(picture);
        }
      }
      continue;
    }
    loose(member);
  }
}

void Prompt::system(const dom::element& value) {
  dom::array blocks;
  if (value.get(blocks) != simdjson::SUCCESS) {
    content(value);
    return;
  }
  for (const dom::element block : blocks) {
    const std::string_view block_text = string_of(last_of(block, "text"));
    if (block_text.starts_with(kBillingBlock)) {
      chars_ += static_cast<std::int64_t>(block_text.size());
      continue;
    }
    if (dom::object object; block.get(object) == simdjson::SUCCESS) {
      part(object);
    } else {
      loose(block);
    }
  }
}

void Prompt::function_call(const dom::object& call) {
  text(string_of(last_of(call, "name")));
  for (const std::string_view name : {"arguments", "input"}) {
    dom::element arguments;
    if (last_of(call, name).get(arguments) != simdjson::SUCCESS) continue;
    if (std::string_view string; arguments.get(string) == simdjson::SUCCESS) {
      text(string);
    } else {
      structured(arguments);
    }
  }
}

void Prompt::tool_calls(const dom::element& calls) {
  dom::array list;
  if (calls.get(list) != simdjson::SUCCESS) return;
  for (const dom::element call : list) {
    mark("tool_call");
    for (const std::string_view name : {"function", "custom"}) {
      if (dom::object function; last_of(call, name).get(function) == simdjson::SUCCESS) {
        function_call(function);
      }
    }
  }
}

void Prompt::message(const dom::object& message) {
  mark(string_of(last_of(message, "role")));
  text(string_of(last_of(message, "name")));
  dom::element member;
  // Reasoning that a caller sends back; the plain text and the list of details hold the same.
  bool reasoning_seen = false;
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    const std::string_view reasoning = string_of(last_of(message, name));
    if (reasoning.empty() || reasoning_seen) continue;
    text(reasoning);
    reasoning_seen = true;
  }
  if (!reasoning_seen && last_of(message, "reasoning_details").get(member) == simdjson::SUCCESS) {
    loose(member);
  }
  if (last_of(message, "content").get(member) == simdjson::SUCCESS) content(member);
  text(string_of(last_of(message, "refusal")));
  if (last_of(message, "tool_calls").get(member) == simdjson::SUCCESS) tool_calls(member);
  if (dom::object call; last_of(message, "function_call").get(call) == simdjson::SUCCESS) {
    function_call(call);
  }
}

}  // namespace hg::wire
