// config_values.h: single values of the configuration, from text to number, each with its range.
//
// A Raw is a value before it has a meaning, from a file or from text; the put_ functions store it
// if it is possible and answer whether it was. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/time.h"

namespace hg::cli {

struct Raw {
  enum class Type : std::uint8_t { text, number, boolean, other, any };
  // any: from a flag or a variable.
  Type type = Type::any;
  std::string text;
};

// Whole numbers, also "200_000" and "200,000"; low and high included.
[[nodiscard]] std::optional<std::int64_t> read_integer(const Raw& raw, std::int64_t low,
                                                       std::int64_t high);

// A decimal number in millionths, rounded: "2.5" is 2'500'000. Bounds in millionths.
[[nodiscard]] std::optional<std::int64_t> read_millionths(const Raw& raw, std::int64_t low,
                                                          std::int64_t high);

[[nodiscard]] std::optional<Micros> read_duration(const Raw& raw, Micros low, Micros high);
[[nodiscard]] std::optional<std::int64_t> read_bytes(const Raw& raw, std::int64_t low,
                                                     std::int64_t high);
[[nodiscard]] std::optional<std::string> read_text(const Raw& raw);

// http(s)://host[:port][/path]; no user, query or fragment.
[[nodiscard]] std::optional<std::string> read_url(const Raw& raw);

[[nodiscard]] std::optional<bool> read_bool(const Raw& raw);
[[nodiscard]] std::optional<LogLevel> read_level(const Raw& raw);

// Stores what was read, if it was.
template <typename From, typename To>
[[nodiscard]] bool put(const std::optional<From>& value, To& target) {
  if (value) target = *value;
  return value.has_value();
}

// How far two words are apart, in edits: for "did you mean".
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

// A name of a pool or upstream: letters, digits, '-' and '_', at most 64.
[[nodiscard]] bool is_name(std::string_view text);

// Lower case, with '_' for '-': as names look in the names of variables.
[[nodiscard]] std::string loose_name(std::string_view name);

}  // namespace hg::cli
