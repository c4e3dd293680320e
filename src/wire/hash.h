// hash.h: a fast 64-bit hash over text that comes in pieces, for prompts of megabytes.
//
// The value depends on the pieces' borders as well as on their bytes: ("ab", "c") and ("a", "bc")
// differ. Equal on machines of one byte order; kept in memory only, never stored or sent. Not for
// secrets. Pure; a value type.
#pragma once
#include <cstdint>
#include <string_view>

namespace hg::wire {

class TextHash {
 public:
  explicit TextHash(std::uint64_t seed = 0) : state_(seed ^ 0x9E3779B97F4A7C15U) {}

  void add(std::string_view piece);
  void add(std::uint64_t number);

  // Of all that was added up to now; adding may go on.
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::uint64_t state_;
};

}  // namespace hg::wire
