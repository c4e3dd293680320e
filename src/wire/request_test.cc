#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/dialect.h"
#include "wire/media.h"

namespace hg::wire {
namespace {

constexpr Dialect kAnthropic = Dialect::anthropic_messages;
constexpr Dialect kChat = Dialect::openai_chat;

RequestFacts read(Dialect dialect, std::string_view body) {
  auto facts = read_request(dialect, body);
  EXPECT_TRUE(facts.has_value()) << facts.error().detail << ": " << body.substr(0, 200);
  return facts ? *facts : RequestFacts{};
}

// A body of one user message with this content.
std::string user(std::string_view content) {
  return R"({"model":"m","messages":[{"role":"user","content":)" + std::string(content) + "}]}";
}

// A 1x1 PNG's first bytes are enough; `width` and `height` in the header.
std::string png(int width, int height) {
  std::string bytes("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16);
  for (const int number : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>((number >> shift) & 0xFF);
    }
  }
  bytes += "\x08\x06";
  bytes += std::string(40, 'x');
  constexpr std::string_view
      kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const auto word = (static_cast<unsigned>(static_cast<unsigned char>(bytes[i])) << 16U) |
                      (static_cast<unsigned>(static_cast<unsigned char>(bytes[i + 1])) << 8U) |
                      static_cast<unsigned>(static_cast<unsigned char>(bytes[i + 2]));
    for (int shift = 18; shift >= 0; shift -= 6) result += kAlphabet[(word >> shift) & 63U];
  }
  return result;
}

TEST(RequestTest, PromptCharactersAreUtf8BytesAfterUnescaping) {
  struct Row {
    const char* why;
    Dialect dialect;
    std::string body;
    std::int64_t chars;
  };
  const Row rows[] = {
      {"plain", kAnthropic, user(R"("hello")"), 5},
      {"the same as a part", kAnthropic, user(R"([{"type":"text","text":"hello"}])"), 5},
      {"two parts", kChat, user(R"([{"type":"text","text":"ab"},{"type":"text","text":"c"}])"), 3},
      {"escapes are one byte", kChat, user(R"("a\n\"\\\tb")"), 6},
      {"\\u of two bytes", kChat, user(R"("\u00e9")"), 2},
      {"\\u of three bytes", kChat, user(R"("\u6f22\u5b57")"), 6},
      {"a pair of surrogates is four bytes", kChat, user(R"("\ud83d\ude00")"), 4},
      {"raw UTF-8", kChat, user("\"\xE6\xBC\xA2\xE5\xAD\x97\""), 6},
      {"no content", kChat, R"({"model":"m","messages":[{"role":"assistant","content":null}]})", 0},
      {"system as text", kAnthropic, R"({"model":"m","system":"abc","messages":[]})", 3},
      {"system as blocks", kAnthropic,
       R"({"model":"m","system":[{"type":"text","text":"abc"},{"type":"text","text":"d"}],"messages":[]})",
       4},
      {"system inside the messages", kAnthropic,
       R"({"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"abc"}]}]})",
       3},
      {"tool use: name and input as JSON", kAnthropic,
       user(R"([{"type":"tool_use","id":"t","name":"ls","input":{"p":"/a\n","n":12}}])"),
       // ls {"p":"/a.","n":12}
       2 + 18},
      {"tool result as text", kAnthropic,
       user(R"([{"type":"tool_result","tool_use_id":"t","content":"abc"}])"), 3},
      {"tool result nested", kAnthropic,
       user(
           R"([{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}])"),
       3},
      {"thinking, without its signature", kAnthropic,
       user(R"([{"type":"thinking","thinking":"hmm","signature":"QUFBQUFBQUFBQUFB"}])"), 3},
      {"redacted thinking", kAnthropic,
       user(R"([{"type":"redacted_thinking","data":"QUFBQUFBQUFBQUFB"}])"), 0},
      {"a document that is text", kAnthropic,
       user(
           R"([{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"abc"}}])"),
       4},
      {"a search result's sealed part", kAnthropic,
       user(
           R"([{"type":"web_search_tool_result","tool_use_id":"t","content":[{"type":"web_search_result","title":"ab","url":"c","encrypted_content":"QUFB"}]}])"),
       3},
      {"a block nobody knows", kAnthropic, user(R"([{"type":"new","words":["ab",{"more":"c"}]}])"),
       3},
      {"tools: keys, names, descriptions, schemas", kAnthropic,
       R"({"model":"m","tools":[{"name":"n","input_schema":{"type":"object"}}],"messages":[]})",
       // [{"name":"n","input_schema":{"type":"object"}}]
       47},
      {"tools without their markers", kAnthropic,
       R"({"model":"m","tools":[{"name":"n","cache_control":{"type":"ephemeral"}}],"messages":[]})",
       // [{"name":"n"}]; the comma of a member left out is not worth a rule
       14},
      {"tool calls", kChat,
       R"({"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]}]})",
       2 + 7},
      {"a function call of old", kChat,
       R"({"model":"m","messages":[{"role":"assistant","function_call":{"name":"ls","arguments":"{}"}}]})",
       4},
      {"reasoning sent back, once", kChat,
       R"({"model":"m","messages":[{"role":"assistant","content":"a","reasoning":"bc","reasoning_details":[{"type":"reasoning.text","text":"bc"}]}]})",
       3},
      {"response format", kChat,
       R"({"model":"m","messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"x"}}})",
       12},
      {"what is no prompt", kChat,
       R"({"model":"a-long-name","user":"somebody","metadata":{"k":"v"},"stop":["x"],"messages":[]})",
       0},
  };
  for (const Row& row : rows) {
    const RequestFacts facts = read(row.dialect, row.body);
    EXPECT_EQ(facts.text_chars, row.chars) << row.why << ": " << row.body;
    EXPECT_EQ(facts.flat_parts, 0) << row.why;
  }
}

