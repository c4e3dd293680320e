// prompt.h: counts and hashes the text of a prompt while a dialect's reader walks its body.
//
// Text counts by its bytes; images, documents and recordings by a flat price; markers for the
// provider, ids, signatures and sealed blobs not at all. Pure; one owner; keeps no view of the
// body.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "wire/dialect.h"
#include "wire/hash.h"

namespace hg::wire {

// The base64 of a data URL; nothing when the text is no data URL.
[[nodiscard]] std::optional<std::string_view> data_url_payload(std::string_view url);

// Counts and hashes prompt text, in the order of the prompt.
class Prompt {
 public:
  Prompt(Dialect dialect, std::string_view model, std::uint64_t seed)
      : dialect_(dialect), model_(model), hash_(seed) {}

  void text(std::string_view piece) {
    chars_ += static_cast<std::int64_t>(piece.size());
    hash_.add(piece);
  }

  // Keeps parts of different kinds apart in the hash; not text.
  void mark(std::string_view name) { hash_.add(name); }

  // A JSON value that the model sees as JSON: tool inputs and schemas, counted without blanks.
  void structured(const simdjson::dom::element& value);

  // A message's content: text, a list of parts, or nothing.
  void content(const simdjson::dom::element& value);

  // A value of unknown shape: all of its text, and its media by their price.
  void loose(const simdjson::dom::element& value);

  // A list of system blocks or one text.
  void system(const simdjson::dom::element& value);

  void message(const simdjson::dom::object& message);

  // One part of a message: text, media, a tool's use or its result.
  void part(const simdjson::dom::object& part);

  // A tool's name and arguments.
  void function_call(const simdjson::dom::object& call);

  // An object of unknown shape, as `loose`.
  void object(const simdjson::dom::object& object);

  // `media_type` as "image/png"; `base64` is "" when the part only names a file, `name` then.
  void media(std::string_view media_type, std::string_view base64, std::string_view name = {});
  void image(std::string_view base64_or_url, bool low_detail);

  [[nodiscard]] std::int64_t chars() const { return chars_; }
  [[nodiscard]] Tokens flat_tokens() const { return flat_tokens_; }
  [[nodiscard]] std::int64_t flat_parts() const { return flat_parts_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_.value(); }

 private:
  void tool_calls(const simdjson::dom::element& calls);
  void source(const simdjson::dom::object& source, std::string_view kind);

  void flat(Tokens tokens, std::string_view identity) {
    flat_tokens_ += tokens;
    ++flat_parts_;
    hash_.add(identity);
  }

  Dialect dialect_;
  std::string_view model_;
  TextHash hash_;
  std::int64_t chars_ = 0;
  Tokens flat_tokens_ = 0;
  std::int64_t flat_parts_ = 0;
};

}  // namespace hg::wire
