// What an agent and a provider see of the shim when all goes as it should, and of its own answers.
#include "proxy/shim.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <iterator>
#include <string>
#include <vector>

#include "proxy/shim_bench.h"
#include "proxy/test_codings.h"
#include "wire/errors.h"

namespace hg::proxy {
namespace {

using ShimTest = ShimBench;

std::string whole(const Scripted& answer) {
  std::string body;
  for (const std::string& piece : answer.pieces) body += piece;
  return body;
}

// ---- The thin path ----------------------------------------------------------------------------

TEST_F(ShimTest, AStreamPassesUntouchedAndIsSettledByItsUsage) {
  start();
  const std::string body = anthropic_body(true);
  const auto answer = call_anthropic(body, "/harness/claude-code/run/r1/task/t1");
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(answer->body, whole(anthropic_stream()));
  EXPECT_EQ(answer->head.headers.find("Request-Id"), "req_1");
  ASSERT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(provider_.seen[0].body, body);
  EXPECT_EQ(provider_.seen[0].head.target, "/v1/messages?beta=true");
  EXPECT_EQ(provider_.seen[0].head.headers.find("x-api-key"), kKey);
  EXPECT_EQ(provider_.seen[0].head.headers.find("host"),
            "127.0.0.1:" + std::to_string(provider_port_));
  EXPECT_EQ(drawn(), 120) << "cached tokens count in full in this pool, output not at all";

  ASSERT_EQ(lines().size(), 1U);
  const boost::json::object line = lines()[0];
  EXPECT_EQ(line.at("pool").as_string(), "p");
  EXPECT_EQ(line.at("harness").as_string(), "claude-code");
  EXPECT_EQ(line.at("run").as_string(), "r1");
  EXPECT_EQ(line.at("task").as_string(), "t1");
  EXPECT_EQ(line.at("model").as_string(), "claude-opus-4-1");
  EXPECT_EQ(line.at("settled_by").as_string(), "usage");
  EXPECT_EQ(line.at("outcome").as_string(), "ok");
  EXPECT_EQ(line.at("status").as_int64(), 200);
  EXPECT_EQ(line.at("usage").at("uncached").as_int64(), 100);
  EXPECT_EQ(line.at("usage").at("cached").as_int64(), 20);
  EXPECT_EQ(line.at("usage").at("output").as_int64(), 30);
  EXPECT_EQ(line.at("bytes_in").to_number<std::size_t>(), body.size());
  EXPECT_EQ(line.at("bytes_out").to_number<std::size_t>(), answer->body.size());
  EXPECT_EQ(log_.totals("r1").output, 30);
}

TEST_F(ShimTest, AWholeAnswerPassesUntouchedWithItsLength) {
  provider_.otherwise = chat_answer();
  start();
  const auto answer = call_chat(chat_body(false));
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(answer->body, whole(chat_answer()));
  EXPECT_EQ(answer->head.headers.find("content-length"), std::to_string(answer->body.size()));
  EXPECT_EQ(drawn(), 120);
  EXPECT_EQ(lines().at(0).at("usage").at("uncached").as_int64(), 100);
}

TEST_F(ShimTest, HeadersCrossInOrderWithDuplicatesAndCaseButForHopByHopOnes) {
  provider_.otherwise.headers.push_back({"X-Twice", "1"});
  provider_.otherwise.headers.push_back({"x-twice", "2"});
  provider_.otherwise.headers.push_back({"Keep-Alive", "timeout=9"});
  start();
  net::RequestHead head = request("POST", "/v1/messages");
  head.headers.add("ANTHROPIC-beta", "one");
  head.headers.add("anthropic-Beta", "two");
  head.headers.add("TE", "trailers");
  head.headers.add("X-Headgate-Trick", "1");
  head.headers.add("Accept-Encoding", "gzip, br");
  const auto answer = fetch(head, anthropic_body(true));
  ASSERT_TRUE(answer);
  std::vector<std::string> up;
  for (const Header& field : provider_.seen.at(0).head.headers.all()) up.push_back(field.name);
  std::vector<std::string> want;
  for (const Header& field : head.headers.all()) {
    if (field.name != "TE" && field.name != "X-Headgate-Trick") want.push_back(field.name);
  }
  std::erase_if(up,
                [](const std::string& name) { return name == "Host" || name == "Content-Length"; });
  EXPECT_EQ(up, want);
  std::string down;
  for (const Header& field : answer->head.headers.all())
    down += field.name + ":" + field.value + " ";
  EXPECT_NE(down.find("X-Twice:1 x-twice:2 "), std::string::npos) << down;
  EXPECT_EQ(down.find("Keep-Alive"), std::string::npos) << down;
}

TEST_F(ShimTest, ACompressedAnswerPassesAsItIsAndItsUsageIsRead) {
  const std::string zipped = gzip(whole(chat_answer()));
  provider_.otherwise = chat_answer();
  provider_.otherwise.pieces = {zipped};
  provider_.otherwise.headers.push_back({"Content-Encoding", "gzip"});
  start();
  const auto answer = call_chat(chat_body(false));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, zipped);
  EXPECT_EQ(answer->head.headers.find("content-encoding"), "gzip");
  EXPECT_EQ(drawn(), 120);
}

TEST_F(ShimTest, ACompressedRequestIsSizedByWhatItSaysAndPassesAsItIs) {
  // As Codex sends it after a log-in.
  const std::string plain = anthropic_body(true, std::string(40'000, 'x'));
  std::string coded(ZSTD_compressBound(plain.size()), ' ');
  coded.resize(ZSTD_compress(coded.data(), coded.size(), plain.data(), plain.size(), 3));
  start();
  net::RequestHead head = request("POST", "/v1/messages");
  head.headers.add("Content-Encoding", "zstd");
  const auto answer = fetch(head, coded);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(provider_.seen.at(0).body, coded);
  EXPECT_EQ(provider_.seen.at(0).head.headers.find("content-encoding"), "zstd");
  const boost::json::object line = lines().at(0);
  EXPECT_EQ(line.at("model").as_string(), "claude-opus-4-1");
  EXPECT_GT(line.at("estimate").as_int64(), 40'000 / 5);
  EXPECT_EQ(drawn(), 120);
}

TEST_F(ShimTest, ARequestInAnUnknownCodingIsPacedBySizeAndCounted) {
  const std::string coded(3'000, '\x7f');
  start();
  for (const char* coding : {"aes128gcm", "zstd", "gzip, gzip, gzip"}) {
    net::RequestHead head = request("POST", "/v1/messages");
    head.headers.add("Content-Encoding", coding);
    const auto answer = fetch(head, coded);
    ASSERT_TRUE(answer) << coding;
    EXPECT_EQ(answer->head.status, 200) << coding;
    EXPECT_EQ(provider_.seen.back().body, coded) << coding;
    EXPECT_GT(lines().back().at("estimate").as_int64(), 1'000) << coding;
  }
  EXPECT_EQ(shim_->stats().unread_requests, 3U);
}

TEST_F(ShimTest, AnAnswerInAnUnknownCodingIsSettledByEstimateAndCounted) {
  provider_.otherwise = chat_answer();
  provider_.otherwise.headers.push_back({"Content-Encoding", "aes128gcm"});
  start();
  ASSERT_TRUE(call_chat(chat_body(false)));
  EXPECT_EQ(lines().at(0).at("settled_by").as_string(), "estimate");
  EXPECT_TRUE(lines().at(0).at("unread_encoding").as_bool());
  EXPECT_EQ(shim_->stats().unread_answers, 1U);
}

TEST_F(ShimTest, AStreamThatNobodyHereCanReadIsNotHeldBack) {
  Scripted coded = anthropic_stream();
  coded.headers.push_back({"Content-Encoding", "aes128gcm"});
  coded.before_piece[1] = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(coded);
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  std::string seen;
  const Instant before = loop_.clock.now();
  until("the first piece", [&] {
    seen += agent.read_available();
    return seen.find("message_start") != std::string::npos;
  });
  EXPECT_LT(loop_.clock.now() - before, 9s) << "it waited for an event that it could not see";
  coded.before_piece[1]->notify();
  until("the end", [&] {
    seen += agent.read_available();
    return seen.find("message_stop") != std::string::npos;
  });
}

TEST_F(ShimTest, AnEventStreamThatTellsNoUsageIsSettledByEstimate) {
  Scripted responses;
  responses.headers = {{"Content-Type", "text/event-stream"}};
  responses.pieces = {"event: response.created\ndata: {\"type\":\"response.created\"}\n\n",
                      "event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n"};
  provider_.otherwise = responses;
  start();
  const Instant before = loop_.clock.now();
  const auto answer = fetch(request("POST", "/v1/responses"),
                            R"({"model":"gpt-5","input":"Hello","stream":true})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, whole(responses));
  EXPECT_LT(loop_.clock.now() - before, 9s);
  EXPECT_GT(drawn(), 0);
  EXPECT_EQ(lines().at(0).at("settled_by").as_string(), "estimate");
}

// ---- Usage that an agent did not ask for ------------------------------------------------------

const char* const kUsageChunk =
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":"
    "{\"prompt_tokens\":120,\"completion_tokens\":30,\"total_tokens\":150,"
    "\"prompt_tokens_details\":{\"cached_tokens\":20}}}\n\n";

Scripted chat_stream() {
  Scripted answer;
  answer.event_stream = true;
  answer.headers = {{"content-type", "text/event-stream"}};
  answer.pieces = {
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
      "\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"}}]}\n\n",
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
      "\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
      kUsageChunk, "data: [DONE]\n\n"};
  return answer;
}

class StreamUsageTest : public ShimBench {
 protected:
  void start_as(const char* profile) {
    start();
    Upstream upstream = config_.upstreams[0];
    upstream.profile = profile;
    ASSERT_TRUE(shim_->set_upstream(upstream));
  }
};

TEST_F(StreamUsageTest, IsAskedForAndTheExtraChunkIsHidden) {
  provider_.otherwise = chat_stream();
  start_as("openai");
  const auto answer = call_chat(chat_body(true));
  ASSERT_TRUE(answer);
  Scripted hidden = chat_stream();
  hidden.pieces.erase(hidden.pieces.begin() + 2);
  EXPECT_EQ(answer->body, whole(hidden));
  const ScriptedProvider::Seen& seen = provider_.seen.at(0);
  EXPECT_NE(seen.body.find("include_usage"), std::string::npos) << seen.body;
  EXPECT_EQ(seen.head.headers.find("content-length"), std::to_string(seen.body.size()));
  EXPECT_EQ(lines().at(0).at("settled_by").as_string(), "usage");
  EXPECT_EQ(lines().at(0).at("usage").at("uncached").as_int64(), 100);
}

TEST_F(StreamUsageTest, TheExtraChunkIsHiddenInEveryCoding) {
  start_as("openai");
  Scripted hidden = chat_stream();
  hidden.pieces.erase(hidden.pieces.begin() + 2);
  // Flushed after each event, and cut into pieces of any size: both come.
  const std::string zipped = gzip(whole(chat_stream()));
  std::vector<std::string> bytes;
  for (const char byte : zipped) bytes.emplace_back(1, byte);
  for (const std::vector<std::string>& pieces : {std::vector<std::string>{zipped}, bytes}) {
    provider_.otherwise = chat_stream();
    provider_.otherwise.headers.push_back({"Content-Encoding", "gzip"});
    provider_.otherwise.pieces = pieces;
    net::RequestHead head = request("POST", "/v1/chat/completions");
    head.headers.add("accept-encoding", "gzip, deflate, br, zstd");
    const auto answer = fetch(head, chat_body(true));
    ASSERT_TRUE(answer) << answer.error().detail;
    EXPECT_EQ(answer->body, whole(hidden));
    EXPECT_FALSE(answer->head.headers.has("content-encoding"));
    const ScriptedProvider::Seen& seen = provider_.seen.back();
    EXPECT_NE(seen.body.find("include_usage"), std::string::npos) << seen.body;
    EXPECT_EQ(seen.head.headers.find("accept-encoding"), "gzip, deflate, br, zstd");
    EXPECT_EQ(lines().back().at("settled_by").as_string(), "usage");
    EXPECT_EQ(lines().back().at("usage").at("uncached").as_int64(), 100);
    EXPECT_EQ(lines().back().at("bytes_out").as_int64(), std::ssize(answer->body));
  }
}

TEST_F(StreamUsageTest, ACodedStreamThatIsDamagedIsCut) {
  start_as("openai");
  provider_.otherwise = chat_stream();
  provider_.otherwise.headers.push_back({"Content-Encoding", "gzip"});
  std::string zipped = gzip(whole(chat_stream()));
  zipped[zipped.size() - 20] = static_cast<char>(~zipped[zipped.size() - 20]);
  provider_.otherwise.pieces = {zipped};
  EXPECT_FALSE(call_chat(chat_body(true)));
  until("the call is over", [&] { return shim_->stats().calls_now == 0; });
  EXPECT_EQ(lines().at(0).at("outcome").as_string(), "upstream_failed");
}

TEST_F(StreamUsageTest, IsNotAskedForWhereTheAnswerCouldComeInAnUnknownCoding) {
  provider_.otherwise = chat_stream();
  start_as("openai");
  net::RequestHead head = request("POST", "/v1/chat/completions");
  head.headers.add("accept-encoding", "compress, gzip");
  ASSERT_TRUE(fetch(head, chat_body(true)));
  EXPECT_EQ(provider_.seen.at(0).body, chat_body(true));
}

TEST_F(StreamUsageTest, AnAgentThatAsksSeesWhatItAskedFor) {
  provider_.otherwise = chat_stream();
  start_as("openai");
  std::string body = chat_body(true);
  body.insert(body.size() - 1, R"(,"stream_options":{"include_usage":true})");
  const auto answer = call_chat(body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, whole(chat_stream()));
  EXPECT_EQ(provider_.seen.at(0).body, body);
}

TEST_F(StreamUsageTest, AWholeAnswerAndAProviderThatNeedsNoAskingAreLeftAlone) {
  start_as("openai");
  provider_.otherwise = chat_answer();
  ASSERT_TRUE(call_chat(chat_body(false)));
  EXPECT_EQ(provider_.seen.at(0).body, chat_body(false));
  Upstream mistral = config_.upstreams[0];
  mistral.profile = "mistral";
  ASSERT_TRUE(shim_->set_upstream(mistral));
  provider_.otherwise = chat_stream();
  const auto answer = call_chat(chat_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(provider_.seen.at(1).body, chat_body(true));
  EXPECT_EQ(answer->body, whole(chat_stream()));
}

TEST_F(StreamUsageTest, AProviderThatRefusesTheQuestionIsAskedOnce) {
  Scripted refuses = chat_answer();
  refuses.status = 400;
  refuses.pieces = {R"({"error":{"message":"Unrecognized request argument supplied: )"
                    R"(stream_options","type":"invalid_request_error"}})"};
  Scripted silent = chat_stream();
  silent.pieces.erase(silent.pieces.begin() + 2);
  provider_.script = {refuses, silent, silent};
  start_as("vllm");
  for (int i = 0; i < 2; ++i) {
    const auto answer = call_chat(chat_body(true));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->head.status, 200);
    EXPECT_EQ(answer->body, whole(silent));
  }
  ASSERT_EQ(provider_.seen.size(), 3U);
  EXPECT_NE(provider_.seen[0].body.find("include_usage"), std::string::npos);
  EXPECT_EQ(provider_.seen[1].body, chat_body(true));
  EXPECT_EQ(provider_.seen[2].body, chat_body(true));
  EXPECT_EQ(lines().at(0).at("tries").as_int64(), 1);
  EXPECT_EQ(shim_->stats().body_bytes_now, 0U);
}

