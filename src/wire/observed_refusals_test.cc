// Refusals that people met and wrote down in public, as rows of our own: what was limited, by how
// much, and the time that was named; the wording is the provider's usual one. Where the collection
// lies beside the repository, every one of its rows must have one here.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "wire/dialect.h"
#include "wire/profiles.h"
#include "wire/refusal.h"

namespace hg::wire {
namespace {

namespace json = boost::json;

constexpr WallTime kNow{Micros{1'789'108'049'000'000}};
constexpr double kUntold = -1;

using Fields = std::vector<std::pair<std::string, std::string>>;

struct Observed {
  std::string source;     // Who answered, as the collection names it.
  std::string dimension;  // What was limited.
  double retry_s;         // The time that was named; kUntold for none.
  std::string profile;    // Whose rules read it.
  int status;
  Fields headers;
  std::string body;
  RefusalKind kind;
};

// A span as OpenAI and Groq write it: "232ms", "18.642s", "9m38.016s".
std::string span(double seconds) {
  if (seconds < 1) return fmt::format("{:g}ms", seconds * 1'000);
  const auto minutes = static_cast<int>(seconds / 60);
  if (minutes == 0) return fmt::format("{:.9g}s", seconds);
  return fmt::format("{}m{:.9g}s", minutes, seconds - 60 * minutes);
}

Observed told_in_text(const std::string& source, const std::string& dimension,
                      const std::string& words, std::int64_t limit, std::int64_t used,
                      std::int64_t requested, double retry_s, RefusalKind kind) {
  const std::string unit = dimension.starts_with("R") ? "requests" : "tokens";
  return {
      source,
      dimension,
      retry_s,
      source,
      429,
      {},
      fmt::format(R"({{"error":{{"message":"Rate limit reached for a-model in organization o on )"
                  R"({} ({}): Limit {}, Used {}, Requested {}. Please try again in {}. Visit )"
                  R"(the account page.","type":"{}","code":"rate_limit_exceeded"}}}})",
                  words, dimension, limit, used, requested, span(retry_s), unit),
      kind};
}

Observed too_large(std::int64_t limit, std::int64_t requested) {
  return {
      "openai",
      "TPM",
      kUntold,
      "openai",
      429,
      {},
      fmt::format(R"({{"error":{{"message":"Request too large for a-model in organization o on )"
                  R"(tokens per min (TPM): Limit {}, Requested {}.","type":"tokens",)"
                  R"("code":"rate_limit_exceeded"}}}})",
                  limit, requested),
      RefusalKind::request};
}

Observed moonshot(const std::string& dimension, double retry_s, const std::string& type,
                  const std::string& words) {
  return {"moonshot",
          dimension,
          retry_s,
          "moonshot",
          429,
          {},
          fmt::format(R"({{"error":{{"message":"{}","type":"{}"}}}})", words, type),
          RefusalKind::overload};
}

Observed anthropic(const std::string& dimension, std::int64_t limit) {
  return {"anthropic",
          dimension,
          kUntold,
          "anthropic",
          429,
          {},
          fmt::format(R"({{"type":"error","error":{{"type":"rate_limit_error","message":"This )"
                      R"(request would exceed your organization's rate limit of {} input tokens )"
                      R"(per minute."}}}})",
                      limit),
          RefusalKind::overload};
}

Observed subscription(double retry_s, Fields fields) {
  fields.emplace_back("retry-after", fmt::format("{:.0f}", retry_s));
  return {"anthropic-subscription",
          "5h window",
          retry_s,
          "anthropic",
          429,
          std::move(fields),
          R"({"type":"error","error":{"type":"rate_limit_error","message":"Error"}})",
          RefusalKind::quota};
}

Observed overloaded() {
  return {"anthropic",
          "529 overloaded",
          kUntold,
          "anthropic",
          529,
          {},
          R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
          RefusalKind::overload};
}

