#include "lab/wire_shapes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "lab/wire_dialect.h"
#include "wire/refusal.h"
#include "wire/retry_after.h"

namespace hg::lab {
namespace {

const WallTime kWall{Micros(1'780'000'000'250'000)};

Reply sample_reply() {
  Reply reply;
  reply.id = "0123456789abcdef";
  reply.model = "claude-opus-5-5";
  reply.created = 1'780'000'000;
  reply.answer.text = "Reading \"notes\"\nnow: \u4e2d\u6587, and more.";
  reply.answer.calls.push_back({"Read", R"({"file_path":"/tmp/notes.txt"})"});
  reply.answer.stop = StopReason::tool_use;
  reply.usage.uncached = 4;
  reply.usage.cache_written = 1'000;
  reply.usage.cache_read = 20'000;
  reply.usage.output = 321;
  return reply;
}

wire::ResponseReader read_back(Api api, std::string_view type, std::string_view bytes,
                               std::size_t step) {
  wire::ResponseReader reader(wire_dialect(api), type);
  for (std::size_t at = 0; at < bytes.size(); at += step) reader.feed(bytes.substr(at, step));
  reader.finish();
  return reader;
}

std::string joined(const std::vector<StreamPiece>& pieces) {
  std::string bytes;
  for (const StreamPiece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

class WireShapesTest : public testing::TestWithParam<Api> {};

TEST_P(WireShapesTest, WhatAStreamSaysTheReaderReads) {
  const Reply reply = sample_reply();
  const std::vector<StreamPiece> pieces = reply_stream(GetParam(), reply, true, 7);
  for (const std::size_t step : {1UL, 13UL, 100'000UL}) {
    const wire::ResponseReader reader = read_back(GetParam(), "text/event-stream; charset=utf-8",
                                                  joined(pieces), step);
    EXPECT_TRUE(reader.streaming());
    EXPECT_TRUE(reader.complete());
    EXPECT_TRUE(reader.output_seen());
    EXPECT_FALSE(reader.error_event());
    EXPECT_EQ(reader.usage().uncached, 1'004);
    EXPECT_EQ(reader.usage().cached, 20'000);
    EXPECT_EQ(reader.usage().output, 321);
  }
}

TEST_P(WireShapesTest, WhatABodySaysTheReaderReads) {
  const std::string body = reply_body(GetParam(), sample_reply());
  EXPECT_TRUE(boost::json::parse(body).is_object());
  const wire::ResponseReader reader = read_back(GetParam(), "application/json", body, 100);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.usage().uncached, 1'004);
  EXPECT_EQ(reader.usage().cached, 20'000);
  EXPECT_EQ(reader.usage().output, 321);
}

TEST_P(WireShapesTest, EveryPieceHoldsWholeEventsOfWholeJson) {
  for (const StreamPiece& piece : reply_stream(GetParam(), sample_reply(), true, 5)) {
    const bool gemini = GetParam() == Api::gemini_generate;
    ASSERT_TRUE(piece.bytes.ends_with(gemini ? "\r\n\r\n" : "\n\n"));
    for (std::size_t at = piece.bytes.find("data: "); at != std::string::npos;
         at = piece.bytes.find("data: ", at + 1)) {
      const std::string data = piece.bytes.substr(at + 6, piece.bytes.find('\n', at) - at - 6);
      if (data == "[DONE]") continue;
      boost::system::error_code parse_ec;
      EXPECT_TRUE(boost::json::parse(data, parse_ec).is_object()) << data;
    }
  }
}

TEST_P(WireShapesTest, OutputRisesFromNothingToAllOfIt) {
  const std::vector<StreamPiece> pieces = reply_stream(GetParam(), sample_reply(), false, 5);
  Tokens before = 0;
  for (const StreamPiece& piece : pieces) {
    EXPECT_GE(piece.output_done, before);
    before = piece.output_done;
  }
  if (!pieces.front().carries_output) {
    EXPECT_EQ(pieces.front().output_done, 0);
  }
  EXPECT_EQ(pieces.back().output_done, 321);
}

// Any text at all, cut anywhere, arrives as it was: quotes, controls, every plane of Unicode.
RC_GTEST_PROP(WireShapesPropertyTest, AnyTextIsReadBackAsItWas, ()) {
  const Api api = *rc::gen::element(Api::anthropic_messages, Api::openai_chat,
                                    Api::openai_responses, Api::gemini_generate);
  std::string text;
  for (const std::uint32_t drawn :
       *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(1U, 0x10ffffU))) {
    const std::uint32_t point = drawn >= 0xd800 && drawn < 0xe000 ? 0x20 : drawn;
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += static_cast<char>(0xc0 | (point >> 6));
      text += static_cast<char>(0x80 | (point & 0x3f));
    } else {
      if (point >= 0x10000) {
        text += static_cast<char>(0xf0 | (point >> 18));
        text += static_cast<char>(0x80 | ((point >> 12) & 0x3f));
      } else {
        text += static_cast<char>(0xe0 | (point >> 12));
      }
      text += static_cast<char>(0x80 | ((point >> 6) & 0x3f));
      text += static_cast<char>(0x80 | (point & 0x3f));
    }
  }
  Reply reply = sample_reply();
  reply.answer.text = text;
  reply.answer.calls.clear();
  const auto delta = *rc::gen::inRange<std::size_t>(1, 40);
  const auto step = *rc::gen::inRange<std::size_t>(1, 200);
  const std::string bytes = joined(reply_stream(api, reply, true, delta));
  const wire::ResponseReader reader = read_back(api, "text/event-stream", bytes, step);
  RC_ASSERT(reader.complete());
  RC_ASSERT(reader.output_chars() == static_cast<std::int64_t>(text.size()));
  RC_ASSERT(reader.usage().output == 321);
}

TEST_P(WireShapesTest, ACutStreamIsNotComplete) {
  const std::vector<StreamPiece> pieces = reply_stream(GetParam(), sample_reply(), true, 5);
  const std::vector<StreamPiece> half(pieces.begin(), pieces.end() - 1);
  const wire::ResponseReader reader = read_back(GetParam(), "text/event-stream", joined(half),
                                                1'000'000);
  EXPECT_FALSE(reader.complete());
}

// The profile of the provider whose API it is.
const wire::ProviderProfile& profile_of(Api api) {
  const char* name = api == Api::anthropic_messages ? "anthropic"
                     : api == Api::gemini_generate  ? "gemini"
                                                    : "openai";
  const wire::ProviderProfile* profile = wire::Profiles::built_in().provider(name);
  return profile != nullptr ? *profile : *wire::Profiles::built_in().provider("emulated");
}

TEST_P(WireShapesTest, AnErrorInAStreamIsAnErrorEventForLoad) {
  RefusalHints hints;
  hints.retry_after = 3s;
  for (const RefusalShape shape : {RefusalShape::overloaded, RefusalShape::rate_limit}) {
    const std::string event = stream_error(GetParam(), shape, hints, sample_reply(), 0);
    const wire::ResponseReader reader = read_back(GetParam(), "text/event-stream", event,
                                                  1'000'000);
    ASSERT_TRUE(reader.error_event()) << event;
    EXPECT_FALSE(reader.output_seen());
    EXPECT_EQ(
        wire::classify_stream_error(profile_of(GetParam()), *reader.error_event(), kWall).kind,
        wire::RefusalKind::overload)
        << event;
  }
}

TEST_P(WireShapesTest, EveryRefusalIsClassifiedAsWhatItIs) {
  struct Row {
    RefusalShape shape;
    wire::RefusalKind means;
  };
  const Row rows[] = {
      {RefusalShape::rate_limit, wire::RefusalKind::overload},
      {RefusalShape::rate_limit_bare, wire::RefusalKind::overload},
      {RefusalShape::overloaded, wire::RefusalKind::overload},
      {RefusalShape::unavailable, wire::RefusalKind::overload},
      {RefusalShape::quota, wire::RefusalKind::quota},
      {RefusalShape::server_error, wire::RefusalKind::server},
  };
  RefusalHints hints;
  hints.rate = sim::RateState{};
  hints.rate->tokens_limit = 2'400'000;
  hints.rate->tokens_reset = 61'500ms;
  for (const Row& row : rows) {
    const RefusalText text = refusal_text(GetParam(), row.shape, hints, kWall,
                                          "req_0123456789abcdef");
    for (const wire::ProviderProfile* profile :
         {&profile_of(GetParam()), wire::Profiles::built_in().provider("emulated")}) {
      if (profile == nullptr) continue;
      const wire::Refusal refusal = wire::classify_response(*profile, text.status, text.headers,
                                                            text.body, kWall);
      EXPECT_EQ(refusal.kind, row.means)
          << text.status << " " << text.body << " " << to_string(refusal.kind);
    }
  }
}

TEST_P(WireShapesTest, HintsAreReadAsTheyWereMeant) {
  RefusalHints hints;
  hints.retry_after = 2'300ms;
  const RefusalText text = refusal_text(GetParam(), RefusalShape::rate_limit, hints, kWall,
                                        "req_1");
  EXPECT_EQ(text.status, 429);
  if (GetParam() == Api::gemini_generate) {
    EXPECT_TRUE(text.body.contains(R"("retryDelay":"2.300s")")) << text.body;
    EXPECT_FALSE(text.headers.has("retry-after"));
    return;
  }
  EXPECT_EQ(text.headers.find("retry-after"), "3");
  EXPECT_FALSE(text.headers.has("retry-after-ms"));
  hints.retry_after_ms = 2'300ms;
  const RefusalText both = refusal_text(GetParam(), RefusalShape::rate_limit, hints, kWall,
                                        "req_1");
  EXPECT_EQ(both.headers.find("retry-after-ms"), "2300");
}

TEST_P(WireShapesTest, ClientErrorsAreJsonOfTheDialect) {
  const RefusalText text = client_error(GetParam(), 400, "model: \"x\" is wrong", "req_1");
  EXPECT_EQ(text.status, 400);
  const boost::json::value body = boost::json::parse(text.body);
  const bool gemini = GetParam() == Api::gemini_generate;
  EXPECT_EQ(body.at("error").at(gemini ? "status" : "type").as_string(),
            gemini ? "INVALID_ARGUMENT" : "invalid_request_error");
  EXPECT_EQ(body.at("error").at("message").as_string(), "model: \"x\" is wrong");
}

INSTANTIATE_TEST_SUITE_P(Apis, WireShapesTest,
                         testing::Values(Api::anthropic_messages, Api::openai_chat,
                                         Api::openai_responses, Api::gemini_generate),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(RateHeadersTest, HaveTheNamesAndFormsOfEachProvider) {
  sim::RateState state;
  state.tokens_limit = 400'000;
  state.tokens_left = 123'456;
  state.tokens_reset = 6'500ms;
  state.requests_limit = 4'000;
  state.requests_left = 3'999;
  state.requests_reset = 12ms;

  Headers anthropic;
  add_rate_headers(Api::anthropic_messages, state, kWall, anthropic);
  EXPECT_EQ(anthropic.find("anthropic-ratelimit-input-tokens-limit"), "400000");
  EXPECT_EQ(anthropic.find("anthropic-ratelimit-input-tokens-remaining"), "123000");
  EXPECT_EQ(anthropic.find("anthropic-ratelimit-requests-remaining"), "3999");
  const auto reset = anthropic.find("anthropic-ratelimit-input-tokens-reset");
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->size(), std::string("2026-11-30T17:13:35Z").size());
  const auto parsed = wire::parse_retry_after(*reset, kWall);
  ASSERT_TRUE(parsed) << *reset;
  EXPECT_GE(*parsed, 6'500ms);
  EXPECT_LE(*parsed, 7'500ms);

  Headers openai;
  add_rate_headers(Api::openai_chat, state, kWall, openai);
  EXPECT_EQ(openai.find("x-ratelimit-limit-tokens"), "400000");
  EXPECT_EQ(openai.find("x-ratelimit-remaining-tokens"), "123456");
  EXPECT_EQ(openai.find("x-ratelimit-reset-tokens"), "6.5s");
  EXPECT_EQ(openai.find("x-ratelimit-reset-requests"), "12ms");
}

TEST(GoDurationTest, PrintsAsGoDoes) {
  struct Row {
    Micros duration;
    const char* text;
  };
  const Row rows[] = {
      {0us, "0s"},    {1us, "1ms"},          {20ms, "20ms"},    {1s, "1s"},
      {6min, "6m0s"}, {7min + 12s, "7m12s"}, {2'500ms, "2.5s"}, {1h + 1'500ms, "1h0m1.5s"}};
  for (const Row& row : rows) {
    EXPECT_EQ(to_go_duration(row.duration), row.text);
    if (row.duration >= 1ms) {
      EXPECT_EQ(wire::parse_go_duration(row.text), row.duration);
    }
  }
}

TEST(ModelListTest, IsJsonOfEachFamily) {
  for (const Api api : {Api::anthropic_messages, Api::openai_chat}) {
    const boost::json::value body = boost::json::parse(models_body(api, {"a", "b"}));
    EXPECT_EQ(body.at("data").as_array().size(), 2U);
    EXPECT_EQ(body.at("data").at(0).at("id").as_string(), "a");
  }
  const boost::json::value gemini = boost::json::parse(models_body(Api::gemini_generate, {"a"}));
  EXPECT_EQ(gemini.at("models").at(0).at("name").as_string(), "models/a");
}

}  // namespace
}  // namespace hg::lab