TEST_F(ShimTest, WhatAProviderSaysOfItsLimitsIsKeptByPool) {
  provider_.otherwise.headers.emplace_back("anthropic-ratelimit-requests-limit", "4000");
  provider_.otherwise.headers.emplace_back("anthropic-ratelimit-requests-remaining", "3999");
  provider_.otherwise.headers.emplace_back("anthropic-ratelimit-input-tokens-remaining", "7000");
  start();
  EXPECT_TRUE(shim_->rates("p").empty());
  ASSERT_TRUE(call_anthropic(anthropic_body(true)));
  provider_.otherwise.headers[3].value = "3998";
  ASSERT_TRUE(call_anthropic(anthropic_body(true)));
  const std::vector<RateNote> notes = shim_->rates("p");
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0].reading.unit, wire::RateUnit::requests);
  EXPECT_EQ(notes[0].reading.limit, 4000);
  EXPECT_EQ(notes[0].reading.remaining, 3998) << "the latest counts";
  EXPECT_EQ(notes[1].reading.remaining, 7000);
  EXPECT_TRUE(shim_->rates("other").empty());
}

// ---- What is not a call -----------------------------------------------------------------------

TEST_F(ShimTest, WhatDoesNotGeneratePassesFree) {
  provider_.otherwise = Scripted();
  provider_.otherwise.with_length = true;
  provider_.otherwise.pieces = {"{\"data\":[]}"};
  start();
  for (const auto& [method, target] :
       std::vector<std::pair<const char*, const char*>>{{"GET", "/v1/models?limit=1000"},
                                                        {"POST", "/v1/messages/count_tokens"},
                                                        {"HEAD", "/api/hello"},
                                                        {"DELETE", "/v1/files/a%2Fb"}}) {
    const auto answer = fetch(request(method, target), "");
    ASSERT_TRUE(answer) << target;
    EXPECT_EQ(answer->head.status, 200) << target;
    EXPECT_EQ(provider_.seen.back().head.target, target);
    EXPECT_EQ(provider_.seen.back().head.method, method);
  }
  EXPECT_EQ(drawn(), 0);
  EXPECT_TRUE(lines().empty());
  EXPECT_EQ(shim_->stats().passed_free, 4U);
}

