#include "base/json_text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

namespace hg {
namespace {

namespace json = boost::json;

TEST(JsonTextTest, NumbersHaveNoExponent) {
  const std::pair<double, const char*> rows[] = {
      {0.93, "0.93"},
      {2.0, "2"},
      {-0.25, "-0.25"},
      {0.0000005, "0.0000005"},
      {0, "0"},
      {1e-12, "0"},
      {123456.5, "123456.5"},
      {1e20, "100000000000000000000"},
      {0.1, "0.1"},
      {-1e-12, "0"},
      {std::numeric_limits<double>::quiet_NaN(), "null"}};
  for (const auto& [number, text] : rows) EXPECT_EQ(json_text(number), text);
}

TEST(JsonTextTest, EverythingElseIsAsBoostWritesIt) {
  const char* text = R"({"a":[1,-2,true,null,"q\"\n\u0001ü"],"b":{},"c":[],"d\"":{"e":1.5}})";
  EXPECT_EQ(json_text(json::parse(text)), text);
}

TEST(JsonTextTest, WhatIsWrittenReadsBackTheSame) {
  for (const double number : {1.0 / 3, 2.5e-5, 98765.4321, 1.7976931348623157e15}) {
    EXPECT_EQ(json::parse(json_text(number)).to_number<double>(), number);
  }
}

}  // namespace
}  // namespace hg
