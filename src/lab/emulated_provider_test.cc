#include "lab/emulated_provider.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "lab/socket_test_util.h"
#include "lab/wire_dialect.h"
#include "wire/dialect.h"
#include "wire/refusal.h"

namespace hg::lab {
namespace {

namespace json = boost::json;

// A model without limits that matter, quick, and silent about chance.
sim::ProviderModel quick_model() {
  sim::ProviderModel model;
  model.burst_tokens = 1'000'000;
  model.tokens_per_second = 1'000'000;
  model.burst_requests = 1'000;
  model.requests_per_second = 1'000;
  model.base = 2ms;
  model.micros_per_uncached_token = 0;
  model.micros_per_output_token = 20;
  model.latency_sigma = 0;
  return model;
}

std::string prompt(Api api, bool stream, int words = 2'000) {
  std::string text;
  for (int i = 0; i < words; ++i) text += "word ";
  if (api == Api::openai_responses) {
    return R"({"model":"m","stream":)" + std::string(stream ? "true" : "false") +
           R"(,"input":[{"role":"user","content":[{"type":"input_text","text":")" + text +
           "\"}]}]}";
  }
  if (api == Api::gemini_generate) {
    return R"({"contents":[{"role":"user","parts":[{"text":")" + text + "\"}]}]}";
  }
  const std::string mark = api == Api::anthropic_messages
                               ? R"(,"cache_control":{"type":"ephemeral"})"
                               : "";
  return R"({"model":"m","max_tokens":1000,"stream":)" + std::string(stream ? "true" : "false") +
         R"(,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":)" +
         R"([{"type":"text","text":")" + text + "\"" + mark + "}]}]}";
}

constexpr std::array<Api, 4> kApis = {Api::anthropic_messages, Api::openai_chat,
                                      Api::openai_responses, Api::gemini_generate};

const char* path_of(Api api) {
  switch (api) {
    case Api::anthropic_messages: return "/v1/messages?beta=true";
    case Api::openai_chat: return "/v1/chat/completions";
    case Api::openai_responses: return "/v1/responses";
    case Api::gemini_generate: return "/v1beta/models/m:streamGenerateContent?alt=sse";
  }
  return "/";
}

net::RequestHead post(Api api) {
  net::RequestHead head("POST", path_of(api));
  head.headers.add("Content-Type", "application/json");
  head.headers.add("x-emulated-output", "50");
  return head;
}

class EmulatedProviderTest : public testing::Test {
 protected:
  void start(ProviderConfig config) {
    provider.emplace(io.get_executor(), clock, std::move(config));
    const Result<std::uint16_t> listening = provider->listen(0);
    ASSERT_TRUE(listening) << listening.error().detail;
    port = *listening;
  }

  void TearDown() override {
    client.close_idle();
    if (!provider) return;
    const auto stop = [this]() -> net::Task<bool> {
      co_await provider->stop(0s);
      co_return true;
    };
    EXPECT_TRUE(run(io, stop()));
  }

  net::FetchedResponse fetch(const net::RequestHead& head, const std::string& body) {
    const auto ask = [&]() -> net::Task<Result<net::FetchedResponse>> {
      Result<net::FetchedResponse> answer = co_await client.fetch(loopback(port), head, body, 10s,
                                                                  10'000'000);
      co_return answer;
    };
    auto answer = run(io, ask());
    if (!answer || !*answer) {
      last_error = answer ? answer->error().detail : "no answer in time";
      return {};
    }
    return std::move(**answer);
  }

  json::value stats() {
    const net::FetchedResponse answer = fetch(net::RequestHead("GET", "/_emulated/stats"), "");
    return json::parse(answer.body);
  }

  static wire::ResponseReader read(Api api, const net::FetchedResponse& answer) {
    wire::ResponseReader reader(wire_dialect(api),
                                answer.head.headers.find("content-type").value_or(""));
    reader.feed(answer.body);
    reader.finish();
    return reader;
  }

