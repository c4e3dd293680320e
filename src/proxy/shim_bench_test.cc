// The bench of shim_bench.h itself; named as a test so that it is linked into the tests alone.
#include "proxy/shim_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/units.h"
#include "proxy/own_answer.h"

namespace hg::proxy {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kBodyMax = std::size_t{64} * 1024 * 1024;

net::Task<void> serve_provider(ScriptedProvider* provider, net::ServerExchange* exchange) {
  co_await provider->handle(*exchange);
}

net::Task<void> serve_shim(Shim* shim, net::ServerExchange* exchange) {
  co_await shim->handle(*exchange);
}

}  // namespace

// ---- The provider -----------------------------------------------------------------------------

net::Task<void> ScriptedProvider::handle(net::ServerExchange& exchange) {
  ++under_way;
  Scripted answer = otherwise;
  if (!script.empty()) {
    answer = std::move(script.front());
    script.pop_front();
  }
  Result<std::string> body = co_await exchange.read_body(kBodyMax);
  Seen now;
  now.head = exchange.head();
  if (body) now.body = std::move(*body);
  seen.push_back(std::move(now));
  // A gone agent ends what is waited for here.
  std::shared_ptr<net::Event> waiting;
  exchange.on_gone([this, &waiting] {
    ++clients_gone;
    if (waiting) waiting->notify();
  });
  waiting = answer.before_head;
  if (waiting) co_await waiting->wait_for(20s);
  if (answer.reset_before_head) {
    exchange.abort();
    --under_way;
    co_return;
  }
  net::ResponseHead head(answer.status);
  for (const Header& field : answer.headers) head.headers.add(field.name, field.value);
  std::size_t size = 0;
  for (const std::string& piece : answer.pieces) size += piece.size() * answer.repeats;
  const bool length = answer.with_length;
  const net::BodyFraming framing = length ? net::BodyFraming::of_length(size)
                                          : net::BodyFraming::chunked();
  co_await exchange.send_head(std::move(head), framing);
  const std::size_t count = answer.pieces.size() * answer.repeats;
  for (std::size_t i = 0; i < count && !exchange.gone(); ++i) {
    waiting = answer.before_piece.contains(i) ? answer.before_piece.at(i) : nullptr;
    if (waiting && !exchange.gone()) co_await waiting->wait_for(20s);
    if (answer.reset_before_piece == i) break;
    co_await exchange.send_some(answer.pieces[i % answer.pieces.size()]);
  }
  waiting.reset();
  if (!answer.last.empty() && !exchange.gone()) co_await exchange.send_some(answer.last);
  if (answer.reset_before_piece) {
    exchange.abort();
  } else {
    co_await exchange.finish();
  }
  exchange.on_gone({});
  --under_way;
}

std::string anthropic_body(bool stream, std::string_view prompt, std::string_view model) {
  return fmt::format(R"({{"model":"{}","max_tokens":100,"stream":{},)"
                     R"("messages":[{{"role":"user","content":"{}"}}]}})",
                     model, stream, prompt);
}

std::string chat_body(bool stream, std::string_view prompt) {
  return fmt::format(
      R"({{"model":"gpt-5","stream":{},"messages":[{{"role":"user","content":"{}"}}]}})", stream,
      prompt);
}

