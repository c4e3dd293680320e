// json_read.h: small questions to a parsed JSON body: a member's text, the last of two members of
// one name, a declared count.
//
// Pure; a KeptParser is used on the thread that made it. What comes back points into the parser's
// document and lives as long as that.
#pragma once
#include <simdjson.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace hg::wire {

using Found = simdjson::simdjson_result<simdjson::dom::element>;

[[nodiscard]] bool one_of(std::string_view text, std::initializer_list<std::string_view> names);

// The value as text; "" when it is none.
[[nodiscard]] std::string_view string_of(const Found& value);

// The member of that name, of several the last, which is the one that parsers of providers keep.
[[nodiscard]] Found last_of(const simdjson::dom::object& object, std::string_view name);
[[nodiscard]] Found last_of(const simdjson::dom::element& value, std::string_view name);
[[nodiscard]] Found last_of(const Found& value, std::string_view name);

// A parser whose memory is kept from one body to the next of this thread: it needs twelve times the
// body's length, and fresh memory costs more than the reading. What it parsed lives as long as it
// does, also when another is made meanwhile: that one gets memory of its own. Memory that a very
// long body left large is given back at its end.
class KeptParser {
 public:
  KeptParser();
  ~KeptParser();
  KeptParser(const KeptParser&) = delete;
  KeptParser& operator=(const KeptParser&) = delete;

  // `text` needs no padding; it is copied once, into a buffer with the room that is read past it.
  [[nodiscard]] Found parse(std::string_view text);

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
};

// A count that a caller declares: whole, not negative; anything else is not a declaration.
[[nodiscard]] std::optional<Tokens> declared_count(const simdjson::dom::element& value);

}  // namespace hg::wire
