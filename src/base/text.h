// text.h: small questions about text that several modules ask. ASCII only, independent of the
// locale.
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hg {

// Without blanks and tabs at both ends (HTTP's optional white space).
[[nodiscard]] std::string_view trim(std::string_view text);

// Equal but for the case of ASCII letters, as HTTP field names are.
[[nodiscard]] bool iequals(std::string_view left, std::string_view right);

[[nodiscard]] std::string to_lower(std::string_view text);

// Line breaks and other control characters as \n, \x1b: a log line stays one line, a terminal stays
// sane.
[[nodiscard]] std::string escape_controls(std::string_view text);

// The whole text as a decimal integer; nothing for signs other than '-', blanks, overflow or a
// rest.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

// 1234567 -> "1,234,567", for people.
[[nodiscard]] std::string with_thousands(std::int64_t number);

// A stable 64-bit hash (FNV-1a finished by a mixer): equal on every machine and in every release.
// Not for secrets: those are hashed with a salt and SHA-256 by their owner.
[[nodiscard]] std::uint64_t stable_hash(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace hg
