// string_map.h: a hash map by string that is asked with string_view and makes no copy for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hg::gate {

struct StringHash {
  using is_transparent = void;
  // Eight bytes a step, in place: std::hash is a call into the library, and every operation of a
  // pool looks up several names and ids.
  std::size_t operator()(std::string_view text) const {
    std::uint64_t state = text.size() * kOdd;
    while (text.size() >= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), sizeof word);
      state = mix(state ^ word);
      text.remove_prefix(sizeof word);
    }
    std::uint64_t rest = 0;
    if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
    return mix(state ^ rest);
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  static std::uint64_t mix(std::uint64_t word) {
    word *= kOdd;
    return word ^ (word >> 32U);
  }
};

template <typename T>  // A template because ids, aliases and shims are keys of different things.
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

}  // namespace hg::gate