TEST_F(ShimTest, AnOfferOfHttp2IsIgnored) {
  start();
  net::RequestHead head = request("GET", "/v1/models");
  head.headers.add("Upgrade", "h2c");
  const auto answer = fetch(head, "");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_FALSE(provider_.seen.at(0).head.headers.has("upgrade"));
}

TEST_F(ShimTest, AnErrorOfTheProvidersPassesAsItIs) {
  provider_.otherwise = Scripted();
  provider_.otherwise.status = 400;
  provider_.otherwise.with_length = true;
  provider_.otherwise.headers = {{"content-type", "application/json"}};
  provider_.otherwise.pieces = {
      R"({"type":"error","error":{"type":"invalid_request_error","message":"no"}})"};
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 400);
  EXPECT_EQ(answer->body, provider_.otherwise.pieces[0]);
  EXPECT_FALSE(answer->head.headers.has(wire::kOwnHeader));
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(drawn(), 0) << "a refused call costs nothing";
  EXPECT_EQ(lines().at(0).at("outcome").as_string(), "refused_by_provider");
}

TEST_F(ShimTest, ProbesOfTheRootAreAnsweredHere) {
  start();
  for (const char* target : {"/", "/run/r/harness/claude-code", "/?x=1"}) {
    for (const char* method : {"HEAD", "GET"}) {
      const auto answer = fetch(request(method, target), "");
      ASSERT_TRUE(answer);
      EXPECT_EQ(answer->head.status, 200) << method << target;
    }
  }
  EXPECT_TRUE(provider_.seen.empty());
}

