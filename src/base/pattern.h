// pattern.h: the patterns of the files under data/: any run of characters for a star, letters match
// without case.
//
// Linear in both lengths but for repeated stars; bounded by the length of codes and model names.
// Pure.
#pragma once
#include <string_view>

namespace hg {

// The whole text must match.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace hg
