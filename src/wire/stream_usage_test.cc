#include "wire/stream_usage.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

namespace hg::wire {
namespace {

TEST(AskForUsageTest, TheFewestBytesAreChangedInAnyLayout) {
  struct Row {
    const char* why;
    std::string_view body;
    std::string_view wanted;  // "": nothing to change.
  };
  const Row rows[] = {
      {"absent", R"({"stream":true})",
       R"({"stream_options":{"include_usage":true},"stream":true})"},
      {"blanks stay", "\n { \"stream\" : true }\n",
       "\n {\"stream_options\":{\"include_usage\":true}, \"stream\" : true }\n"},
      {"a byte order mark stays", "\xEF\xBB\xBF{\"stream\":true}",
       "\xEF\xBB\xBF{\"stream_options\":{\"include_usage\":true},\"stream\":true}"},
      {"null", R"({"stream_options":null,"stream":true})",
       R"({"stream_options":{"include_usage":true},"stream":true})"},
      {"empty", R"({"stream_options":{ },"stream":true})",
       R"({"stream_options":{"include_usage":true },"stream":true})"},
      {"other options", R"({"stream":true,"stream_options": {"x":[1,{"include_usage":false}]}})",
       R"({"stream":true,"stream_options": {"include_usage":true,"x":[1,{"include_usage":false}]}})"},
      {"said no", R"({"stream":true,"stream_options":{"include_usage" : false , "x":1}})",
       R"({"stream":true,"stream_options":{"include_usage" : true , "x":1}})"},
      {"asks already", R"({"stream":true,"stream_options":{"include_usage":true}})", ""},
      {"no stream", R"({"stream":false})", ""},
      {"no stream named", R"({"messages":[]})", ""},
      {"only inside", R"({"messages":[{"stream":true}]})", ""},
      {"inside a text", R"({"a":"\"stream\":true,\\","stream":true})",
       R"({"stream_options":{"include_usage":true},"a":"\"stream\":true,\\","stream":true})"},
      {"the last of two counts",
       R"({"stream":false,"stream_options":{"include_usage":true},"stream":true,"stream_options":{}})",
       R"({"stream":false,"stream_options":{"include_usage":true},"stream":true,"stream_options":{"include_usage":true}})"},
      {"the last says no", R"({"stream":true,"stream":false})", ""},
      {"no object", R"([{"stream":true}])", ""},
      {"a text for options", R"({"stream":true,"stream_options":"x"})", ""},
      {"cut", R"({"stream":true)", ""},
      {"cut in a text", R"({"stream":true,"a":"b)", ""},
      {"nothing", "", ""},
  };
  for (const Row& row : rows) {
    const auto edit = ask_for_usage(row.body);
    EXPECT_EQ(edit ? apply(*edit, row.body) : "", row.wanted) << row.why;
    if (!edit) continue;
    const std::string changed = apply(*edit, row.body);
    EXPECT_EQ(ask_for_usage(changed), std::nullopt) << row.why << ": once is enough";
  }
}

TEST(AskForUsageTest, ARefusalOfTheFieldIsKnown) {
  EXPECT_TRUE(refuses_stream_options(400, R"({"error":{"message":"Unknown: stream_options"}})"));
  EXPECT_TRUE(refuses_stream_options(422, R"({"loc":["body","stream_options","include_usage"]})"));
  EXPECT_FALSE(refuses_stream_options(400, R"({"error":{"message":"no such model"}})"));
  EXPECT_FALSE(refuses_stream_options(429, "stream_options"));
}

constexpr std::string_view kFirst = R"(data: {"choices":[{"delta":{"content":"a"}}],"usage":null})";
constexpr std::string_view kUsage = R"(data: {"choices":[],"usage":{"prompt_tokens":1}})";

std::string filtered(std::string_view stream, std::size_t step) {
  UsageChunkFilter filter;
  std::string out;
  for (std::size_t at = 0; at < stream.size(); at += step)
    out += filter.feed(stream.substr(at, step));
  return out + filter.finish();
}

TEST(UsageChunkFilterTest, OnlyTheExtraChunkIsTakenOutAtAnyCut) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const auto event = [&](std::string_view text) { return std::string(text) + end + end; };
    const std::string before = ": comment" + end + event(kFirst) + event(": ping") +
                               event("event: x" + end + "data: {\"usage\":7}");
    const std::string after = event("data: [DONE]");
    const std::string stream = before + event(kUsage) + after;
    for (std::size_t step = 1; step <= stream.size(); ++step) {
      EXPECT_EQ(filtered(stream, step), before + after) << step;
    }
  }
}

TEST(UsageChunkFilterTest, WhatIsNoExtraChunkPasses) {
  const std::vector<std::string> events = {
      R"(data: {"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1}})",
      R"(data: {"choices":[],"prompt_filter_results":[]})",
      R"(data: {"choices":[],"usage":null})",
      R"(data: {"error":{"code":429},"usage":{"prompt_tokens":1}})",
      R"(data: "usage")",
      "data: \"usage\" {",
      "data: {\"choices\":[{\"text\":\"" + std::string(70'000, 'x') + "\"}],\"usage\":{}}",
  };
  for (const std::string& event : events) {
    const std::string stream = event + "\n\n" + std::string(kUsage) + "\n\n";
    for (const std::size_t step : {1UZ, 1'000UZ, 100'000UZ}) {
      EXPECT_EQ(filtered(stream, step), event + "\n\n") << event.substr(0, 60);
    }
  }
}

TEST(UsageChunkFilterTest, AnEventGoesOnWhenItEndsAndAnUnfinishedOneAtTheEnd) {
  UsageChunkFilter filter;
  const std::string whole = std::string(kFirst) + "\n\n";
  EXPECT_EQ(filter.feed(whole), whole);
  EXPECT_EQ(filter.feed(": keep-alive\n"), ": keep-alive\n");
  EXPECT_EQ(filter.feed("data: {\"cho"), "");
  EXPECT_EQ(filter.finish(), "data: {\"cho");
  EXPECT_EQ(filtered(std::string(kUsage), 9), "") << "without its blank line";
  EXPECT_EQ(filtered("data: a\r\n\r\n" + std::string(kUsage) + "\r\n\r\n", 1), "data: a\r\n\r\n");
}

}  // namespace
}  // namespace hg::wire