// ---- What is none of ours ---------------------------------------------------------------------

TEST_F(ShimTest, RefusesWhatItMustNotServeInTheCallersDialect) {
  config_.body_bytes_max = 2000;
  start();
  struct Row {
    const char* why;
    const char* method;
    const char* target;
    std::vector<Header> headers;
    std::string body;
    int status;
    const char* code;
  };
  const std::string good = anthropic_body(true);
  const std::string large = anthropic_body(true, std::string(3000, 'x'));
  const Row rows[] = {
      {"malformed JSON", "POST", "/v1/messages", {}, "{\"model\":", 400, "bad-request"},
      {"no JSON object", "POST", "/v1/messages", {}, "[1]", 400, "bad-request"},
      {"an empty body", "POST", "/v1/messages", {}, "", 400, "bad-request"},
      {"too large", "POST", "/v1/messages", {}, large, 413, "too-large"},
      {"unknown pool", "POST", "/pool/nope/v1/messages", {}, good, 404, "unknown-pool"},
      {"unknown harness", "POST", "/harness/nope/v1/messages", {}, good, 404, "unknown-harness"},
      {"unknown upstream", "POST", "/upstream/nope/v1/messages", {}, good, 404, "unknown-upstream"},
      {"a prefix without a value", "POST", "/pool//v1/messages", {}, good, 400, "bad-target"},
      {"an open proxy", "GET", "http://example.com/v1/models", {}, "", 400, "bad-target"},
      {"a WebSocket", "GET", "/v1/responses", {{"Upgrade", "websocket"}}, "", 426, "upgrade"},
      {"a foreign page",
       "POST",
       "/v1/messages",
       {{"Origin", "http://evil.example"}},
       good,
       403,
       "foreign"},
  };
  for (const Row& row : rows) {
    net::RequestHead head = request(row.method, row.target);
    head.headers.add("anthropic-version", "2023-06-01");
    for (const Header& field : row.headers) head.headers.add(field.name, field.value);
    const auto answer = fetch(head, row.body);
    ASSERT_TRUE(answer) << row.why << ": " << answer.error().detail;
    EXPECT_EQ(answer->head.status, row.status) << row.why << ": " << answer->body;
    EXPECT_EQ(answer->head.headers.find(wire::kOwnHeader), row.code) << row.why;
    const boost::json::value body = boost::json::parse(answer->body);
    const bool anthropic = std::string_view(row.target) != "/v1/responses";
    if (anthropic) {
      EXPECT_EQ(body.at("type").as_string(), "error") << row.why;
    }
    const boost::json::string& message = body.at("error").at("message").as_string();
    EXPECT_NE(message.find("Headgate"), boost::json::string::npos) << row.why << message;
    EXPECT_EQ(answer->body.find(kKey), std::string::npos) << row.why;
  }
  EXPECT_TRUE(provider_.seen.empty());
  EXPECT_EQ(drawn(), 0);
}