Observed plan(const std::string& dimension, double retry_s) {
  return {"openai-codex",
          dimension,
          retry_s,
          "openai",
          429,
          {},
          fmt::format(R"({{"error":{{"type":"usage_limit_reached","message":"The usage limit has )"
                      R"(been reached","plan_type":"plus","resets_in_seconds":{:.0f}}}}})",
                      retry_s),
          RefusalKind::quota};
}

Observed azure(double retry_s, RefusalKind kind) {
  return {
      "azure",
      "TPM",
      retry_s,
      "azure",
      429,
      {},
      fmt::format(R"({{"error":{{"code":"429","message":"Requests to the operation have exceeded )"
                  R"(the token rate limit of your pricing tier. Please retry after {:.0f} )"
                  R"(seconds."}}}})",
                  retry_s),
      kind};
}

Observed bedrock() {
  return {"bedrock",
          "tokens",
          kUntold,
          "bedrock",
          429,
          {{"x-amzn-errortype", "ThrottlingException"}},
          R"({"message":"Too many tokens, please wait before trying again."})",
          RefusalKind::overload};
}

Observed gemini(const std::string& dimension, double retry_s, const std::string& words,
                RefusalKind kind) {
  return {
      "gemini",
      dimension,
      retry_s,
      "gemini",
      429,
      {},
      fmt::format(R"({{"error":{{"code":429,"message":"You exceeded your current quota, please )"
                  R"(check your plan and billing details. {}","status":"RESOURCE_EXHAUSTED",)"
                  R"("details":[{{"@type":"type.googleapis.com/google.rpc.RetryInfo",)"
                  R"("retryDelay":"{:.9f}s"}}]}}}})",
                  words, retry_s),
      kind};
}