  boost::asio::io_context io;
  OsClock clock;
  // Without a pool: on a reused connection a drop would be replayed by the client.
  net::Client client{io.get_executor(), clock, net::ClientConfig{.idle_max = 0}};
  std::optional<EmulatedProvider> provider;
  std::uint16_t port = 0;
  std::string last_error;
};

TEST_F(EmulatedProviderTest, AnswersEveryApiStreamingAndNot) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  for (const Api api : kApis) {
    for (const bool stream : {false, true}) {
      net::RequestHead head = post(api);
      if (api == Api::gemini_generate && !stream) head.target = "/v1beta/models/m:generateContent";
      const net::FetchedResponse answer = fetch(head, prompt(api, stream));
      ASSERT_EQ(answer.head.status, 200) << last_error;
      const wire::ResponseReader reader = read(api, answer);
      EXPECT_EQ(reader.streaming(), stream) << to_string(api);
      EXPECT_TRUE(reader.complete()) << to_string(api);
      EXPECT_EQ(reader.usage().output, 50) << to_string(api);
      EXPECT_NEAR(static_cast<double>(reader.usage().uncached.value_or(0) +
                                      reader.usage().cached.value_or(0)),
                  10'000 / 4.3, 130)
          << to_string(api);
      EXPECT_TRUE(answer.head.headers.has("date"));
      const Headers& headers = answer.head.headers;
      EXPECT_EQ(headers.has("anthropic-ratelimit-output-tokens-limit"),
                api == Api::anthropic_messages);
      EXPECT_EQ(headers.has("x-ratelimit-limit-tokens"),
                api == Api::openai_chat || api == Api::openai_responses);
    }
  }
  const json::value account = stats();
  EXPECT_EQ(account.at("calls").as_int64(), 8);
  EXPECT_EQ(account.at("accepted").as_int64(), 8);
  EXPECT_EQ(account.at("accepted_output").as_int64(), 400);
  EXPECT_EQ(account.at("in_flight").as_int64(), 0);
}

TEST_F(EmulatedProviderTest, ASecondCallOfTheSamePromptReadsTheCache) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  int words = 2'000;
  for (const Api api : kApis) {
    const std::string body = prompt(api, true, words += 300);  // Each a prompt of its own.
    const net::FetchedResponse first = fetch(post(api), body);
    const net::FetchedResponse second = fetch(post(api), body);
    EXPECT_EQ(read(api, first).usage().cached.value_or(0), 0) << to_string(api);
    EXPECT_GT(read(api, second).usage().cached.value_or(0), 2'000) << to_string(api);
  }
}