TEST_F(ShimTest, RefusesAHostThatIsNotItsOwn) {
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write("GET /v1/models HTTP/1.1\r\nHost: rebound.example:80\r\n\r\n");
  std::string answer;
  until("an answer", [&] {
    answer += agent.read_available();
    return answer.find("\r\n\r\n") != std::string::npos;
  });
  EXPECT_EQ(answer.find("HTTP/1.1 403"), 0U) << answer;
  EXPECT_TRUE(provider_.seen.empty());
}

TEST_F(ShimTest, AnErrorInTheChatDialectHasThatShape) {
  start();
  const auto answer = call_chat("{", "/run/r");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 400);
  const boost::json::value body = boost::json::parse(answer->body);
  EXPECT_NE(body.at("error").at("message").as_string().find("Headgate"), boost::json::string::npos);
  EXPECT_FALSE(body.as_object().contains("type"));
}

TEST_F(ShimTest, AHeadThatCannotBeReadIsRefusedInTheDialectOfItsPath) {
  start();
  struct Row {
    const char* why;
    std::string bytes;
    int status;
    const char* code;
    const char* has;  // In the body, by its shape.
  };
  const std::string bad =
      " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"
      "Content-Length: 2\r\n\r\n";
  const Row rows[] = {
      {"Anthropic's", "POST /run/r/v1/messages?beta=true" + bad, 400, "bad-head",
       R"({"type":"error","error":{)"},
      {"OpenAI's", "POST /v1/chat/completions" + bad, 400, "bad-head", R"("param":null)"},
      {"Google's", "POST /v1beta/models/m:generateContent" + bad, 400, "bad-head",
       R"("status":"INVALID_ARGUMENT")"},
      {"the program's", "GET /harness/claude-code/" + bad, 400, "bad-head",
       R"({"type":"error","error":{)"},
      {"too large", "POST /v1/messages HTTP/1.1\r\nX: " + std::string(100'000, 'x'), 431,
       "head-too-large", R"({"type":"error","error":{)"},
      {"no head at all", "\x16\x03\x01 hello\r\n\r\n", 400, "bad-head", R"("param":null)"},
  };
  for (const Row& row : rows) {
    RawAgent agent(loop_, shim_port_);
    agent.write(row.bytes);
    std::string answer;
    until("an answer", [&] {
      answer += agent.read_available();
      return answer.ends_with("}}");
    });
    EXPECT_TRUE(answer.starts_with(fmt::format("HTTP/1.1 {} ", row.status))) << row.why << answer;
    const std::string header = fmt::format("{}: {}\r\n", wire::kOwnHeader, row.code);
    EXPECT_NE(answer.find(header), std::string::npos) << row.why << ": " << answer;
    EXPECT_NE(answer.find(row.has), std::string::npos) << row.why << ": " << answer;
    EXPECT_NE(answer.find("Headgate"), std::string::npos) << row.why << ": " << answer;
  }
  EXPECT_TRUE(provider_.seen.empty());
}

TEST_F(ShimTest, AFaultThatNoWaitingMendsIsA502AtOnceThatSaysWhatDoes) {
  start();
  Upstream wrong = config_.upstreams[0];
  wrong.url = *net::parse_url(fmt::format("https://127.0.0.1:{}", provider_port_));
  ASSERT_TRUE(shim_->set_upstream(wrong));
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 502);
  EXPECT_EQ(answer->head.headers.find(wire::kOwnHeader), "upstream");
  EXPECT_TRUE(answer->body.starts_with(R"({"type":"error")")) << answer->body;
  EXPECT_NE(answer->body.find("correct the upstream's url"), std::string::npos) << answer->body;
  EXPECT_EQ(lines().at(0).at("tries").as_int64(), 1);
  EXPECT_EQ(lines().at(0).at("unreachable").as_int64(), 1);
  EXPECT_EQ(drawn(), 0);
}

