#include "wire/sse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hg::wire {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

Events parse(const std::vector<std::string_view>& pieces) {
  Events events;
  SseParser parser([&](const SseEvent& event) { events.emplace_back(event.type, event.data); });
  for (const std::string_view piece : pieces) parser.feed(piece);
  parser.finish();
  return events;
}

TEST(SseTest, FollowsTheEventStreamGrammar) {
  struct Row {
    const char* why;
    std::string_view text;
    Events events;
  };
  const Row rows[] = {
      {"LF", "event: a\ndata: 1\n\ndata: 2\n\n", {{"a", "1"}, {"", "2"}}},
      {"CRLF", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", {{"a", "1"}, {"", "2"}}},
      {"CR alone", "event: a\rdata: 1\r\rdata: 2\r\r", {{"a", "1"}, {"", "2"}}},
      {"mixed", "event: a\r\ndata: 1\n\r\ndata: 2\r\n\n", {{"a", "1"}, {"", "2"}}},
      {"LF after a CRLF is an empty line", "data: 1\r\n\ndata: 2\n\n", {{"", "1"}, {"", "2"}}},
      {"the blank after the colon is optional", "data:{}\n\n", {{"", "{}"}}},
      {"only one blank goes", "data:  x\n\n", {{"", " x"}}},
      {"data lines join with LF", "data: {\ndata: }\n\n", {{"", "{\n}"}}},
      {"a field without a colon has an empty value", "data\n\n", {{"", ""}}},
      {"empty data lines count", "data\ndata\n\n", {{"", "\n"}}},
      {"comments do not make events", ": keep-alive\n\n:\n\ndata: 1\n\n", {{"", "1"}}},
      {"a comment inside an event is left out", "data: 1\n: c\ndata: 2\n\n", {{"", "1\n2"}}},
      {"an event without data is none", "event: ping\n\ndata: 1\n\n", {{"", "1"}}},
      {"the type does not last", "event: a\ndata: 1\n\ndata: 2\n\n", {{"a", "1"}, {"", "2"}}},
      {"a byte order mark at the start",
       "\xEF\xBB\xBF"
       "data: 1\n\n",
       {{"", "1"}}},
      {"a byte order mark alone on the first line", "\xEF\xBB\xBF\ndata: 1\n\n", {{"", "1"}}},
      {"a byte order mark later is text", "data: \xEF\xBB\xBF\n\n", {{"", "\xEF\xBB\xBF"}}},
      {"unknown fields, id and retry", "id: 7\nretry: 9\nfoo: x\ndata: 1\n\n", {{"", "1"}}},
      {"no blank line at the end", "data: 1\n\ndata: 2\n", {{"", "1"}, {"", "2"}}},
      {"no line end at the end", "data: 1\n\ndata: 2", {{"", "1"}, {"", "2"}}},
      {"a NUL is text", std::string_view("data: a\0b\n\n", 11), {{"", std::string("a\0b", 3)}}},
      {"nothing", "", {}},
  };
  for (const Row& row : rows) EXPECT_EQ(parse({row.text}), row.events) << row.why;
}

constexpr std::string_view kSample =
    "\xEF\xBB\xBF: OPENROUTER PROCESSING\r\n\r\nevent: message_start\r\ndata: "
    "{\"a\":\"\xE6\xBC\xA2\"}\r\n"
    "\r\ndata:x\rdata: y\r\r\ndata: \xF0\x9F\x98\x80\n\n\ndata: [DONE]";

TEST(SseTest, AnyCutPointGivesTheSameEvents) {
  const Events whole = parse({kSample});
  ASSERT_EQ(whole.size(), 4U);
  for (std::size_t cut = 0; cut <= kSample.size(); ++cut) {
    EXPECT_EQ(parse({kSample.substr(0, cut), kSample.substr(cut)}), whole) << "cut at " << cut;
  }
  for (std::size_t first = 0; first <= kSample.size(); ++first) {
    for (std::size_t second = first; second <= kSample.size(); ++second) {
      ASSERT_EQ(parse({kSample.substr(0, first), kSample.substr(first, second - first),
                       kSample.substr(second)}),
                whole)
          << "cut at " << first << " and " << second;
    }
  }
}

TEST(SseTest, ByteByByteGivesTheSameEvents) {
  std::vector<std::string_view> pieces;
  for (std::size_t i = 0; i < kSample.size(); ++i) pieces.push_back(kSample.substr(i, 1));
  EXPECT_EQ(parse(pieces), parse({kSample}));
}

TEST(SseTest, AnEventOverTheLimitIsSkippedAndTheNextIsSeen) {
  const std::string big(5'000, 'x');
  const std::string texts[] = {
      "data: " + big + "\n\ndata: usage\n\n",                            // One long line.
      "data: " + big.substr(0, 900) + "\ndata: " + big.substr(0, 900) +  // Many lines.
          "\nevent: x\n\ndata: usage\n\n",
      ": " + big + "\n\r\ndata: usage\n\n",  // A long comment.
      "event: " + big + "\ndata: 1\n\ndata: usage\n\n",
  };
  for (const std::string& text : texts) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, text.size()}) {
      Events events;
      SseParser parser([&](const SseEvent& event) { events.emplace_back(event.type, event.data); },
                       1'000);
      for (std::size_t at = 0; at < text.size(); at += step) {
        parser.feed(std::string_view(text).substr(at, step));
      }
      parser.finish();
      EXPECT_EQ(events, (Events{{"", "usage"}})) << "step " << step << ": " << text.substr(0, 8);
      EXPECT_EQ(parser.oversize_events(), 1U);
    }
  }
}

RC_GTEST_PROP(SseProperties, AnyEventsWithAnyLineEndsInAnyPieces, ()) {
  const auto ends = rc::gen::element<std::string>("\n", "\r\n", "\r");
  const auto line = rc::gen::container<std::string>(rc::gen::element('a', ':', ' ', '{', '\xC3'));
  Events wanted;
  std::string text;
  const int count = *rc::gen::inRange(0, 6);
  for (int i = 0; i < count; ++i) {
    const auto lines = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(line));
    std::string data;
    for (std::size_t j = 0; j < lines.size(); ++j) {
      if (*rc::gen::inRange(0, 4) == 0) text += ": comment" + *ends;
      text += "data: " + lines[j] + "\n";
      data += (j > 0 ? "\n" : "") + lines[j];
    }
    text += *ends;
    wanted.emplace_back("", data);
  }
  std::vector<std::string_view> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const auto size = static_cast<std::size_t>(*rc::gen::inRange(1, 9));
    pieces.push_back(rest.substr(0, size));
    rest.remove_prefix(pieces.back().size());
  }
  RC_ASSERT(parse(pieces) == wanted);
}

TEST(SseTest, CommentsAreCounted) {
  SseParser parser([](const SseEvent&) {});
  parser.feed(": a\n\n:b\n\ndata: 1\n\n");
  EXPECT_EQ(parser.comments(), 2U);
}

}  // namespace
}  // namespace hg::wire