// In its own words each: status, and what the body (or the stream) says.
TEST_F(EmulatedProviderTest, EachApiRefusesInItsOwnShape) {
  struct Row {
    const char* plan;
    std::array<int, 4> status;
    std::array<const char*, 4> says;
  };
  const Row rows[] = {
      {"429=7",
       {429, 429, 429, 429},
       {"rate_limit_error", "rate_limit_exceeded", "rate_limit_exceeded", R"("retryDelay":"7s")"}},
      {"429-bare",
       {429, 429, 429, 429},
       {"rate_limit_error", "rate_limit_exceeded", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"}},
      {"529",
       {529, 503, 503, 503},
       {"overloaded_error", "server_is_overloaded", "server_is_overloaded", "UNAVAILABLE"}},
      {"503", {503, 503, 503, 503}, {"api_error", "slow_down", "slow_down", "UNAVAILABLE"}},
      {"500", {500, 500, 500, 500}, {"api_error", "server_error", "server_error", "INTERNAL"}},
      {"quota",
       {402, 429, 429, 429},
       {"billing_error", "insufficient_quota", "insufficient_quota", "PerDay"}},
      {"stream",
       {200, 200, 200, 200},
       {"overloaded_error", "server_is_overloaded", "response.failed", "UNAVAILABLE"}},
      {"stream-429=3",
       {200, 200, 200, 200},
       {"rate_limit_error", "try again in 3s", "try again in 3s", "RESOURCE_EXHAUSTED"}},
      {"stream-begun",
       {200, 200, 200, 200},
       {"message_start", "\"role\":\"assistant\"", "response.created", "UNAVAILABLE"}},
      {"stream-late",
       {200, 200, 200, 200},
       {"text_delta", "\"content\":", "output_text.delta", "candidates"}},
      {"drop", {0, 0, 0, 0}, {"", "", "", ""}},
      {"cut", {0, 0, 0, 0}, {"", "", "", ""}},
  };
  ProviderConfig config;
  config.model = quick_model();
  std::string plan;
  for (const Row& row : rows) plan += (plan.empty() ? "" : ",") + std::string(row.plan) + ":4";
  config.failures = FailurePlan::parse(plan).value();
  start(config);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kApis.size(); ++i) {
      const net::FetchedResponse answer = fetch(post(kApis[i]), prompt(kApis[i], true, 50));
      EXPECT_EQ(answer.head.status, row.status[i]) << row.plan << " " << to_string(kApis[i]);
      EXPECT_TRUE(answer.body.contains(row.says[i]))
          << row.plan << " " << to_string(kApis[i]) << ": " << answer.body;
      if (!std::string_view(row.plan).starts_with("stream")) continue;
      const wire::ResponseReader reader = read(kApis[i], answer);
      EXPECT_TRUE(reader.error_event()) << row.plan << " " << answer.body;
      EXPECT_FALSE(reader.complete()) << row.plan << " " << answer.body;
      EXPECT_EQ(reader.output_seen(), std::string_view(row.plan) == "stream-late")
          << row.plan << " " << answer.body;
    }
  }
  EXPECT_EQ(provider->totals().injected, 48);
}

TEST_F(EmulatedProviderTest, SilenceStandsBeforeOrAfterTheHeaders) {
  ProviderConfig config;
  config.model = quick_model();
  config.failures = FailurePlan::parse("silence=1:1,stall=1:2").value();
  start(config);
  struct Row {
    bool stream;
    bool head_at_once;
  };
  for (const Row& row : {Row{true, false}, Row{true, true}, Row{false, true}}) {
    const net::RequestHead head = post(Api::openai_chat);
    const std::string body = prompt(Api::openai_chat, row.stream, 50);
    const Instant begun = clock.now();
    Micros head_after{0};
    const auto ask = [&]() -> net::Task<bool> {
      net::ClientExchange exchange = client.start(loopback(port));
      const Result<void> sent = co_await exchange.send(head, body);
      const Result<net::ResponseHead> answer = co_await exchange.read_head(10s);
      head_after = clock.now() - begun;
      bool more = sent.has_value() && answer.has_value();
      std::array<char, 4096> chunk;
      while (more) {
        const Result<std::size_t> count = co_await exchange.read_some(chunk, 10s);
        if (!count) co_return false;
        more = *count > 0;
      }
      co_return true;
    };
    EXPECT_EQ(run(io, ask()), true);
    EXPECT_EQ(head_after < 900ms, row.head_at_once);
    EXPECT_GE(clock.now() - begun, 1s);
  }
  EXPECT_EQ(provider->totals().accepted, 3);
}