TEST_F(ShimTest, AnUpstreamThatIsNotThereIsA502ThatSaysSo) {
  Upstream nowhere;
  nowhere.name = "nowhere";
  nowhere.profile = "anthropic";
  {
    // A port that was free a moment ago.
    boost::asio::ip::tcp::acceptor taken(loop_.io, {boost::asio::ip::address_v4::loopback(), 0});
    nowhere.url = *net::parse_url("http://127.0.0.1:" +
                                  std::to_string(taken.local_endpoint().port()));
  }
  config_.upstreams = {nowhere};
  config_.outage_max = 0s;
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 502);
  EXPECT_EQ(answer->head.headers.find(wire::kOwnHeader), "upstream");
  EXPECT_NE(answer->body.find("nowhere"), std::string::npos);
  EXPECT_EQ(answer->body.find(kKey), std::string::npos);
  EXPECT_EQ(drawn(), 0);
  const auto free_call = fetch(request("GET", "/v1/models"), "");
  ASSERT_TRUE(free_call);
  EXPECT_EQ(free_call->head.status, 502);
}

// ---- Which pool -------------------------------------------------------------------------------

TEST_F(ShimTest, KeysAndFamiliesHavePoolsOfTheirOwn) {
  PoolRule rule;
  rule.name = "named";
  rule.by_path_only = true;
  config_.pools = {rule};
  config_.salt = "salt";
  start();
  net::RequestHead head = request("POST", "/v1/messages");
  ASSERT_TRUE(fetch(head, anthropic_body(true)));
  ASSERT_TRUE(fetch(head, anthropic_body(false)));
  EXPECT_EQ(store_.names().size(), 2U) << "the named one, and one for this key and family";
  head.headers.set("X-Api-Key", "sk-another");
  ASSERT_TRUE(fetch(head, anthropic_body(true)));
  EXPECT_EQ(store_.names().size(), 3U);
  ASSERT_TRUE(fetch(head, anthropic_body(true, "Hello", "claude-haiku-4-5")));
  EXPECT_EQ(store_.names().size(), 4U);
  ASSERT_TRUE(call_anthropic(anthropic_body(true), "/pool/named"));
  EXPECT_EQ(store_.names().size(), 4U);
  EXPECT_EQ(lines().back().at("pool").as_string(), "named");
  for (const std::string& name : store_.names()) {
    EXPECT_EQ(name.find("sk-"), std::string::npos) << name;
  }
}

