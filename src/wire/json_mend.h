// json_mend.h: rewrites JSON that is well formed but more than a strict reader takes, so that what
// a provider may accept can be read here too.
//
// Half of a surrogate pair in an escape and bytes that are no UTF-8 become a replacement; numbers
// too large for any type become ones that are not; nesting too deep becomes a text as long as it;
// NaN and Infinity, which Python writes, become zero; a byte order mark goes. What is read out of
// the result is never longer than what stood there. For a side copy only: nothing that is forwarded
// comes from here. Pure; linear in the text, and slower than the reader that it helps: for after
// that one's failure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hg::wire {

// How deep the result may be nested.
inline constexpr std::size_t kMendedDepth = 500;

// Nothing for a text that breaks the grammar: cut short, a comma too many, a raw control character.
[[nodiscard]] std::optional<std::string> mend_json(std::string_view text);

}  // namespace hg::wire