TEST_F(EmulatedProviderTest, RefusesWhatTheHiddenLimitDoesNotHold) {
  ProviderConfig config;
  config.model = quick_model();
  config.model.burst_tokens = 3'000;
  config.model.tokens_per_second = 10;
  start(config);
  const std::string body = prompt(Api::openai_chat, true);
  EXPECT_EQ(fetch(post(Api::openai_chat), body).head.status, 200) << last_error;
  const net::FetchedResponse refused = fetch(post(Api::openai_chat), body);
  EXPECT_EQ(refused.head.status, 429);
  EXPECT_TRUE(refused.head.headers.has("retry-after"));
  EXPECT_TRUE(refused.head.headers.has("x-ratelimit-reset-tokens"));
  EXPECT_TRUE(refused.body.contains("rate_limit_exceeded"));
  const ProviderTotals totals = provider->totals();
  EXPECT_EQ(totals.refused.at("429"), 1);
  EXPECT_EQ(totals.refused_total, 1);
  EXPECT_EQ(totals.injected, 0);
  EXPECT_GT(totals.limit_used, 0.7);
  EXPECT_LE(totals.limit_used, 1.0);
}

TEST_F(EmulatedProviderTest, FaultsOnOrderLookLikeTheRealOnes) {
  struct Row {
    const char* plan;
    int status;
    const char* says;
  };
  ProviderConfig config;
  config.model = quick_model();
  const std::vector<Row> rows = {{"429=7:1", 429, "rate_limit_error"},
                                 {"429-bare:1", 429, "rate_limit_error"},
                                 {"529:1", 529, "overloaded_error"},
                                 {"503:1", 503, "api_error"},
                                 {"500:1", 500, "api_error"},
                                 {"quota:1", 402, "billing_error"},
                                 {"stream:1", 200, "overloaded_error"},
                                 {"drop:1", 0, ""},
                                 {"cut:1", 0, ""}};
  std::string plan;
  for (const Row& row : rows) plan += (plan.empty() ? "" : ",") + std::string(row.plan);
  config.failures = FailurePlan::parse(plan).value();
  start(config);
  for (const Row& row : rows) {
    const net::FetchedResponse answer = fetch(post(Api::anthropic_messages),
                                              prompt(Api::anthropic_messages, true));
    EXPECT_EQ(answer.head.status, row.status) << row.plan << ": " << last_error;
    EXPECT_TRUE(answer.body.contains(row.says)) << row.plan << ": " << answer.body;
    if (std::string_view(row.plan) == "429=7:1") {
      EXPECT_EQ(answer.head.headers.find("retry-after"), "7");
    }
    if (std::string_view(row.plan) == "429-bare:1") {
      EXPECT_FALSE(answer.head.headers.has("retry-after"));
      EXPECT_FALSE(answer.head.headers.has("anthropic-ratelimit-input-tokens-limit"));
    }
  }
  EXPECT_EQ(fetch(post(Api::anthropic_messages), prompt(Api::anthropic_messages, true)).head.status,
            200);
  const ProviderTotals totals = provider->totals();
  EXPECT_EQ(totals.injected, 9);
  EXPECT_EQ(totals.refused_total, 6);
  EXPECT_EQ(totals.refused.at("stream"), 1);
  EXPECT_EQ(totals.accepted, 2);  // The cut one and the last.
}

TEST_F(EmulatedProviderTest, NoticesAClientThatLeaves) {
  ProviderConfig config;
  config.model = quick_model();
  config.model.base = 20s;
  start(config);
  const std::string body = prompt(Api::openai_chat, true);
  const net::RequestHead head = post(Api::openai_chat);
  const auto leave = [&]() -> net::Task<bool> {
    net::ClientExchange exchange = client.start(loopback(port));
    const Result<void> sent = co_await exchange.send(head, body);
    while (provider->totals().in_flight == 0) {
      const bool slept = co_await net::sleep_for(5ms);
      if (!slept) co_return false;
    }
    exchange.close();
    for (int i = 0; i < 400 && provider->totals().in_flight > 0; ++i) {
      const bool slept = co_await net::sleep_for(5ms);
      if (!slept) co_return false;
    }
    co_return sent.has_value();
  };
  EXPECT_EQ(run(io, leave()), true);
  EXPECT_EQ(provider->totals().in_flight, 0);
  EXPECT_EQ(provider->totals().client_closed, 1);
  EXPECT_EQ(provider->totals().accepted_output, 0);
}