TEST_F(ShimTest, MadeUpModelsCannotMakePoolsWithoutEnd) {
  PoolRule rule;
  rule.name = "named";
  rule.by_path_only = true;
  config_.pools = {rule};
  config_.pools_max = 5;
  config_.start_limits = gate::Limits{.c_burst = 1'000'000,
                                      .r_tok = 1'000,
                                      .k_inflight = 1'000'000,
                                      .c_req = 1'000,
                                      .r_qps = 1'000'000};
  start();
  for (int i = 0; i < 20; ++i) {
    const std::string model = "made/up model " + std::to_string(i);
    ASSERT_TRUE(call_anthropic(anthropic_body(true, "Hello", model)));
  }
  EXPECT_LE(store_.names().size(), 6U);
}

TEST_F(ShimTest, AConfigurationThatCannotWorkIsRefused) {
  start();
  ShimConfig none;
  ShimConfig bad_name;
  bad_name.upstreams = config_.upstreams;
  bad_name.upstreams[0].name = "a/b";
  ShimConfig bad_profile;
  bad_profile.upstreams = config_.upstreams;
  bad_profile.upstreams[0].profile = "nope";
  ShimConfig bad_limits;
  bad_limits.upstreams = config_.upstreams;
  bad_limits.pools = config_.pools;
  bad_limits.pools[0].name = "q";
  bad_limits.pools[0].limits->r_tok = 0;
  for (const ShimConfig& config : {none, bad_name, bad_profile, bad_limits}) {
    CallLog log;
    Shim shim(loop_.executor(), loop_.clock, store_, up_, wire::Profiles::built_in(), config, log);
    const Result<void> started = loop_.run(shim.start());
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::invalid);
  }
}

