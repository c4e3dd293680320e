#include "wire/json_read.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::wire {
namespace {

std::string body_of(std::size_t bytes, char filling) {
  return R"({"text":")" + std::string(bytes, filling) + "\"}";
}

// Lengths whose memory is kept, and whose memory is given back.
TEST(KeptParserTest, WhatItParsedOutlivesOthersMadeMeanwhile) {
  for (const std::size_t bytes : {100U, 100'000U, 700'000U}) {
    KeptParser outer;
    simdjson::dom::element root;
    ASSERT_EQ(outer.parse(body_of(bytes, 'a')).get(root), simdjson::SUCCESS);
    for (const std::size_t inner_bytes : {50U, 700'000U}) {
      KeptParser inner;
      simdjson::dom::element other;
      ASSERT_EQ(inner.parse(body_of(inner_bytes, 'b')).get(other), simdjson::SUCCESS);
      EXPECT_EQ(string_of(last_of(other, "text")), std::string(inner_bytes, 'b'));
    }
    EXPECT_EQ(string_of(last_of(root, "text")), std::string(bytes, 'a'));
  }
}

}  // namespace
}  // namespace hg::wire