RC_GTEST_PROP(RequestProperties, EscapedTextCountsAsItsBytes, (const std::string& bytes)) {
  // Any ASCII, written as JSON allows: raw, short escape or \\u.
  std::string escaped;
  std::int64_t wanted = 0;
  for (const char c : bytes) {
    const auto code = static_cast<unsigned>(static_cast<unsigned char>(c)) & 0x7FU;
    const bool must = code < 0x20 || code == '"' || code == '\\';
    if (must || *rc::gen::inRange(0, 3) == 0) {
      constexpr std::string_view kHex = "0123456789abcdef";
      escaped += "\\u00";
      escaped += kHex[code >> 4U];
      escaped += kHex[code & 15U];
    } else {
      escaped += static_cast<char>(code);
    }
    ++wanted;
  }
  const auto facts = read_request(kChat, user('"' + escaped + '"'));
  RC_ASSERT(facts.has_value());
  RC_ASSERT(facts->text_chars == wanted);
}

TEST(RequestTest, APromptIsNeverLongerThanItsBody) {
  for (const std::string_view number :
       {"1e5", "12e3", "123e9", "0.5", "-0.5", "1e-7", "3.14", "1e300", "5e-324", "0.0", "-0.0",
        "2.0", "1E2", "-0", "9007199254740993.0", "18446744073709551615", "-9223372036854775808",
        "true", "null"}) {
    const RequestFacts facts = read(
        kAnthropic, user(R"([{"type":"tool_use","name":"","input":)" + std::string(number) + "}]"));
    EXPECT_LE(facts.text_chars, static_cast<std::int64_t>(number.size())) << number;
    EXPECT_GE(facts.text_chars, 1) << number;
  }
}

