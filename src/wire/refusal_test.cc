#include "wire/refusal.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "wire/errors.h"

namespace hg::wire {
namespace {

constexpr WallTime kNow{Micros{1'789'108'049'000'000}};  // 2026-09-11T06:27:29Z.

using Fields = std::vector<std::pair<std::string, std::string>>;

Refusal classify(std::string_view provider, int status, const Fields& fields,
                 std::string_view body) {
  Headers headers;
  for (const auto& [name, value] : fields) headers.add(name, value);
  return classify_response(*Profiles::built_in().provider(provider), status, headers, body, kNow);
}

struct Row {
  const char* why;
  std::string_view provider;
  int status;
  Fields headers;
  std::string_view body;
  RefusalKind kind;
  std::optional<Micros> retry_after = std::nullopt;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Refusal refusal = classify(row.provider, row.status, row.headers, row.body);
    EXPECT_EQ(refusal.kind, row.kind) << row.why << ": is " << to_string(refusal.kind);
    EXPECT_EQ(refusal.retry_after, row.retry_after) << row.why;
  }
}

TEST(RefusalTest, StatusAloneDecidesWhenThereIsNothingElse) {
  for (const std::string_view provider : {"generic", "anthropic", "openai", "openrouter"}) {
    check({
        {"success", provider, 200, {}, "{}", RefusalKind::none},
        {"redirect", provider, 302, {}, "", RefusalKind::none},
        {"bad request", provider, 400, {}, "", RefusalKind::request},
        {"no key", provider, 401, {}, "", RefusalKind::request},
        {"no money", provider, 402, {}, "", RefusalKind::quota},
        {"no rights", provider, 403, {}, "", RefusalKind::request},
        {"not there", provider, 404, {}, "", RefusalKind::request},
        {"too large", provider, 413, {}, "", RefusalKind::request},
        {"pace", provider, 429, {}, "", RefusalKind::overload},
        {"fault", provider, 500, {}, "", RefusalKind::server},
        {"gateway", provider, 502, {}, "", RefusalKind::server},
        {"load", provider, 503, {}, "", RefusalKind::overload},
        {"late", provider, 504, {}, "", RefusalKind::server},
        {"overloaded", provider, 529, {}, "", RefusalKind::overload},
    });
  }
}

TEST(RefusalTest, AnthropicsShapes) {
  check({
      {"rate limit",
       "anthropic",
       429,
       {{"retry-after", "12"}},
       R"({"type":"error","error":{"type":"rate_limit_error","message":"would exceed 30,000 input tokens per minute"},"request_id":"r"})",
       RefusalKind::overload,
       12s},
      {"overloaded",
       "anthropic",
       529,
       {},
       R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
       RefusalKind::overload},
      {"of old, without retry-after, but with limits",
       "anthropic",
       429,
       {{"anthropic-ratelimit-requests-limit", "5"}, {"x-should-retry", "true"}},
       R"({"type":"error","error":{"type":"rate_limit_error","message":"monthly usage"}})",
       RefusalKind::overload},
      {"the tier's spend cap",
       "anthropic",
       429,
       {},
       R"({"type":"error","error":{"type":"rate_limit_error","message":"You have reached your monthly spend limit."}})",
       RefusalKind::quota},
      {"own spend limit",
       "anthropic",
       400,
       {},
       R"({"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}})",
       RefusalKind::quota},
      {"caller's mistake",
       "anthropic",
       400,
       {},
       R"({"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: rate limit"}})",
       RefusalKind::request},
      {"billing",
       "anthropic",
       402,
       {},
       R"({"type":"error","error":{"type":"billing_error","message":"..."}})",
       RefusalKind::quota},
      {"window of a subscription",
       "anthropic",
       429,
       {{"retry-after", "684"}, {"anthropic-ratelimit-unified-status", "rejected"}},
       R"({"type":"error","error":{"type":"rate_limit_error","message":"x"}})",
       RefusalKind::quota,
       684s},
      {"a fault",
       "anthropic",
       500,
       {},
       R"({"type":"error","error":{"type":"api_error","message":"Internal server error"}})",
       RefusalKind::server},
  });
}

TEST(RefusalTest, OpenAisShapes) {
  check({
      {"pace, time in the text",
       "openai",
       429,
       {},
       R"({"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 14567, Requested 24754. Please try again in 18.642s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}})",
       RefusalKind::overload,
       18'642ms},
      {"milliseconds in the text",
       "openai",
       429,
       {},
       R"({"error":{"message":"Please try again in 174ms.","type":"tokens","code":"rate_limit_exceeded"}})",
       RefusalKind::overload,
       174ms},
      {"the finer header wins",
       "openai",
       429,
       {{"retry-after", "1"}, {"retry-after-ms", "125"}},
       "",
       RefusalKind::overload,
       125ms},
      {"quota",
       "openai",
       429,
       {},
       R"({"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}})",
       RefusalKind::quota},
      {"a plan's window",
       "openai",
       429,
       {},
       R"({"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1777936568,"resets_in_seconds":13872}})",
       RefusalKind::quota,
       13'872s},
      {"larger than the bucket",
       "openai",
       429,
       {},
       R"({"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30601.","type":"tokens","code":"rate_limit_exceeded"}})",
       RefusalKind::request},
      {"overloaded",
       "openai",
       503,
       {},
       R"({"error":{"message":"...","type":"server_error","code":"server_is_overloaded"}})",
       RefusalKind::overload},
      {"a fault",
       "openai",
       500,
       {},
       R"({"error":{"message":"The server had an error","type":"server_error","code":null}})",
       RefusalKind::server},
      {"text of billing in a pace",
       "openai",
       429,
       {{"retry-after", "7"}},
       R"({"error":{"message":"quota and billing","type":"requests","code":"rate_limit_exceeded"}})",
       RefusalKind::overload,
       7s},
  });
}