TEST_F(EmulatedProviderTest, SilenceLastsUntilTheClientLeaves) {
  ProviderConfig config;
  config.model = quick_model();
  config.failures = FailurePlan::parse("silence:1").value();
  start(config);
  const std::string body = prompt(Api::openai_chat, true);
  const net::RequestHead head = post(Api::openai_chat);
  const auto wait = [&]() -> net::Task<Errc> {
    net::ClientExchange exchange = client.start(loopback(port));
    const Result<void> sent = co_await exchange.send(head, body);
    const Result<net::ResponseHead> answer = co_await exchange.read_head(100ms);
    if (!sent || answer) co_return Errc::internal;
    co_return answer.error().code;
  };
  EXPECT_EQ(run(io, wait()), Errc::timed_out);
}

TEST_F(EmulatedProviderTest, BadRequestsAndOtherPathsGetTheDialectsErrors) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  const net::FetchedResponse bad = fetch(post(Api::anthropic_messages), "{\"model\":");
  EXPECT_EQ(bad.head.status, 400);
  EXPECT_TRUE(bad.body.contains("invalid_request_error"));
  EXPECT_EQ(fetch(net::RequestHead("GET", "/nowhere"), "").head.status, 404);

  net::RequestHead models("GET", "/v1/models");
  EXPECT_TRUE(fetch(models, "").body.contains("\"object\":\"list\""));
  models.headers.add("anthropic-version", "2023-06-01");
  EXPECT_TRUE(fetch(models, "").body.contains("has_more"));

  net::RequestHead count("POST", "/v1/messages/count_tokens");
  const std::string body = prompt(Api::anthropic_messages, false);
  const json::value counted = json::parse(fetch(count, body).body);
  EXPECT_GT(counted.at("input_tokens").as_int64(), 2'000);
  const ProviderTotals totals = provider->totals();
  EXPECT_EQ(totals.calls, 0);
  EXPECT_EQ(totals.bad_requests, 1);
  EXPECT_EQ(totals.free_requests, 3);
}

TEST_F(EmulatedProviderTest, WhatCodexAsksBesideIsHarmless) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  net::RequestHead upgrade("GET", "/v1/responses");
  upgrade.headers.add("Upgrade", "websocket");
  upgrade.headers.add("Connection", "Upgrade");
  EXPECT_EQ(fetch(upgrade, "").head.status, 426);
  EXPECT_EQ(fetch(net::RequestHead("GET", "/backend-api/wham/accounts/check"), "").head.status,
            404);
  const net::RequestHead events("POST", "/backend-api/codex/analytics-events/events");
  EXPECT_EQ(fetch(events, "{}").head.status, 200);

  const net::FetchedResponse prewarm = fetch(
      post(Api::openai_responses), R"({"model":"m","generate":false,"stream":true,"input":[]})");
  const wire::ResponseReader reader = read(Api::openai_responses, prewarm);
  EXPECT_TRUE(reader.complete()) << prewarm.body;
  EXPECT_EQ(reader.usage().output, 0);
  EXPECT_EQ(provider->totals().calls, 0);
  EXPECT_EQ(provider->totals().accepted_tokens, 0);
}

TEST_F(EmulatedProviderTest, ReadsZstdAndWritesGzipWhereItIsAccepted) {
  ProviderConfig config;
  config.model = quick_model();
  config.gzip = true;
  start(config);
  for (const bool stream : {false, true}) {
    const std::string body = prompt(Api::openai_responses, stream, 500);
    std::string packed(ZSTD_compressBound(body.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), body.data(), body.size(), 3));
    net::RequestHead head = post(Api::openai_responses);
    head.headers.add("Content-Encoding", "zstd");
    const net::FetchedResponse plain = fetch(head, packed);
    EXPECT_TRUE(read(Api::openai_responses, plain).complete()) << plain.body;
    EXPECT_FALSE(plain.head.headers.has("content-encoding"));
    head.headers.add("Accept-Encoding", "gzip, br");
    const net::FetchedResponse zipped = fetch(head, packed);
    EXPECT_EQ(zipped.head.headers.find("content-encoding"), "gzip");
    EXPECT_TRUE(zipped.body.starts_with("\x1f\x8b"));
    EXPECT_LT(zipped.body.size(), plain.body.size());
  }
  net::RequestHead broken = post(Api::openai_responses);
  broken.headers.add("Content-Encoding", "zstd");
  EXPECT_EQ(fetch(broken, "{}").head.status, 400);
}