TEST(RequestTest, MediaHaveAFlatPriceAndTheirBase64IsNoText) {
  const std::string big(400'000, 'A');
  struct Row {
    const char* why;
    Dialect dialect;
    std::string model;
    std::string content;
    Tokens tokens;
  };
  const std::string small_png = png(280, 56);
  const Row rows[] = {
      {"PNG by its size", kAnthropic, "claude-sonnet-4-5",
       R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
           small_png + "\"}}]",
       10 * 2},
      {"unknown size: the tier's ceiling", kAnthropic, "claude-sonnet-4-5",
       R"([{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":")" + big +
           "\"}}]",
       1'568},
      {"the newer tier", kAnthropic, "claude-opus-5-5",
       R"([{"type":"image","source":{"type":"url","url":"https://x/y.png"}}])", 4'784},
      {"inside a tool result", kAnthropic, "claude-haiku-4-5",
       R"([{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
           small_png + "\"}}]}]",
       20},
      {"a data URL", kChat, "gpt-5.4",
       R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)" + png(64, 64) + "\"}}]",
       4},
      {"low detail of a tile model", kChat, "gpt-4o",
       R"([{"type":"image_url","image_url":{"url":"https://x/y","detail":"low"}}])", 85},
      {"tiles by size", kChat, "openai/gpt-4o",
       R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)" + png(1'024, 1'024) +
           "\"}}]",
       85 + 4 * 170},
      {"an unknown model: the largest budget", kChat, "mystery",
       R"([{"type":"image_url","image_url":{"url":"https://x/y"}}])", 3'000},
      {"a PDF by its pages", kAnthropic, "claude-opus-5-5",
       R"([{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":")" +
           big + "\"}}]",
       5 * 4'568},
      {"a file by id", kAnthropic, "claude-opus-5-5",
       R"([{"type":"document","source":{"type":"file","file_id":"f"}}])", 4'568},
      {"audio", kChat, "gpt-audio",
       R"([{"type":"input_audio","input_audio":{"data":")" + big + R"(","format":"mp3"}}])", 187},
      {"a data URL where text is expected", kAnthropic, "claude-opus-5-5",
       R"([{"type":"new","any":"data:application/pdf;base64,)" + big + "\"}]", 5 * 4'568},
  };
  for (const Row& row : rows) {
    const RequestFacts facts = read(row.dialect, R"({"model":")" + row.model +
                                                     R"(","messages":[{"role":"user","content":)" +
                                                     row.content + "}]}");
    EXPECT_EQ(facts.flat_tokens, row.tokens) << row.why;
    EXPECT_EQ(facts.flat_parts, 1) << row.why;
    EXPECT_EQ(facts.text_chars, 0) << row.why;
  }
}

TEST(RequestTest, LargeImagesAreScaledDownBeforeTheyArePriced) {
  EXPECT_EQ(image_tokens(kAnthropic, "claude-3-5-sonnet", ImageSize{8'000, 8'000}, false), 1'568);
  EXPECT_EQ(image_tokens(kAnthropic, "claude-sonnet-5", ImageSize{8'000, 8'000}, false), 4'784);
  EXPECT_EQ(image_tokens(kAnthropic, "claude-3-5-sonnet", ImageSize{15'680, 28}, false), 56);
  EXPECT_EQ(image_tokens(kChat, "gpt-5-mini", ImageSize{6'000, 6'000}, false), 2'489);
  EXPECT_EQ(image_tokens(kChat, "gpt-4o", ImageSize{4'096, 8'192}, false), 85 + 6 * 170);
  EXPECT_EQ(png_size("not base64!"), std::nullopt);
  EXPECT_EQ(png_size(png(0, 5)), std::nullopt);
  EXPECT_EQ(png_size(png(640, 480)), (ImageSize{640, 480}));
}

TEST(RequestTest, TheLargestDeclaredOutputLimitCounts) {
  struct Row {
    const char* why;
    std::string_view fields;
    std::optional<Tokens> limit;
  };
  const Row rows[] = {
      {"none", "", std::nullopt},
      {"one", R"(,"max_tokens":128000)", 128'000},
      {"the larger of two", R"(,"max_tokens":1,"max_completion_tokens":10000)", 10'000},
      {"zero is a limit", R"(,"max_tokens":0)", 0},
      {"null is none", R"(,"max_tokens":null)", std::nullopt},
      {"a whole number as a fraction", R"(,"max_tokens":4096.0)", 4'096},
      {"negative is none", R"(,"max_tokens":-1)", std::nullopt},
      {"a text is none", R"(,"max_tokens":"5")", std::nullopt},
      {"a half is none", R"(,"max_tokens":0.5)", std::nullopt},
      {"absurd is clamped", R"(,"max_tokens":18446744073709551615)", kMaxExact},
      {"absurd as a fraction too", R"(,"max_tokens":1e300)", kMaxExact},
  };
  for (const Row& row : rows) {
    const std::string body = R"({"model":"m","messages":[])" + std::string(row.fields) + "}";
    EXPECT_EQ(read(kChat, body).max_output, row.limit) << row.why;
  }
}

TEST(RequestTest, ModelStreamAndUsageWishAreRead) {
  const RequestFacts facts = read(
      kChat,
      R"({"messages":[],"stream":true,"stream_options":{"include_usage":true},"model":"gpt-x"})");
  EXPECT_EQ(facts.model, "gpt-x");
  EXPECT_TRUE(facts.stream);
  EXPECT_EQ(facts.asks_stream_usage, true);
  const RequestFacts plain = read(kChat, R"({"messages":[],"stream":null})");
  EXPECT_EQ(plain.model, "") << "Azure names it in the path";
  EXPECT_FALSE(plain.stream);
  EXPECT_EQ(plain.asks_stream_usage, std::nullopt);
}

TEST(RequestTest, PromptHashIgnoresWhatRetriesFlip) {
  const auto hash = [](std::string_view fields, std::string_view text) {
    return read(kAnthropic, R"({"model":"m","messages":[{"role":"user","content":")" +
                                std::string(text) + "\"}]" + std::string(fields) + "}")
        .prompt_hash;
  };
  const std::uint64_t first = hash(R"(,"stream":true,"max_tokens":128000)", "hi");
  EXPECT_EQ(hash(R"(,"max_tokens":64000)", "hi"), first);
  EXPECT_EQ(hash(R"(,"metadata":{"user_id":"x"},"temperature":1)", "hi"), first);
  EXPECT_NE(hash("", "ho"), first);
  EXPECT_NE(hash("", ""), first);
  EXPECT_NE(
      read(kAnthropic, R"({"model":"n","messages":[{"role":"user","content":"hi"}]})").prompt_hash,
      first)
      << "another model is another call";
}

TEST(RequestTest, PrefixBlocksGrowWithTheConversation) {
  const std::string head =
      R"({"model":"m","system":"s","tools":[{"name":"t"}],"messages":[{"role":"user","content":"a"})";
  const RequestFacts first = read(kAnthropic, head + "]}");
  const RequestFacts second = read(
      kAnthropic,
      head +
          R"(,{"role":"assistant","content":"bc"},{"role":"user","content":"d"}],"stream":true})");
  ASSERT_EQ(first.prefix.size(), 2U) << "system and tools, then one a message";
  ASSERT_EQ(second.prefix.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first.prefix[i].hash, second.prefix[i].hash);
    EXPECT_EQ(first.prefix[i].chars, second.prefix[i].chars);
  }
  EXPECT_EQ(second.prefix[3].chars - second.prefix[1].chars, 3);
  EXPECT_EQ(second.prefix.back().chars, second.text_chars);
  EXPECT_EQ(second.prefix.back().hash, second.prompt_hash);
  EXPECT_EQ(first.conversation_hash, second.conversation_hash);
}

TEST(RequestTest, CacheMarkersThatMoveChangeNoHash) {
  // Turn one marks the system and the message, as text; turn two marks elsewhere, as blocks.
  const RequestFacts first = read(
      kAnthropic,
      R"({"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1.a;"},{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"t","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]})");
  const RequestFacts second = read(
      kAnthropic,
      R"({"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1.b;"},{"type":"text","text":"s"}],"tools":[{"name":"t"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})");
  ASSERT_GE(second.prefix.size(), 2U);
  EXPECT_EQ(first.prefix[0].hash, second.prefix[0].hash);
  EXPECT_EQ(first.prefix[1].hash, second.prefix[1].hash);
  EXPECT_EQ(first.conversation_hash, second.conversation_hash);
}

TEST(RequestTest, ConversationsAreToldApartBySystemAndFirstUserMessage) {
  const auto conversation = [](std::string_view system, std::string_view first,
                               std::string_view second) {
    return read(kChat, R"({"model":"m","messages":[{"role":"system","content":")" +
                           std::string(system) + R"("},{"role":"user","content":")" +
                           std::string(first) + R"("},{"role":"assistant","content":")" +
                           std::string(second) + "\"}]}")
        .conversation_hash;
  };
  EXPECT_EQ(conversation("s", "u", "x"), conversation("s", "u", "y"));
  EXPECT_NE(conversation("s", "u", "x"), conversation("t", "u", "x"));
  EXPECT_NE(conversation("s", "u", "x"), conversation("s", "v", "x"));
}

TEST(RequestTest, DifferentMediaAreDifferentPrompts) {
  const auto hash = [](std::string_view data) {
    return read(kChat, user(R"([{"type":"image_url","image_url":{"url":"https://x/)" +
                            std::string(data) + "\"}}]"))
        .prompt_hash;
  };
  EXPECT_NE(hash("a"), hash("b"));
}

TEST(RequestTest, WhatCannotBeReadIsAnErrorAndNeverACrash) {
  const std::string bodies[] = {
      "",
      " ",
      "null",
      "[]",
      "\"text\"",
      "{",
      "{}",
      R"({"model":"m"})",
      R"({"model":"m","messages":{}})",
      R"({"model":"m","messages":["text"]})",
      R"({"model":5,"messages":[]})",
      R"({"model":"m","messages":[]}{"model":"m"})",
      R"({"model":"m","messages":[}])",
      user("\"a\nb\""),
      user("\"\\x\""),
      user("\"\\ud83\""),
      user("01"),
      user("1."),
      user("[1,]"),
      user("[1}"),
      user(std::string(5'000, '[') + std::string(4'999, ']')),
      "\xEF\xBB\xBF",
      std::string("{\"model\":\"m\",\"messages\":[]\0}", 28),
  };
  for (const std::string& body : bodies) {
    for (const Dialect dialect : {kAnthropic, kChat}) {
      const auto facts = read_request(dialect, body);
      ASSERT_FALSE(facts.has_value()) << body.substr(0, 100);
      EXPECT_EQ(facts.error().code, Errc::invalid);
      EXPECT_FALSE(facts.error().detail.empty());
    }
  }
}

// What a provider's parser may accept is read; only a breach of the grammar is refused.
TEST(RequestTest, WhatIsUnusualButWellFormedIsRead) {
  const std::string deep_array = std::string(5'000, '[') + std::string(5'000, ']');
  std::string deep_object = "1";
  for (int i = 0; i < 2'000; ++i) deep_object = R"({"a":)" + deep_object + "}";
  const auto tool = [](std::string_view input) {
    return user(R"([{"type":"tool_use","name":"n","input":)" + std::string(input) + "}]");
  };
  struct Row {
    const char* why;
    std::string body;
    std::int64_t chars;
  };
  const Row rows[] = {
      {"an emoji cut by an agent: as the replacement character", user(R"("ab\ud83d")"), 5},
      {"its other half", user(R"("\ude00ab")"), 5},
      {"two halves in the wrong order", user(R"("\ude00\ud83d")"), 6},
      {"two first halves, then a pair", user(R"("\uD83D\uD83D\uDE00")"), 3 + 4},
      {"a half, then another escape", user(R"("\ud83d\n\u0041")"), 3 + 2},
      {"half a pair in a key", tool(R"({"\ud83d":1})"), 1 + 2 + 3 + 3 + 1},
      {"a byte that is no UTF-8", user("\"a\xFF\""), 2},
      {"a character cut in the middle", user("\"\xE6\xBC\""), 2},
      {"half a pair in raw UTF-8", user("\"\xED\xA0\xBD\""), 3},
      {"an integer beyond 64 bits", tool("123456789012345678901234567890"), 1 + 19},
      {"a number beyond all types", tool("-1e999"), 1 + 4},
      {"a number below all types", tool("1e-999"), 1 + 2},
      {"what Python writes", tool("[NaN,Infinity,-Infinity]"), 1 + 2 + 3 + 2},
      {"a byte order mark", "\xEF\xBB\xBF" + user(R"("ab")"), 2},
      {"nested deeper than any parser goes", tool(deep_array), 1 + 10'000},
      {"objects too", tool(deep_object), 1 + static_cast<std::int64_t>(deep_object.size())},
      {"deep text of a message: media and marks are lost, not its size", user(deep_array), 9'004},
      {"a field twice: the last", R"({"model":"m","messages":5,"messages":[]})", 0},
      {"a message's content twice: the last",
       R"({"model":"m","messages":[{"role":"user","content":"abc","content":"b"}]})", 1},
      {"a part's text twice: the last", user(R"([{"type":"text","text":"abc","text":"b"}])"), 1},
  };
  for (const Row& row : rows) {
    for (const Dialect dialect : {kAnthropic, kChat}) {
      EXPECT_EQ(read(dialect, row.body).text_chars, row.chars) << row.why;
    }
  }
  const RequestFacts facts = read(
      kChat, R"({"model":"m","model":"n","messages":[],"stream":false,"stream":true,)"
             R"("max_tokens":1e999,"max_tokens":123456789012345678901234567890})");
  EXPECT_EQ(facts.model, "n");
  EXPECT_TRUE(facts.stream);
  EXPECT_EQ(facts.max_output, kMaxExact);
}

TEST(RequestTest, HalfASurrogatePairMovesNoOtherHash) {
  const std::string head = R"({"model":"m","messages":[{"role":"user","content":"a \u6f22"})";
  const RequestFacts clean = read(kAnthropic, head + "]}");
  const RequestFacts later = read(kAnthropic, head + R"(,{"role":"user","content":"\ud83d"}]})");
  ASSERT_EQ(later.prefix.size(), clean.prefix.size() + 1);
  EXPECT_EQ(later.prefix[1].hash, clean.prefix[1].hash);
  EXPECT_EQ(later.conversation_hash, clean.conversation_hash);
}

RC_GTEST_PROP(RequestProperties, CodeUnitsInAnyOrderAreRead, (std::vector<std::uint16_t> units)) {
  std::string escaped;
  std::int64_t wanted = 0;
  bool high = false;
  for (std::uint16_t unit : units) {
    if (*rc::gen::inRange(0, 3) == 0) unit = static_cast<std::uint16_t>(0xD800 + unit % 0x800);
    constexpr std::string_view kHex = "0123456789abcdef";
    escaped += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) escaped += kHex[(unit >> shift) & 15];
    const bool low = unit >= 0xDC00 && unit <= 0xDFFF;
    if (high && low) {
      wanted += 1;  // The first half was counted as three bytes.
    } else {
      wanted += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    }
    high = unit >= 0xD800 && unit <= 0xDBFF;
  }
  const auto facts = read_request(kChat, user('"' + escaped + '"'));
  RC_ASSERT(facts.has_value());
  RC_ASSERT(facts->text_chars == wanted);
}

RC_GTEST_PROP(RequestProperties, AnyBytesInATextAreReadAndNeverCountMore,
              (const std::string& bytes)) {
  std::string text;
  for (const char c : bytes) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') text += c;
    if (*rc::gen::inRange(0, 4) == 0) text += static_cast<char>(*rc::gen::inRange(0x80, 0x100));
  }
  const auto facts = read_request(kChat, user('"' + text + '"'));
  RC_ASSERT(facts.has_value());
  RC_ASSERT(facts->text_chars == static_cast<std::int64_t>(text.size()));
}

TEST(RequestTest, EveryTruncationIsAnError) {
  const std::string whole =
      R"({"model":"m","system":"s","messages":[{"role":"user","content":[{"type":"text","text":"\u6f22\ud83d\ude00"}]}],"max_tokens":5})";
  ASSERT_TRUE(read_request(kAnthropic, whole).has_value());
  const std::string unusual =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\ud83d","x":1e999}]}],"max_tokens":-123456789012345678901})";
  ASSERT_TRUE(read_request(kAnthropic, unusual).has_value());
  for (const std::string_view body : {std::string_view(whole), std::string_view(unusual)}) {
    for (std::size_t length = 0; length < body.size(); ++length) {
      EXPECT_FALSE(read_request(kAnthropic, body.substr(0, length)).has_value()) << length;
    }
  }
}

TEST(RequestTest, NestingThatProvidersAcceptIsRead) {
  std::string nested = "1";
  for (int i = 0; i < 200; ++i) nested = R"({"a":[)" + nested + "]}";
  const RequestFacts facts = read(
      kAnthropic, user(R"([{"type":"tool_use","name":"n","input":)" + nested + "}]"));
  EXPECT_EQ(facts.text_chars, 1 + static_cast<std::int64_t>(nested.size()));
}

TEST(RequestTest, StrangeButValidShapesAreRead) {
  for (const std::string_view content :
       {"5", "true", "{}", R"({"type":"text","text":"x"})", "[]", "[null]", "[5]", "[[\"a\"]]",
        R"([{"type":5}])", R"([{"type":"text"}])", R"([{"type":"text","text":5}])",
        R"([{"type":"image"}])", R"([{"type":"image","source":"x"}])",
        R"([{"type":"image_url","image_url":"data:image/png;base64,"}])",
        R"([{"type":"tool_result","content":{"a":"b"}}])", R"([{"type":"file","file":{}}])",
        R"([{"type":"input_audio"}])", R"([{"type":"document","source":{"type":"base64"}}])"}) {
    for (const Dialect dialect : {kAnthropic, kChat}) {
      EXPECT_TRUE(read_request(dialect, user(content)).has_value()) << content;
    }
  }
}

TEST(RequestTest, OtherShapesArePacedBySize) {
  const RequestFacts responses = read(
      Dialect::other,
      R"({"model":"gpt-5.5","stream":true,"instructions":"abc","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"defg"}]}],"prompt_cache_key":"k"})");
  EXPECT_EQ(responses.model, "gpt-5.5");
  EXPECT_TRUE(responses.stream);
  EXPECT_EQ(responses.text_chars, 3 + 4 + 4) << "the role is among it: nothing is known of it";
  const RequestFacts gemini = read(
      Dialect::other,
      R"({"contents":[{"parts":[{"text":"abc"},{"inlineData":{"mimeType":"image/png","data":"QUFB"}}]}],"generationConfig":{"maxOutputTokens":77}})");
  EXPECT_EQ(gemini.text_chars, 3);
  EXPECT_EQ(gemini.flat_parts, 1);
  EXPECT_EQ(gemini.max_output, 77);
}

}  // namespace
}  // namespace hg::wire