TEST(RefusalTest, OtherProvidersShapes) {
  check({
      {"Gemini, a limit a minute that speaks of billing",
       "gemini",
       429,
       {},
       R"([{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}])",
       RefusalKind::overload,
       34'070ms},
      {"Gemini, a day",
       "gemini",
       429,
       {},
       R"({"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"34s"}]}})",
       RefusalKind::quota,
       34s},
      {"Gemini, not on this tier",
       "gemini",
       429,
       {},
       R"({"error":{"code":429,"message":"Quota exceeded for metric: x, limit: 0, model: y. Please retry in 45.57s.","status":"RESOURCE_EXHAUSTED"}})",
       RefusalKind::quota,
       45'570ms},
      {"Gemini, load",
       "gemini",
       503,
       {},
       R"({"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}})",
       RefusalKind::overload},
      {"OpenRouter, from behind",
       "openrouter",
       429,
       {},
       R"({"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"code\":\"x\",\"message\":\"temporarily rate-limited upstream\"}}","provider_name":"p","retry_after_seconds":9.5}}})",
       RefusalKind::overload,
       9'500ms},
      {"OpenRouter, reset in its headers",
       "openrouter",
       429,
       {},
       R"({"error":{"code":429,"message":"m","metadata":{"headers":{"X-RateLimit-Reset":"1789108054000"}}}})",
       RefusalKind::overload,
       5s},
      {"OpenRouter, credit",
       "openrouter",
       402,
       {},
       R"({"error":{"code":402,"message":"Insufficient credits"}})",
       RefusalKind::quota},
      {"Moonshot, load",
       "moonshot",
       429,
       {},
       R"({"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}})",
       RefusalKind::overload},
      {"Moonshot, pace",
       "moonshot",
       429,
       {},
       R"({"error":{"message":"request reached organization max RPM: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}})",
       RefusalKind::overload,
       1s},
      {"Moonshot, empty",
       "moonshot",
       429,
       {},
       R"({"error":{"message":"...","type":"exceeded_current_quota_error"}})",
       RefusalKind::quota},
      {"Z.ai, arrears",
       "zai",
       429,
       {},
       R"({"error":{"code":"1113","message":"..."}})",
       RefusalKind::quota},
      {"Z.ai, concurrency",
       "zai",
       429,
       {},
       R"({"error":{"code":"1302","message":"..."}})",
       RefusalKind::overload},
      {"Z.ai, code as a number",
       "zai",
       429,
       {},
       R"({"error":{"code":1310,"message":"..."}})",
       RefusalKind::quota},
      {"Groq, flex tier",
       "groq",
       498,
       {},
       R"({"error":{"code":"capacity_exceeded"}})",
       RefusalKind::overload},
      {"Groq, a day",
       "groq",
       429,
       {},
       R"({"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in 9m38.016s.","type":"tokens","code":"rate_limit_exceeded"}})",
       RefusalKind::quota,
       578'016ms},
      {"Groq, a minute",
       "groq",
       429,
       {},
       R"({"error":{"message":"Please try again in 6.780999999s. Visit","type":"tokens","code":"rate_limit_exceeded"}})",
       RefusalKind::overload,
       6'781ms},
      {"Azure, larger than the bucket",
       "azure",
       429,
       {{"retry-after", "86400"}},
       R"({"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit. Please retry after 86400 seconds."}})",
       RefusalKind::request,
       86'400s},
      {"Azure, pace",
       "azure",
       429,
       {},
       R"({"error":{"code":"429","message":"... Please retry after 9 seconds. Please go here"}})",
       RefusalKind::overload,
       9s},
      {"Mistral, queue",
       "mistral",
       503,
       {{"retry-after", "2"}},
       R"({"object":"error","message":"The request queue is full.","type":"x","code":"1"})",
       RefusalKind::overload,
       2s},
      {"Cerebras, a bare text",
       "generic",
       429,
       {},
       R"("Tokens per minute limit exceeded - too many tokens processed.")",
       RefusalKind::overload},
      {"a firewall's page",
       "generic",
       429,
       {},
       "<!DOCTYPE html><title>Blocked</title>",
       RefusalKind::overload},
      {"a quota code with a time in seconds",
       "generic",
       429,
       {{"retry-after", "20"}},
       R"({"error":{"code":"insufficient_quota"}})",
       RefusalKind::overload,
       20s},
      {"a quota code without",
       "generic",
       429,
       {},
       R"({"error":{"code":"insufficient_quota"}})",
       RefusalKind::quota},
      {"a body cut in the middle",
       "openai",
       429,
       {},
       R"({"error":{"message":"Rate limit rea)",
       RefusalKind::overload},
      {"a message cut amid a character beside its code",
       "openai",
       429,
       {},
       R"({"error":{"message":"You exceeded \ud83d","code":"insufficient_quota"}})",
       RefusalKind::quota},
      {"a gateway that hides a 529",
       "generic",
       500,
       {},
       R"({"error":"Overloaded"})",
       RefusalKind::overload},
      {"AWS",
       "generic",
       400,
       {},
       R"({"__type":"ThrottlingException","message":"Too many tokens"})",
       RefusalKind::overload},
  });
}