TEST_F(EmulatedProviderTest, GeminiCountsListsAndStreamsAnArray) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  const std::string body = prompt(Api::gemini_generate, true);
  const net::FetchedResponse count = fetch(net::RequestHead("POST", "/v1beta/models/m:countTokens"),
                                           body);
  EXPECT_GT(json::parse(count.body).at("totalTokens").as_int64(), 2'000);
  EXPECT_TRUE(fetch(net::RequestHead("GET", "/v1beta/models"), "").body.contains("models/gemini"));
  const net::FetchedResponse array = fetch(
      net::RequestHead("POST", "/v1beta/models/m:streamGenerateContent"), body);
  ASSERT_EQ(array.head.status, 200);
  EXPECT_EQ(json::parse(array.body).at(0).at("modelVersion").as_string(), "m");
}

TEST_F(EmulatedProviderTest, PlaysItsScript) {
  ProviderConfig config;
  config.model = quick_model();
  config.script = parse_script(R"(
    [[conversation]]
    [[conversation.turn]]
    text = "I look."
    [[conversation.turn.call]]
    use = "read"
    path = "/tmp/a"
  )",
                               "s.toml")
                      .value();
  start(config);
  const std::string
      body = R"({"model":"m","tools":[{"name":"Read","input_schema":{"type":"object","properties":)"
             R"({"file_path":{}}}}],"messages":[{"role":"user","content":"go"}]})";
  const json::value answer = json::parse(fetch(post(Api::anthropic_messages), body).body);
  EXPECT_EQ(answer.at("stop_reason").as_string(), "tool_use");
  EXPECT_EQ(answer.at("content").at(1).at("name").as_string(), "Read");
  EXPECT_EQ(answer.at("content").at(1).at("input").at("file_path").as_string(), "/tmp/a");
}

TEST_F(EmulatedProviderTest, LogsOneLineACall) {
  const std::string path = testing::TempDir() + "emulated_provider_test.jsonl";
  std::remove(path.c_str());
  ProviderConfig config;
  config.model = quick_model();
  config.log_path = path;
  config.failures = FailurePlan::parse("529:1").value();
  start(config);
  for (int i = 0; i < 2; ++i) {
    fetch(post(Api::openai_chat), prompt(Api::openai_chat, true));
  }
  std::ifstream file(path);
  std::vector<json::value> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  std::remove(path.c_str());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("outcome").as_string(), "529");
  EXPECT_EQ(lines[0].at("status").as_int64(), 503);  // OpenAI's overload.
  EXPECT_EQ(lines[1].at("outcome").as_string(), "accepted");
  EXPECT_EQ(lines[1].at("output_sent").as_int64(), 50);
  EXPECT_FALSE(lines[1].at("client_closed").as_bool());
}

TEST_F(EmulatedProviderTest, MovesItsHiddenRatesWhenTold) {
  ProviderConfig config;
  config.model = quick_model();
  start(config);
  const net::RequestHead scale("POST", "/_emulated/scale");
  EXPECT_EQ(fetch(scale, R"({"factor":0.5})").head.status, 200);
  EXPECT_EQ(fetch(scale, R"({"factor":-1})").head.status, 400);
  EXPECT_EQ(fetch(scale, "nonsense").head.status, 400);
}

}  // namespace
}  // namespace hg::lab
