// The life of a call when it does not go smoothly: held, refused, retried, broken off at each step.
// After every test the bench checks that no lease, waiter, connection or task is left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "proxy/shim.h"
#include "proxy/shim_bench.h"
#include "wire/errors.h"

namespace hg::proxy {
namespace {

using ShimLifeTest = ShimBench;

std::string whole(const Scripted& answer) {
  std::string body;
  for (const std::string& piece : answer.pieces) body += piece;
  return body;
}

// An agent that runs beside the test.
struct Background {
  std::optional<Result<net::FetchedResponse>> answer;
};

net::Task<void> fetch_into(net::Client* client, net::Url url, net::RequestHead head,
                           std::string body, Background* into) {
  Result<net::FetchedResponse> answer = co_await client->fetch(url, head, body, 20s, 1 << 20);
  into->answer.emplace(std::move(answer));
}

std::string word(const boost::json::object& line, const char* field) {
  return std::string(line.at(field).as_string());
}

// ---- Overload ---------------------------------------------------------------------------------

TEST_F(ShimLifeTest, AnOverloadIsRetriedUnseenAndAsksAnew) {
  for (const int status : {429, 503, 529}) provider_.script.push_back(overload(status));
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(answer->body, whole(anthropic_stream()));
  EXPECT_EQ(provider_.seen.size(), 4U);
  for (const ScriptedProvider::Seen& seen : provider_.seen) {
    EXPECT_EQ(seen.body, anthropic_body(true));
  }
  EXPECT_EQ(drawn(), 120) << "the charges of refused tries came back";
  const boost::json::object line = lines().at(0);
  EXPECT_EQ(line.at("tries").as_int64(), 4);
  EXPECT_EQ(line.at("overloads").as_int64(), 3);
  EXPECT_EQ(line.at("asks").as_int64(), 4);
  std::int64_t overloads = 0;
  for (const gate::Window& window : view().windows) overloads += window.overloads;
  EXPECT_EQ(overloads, 3);
}

TEST_F(ShimLifeTest, AnOverloadInsideAStreamIsAnOverloadWhileNothingWentDown) {
  Scripted inside = anthropic_stream();
  inside.pieces = {": a comment first\n\n",
                   "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                   "\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"};
  provider_.script.push_back(inside);
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, whole(anthropic_stream()));
  EXPECT_EQ(provider_.seen.size(), 2U);
  EXPECT_EQ(lines().at(0).at("overloads").as_int64(), 1);
}

TEST_F(ShimLifeTest, ARefusalAtTheStartOfAStreamIsAbsorbedInEveryDialect) {
  struct Row {
    const char* why;
    const char* profile;
    const char* target;
    std::string body;
    std::string error;
    std::string good;
  };
  const Row rows[] = {
      {"Anthropic", "anthropic", "/v1/messages", anthropic_body(true),
       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
       "\"message\":\"Overloaded\"}}\n\n",
       whole(anthropic_stream())},
      {"a gateway's chat completions", "openrouter", "/v1/chat/completions", chat_body(true),
       ": OPENROUTER PROCESSING\n\ndata: {\"id\":\"g\",\"object\":\"chat.completion.chunk\","
       "\"error\":{\"code\":429,\"message\":\"Rate limited\"},\"choices\":[{\"index\":0,"
       "\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":"
       "\"stop\"}]}\n\ndata: [DONE]\n\n"},
      {"Responses, which announce themselves first", "openai", "/v1/responses",
       R"({"model":"gpt-5","stream":true,"input":"Hello"})",
       "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\","
       "\"status\":\"in_progress\"}}\n\nevent: response.failed\ndata: {\"type\":"
       "\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":"
       "\"server_is_overloaded\",\"message\":\"Overloaded\"}}}\n\n",
       "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}"
       "\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":"
       "\"r\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n"},
      {"Gemini", "gemini", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
       R"({"contents":[{"role":"user","parts":[{"text":"Hello"}]}]})",
       "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":"
       "\"UNAVAILABLE\"}}\n\n",
       "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}],\"role\":\"model\"},"
       "\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5,"
       "\"candidatesTokenCount\":1,\"totalTokenCount\":6}}\n\n"},
  };
  start();
  std::size_t calls = 0;
  for (const Row& row : rows) {
    Upstream upstream = config_.upstreams[0];
    upstream.profile = row.profile;
    ASSERT_TRUE(shim_->set_upstream(upstream));
    Scripted refusal = anthropic_stream();
    refusal.pieces = {row.error};
    Scripted good = anthropic_stream();
    good.pieces = {row.good};
    provider_.script = {refusal, good};
    const auto answer = fetch(request("POST", row.target), row.body);
    ASSERT_TRUE(answer) << row.why;
    EXPECT_EQ(answer->body, row.good) << row.why;
    const boost::json::object line = lines().at(calls++);
    EXPECT_EQ(line.at("overloads").as_int64(), 1) << row.why;
    EXPECT_EQ(line.at("outcome").as_string(), "ok") << row.why;
  }
}

TEST_F(ShimLifeTest, AResponseThatOnlyBeganIsNotHeldForLong) {
  Scripted thinks = anthropic_stream();
  thinks.pieces = {
      "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n",
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"};
  thinks.before_piece[1] = std::make_shared<net::Event>(loop_.executor());
  provider_.script = {thinks};
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/responses", R"({"model":"gpt-5","stream":true,"input":"Hello"})"));
  std::string heard;
  const Instant before = loop_.clock.now();
  until("the announcement", [&] {
    heard += agent.read_available();
    return heard.find("response.created") != std::string::npos;
  });
  EXPECT_LT(loop_.clock.now() - before, 9s);
  thinks.before_piece[1]->notify();
  until("the end", [&] {
    heard += agent.read_available();
    return heard.find("response.completed") != std::string::npos;
  });
}

TEST_F(ShimLifeTest, AnOverloadAfterTheFirstEventPassesAndIsCounted) {
  Scripted late = anthropic_stream();
  late.pieces[2] =
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
      "\"message\":\"Overloaded\"}}\n\n";
  late.pieces.resize(3);
  late.before_piece[2] = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(late);
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  std::string heard;
  const auto hears = [&](std::string_view what) {
    until("what the provider says", [&] {
      heard += agent.read_available();
      return heard.find(what) != std::string::npos;
    });
  };
  hears("Hello there");
  late.before_piece[2]->notify();
  hears(late.pieces[2]);
  until("its end", [&] { return !lines().empty(); });
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(lines().at(0).at("overloads").as_int64(), 1);
  EXPECT_EQ(drawn(), 120);
}

TEST_F(ShimLifeTest, No529EverReachesAnAgent) {
  // Not even one whose body speaks of a mistake of the caller's.
  Scripted odd = overload(529);
  odd.pieces = {R"({"type":"error","error":{"type":"invalid_request_error","message":"no"}})"};
  provider_.script = {odd, anthropic_stream(), odd};
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 200);
  // What is not paced is not retried here; the agent's own SDK does it.
  const auto count = fetch(request("POST", "/v1/messages/count_tokens"), "{}");
  ASSERT_TRUE(count);
  EXPECT_EQ(count->head.status, 503);
  EXPECT_EQ(count->head.headers.find("retry-after"), "5");
}

TEST_F(ShimLifeTest, AProvidersOwnFaultIsNotMadeFinal) {
  struct Row {
    const char* why;
    int status;
    const char* type;
    bool kept;
  };
  const Row rows[] = {
      {"a fault of the provider's", 500, "api_error", false},
      {"the caller's mistake stays one", 400, "invalid_request_error", true},
  };
  start();
  for (const Row& row : rows) {
    Scripted refusal = overload(row.status);
    refusal.pieces = {std::string(R"({"type":"error","error":{"type":")") + row.type +
                      R"(","message":"x"}})"};
    refusal.headers.emplace_back("x-should-retry", "false");
    provider_.script = {refusal};
    const auto answer = call_anthropic(anthropic_body(true));
    ASSERT_TRUE(answer) << row.why;
    EXPECT_EQ(answer->head.status, row.status) << row.why;
    EXPECT_EQ(answer->body, refusal.pieces[0]) << row.why;
    EXPECT_EQ(answer->head.headers.has("x-should-retry"), row.kept) << row.why;
  }
}