// ---- Secrets ----------------------------------------------------------------------------------

TEST_F(ShimTest, NoKeyQueryOrPromptReachesTheLog) {
  provider_.script.push_back(overload(429));
  provider_.script.push_back(anthropic_stream());
  provider_.script.push_back(Scripted());
  provider_.script.back().reset_before_head = true;
  start();
  net::RequestHead head = request("POST", "/v1/messages?key=query-secret");
  head.headers.add("Authorization", "Bearer bearer-secret");
  testing::internal::CaptureStderr();
  std::string told;
  for (const std::string& body :
       {anthropic_body(true, "prompt-secret"), anthropic_body(true, "prompt-secret"),
        std::string("{\"prompt-secret")}) {
    const auto answer = fetch(head, body);
    ASSERT_TRUE(answer);
    if (answer->head.status >= 400) told += answer->body;
  }
  told += testing::internal::GetCapturedStderr() + log_text();
  for (const std::string_view secret :
       {kKey, std::string_view("query-secret"), std::string_view("bearer-secret"),
        std::string_view("prompt-secret")}) {
    EXPECT_EQ(told.find(secret), std::string::npos) << secret << " in " << told;
  }
  EXPECT_EQ(lines().size(), 3U);
}

}  // namespace
}  // namespace hg::proxy