TEST(RefusalTest, ErrorEventsInsideAStream) {
  struct Event {
    const char* why;
    std::string_view provider;
    std::string_view json;
    RefusalKind kind;
  };
  const Event events[] = {
      {"Anthropic", "anthropic",
       R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
       RefusalKind::overload},
      {"Anthropic, a fault", "anthropic",
       R"({"type":"error","error":{"type":"api_error","message":"x"}})", RefusalKind::server},
      {"OpenRouter", "openrouter",
       R"({"id":"x","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"x"}})",
       RefusalKind::overload},
      {"OpenRouter, provider down", "openrouter", R"({"error":{"code":502,"message":"x"}})",
       RefusalKind::server},
      {"SGLang", "generic", R"({"error":{"message":"queue","code":503}})", RefusalKind::overload},
      {"Mistral's text", "mistral",
       R"({"error":{"message":"[503] The request queue is full.","code":503}})",
       RefusalKind::overload},
      {"Responses", "openai",
       R"({"type":"response.failed","response":{"error":{"code":"server_is_overloaded","message":"x"}}})",
       RefusalKind::overload},
      {"quota", "openai", R"({"error":{"code":"insufficient_quota","message":"x"}})",
       RefusalKind::quota},
      {"nothing known", "generic", R"({"error":{"message":"boom"}})", RefusalKind::server},
      {"words of load and no code", "generic", R"({"error":{"message":"Server overloaded"}})",
       RefusalKind::overload},
      {"the caller's mistake", "generic", R"({"error":{"code":400,"message":"x"}})",
       RefusalKind::request},
      {"no JSON", "generic", "oops", RefusalKind::server},
  };
  for (const Event& event : events) {
    const Refusal refusal = classify_stream_error(*Profiles::built_in().provider(event.provider),
                                                  event.json, kNow);
    EXPECT_EQ(refusal.kind, event.kind) << event.why << ": is " << to_string(refusal.kind);
  }
}

TEST(RefusalTest, OurOwnIsToldByTheHeaderWhateverTheRest) {
  const Refusal refusal = classify("openai", 429,
                                   {{"X-Headgate-Refusal", "hold-cap"}, {"retry-after", "30"}},
                                   error_body(Dialect::openai_chat, 429, "hold-cap", "queue"));
  EXPECT_EQ(refusal.kind, RefusalKind::ours);
  EXPECT_EQ(refusal.code, "hold-cap");
  EXPECT_EQ(refusal.retry_after, 30s);
}

TEST(RefusalTest, AGatewayThatMarksItsOwnIsBelievedOnlyByItsProfile) {
  const auto profiles = Profiles::load(
      {{"gateway.toml", "provider = \"gateway\"\nretry_after_marks_own = true\n"}});
  ASSERT_TRUE(profiles.has_value());
  Headers headers;
  headers.add("retry-after", "30");
  EXPECT_EQ(classify_response(*profiles->provider("gateway"), 429, headers, "", kNow).kind,
            RefusalKind::ours);
  EXPECT_EQ(classify_response(*profiles->provider("gateway"), 429, {}, "", kNow).kind,
            RefusalKind::overload);
  EXPECT_EQ(classify("generic", 429, {{"retry-after", "30"}}, "").kind, RefusalKind::overload);
}

TEST(RefusalTest, TheDecidingCodeIsNamed) {
  EXPECT_EQ(classify("openai", 429, {}, R"({"error":{"code":"insufficient_quota"}})").code,
            "insufficient_quota");
  EXPECT_EQ(classify("openai", 429, {}, "").code, "");
}

TEST(RefusalTest, HostileBodiesAreOnlyText) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(classify("generic", 429, {}, deep).kind, RefusalKind::overload);
  EXPECT_EQ(classify("generic", 400, {}, std::string(200'000, 'x')).kind, RefusalKind::request);
  std::string nested = "{}";
  for (int i = 0; i < 20; ++i) nested = R"({"response":)" + nested + "}";
  EXPECT_EQ(classify("generic", 503, {}, nested).kind, RefusalKind::overload);
  EXPECT_EQ(classify("generic", 503, {}, "\xFF\xFE{\"error\"").kind, RefusalKind::overload);
}

}  // namespace
}  // namespace hg::wire
