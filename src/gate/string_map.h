// string_map.h: a hash map by string that is asked with string_view and makes no copy for it.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hg::gate {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

template <typename T>  // A template because ids, aliases and shims are keys of different things.
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

}  // namespace hg::gate
