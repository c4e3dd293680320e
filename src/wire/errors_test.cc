#include "wire/errors.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

namespace hg::wire {
namespace {

namespace json = boost::json;

TEST(ErrorsTest, AnthropicsShapeNamesHeadgate) {
  const json::value body = json::parse(
      error_body(Dialect::anthropic_messages, 429, "hold-cap", "place 3"));
  EXPECT_EQ(body.at("type").as_string(), "error");
  EXPECT_EQ(body.at("error").at("type").as_string(), "rate_limit_error");
  EXPECT_EQ(body.at("error").at("message").as_string(), "Headgate: place 3");
  EXPECT_EQ(body.at("error").at("code").as_string(), "headgate_hold-cap");
}

TEST(ErrorsTest, OpenAisShapeNamesHeadgate) {
  const json::value body = json::parse(
      error_body(Dialect::openai_chat, 400, "bad-request", "not JSON"));
  EXPECT_EQ(body.at("error").at("type").as_string(), "invalid_request_error");
  EXPECT_EQ(body.at("error").at("message").as_string(), "Headgate: not JSON");
  EXPECT_EQ(body.at("error").at("code").as_string(), "headgate_bad-request");
  EXPECT_TRUE(body.at("error").at("param").is_null());
  EXPECT_EQ(json::parse(error_body(Dialect::other, 502, "upstream", "x")).at("error").at("type"),
            "server_error");
}

TEST(ErrorsTest, AnyTextMakesValidJson) {
  const std::string nasty = "a\"b\\c\n\x01\xFF\xE6 {}";
  for (const Dialect dialect : {Dialect::anthropic_messages, Dialect::openai_chat}) {
    for (const int status : {400, 401, 403, 404, 413, 429, 500, 502, 503, 504, 529}) {
      EXPECT_NO_THROW({
        const json::value body = json::parse(error_body(dialect, status, nasty, nasty));
        EXPECT_TRUE(body.at("error").at("message").as_string().starts_with("Headgate: "));
      });
    }
  }
}

}  // namespace
}  // namespace hg::wire