Scripted anthropic_stream() {
  Scripted answer;
  answer.event_stream = true;
  answer.headers = {{"content-type", "text/event-stream; charset=utf-8"}, {"Request-Id", "req_1"}};
  answer.pieces = {
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":"
      "\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":100,"
      "\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":0,\"output_tokens\":1}}}\n\n",
      "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
      "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"Hello there\"}}\n\n",
      "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
      "\"end_turn\"},\"usage\":{\"output_tokens\":30}}\n\n",
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"};
  return answer;
}

Scripted chat_answer() {
  Scripted answer;
  answer.with_length = true;
  answer.headers = {{"Content-Type", "application/json"}};
  answer.pieces = {R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":)"
                   R"({"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":)"
                   R"({"prompt_tokens":120,"completion_tokens":30,"total_tokens":150,)"
                   R"("prompt_tokens_details":{"cached_tokens":20}}})"};
  return answer;
}

Scripted overload(int status) {
  Scripted answer;
  answer.status = status;
  answer.with_length = true;
  answer.headers = {{"content-type", "application/json"}};
  answer.pieces = {
      R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"};
  return answer;
}

// ---- The bench --------------------------------------------------------------------------------

ShimBench::ShimBench() {
  std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ranges::replace(test, '/', '-');
  log_path_ = fmt::format("{}headgate-shim-{}-{}.jsonl", testing::TempDir(), ::getpid(), test);
  std::remove(log_path_.c_str());
  provider_.otherwise = anthropic_stream();
  config_.overload_step = 1ms;
}

ShimBench::~ShimBench() { std::remove(log_path_.c_str()); }

void ShimBench::open_provider(std::uint16_t port) {
  provider_server_ = std::make_unique<net::Server>(
      loop_.executor(), net::ServerConfig(),
      [this](net::ServerExchange& exchange) { return serve_provider(&provider_, &exchange); });
  const Result<std::uint16_t> provider_port = provider_server_->listen_loopback(port);
  ASSERT_TRUE(provider_port) << provider_port.error().detail;
  provider_port_ = *provider_port;
}

void ShimBench::start(Tokens burst) {
  open_provider(0);
  if (config_.upstreams.empty()) {
    Upstream upstream;
    upstream.name = "lab";
    upstream.url = *net::parse_url(fmt::format("http://127.0.0.1:{}", provider_port_));
    upstream.profile = "anthropic";
    config_.upstreams.push_back(upstream);
  }
  if (config_.pools.empty()) {
    PoolRule rule;
    rule.name = "p";
    rule.limits.emplace();
    rule.limits->c_burst = burst;
    rule.limits->r_tok = 1;
    rule.limits->k_inflight = 100'000'000;
    rule.limits->c_req = 1'000'000;
    rule.limits->r_qps = 1'000'000;
    rule.weights.emplace();  // Cached tokens count in full.
    config_.pools.push_back(rule);
  }
  Result<CallLog> log = CallLog::open(log_path_);
  ASSERT_TRUE(log) << log.error().detail;
  log_ = std::move(*log);
  shim_ = std::make_unique<Shim>(loop_.executor(), loop_.clock, store_, up_,
                                 wire::Profiles::built_in(), config_, log_);
  const Result<void> started = loop_.run(shim_->start());
  ASSERT_TRUE(started) << started.error().detail;
  shim_server_ = std::make_unique<net::Server>(
      loop_.executor(), shim_server_config(wire::Profiles::built_in()),
      [this](net::ServerExchange& exchange) { return serve_shim(shim_.get(), &exchange); });
  const Result<std::uint16_t> port = shim_server_->listen_loopback(0);
  ASSERT_TRUE(port) << port.error().detail;
  shim_port_ = *port;
  shim_url_ = *net::parse_url(fmt::format("http://127.0.0.1:{}", shim_port_));
}

void ShimBench::TearDown() {
  if (!shim_server_) return;
  agent_.close_idle();
  loop_.run(shim_server_->stop(0s));
  loop_.run(shim_->stop());
  for (const std::string& pool : store_.names()) {
    EXPECT_EQ(leases(pool), 0U) << "a lease is left in " << pool;
    EXPECT_EQ(waiters(pool), 0U) << "a waiter is left in " << pool;
  }
  EXPECT_EQ(shim_->stats().calls_now, 0U);
  up_.close_idle();
  EXPECT_EQ(up_.stats().open, 0U) << "a connection to the provider is left";
  loop_.run(provider_server_->stop(0s));
  EXPECT_EQ(provider_.under_way, 0);
  store_.close();
  tasks_.cancel();
  loop_.run_dry();
}

net::RequestHead ShimBench::request(std::string_view method, std::string_view target) const {
  net::RequestHead head((std::string(method)), std::string(target));
  head.headers.add("X-Api-Key", kKey);
  head.headers.add("content-type", "application/json");
  return head;
}

Result<net::FetchedResponse> ShimBench::fetch(const net::RequestHead& head, std::string_view body) {
  return loop_.run(agent_.fetch(shim_url_, head, body, 20s, kBodyMax));
}

Result<net::FetchedResponse> ShimBench::call_anthropic(std::string_view body,
                                                       std::string_view prefix) {
  net::RequestHead head = request("POST", fmt::format("{}/v1/messages?beta=true", prefix));
  head.headers.add("anthropic-version", "2023-06-01");
  return fetch(head, body);
}

Result<net::FetchedResponse> ShimBench::call_chat(std::string_view body, std::string_view prefix) {
  return fetch(request("POST", fmt::format("{}/v1/chat/completions", prefix)), body);
}

void ShimBench::until(const char* what, const std::function<bool()>& condition) {
  asio::steady_timer watchdog(loop_.io, patience_);
  const auto late = std::make_shared<bool>(false);  // The handler may run after this has returned.
  watchdog.async_wait([late](boost::system::error_code ec) { *late = !ec; });
  loop_.io.restart();
  while (!condition() && !*late) {
    if (loop_.io.run_one() == 0) break;
  }
  EXPECT_TRUE(condition()) << "never came: " << what;
}

gate::PoolView ShimBench::view(std::string_view pool) {
  Result<gate::PoolView> view = loop_.run(store_.view(pool));
  EXPECT_TRUE(view) << pool;
  return view ? std::move(*view) : gate::PoolView();
}

Tokens ShimBench::drawn(std::string_view pool) {
  const gate::PoolView now = view(pool);
  return now.config.limits.c_burst - floor_div(now.tokens, kMicro);
}

std::string ShimBench::log_text() const {
  std::ifstream file(log_path_);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<boost::json::object> ShimBench::lines() const {
  std::vector<boost::json::object> lines;
  std::istringstream text(log_text());
  for (std::string line; std::getline(text, line);) {
    lines.push_back(boost::json::parse(line).as_object());
  }
  return lines;
}

// ---- A bare agent -----------------------------------------------------------------------------

RawAgent::RawAgent(net::TestLoop& loop, std::uint16_t port) : socket_(loop.io) {
  socket_.connect(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port));
}

void RawAgent::write(std::string_view bytes) {
  asio::write(socket_, asio::buffer(bytes.data(), bytes.size()));
}

void RawAgent::reset() {
  socket_.set_option(asio::socket_base::linger(true, 0));
  socket_.close();
}

void RawAgent::close() { socket_.close(); }

std::string RawAgent::read_available() {
  std::string bytes(socket_.available(), '\0');
  bytes.resize(bytes.empty() ? 0 : socket_.read_some(asio::buffer(bytes)));
  return bytes;
}

std::string raw_request(std::string_view target, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: {}\r\nanthropic-version: 2023-06-01\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      target, kKey, body.size(), body);
}

TEST_F(ShimBench, StartsAndStopsWithNothingLeft) {
  start();
  EXPECT_EQ(view().leases.size(), 0U);
}

}  // namespace hg::proxy