std::vector<Observed> observed() {
  const std::string tpm = "tokens per min";
  const std::string tpm_groq = "tokens per minute";
  const std::string tpd = "tokens per day";
  const std::string free_tier = "requests+input tokens (free tier)";
  constexpr auto kLoad = RefusalKind::overload;
  std::vector<Observed> rows = {
      told_in_text("openai", "TPM", tpm, 30'000, 14'567, 24'754, 18.642, kLoad),
      told_in_text("openai", "TPM", tpm, 10'000, 8'554, 3'082, 9.816, kLoad),
      told_in_text("openai", "TPM", tpm, 30'000, 18'928, 11'159, 0.174, kLoad),
      told_in_text("openai", "TPM", tpm, 30'000, 28'039, 3'906, 3.89, kLoad),
      told_in_text("openai", "TPM", tpm, 30'000, 29'937, 385, 0.644, kLoad),
      told_in_text("openai", "TPM", tpm, 200'000, 200'000, 775, 0.232, kLoad),
      told_in_text("openai", "TPM", tpm, 200'000, 200'000, 4'521, 1.356, kLoad),
      told_in_text("openai", "RPD", "requests per day", 1'000, 1'000, 1, 86.4, kLoad),
      too_large(160'000, 161'170),
      too_large(30'000, 30'601),
      too_large(60'000, 111'714),
      told_in_text("groq", "TPD", tpd, 100'000, 97'050, 3'619, 578.016, RefusalKind::quota),
      told_in_text("groq", "TPD", tpd, 100'000, 99'926, 1'739, 1438.56, RefusalKind::quota),
      // More than the whole limit, yet with a time: the explicit hint is believed.
      told_in_text("groq", "TPM", tpm_groq, 7'000, 0, 12'903, 50.597142857, kLoad),
      told_in_text("groq", "TPM", tpm_groq, 6'000, 3'513, 3'166, 6.780999999, kLoad),
      told_in_text("groq", "TPM", tpm_groq, 12'000, 4'437, 9'854, 11.455, kLoad),
      told_in_text("groq", "TPM", tpm_groq, 12'000, 2'542, 9'855, 1.984999999, kLoad),
      told_in_text("groq", "TPM", tpm_groq, 6'000, 5'914, 1'822, 17.359, kLoad),
      moonshot("concurrency(org)", 1, "rate_limit_reached_error",
               "request reached max organization concurrency: 1, please try again after 1 seconds"),
      // For three requests a minute one second is no help; it is only a hint.
      moonshot("RPM(org)", 1, "rate_limit_reached_error",
               "request reached organization max RPM: 3, please try again after 1 seconds"),
      moonshot("engine overloaded as 429", kUntold, "engine_overloaded_error",
               "The engine is currently overloaded, please try again later"),
      moonshot("shared capacity", kUntold, "rate_limit_reached_error",
               "We're receiving too many requests at the moment"),
      anthropic("ITPM", 20'000),
      anthropic("ITPM", 30'000),
      anthropic("ITPM", 40'000),
      anthropic("ITPM", 1'000'000),
      subscription(684, {{"anthropic-ratelimit-unified-status", "rejected"},
                         {"anthropic-ratelimit-unified-5h-utilization", "1.0"}}),
      subscription(13'262, {{"anthropic-ratelimit-unified-5h-status", "rejected"}}),
      subscription(7'999, {}),
      overloaded(),
      plan("5h window", 13'872),
      plan("usage limit", 602'705),
      plan("usage limit", 529'498),
      azure(86'400, RefusalKind::request),
      azure(60, kLoad),
      azure(9, kLoad),
      bedrock(),
      // A limit of zero: the model is not on this tier, whatever delay is named.
      gemini(free_tier, 45.578569677, "* Quota exceeded, limit: 0", RefusalKind::quota),
      gemini(free_tier, 11.665902715, "* Quota exceeded, limit: 0", RefusalKind::quota),
      gemini(free_tier, 20.04466179, "* Quota exceeded, limit: 0", RefusalKind::quota),
      gemini("ITPM", 59, "Please retry in 59s.", kLoad),
  };
  rows.push_back(
      {"openai",
       "TPM",
       0.125,
       "openai",
       429,
       {{"retry-after", "1"}, {"retry-after-ms", "125"}},
       R"({"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit"}})",
       kLoad});
  rows.push_back(
      {"xai",
       "TPM",
       kUntold,
       "xai",
       429,
       {},
       R"({"code":"Some resource has been exhausted","error":"Too many requests. Tokens )"
       R"(per Minute (actual/limit): 65605/16000"})",
       kLoad});
  rows.push_back({"zhipu",
                  "concurrency",
                  kUntold,
                  "zai",
                  429,
                  {},
                  R"({"error":{"code":"1302","message":"Rate limit reached for requests"}})",
                  kLoad});
  rows.push_back(
      {"claude-relay",
       "concurrency",
       kUntold,
       "generic",
       429,
       {},
       R"({"error":"Concurrency limit exceeded","message":"Too many concurrent requests. )"
       R"(Limit: 1 concurrent requests"})",
       kLoad});
  rows.push_back({"cerebras",
                  "TPM",
                  kUntold,
                  "generic",
                  429,
                  {},
                  R"("Tokens per minute limit exceeded - too many tokens processed.")",
                  kLoad});
  rows.push_back({"anthropic",
                  "RPM",
                  kUntold,
                  "anthropic",
                  429,
                  {{"anthropic-ratelimit-requests-limit", "5"},
                   {"anthropic-ratelimit-requests-remaining", "0"},
                   {"anthropic-ratelimit-requests-reset", "2024-03-26T20:00:00Z"},
                   {"x-should-retry", "true"}},
                  R"({"type":"error","error":{"type":"rate_limit_error","message":"requests"}})",
                  kLoad});
  rows.push_back(
      {"openai-codex",
       "7d window",
       471'285,
       "openai",
       429,
       {{"x-codex-primary-used-percent", "100"}, {"x-codex-primary-reset-after-seconds", "471285"}},
       "",
       RefusalKind::quota});
  rows.push_back({"gemini",
                  "3 violations at once: ITPM + RPM + RPD",
                  kUntold,
                  "gemini",
                  429,
                  {},
                  R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":)"
                  R"("type.googleapis.com/google.rpc.QuotaFailure","violations":[)"
                  R"({"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"},)"
                  R"({"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}})",
                  RefusalKind::quota});
  rows.push_back({"proxy/WAF",
                  "none",
                  kUntold,
                  "generic",
                  429,
                  {{"content-type", "text/html"}},
                  "<!DOCTYPE html><title>Blocked</title>",
                  kLoad});
  rows.push_back({"openai",
                  "429 without rate-limit headers",
                  kUntold,
                  "openai",
                  429,
                  {{"content-type", "application/json"}},
                  R"({"error":{"message":"Rate limit reached","type":"requests","code":null}})",
                  kLoad});
  // A client that met its plan's limit every seven seconds for hours: a clock time, without a day.
  rows.push_back(
      {"openai-codex",
       "loop",
       kUntold,
       "openai",
       429,
       {},
       R"({"error":{"type":"usage_limit_reached","message":"You've hit your usage limit. )"
       R"(Try again at 9:01 AM."}})",
       RefusalKind::quota});
  return rows;
}

// Where the time is in a field that is no hint of when to retry, it is not taken for one.
bool hint_is_read(const Observed& row) { return row.dimension != "7d window"; }

TEST(ObservedRefusalsTest, EachIsClassedAndItsHintIsRead) {
  for (const Observed& row : observed()) {
    Headers headers;
    for (const auto& [name, value] : row.headers) headers.add(name, value);
    const Refusal refusal = classify_response(*Profiles::built_in().provider(row.profile),
                                              row.status, headers, row.body, kNow);
    EXPECT_EQ(refusal.kind, row.kind)
        << row.source << " " << row.dimension << " is " << to_string(refusal.kind) << row.body;
    if (!hint_is_read(row)) continue;
    ASSERT_EQ(refusal.retry_after.has_value(), row.retry_s != kUntold)
        << row.source << " " << row.dimension << row.body;
    if (!refusal.retry_after) continue;
    EXPECT_NEAR(static_cast<double>(refusal.retry_after->count()) / 1e6, row.retry_s, 0.001)
        << row.source << " " << row.dimension;
  }
}

// The same inside a stream that began with a 200, where nothing but the body tells.
TEST(ObservedRefusalsTest, WhatABodyTellsIsToldInsideAStreamToo) {
  for (const Observed& row : observed()) {
    if (!row.headers.empty() || !row.body.starts_with("{") || row.source == "claude-relay")
      continue;
    const Refusal refusal = classify_stream_error(*Profiles::built_in().provider(row.profile),
                                                  row.body, kNow);
    // Rules that need the status 429 cannot speak here; nothing becomes the caller's fault.
    if (row.kind == RefusalKind::overload) {
      EXPECT_EQ(refusal.kind, row.kind) << row.source << " " << row.dimension << row.body;
    }
    EXPECT_EQ(refusal.retry_after.has_value(), row.retry_s != kUntold) << row.body;
  }
}

double number_or(const json::object& row, const char* key, double otherwise) {
  const auto* value = row.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : otherwise;
}

TEST(ObservedRefusalsTest, EveryRowOfTheCollectionHasOneHere) {
  const auto folder = std::filesystem::path(HG_SHARED_DIR) / "data/ratelimits";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no collection beside the repository";
  const std::vector<Observed> rows = observed();
  std::ifstream lines(folder / "observed_429.jsonl");
  int refusals = 0;
  for (std::string line; std::getline(lines, line);) {
    const json::object seen = json::parse(line).as_object();
    if (number_or(seen, "status", 429) == 200) continue;  // A look at a limit, not a refusal.
    ++refusals;
    const std::string_view source = seen.at("provider").as_string();
    const std::string_view dimension = seen.at("dimension").as_string();
    const double retry_s = number_or(seen, "retry_s", kUntold);
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Observed& row) {
      return row.source == source && row.dimension == dimension &&
             std::abs(row.retry_s - retry_s) < 0.001;
    })) << line;
  }
  EXPECT_GE(refusals, 60);
  EXPECT_TRUE(std::filesystem::exists(folder / "codex_usage_limit_loop.jsonl"));
}

}  // namespace
}  // namespace hg::wire
