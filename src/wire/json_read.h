// json_read.h: small questions to a parsed JSON body: a member's text, the last of two members of
// one name, a declared count.
//
// Pure. What comes back points into the parser's document and lives as long as that.
#pragma once
#include <simdjson.h>

#include <initializer_list>
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

// A count that a caller declares: whole, not negative; anything else is not a declaration.
[[nodiscard]] std::optional<Tokens> declared_count(const simdjson::dom::element& value);

}  // namespace hg::wire
