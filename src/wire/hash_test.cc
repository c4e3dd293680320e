#include "wire/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace hg::wire {
namespace {

std::uint64_t hash_of(std::string_view text) {
  TextHash hash;
  hash.add(text);
  return hash.value();
}

// Lengths around the borders of its steps: words, sixteens, the four lanes.
TEST(TextHashTest, EveryByteAndTheLengthCount) {
  for (const std::size_t length : {0U, 1U, 7U, 15U, 16U, 17U, 63U, 64U, 65U, 128U, 200U, 1000U}) {
    std::string text(length, 'a');
    std::set<std::uint64_t> seen = {hash_of(text)};
    for (char& c : text) {
      c = 'b';
      seen.insert(hash_of(text));
      c = 'a';
    }
    seen.insert(hash_of(text + '\0'));
    EXPECT_EQ(seen.size(), length + 2) << length;
  }
}

TEST(TextHashTest, WordsThatChangePlacesCount) {
  const std::string block = "first, second and a third piece ";  // 32 bytes: two steps.
  std::string text = block + std::string(32, 'x') + std::string(64, 'y');
  std::set<std::uint64_t> seen = {hash_of(text)};
  for (std::size_t by = 16; by < text.size(); by += 16) {
    seen.insert(hash_of(text.substr(by) + text.substr(0, by)));
  }
  EXPECT_EQ(seen.size(), text.size() / 16);
}

TEST(TextHashTest, BordersOfPiecesCount) {
  TextHash one;
  one.add("ab");
  one.add("c");
  TextHash other;
  other.add("a");
  other.add("bc");
  EXPECT_NE(one.value(), other.value());
  EXPECT_NE(one.value(), hash_of("abc"));
}

}  // namespace
}  // namespace hg::wire