TEST_F(ShimLifeTest, AFullQueueSaysSoAtOnce) {
  config_.queue_max = 3;
  start(10'500);
  const std::string large = anthropic_body(true, std::string(40'000, 'x'));
  auto release = std::make_shared<net::Event>(loop_.executor());
  Scripted slow = anthropic_stream();
  slow.before_head = release;
  provider_.script.push_back(slow);
  std::vector<std::unique_ptr<RawAgent>> agents;
  for (std::size_t i = 0; i < 4; ++i) {
    agents.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
    agents.back()->write(raw_request("/v1/messages", large));
    until("it is there",
          [&] { return i == 0 ? provider_.under_way == 1 : shim_->stats().held_now == i; });
  }
  const auto refused = call_anthropic(large);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->head.status, 429);
  EXPECT_EQ(refused->head.headers.find(wire::kOwnHeader), "queue-full");
  EXPECT_EQ(refused->head.headers.find("retry-after"), "30");
  EXPECT_NE(refused->body.find("queue_max"), std::string::npos);
  EXPECT_EQ(shim_->stats().queue_full, 1U);
  EXPECT_GT(shim_->stats().body_bytes_now, 4 * 40'000U);
  for (const auto& agent : agents) agent->reset();
  release->notify();
  until("all are gone", [&] { return shim_->stats().calls_now == 0; });
  EXPECT_EQ(shim_->stats().held_now, 0U);
  EXPECT_EQ(shim_->stats().body_bytes_now, 0U);
}

TEST_F(ShimLifeTest, AnEndlessOverloadBecomesOurOwnRefusal) {
  provider_.otherwise = overload(529);
  start();
  const auto answer = call_anthropic(anthropic_body(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 429);
  EXPECT_EQ(answer->head.headers.find(wire::kOwnHeader), "overload");
  EXPECT_EQ(answer->head.headers.find("retry-after"), "30");
  EXPECT_EQ(provider_.seen.size(), 7U) << "one try and six retries";
  EXPECT_EQ(drawn(), 0);
}

TEST_F(ShimLifeTest, AProviderThatIsAwayForAMomentIsWaitedFor) {
  start();
  loop_.run(provider_server_->stop(0s));
  Background agent;
  net::RequestHead head = request("POST", "/v1/messages");
  tasks_.spawn("agent", fetch_into(&agent_, shim_url_, head, anthropic_body(true), &agent));
  until("it is noticed", [&] { return up_.stats().connect_failures > 0; });
  EXPECT_FALSE(agent.answer);
  open_provider(provider_port_);
  until("an answer", [&] { return agent.answer.has_value(); });
  ASSERT_TRUE(*agent.answer);
  EXPECT_EQ((*agent.answer)->head.status, 200);
  EXPECT_EQ((*agent.answer)->body, whole(anthropic_stream()));
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(drawn(), 120);
  EXPECT_EQ(lines().at(0).at("overloads").as_int64(), 0);
  EXPECT_GT(lines().at(0).at("tries").as_int64(), 1);
}

TEST_F(ShimLifeTest, AnExhaustedQuotaIsPassedOnAndPausesThePool) {
  Scripted quota = overload(429);
  quota.pieces = {R"({"error":{"message":"You exceeded your current quota",)"
                  R"("type":"insufficient_quota","code":"insufficient_quota"}})"};
  provider_.otherwise = quota;
  config_.upstreams.clear();
  start();
  Upstream openai;
  openai.name = "lab";
  openai.url = config_.upstreams[0].url;
  openai.profile = "openai";
  ASSERT_TRUE(shim_->set_upstream(openai));
  const auto answer = call_chat(chat_body(false));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 429);
  EXPECT_EQ(answer->body, quota.pieces[0]);
  EXPECT_FALSE(answer->head.headers.has(wire::kOwnHeader));
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_GT(view().paused_for, Micros(0));
}

// ---- Held -------------------------------------------------------------------------------------

TEST_F(ShimLifeTest, AHeldCallGoesTheMomentItsTokensAreThere) {
  // A prompt of 40,000 characters is 10,000 tokens here; the pool holds one such call.
  const std::string large = anthropic_body(true, std::string(40'000, 'x'));
  auto release = std::make_shared<net::Event>(loop_.executor());
  Scripted slow = anthropic_stream();
  slow.before_head = release;
  provider_.script.push_back(slow);
  start(10'500);
  Background first;
  Background second;
  const net::RequestHead head = request("POST", "/v1/messages");
  tasks_.spawn("first", fetch_into(&agent_, shim_url_, head, large, &first));
  until("the first call at the provider", [&] { return provider_.seen.size() == 1; });
  tasks_.spawn("second", fetch_into(&agent_, shim_url_, head, large, &second));
  until("the second in the queue", [&] { return waiters() == 1; });
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(leases(), 1U);
  release->notify();
  until("both answers", [&] { return first.answer && second.answer; });
  EXPECT_EQ((*second.answer)->head.status, 200);
  EXPECT_EQ(provider_.seen.size(), 2U);
  const boost::json::object line = lines().at(1);
  EXPECT_EQ(word(line, "denied_by"), "tok");
  EXPECT_GT(line.at("waited_ms").to_number<double>(), 0.0);
  EXPECT_LE(line.at("asks").as_int64(), 2);
}

TEST_F(ShimLifeTest, TwoHundredHeldCallsAllGoAndAskTwiceAtMost) {
  const std::string large = anthropic_body(true, std::string(200'000, 'x'));
  auto release = std::make_shared<net::Event>(loop_.executor());
  Scripted slow = anthropic_stream();
  slow.before_head = release;
  provider_.script.push_back(slow);
  start(80'000);
  const net::RequestHead head = request("POST", "/v1/messages");
  std::vector<Background> agents(201);
  tasks_.spawn("first", fetch_into(&agent_, shim_url_, head, large, &agents[0]));
  until("the first call at the provider", [&] { return provider_.seen.size() == 1; });
  for (std::size_t i = 1; i < agents.size(); ++i) {
    tasks_.spawn("agent", fetch_into(&agent_, shim_url_, head, large, &agents[i]));
  }
  until("200 in the queue", [&] { return shim_->stats().calls_now == 201 && waiters() == 200; });
  release->notify();
  until("all answers", [&] { return tasks_.size() == 0; });
  for (const Background& agent : agents) EXPECT_EQ((*agent.answer)->head.status, 200);
  for (const boost::json::object& line : lines()) EXPECT_LE(line.at("asks").as_int64(), 2);
}

TEST_F(ShimLifeTest, PastTheHoldCapTheAnswerIsOursInBothDialects) {
  config_.hold_cap = 30ms;
  start(10'500);
  const std::string anthropic = anthropic_body(true, std::string(40'000, 'x'));
  const std::string chat = chat_body(true, std::string(40'000, 'x'));
  Scripted slow = anthropic_stream();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  Background holder;
  tasks_.spawn("holder",
               fetch_into(&agent_, shim_url_, request("POST", "/v1/messages"), anthropic, &holder));
  until("the pool is taken", [&] { return provider_.seen.size() == 1; });

  const auto first = call_anthropic(anthropic);
  ASSERT_TRUE(first);
  const auto second = call_chat(chat);
  ASSERT_TRUE(second);
  for (const auto* answer : {&first, &second}) {
    EXPECT_EQ((*answer)->head.status, 429);
    EXPECT_EQ((*answer)->head.headers.find(wire::kOwnHeader), "hold-cap");
    EXPECT_EQ((*answer)->head.headers.find("retry-after"), "30");
    const boost::json::value body = boost::json::parse((*answer)->body);
    const std::string message(body.at("error").at("message").as_string());
    EXPECT_NE(message.find("Headgate"), std::string::npos) << message;
    EXPECT_NE(message.find("bound by tok"), std::string::npos) << message;
    EXPECT_NE(message.find("place 1"), std::string::npos) << message;
  }
  EXPECT_EQ(boost::json::parse(first->body).at("type").as_string(), "error");
  EXPECT_EQ(waiters(), 0U);
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(word(lines().at(0), "outcome"), "refused_by_us");
  slow.before_head->notify();
  until("the holder's answer", [&] { return holder.answer.has_value(); });
}

TEST_F(ShimLifeTest, ACallThatComesBackAfterOurRefusalStandsBeforeLaterOnes) {
  config_.hold_cap = 1500ms;
  start(10'500);
  const std::string large = anthropic_body(true, std::string(40'000, 'x'));
  const std::string other = anthropic_body(true, std::string(40'000, 'y'));
  Scripted slow = anthropic_stream();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  Background holder;
  const net::RequestHead head = request("POST", "/v1/messages");
  tasks_.spawn("holder", fetch_into(&agent_, shim_url_, head,
                                    anthropic_body(true, std::string(40'000, 'z')), &holder));
  until("the pool is taken", [&] { return provider_.seen.size() == 1; });
  const auto refused = fetch(head, large);
  ASSERT_TRUE(refused);
  ASSERT_EQ(refused->head.status, 429);
  // Later comers first, then the one that was refused; its seniority puts it in front.
  Background later;
  Background back;
  tasks_.spawn("later", fetch_into(&agent_, shim_url_, head, other, &later));
  until("the later one waits", [&] { return waiters() == 1; });
  const std::string head_before = view().waiters[0].id;
  tasks_.spawn("back", fetch_into(&agent_, shim_url_, head, large, &back));
  until("both wait", [&] { return waiters() == 2; });
  EXPECT_NE(view().waiters[0].id, head_before) << "the one that came back is the head";
  slow.before_head->notify();
  until("all answers", [&] { return tasks_.size() == 0; });
}

// ---- The provider breaks off at each step -----------------------------------------------------

TEST_F(ShimLifeTest, TheProviderResettingAnywhereReleasesAndSettlesByTheTable) {
  start();
  struct Row {
    const char* why;
    Scripted answer;
    const char* settled_by;
    const char* outcome;
    Tokens drawn;  // -1: the estimate, whatever it is.
    int status;    // 0: cut.
  };
  std::vector<Row> rows;
  Scripted no_head = anthropic_stream();
  no_head.reset_before_head = true;
  rows.push_back({"no byte", no_head, "refund", "upstream_failed", 0, 502});
  for (std::size_t piece = 0; piece < 4; ++piece) {
    Scripted cut = anthropic_stream();
    cut.reset_before_piece = piece;
    if (piece == 0) {
      rows.push_back({"a head and no body", cut, "refund", "upstream_failed", 0, 502});
    } else {
      rows.push_back({"cut amid the stream", cut, "usage", "upstream_failed", 120, 0});
    }
  }
  Scripted whole_cut = chat_answer();
  whole_cut.pieces.push_back("never");
  whole_cut.reset_before_piece = 1;
  Scripted unmarked = anthropic_stream();
  unmarked.pieces.resize(2);
  rows.push_back({"no terminal marker", unmarked, "usage", "upstream_failed", 120, 0});
  Scripted silent = anthropic_stream();
  silent.pieces.erase(silent.pieces.begin());
  silent.pieces[1] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  rows.push_back({"output without usage", silent, "estimate", "ok", -1, 200});

  for (const Row& row : rows) {
    const Tokens before = drawn();
    // What ended before its first byte is tried once more.
    for (int i = 0; i < (row.status == 502 ? 2 : 1); ++i) provider_.script.push_back(row.answer);
    const auto answer = call_anthropic(anthropic_body(true));
    until("the call is over", [&] { return shim_->stats().calls_now == 0; });
    if (row.status == 0) {
      EXPECT_FALSE(answer) << row.why << ": a cut must look like a cut";
    } else {
      ASSERT_TRUE(answer) << row.why << ": " << answer.error().detail;
      EXPECT_EQ(answer->head.status, row.status) << row.why;
    }
    EXPECT_EQ(leases(), 0U) << row.why;
    const boost::json::object line = lines().back();
    EXPECT_EQ(word(line, "settled_by"), row.settled_by) << row.why;
    EXPECT_EQ(word(line, "outcome"), row.outcome) << row.why;
    const Tokens want = row.drawn >= 0 ? row.drawn : line.at("charge").as_int64();
    EXPECT_EQ(drawn() - before, want) << row.why;
  }
}

TEST_F(ShimLifeTest, AConnectionThatEndsWithoutAByteIsAbsorbedOnce) {
  Scripted no_head = anthropic_stream();
  no_head.reset_before_head = true;
  Scripted no_body = anthropic_stream();
  no_body.reset_before_piece = 0;
  start();
  for (const Scripted& cut : {no_head, no_body}) {
    const Tokens before = drawn();
    const std::size_t asked = provider_.seen.size();
    provider_.script.push_back(cut);
    const auto answer = call_anthropic(anthropic_body(true));
    ASSERT_TRUE(answer) << answer.error().detail;
    EXPECT_EQ(answer->head.status, 200);
    EXPECT_EQ(answer->body, whole(anthropic_stream()));
    ASSERT_EQ(provider_.seen.size(), asked + 2);
    EXPECT_EQ(provider_.seen[asked].body, provider_.seen[asked + 1].body);
    EXPECT_EQ(drawn() - before, 120);
    EXPECT_EQ(lines().back().at("tries").as_int64(), 2);
    EXPECT_EQ(lines().back().at("unanswered").as_int64(), 1);
  }
  EXPECT_EQ(shim_->stats().body_bytes_now, 0U);
}

TEST_F(ShimLifeTest, AnUnknownPostIsNotSentTwice) {
  Scripted no_head = chat_answer();
  no_head.reset_before_head = true;
  provider_.otherwise = no_head;
  start();
  const auto answer = fetch(request("POST", "/v1/something/else"), "{\"a\":1}");
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->head.status, 502);
  EXPECT_EQ(provider_.seen.size(), 1U);
}

TEST_F(ShimLifeTest, AWholeAnswerCutShortIsCutDownstream) {
  Scripted cut = chat_answer();
  cut.pieces.push_back(" and a rest that never comes");
  cut.reset_before_piece = 1;
  provider_.script.push_back(cut);
  start();
  EXPECT_FALSE(call_chat(chat_body(false)));
  until("the call is over", [&] { return shim_->stats().calls_now == 0; });
  EXPECT_EQ(word(lines().at(0), "outcome"), "upstream_failed");
}

TEST_F(ShimLifeTest, ACutAtAnyByteReleasesAndChargesNothingUnknown) {
  start();
  const std::string body = whole(anthropic_stream());
  for (std::size_t at = 1; at < body.size(); at += 13) {
    const Tokens before = drawn();
    Scripted cut = anthropic_stream();
    cut.pieces = {body.substr(0, at), body.substr(at)};
    cut.reset_before_piece = 1;
    provider_.script.push_back(cut);
    static_cast<void>(call_anthropic(anthropic_body(true)));
    until("the call is over", [&] { return shim_->stats().calls_now == 0; });
    EXPECT_EQ(leases() + waiters(), 0U) << "cut at byte " << at;
    const boost::json::object line = lines().back();
    const Tokens charge = line.at("charge").as_int64();
    const Tokens cost = drawn() - before;
    EXPECT_TRUE(cost == charge || cost == 120) << "cut at byte " << at << " cost " << cost;
  }
}

// ---- A coroutine that is destroyed instead of ending ------------------------------------------

// An exchange whose head cannot be sent for a reason that nobody foresaw.
class ThrowingExchange final : public net::ServerExchange {
 public:
  explicit ThrowingExchange(net::ServerExchange& real) : real_(real) {}

  const net::RequestHead& head() const override { return real_.head(); }
  const net::BodyFraming& body_framing() const override { return real_.body_framing(); }
  Headers take_fields() override { return real_.take_fields(); }
  net::Task<Result<std::string>> read_body(std::size_t bytes_max) override {
    return real_.read_body(bytes_max);
  }
  void on_gone(std::function<void()> gone) override { real_.on_gone(std::move(gone)); }
  bool gone() const override { return real_.gone(); }
  net::Task<Result<void>> send_head(net::ResponseHead, net::BodyFraming,
                                    std::string_view) override {
    throw std::runtime_error("out of everything");
  }
  net::Task<Result<void>> send_some(std::string_view bytes) override {
    return real_.send_some(bytes);
  }
  net::Task<Result<void>> finish() override { return real_.finish(); }
  void abort() override { real_.abort(); }
  net::Task<Result<void>> reply(net::ResponseHead head, std::string_view body) override {
    return real_.reply(std::move(head), body);
  }
  bool head_sent() const override { return real_.head_sent(); }
  std::string peer() const override { return real_.peer(); }

 private:
  net::ServerExchange& real_;
};

net::Task<void> handle_throwing(Shim* shim, net::ServerExchange* exchange) {
  ThrowingExchange throwing(*exchange);
  co_await shim->handle(throwing);
}

TEST_F(ShimLifeTest, AnExceptionAmidACallReleasesItsLease) {
  start();
  net::Server server(loop_.executor(), net::ServerConfig(), [this](net::ServerExchange& exchange) {
    return handle_throwing(shim_.get(), &exchange);
  });
  const Result<std::uint16_t> port = server.listen_loopback(0);
  ASSERT_TRUE(port);
  RawAgent agent(loop_, *port);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  until("the call reached the provider", [&] { return provider_.seen.size() == 1; });
  until("its lease is released", [&] { return leases() == 0 && shim_->stats().calls_now == 0; });
  loop_.run(server.stop(0s));
}

// ---- The client goes away at each step --------------------------------------------------------

enum class Leaves : std::uint8_t { by_reset, in_order };

class ClientLeavesTest : public ShimBench, public testing::WithParamInterface<Leaves> {
 protected:
  void leave(RawAgent& agent) const {
    if (GetParam() == Leaves::by_reset)
      agent.reset();
    else
      agent.close();
  }

  void expect_over() {
    until("the call is over", [&] {
      return shim_->stats().calls_now == 0 && provider_.under_way == 0 && leases() == 0 &&
             waiters() == 0;
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, ClientLeavesTest,
                         testing::Values(Leaves::by_reset, Leaves::in_order));

TEST_P(ClientLeavesTest, WhileSendingTheBodyCostsNothing) {
  start();
  RawAgent agent(loop_, shim_port_);
  const std::string bytes = raw_request("/v1/messages", anthropic_body(true));
  agent.write(std::string_view(bytes).substr(0, bytes.size() - 10));
  until("the request is being read", [&] { return shim_->stats().calls == 1; });
  leave(agent);
  until("a line in the log", [&] { return lines().size() == 1; });
  EXPECT_EQ(word(lines()[0], "outcome"), "client_gone");
  EXPECT_TRUE(provider_.seen.empty());
  EXPECT_EQ(drawn(), 0);
}

TEST_P(ClientLeavesTest, WhileHeldLeavesTheQueue) {
  auto never = std::make_shared<net::Event>(loop_.executor());
  Scripted slow = anthropic_stream();
  slow.before_head = never;
  provider_.script.push_back(slow);
  start(10'500);
  const std::string large = anthropic_body(true, std::string(40'000, 'x'));
  RawAgent holder(loop_, shim_port_);
  holder.write(raw_request("/v1/messages", large));
  until("the pool is taken", [&] { return provider_.seen.size() == 1; });
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", large));
  until("the call is held", [&] { return waiters() == 1; });
  leave(agent);
  until("the queue is empty", [&] { return waiters() == 0; });
  EXPECT_EQ(provider_.seen.size(), 1U);
  never->notify();
  until("the holder's call is over", [&] { return shim_->stats().calls_now == 0; });
  EXPECT_EQ(word(lines().at(0), "outcome"), "client_gone");
  EXPECT_EQ(word(lines().at(1), "outcome"), "ok");
}

TEST_P(ClientLeavesTest, WhileWaitingForTheHeadClosesTheProviderFirst) {
  Scripted slow = anthropic_stream();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  until("the call at the provider", [&] { return provider_.seen.size() == 1; });
  EXPECT_EQ(leases(), 1U);
  leave(agent);
  expect_over();
  EXPECT_EQ(provider_.clients_gone, 1) << "the provider saw its connection close";
  const boost::json::object line = lines().at(0);
  EXPECT_EQ(word(line, "outcome"), "client_gone");
  EXPECT_EQ(word(line, "settled_by"), "estimate") << "the provider may have worked on it";
  EXPECT_EQ(drawn(), line.at("charge").as_int64());
}

TEST_P(ClientLeavesTest, WhileTheFirstEventIsLookedForClosesTheProviderFirst) {
  Scripted slow = anthropic_stream();
  slow.before_piece[0] = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  until("the head is there", [&] { return provider_.seen.size() == 1 && up_.stats().open == 1; });
  leave(agent);
  expect_over();
  EXPECT_EQ(provider_.clients_gone, 1);
  EXPECT_EQ(word(lines().at(0), "outcome"), "client_gone");
}

TEST_P(ClientLeavesTest, DuringTheStreamIsSettledByWhatWasSeen) {
  for (std::size_t piece = 1; piece < 4; ++piece) {
    Scripted slow = anthropic_stream();
    slow.before_piece[piece] = std::make_shared<net::Event>(loop_.executor());
    provider_.script.push_back(slow);
  }
  start();
  for (std::size_t piece = 1; piece < 4; ++piece) {
    const Tokens before = drawn();
    RawAgent agent(loop_, shim_port_);
    agent.write(raw_request("/v1/messages", anthropic_body(true)));
    std::string seen;
    const std::string last = piece == 1 ? "message_start" : piece == 2 ? "Hello" : "end_turn";
    until("the stream so far", [&] {
      seen += agent.read_available();
      return seen.find(last) != std::string::npos;
    });
    leave(agent);
    expect_over();
    EXPECT_EQ(provider_.clients_gone, static_cast<int>(piece));
    const boost::json::object line = lines().back();
    EXPECT_EQ(word(line, "outcome"), "client_gone");
    EXPECT_EQ(word(line, "settled_by"), "usage") << "the input is known from the first event";
    EXPECT_EQ(drawn() - before, 120);
  }
}

TEST_P(ClientLeavesTest, WhileBackingOffEndsTheCall) {
  provider_.otherwise = overload(529);
  config_.overload_step = 60s;
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write(raw_request("/v1/messages", anthropic_body(true)));
  until("the refusal was given back",
        [&] { return provider_.seen.size() == 1 && provider_.under_way == 0 && leases() == 0; });
  leave(agent);
  expect_over();
  until("a line in the log", [&] { return lines().size() == 1; });
  EXPECT_EQ(provider_.seen.size(), 1U);
  EXPECT_EQ(drawn(), 0);
}

TEST_P(ClientLeavesTest, DuringAFreeRequestClosesTheProvider) {
  Scripted slow = Scripted();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  start();
  RawAgent agent(loop_, shim_port_);
  agent.write("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  until("the request at the provider", [&] { return provider_.seen.size() == 1; });
  leave(agent);
  until("the provider's connection is closed", [&] { return provider_.clients_gone == 1; });
}

// ---- Shutting down, living on -----------------------------------------------------------------

TEST_F(ShimLifeTest, StoppingTheServerEndsCallsInEveryState) {
  Scripted slow = anthropic_stream();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  Scripted streaming = anthropic_stream();
  streaming.before_piece[2] = std::make_shared<net::Event>(loop_.executor());
  provider_.script = {streaming, slow};
  config_.overload_step = 60s;
  provider_.otherwise = overload(529);
  start(10'500);
  const std::string small = anthropic_body(true);
  std::vector<std::unique_ptr<RawAgent>> agents;
  for (int i = 0; i < 3; ++i) {
    agents.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
    agents.back()->write(raw_request("/v1/messages", small));
    until("one more at the provider",
          [&] { return provider_.seen.size() == static_cast<std::size_t>(i) + 1; });
  }
  agents.push_back(std::make_unique<RawAgent>(loop_, shim_port_));
  // Larger than the bucket, so it waits for a full one.
  agents.back()->write(raw_request("/v1/messages", anthropic_body(true, std::string(44'000, 'x'))));
  until("one waits", [&] { return waiters() == 1; });
  // The rest is checked by TearDown.
}

TEST_F(ShimLifeTest, TheHeartbeatRenewsLeasesAndKeepsWaitersAlive) {
  Scripted slow = anthropic_stream();
  slow.before_head = std::make_shared<net::Event>(loop_.executor());
  provider_.script.push_back(slow);
  start();
  Background agent;
  tasks_.spawn("agent", fetch_into(&agent_, shim_url_, request("POST", "/v1/messages"),
                                   anthropic_body(true), &agent));
  until("the call at the provider", [&] { return provider_.seen.size() == 1; });
  const Micros age_at_first = view().leases.at(0).age;
  EXPECT_LT(age_at_first, 2s);
  until("the lease was renewed", [&] {
    const gate::LeaseView lease = view().leases.at(0);
    // Unrenewed, what is left and its age make up the 30 s that it was given.
    return lease.left + lease.age > 31s;
  });
  slow.before_head->notify();
  until("the answer", [&] { return agent.answer.has_value(); });
}

}  // namespace
}  // namespace hg::proxy
