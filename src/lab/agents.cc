#include "lab/agents.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "wire/errors.h"
#include "wire/retry_after.h"

namespace hg::lab {
namespace {

using net::Task;
using How = sim::AgentOutcome::How;
using wire::Dialect;

// Idle time of a stream after which harnesses give up: Claude Code and Codex, 300 s.
constexpr Micros kSilence = 300s;
constexpr std::size_t kErrorBodyMax = std::size_t{64} * 1024;

// The text of a prompt block: its own from the first byte on, plain ASCII that needs no escapes.
void append_text(std::string& out, std::uint64_t hash, Tokens tokens, double bytes_per_token) {
  static constexpr std::string_view kSentence =
      "def step(state): read the file, change one line, run its tests, look at what they say. ";
  const auto bytes = static_cast<std::size_t>(static_cast<double>(std::max<Tokens>(tokens, 1)) *
                                              bytes_per_token);
  const std::size_t end = out.size() + bytes;
  out += fmt::format("{:016x} ", hash);
  while (out.size() < end) {
    out += kSentence.substr(0, std::min(kSentence.size(), end - out.size()));
  }
}

// One tool, as small as a tool can be; its tokens are part of the first block's rounding.
constexpr std::string_view kAnthropicTool =
    R"([{"name":"Bash","description":"Runs a command","input_schema":{"type":"object",)"
    R"("properties":{"command":{"type":"string"}},"required":["command"]}}])";
constexpr std::string_view
    kOpenaiTool = R"([{"type":"function","function":{"name":"bash","description":"Runs a command",)"
                  R"("parameters":{"type":"object","properties":{"command":{"type":"string"}},)"
                  R"("required":["command"]}}}])";
constexpr std::string_view kResponsesTool =
    R"([{"type":"function","name":"exec_command","description":"Runs a command","parameters":)"
    R"({"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}])";

std::string anthropic_request(const AgentWire& wire, const sim::AgentCall& call,
                              double bytes_per_token) {
  std::string body = fmt::format(R"({{"model":"{}","system":[{{"type":"text","text":")",
                                 wire.model);
  append_text(body, call.blocks.front().hash, call.blocks.front().tokens, bytes_per_token);
  body += R"(","cache_control":{"type":"ephemeral"}}],"messages":[)";
  for (std::size_t i = 1; i < call.blocks.size(); ++i) {
    if (i > 1) body += fmt::format(R"(,{{"role":"assistant","content":"Step {}."}},)", i - 1);
    body += R"({"role":"user","content":[{"type":"text","text":")";
    append_text(body, call.blocks[i].hash, call.blocks[i].tokens - call.blocks[i - 1].tokens,
                bytes_per_token);
    const bool last = i + 1 == call.blocks.size();
    body += last ? R"(","cache_control":{"type":"ephemeral"}}]})" : R"("}]})";
  }
  body += fmt::format(R"(],"tools":{},"max_tokens":{},"stream":{}}})", kAnthropicTool,
                      call.max_output.value_or(32'000), call.stream);
  return body;
}

std::string openai_request(const AgentWire& wire, const sim::AgentCall& call,
                           double bytes_per_token) {
  std::string body = fmt::format(R"({{"model":"{}","messages":[{{"role":"system","content":")",
                                 wire.model);
  append_text(body, call.blocks.front().hash, call.blocks.front().tokens, bytes_per_token);
  body += R"("})";
  for (std::size_t i = 1; i < call.blocks.size(); ++i) {
    if (i > 1) body += fmt::format(R"(,{{"role":"assistant","content":"Step {}."}})", i - 1);
    body += R"(,{"role":"user","content":")";
    append_text(body, call.blocks[i].hash, call.blocks[i].tokens - call.blocks[i - 1].tokens,
                bytes_per_token);
    body += R"("})";
  }
  body += fmt::format(R"(],"tools":{})", kOpenaiTool);
  if (call.max_output) body += fmt::format(R"(,"max_tokens":{})", *call.max_output);
  body += call.stream ? R"(,"stream":true,"stream_options":{"include_usage":true}})"
                      : R"(,"stream":false})";
  return body;
}

// As Codex writes it: the base prompt is a developer's message, nothing limits the output.
std::string responses_request(const AgentWire& wire, const sim::AgentCall& call,
                              double bytes_per_token) {
  const auto item = [](std::string_view role, std::string_view part) {
    return fmt::format(R"({{"type":"message","role":"{}","content":[{{"type":"{}","text":")", role,
                       part);
  };
  std::string body = fmt::format(R"({{"model":"{}","input":[)", wire.model);
  body += item("developer", "input_text");
  append_text(body, call.blocks.front().hash, call.blocks.front().tokens, bytes_per_token);
  body += R"("}]})";
  for (std::size_t i = 1; i < call.blocks.size(); ++i) {
    if (i > 1) {
      body += "," + item("assistant", "output_text") + fmt::format(R"(Step {}."}}]}})", i - 1);
    }
    body += "," + item("user", "input_text");
    append_text(body, call.blocks[i].hash, call.blocks[i].tokens - call.blocks[i - 1].tokens,
                bytes_per_token);
    body += R"("}]})";
  }
  body += fmt::format(R"(],"tools":{},"store":false,"stream":{}}})", kResponsesTool, call.stream);
  return body;
}

net::RequestHead request_head(const AgentLink& link, const sim::AgentCall& call) {
  const bool anthropic = link.wire.dialect == Dialect::anthropic_messages;
  const bool responses = link.wire.dialect == Dialect::openai_responses;
  const std::string_view target = anthropic   ? "/v1/messages?beta=true"
                                  : responses ? "/v1/responses"
                                              : "/v1/chat/completions";
  net::RequestHead head("POST", net::join_target(link.base.path, target));
  head.headers.add("Host", link.base.authority());
  head.headers.add("Accept", responses ? "text/event-stream" : "application/json");
  head.headers.add("Content-Type", "application/json");
  head.headers.add("User-Agent", link.wire.user_agent);
  if (!link.wire.session_header.empty()) {
    head.headers.add(link.wire.session_header, link.session);
  }
  if (!link.wire.timeout_header.empty() && call.header_timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*call.header_timeout);
    head.headers.add(link.wire.timeout_header, std::to_string(seconds.count()));
  }
  if (anthropic) {
    head.headers.add("anthropic-version", "2023-06-01");
    head.headers.add("x-api-key", link.key);
  } else {
    head.headers.add("Authorization", "Bearer " + link.key);
  }
  head.headers.add("x-emulated-output", std::to_string(call.output));
  return head;
}

// The deadlines of one attempt.
class Limits {
 public:
  Limits(const Clock& clock, const sim::AgentCall& call) : clock_(clock) {
    const Instant now = clock.now();
    if (call.total_timeout) end_ = now + *call.total_timeout;
    header_ = end_;
    if (call.header_timeout && (!header_ || now + *call.header_timeout < *header_)) {
      header_ = now + *call.header_timeout;
    }
  }

  [[nodiscard]] Micros for_head() const { return left(header_, 3600s); }
  [[nodiscard]] Micros for_body() const { return left(end_, kSilence); }

 private:
  [[nodiscard]] Micros left(const std::optional<Instant>& until, Micros at_most) const {
    if (!until) return at_most;
    return std::clamp(*until - clock_.now(), Micros{1}, at_most);
  }

  const Clock& clock_;
  std::optional<Instant> header_;
  std::optional<Instant> end_;
};

sim::AgentOutcome broken(AgentCounts& counts, const Error& error) {
  if (error.code == Errc::timed_out) {
    ++counts.timeouts;
    return {How::timed_out, 0, std::nullopt, 0};
  }
  ++counts.cut;
  return {How::cut, 0, std::nullopt, 0};
}

Task<sim::AgentOutcome> read_refusal(AgentLink& link, net::ClientExchange& exchange,
                                     const net::ResponseHead& head, const Limits& limits) {
  AgentCounts& counts = *link.counts;
  ++counts.by_status[head.status];
  const bool refused = head.status == 429 || head.status == 503 || head.status == 529;
  if (refused) ++counts.refusals;
  if (refused && head.headers.has(wire::kOwnHeader)) ++counts.refused_by_us;

  std::optional<Micros> retry_after;
  if (const auto value = head.headers.find("retry-after")) {
    retry_after = wire::parse_retry_after(*value, link.clock->wall());
  }
  std::array<char, 4096> chunk;
  std::size_t total = 0;
  while (total < kErrorBodyMax) {
    const Result<std::size_t> count = co_await exchange.read_some(chunk, limits.for_body());
    if (!count || *count == 0) break;
    total += *count;
  }
  co_return sim::AgentOutcome(How::refused, head.status, retry_after, 0);
}

Task<sim::AgentOutcome> read_answer(AgentLink& link, net::ClientExchange& exchange,
                                    const net::ResponseHead& head, const Limits& limits) {
  AgentCounts& counts = *link.counts;
  const auto type = head.headers.find("content-type");
  wire::ResponseReader reader(link.wire.dialect, type.value_or("application/json"));
  std::array<char, 16 * 1024> chunk;
  for (;;) {
    const Result<std::size_t> count = co_await exchange.read_some(chunk, limits.for_body());
    if (!count) co_return broken(counts, count.error());
    if (*count == 0) break;
    reader.feed(std::string_view(chunk.data(), *count));
  }
  reader.finish();
  if (reader.error_event()) {
    ++counts.refusals;
    ++counts.stream_errors;
    co_return sim::AgentOutcome(How::stream_error, 200, std::nullopt, 0);
  }
  if (!reader.complete()) {
    ++counts.cut;
    co_return sim::AgentOutcome(How::cut, 200, std::nullopt, 0);
  }
  ++counts.answered;
  const wire::UsageReport& usage = reader.usage();
  const Tokens output = usage.output.value_or(0);
  counts.tokens += usage.uncached.value_or(0) + usage.cached.value_or(0) + output;
  co_return sim::AgentOutcome(How::answered, 200, std::nullopt, output);
}

Task<sim::AgentOutcome> converse(AgentLink& link, net::ClientExchange& exchange,
                                 const net::RequestHead& head, const std::string& body,
                                 const Limits& limits) {
  AgentCounts& counts = *link.counts;
  const Result<void> sent = co_await exchange.send(head, body);
  if (!sent) co_return broken(counts, sent.error());
  const Result<net::ResponseHead> answer = co_await exchange.read_head(limits.for_head());
  if (!answer) co_return broken(counts, answer.error());
  if (answer->status != 200) {
    sim::AgentOutcome refused = co_await read_refusal(link, exchange, *answer, limits);
    co_return refused;
  }
  sim::AgentOutcome answered = co_await read_answer(link, exchange, *answer, limits);
  co_return answered;
}

}  // namespace

AgentWire wire_of(std::string_view harness) {
  AgentWire wire;
  wire.profile = harness;
  wire.model = "gpt-6";
  if (harness == "claude-code") {
    wire.dialect = Dialect::anthropic_messages;
    wire.model = "claude-opus-5-5";
    wire.user_agent = "claude-cli/2.1.332 (external, sdk-cli)";
    wire.session_header = "X-Claude-Code-Session-Id";
    wire.timeout_header = "X-Stainless-Timeout";
  } else if (harness == "opencode") {
    wire.user_agent = "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14";
    wire.session_header = "x-session-id";
  } else if (harness == "gemini-cli") {
    wire.user_agent = "GeminiCLI-tui/0.61.0/gemini-3.5-pro (linux; x64)";
  } else if (harness == "codex") {
    wire.dialect = Dialect::openai_responses;
    wire.user_agent = "codex_exec/0.171.0 (Linux; x86_64)";
    wire.session_header = "session-id";
  } else if (harness == "mini-swe-agent") {
    wire.user_agent = "mini-swe-agent/2.1.0";
  } else {
    wire.profile = "openai-python";  // The SDK that its habits were read in.
    wire.user_agent = "OpenAI/Python 2.30.0";
    wire.timeout_header = "x-stainless-read-timeout";
  }
  return wire;
}

std::string request_body(const AgentWire& wire, const sim::AgentCall& call,
                         double bytes_per_token) {
  if (wire.dialect == Dialect::anthropic_messages) {
    return anthropic_request(wire, call, bytes_per_token);
  }
  if (wire.dialect == Dialect::openai_responses) {
    return responses_request(wire, call, bytes_per_token);
  }
  return openai_request(wire, call, bytes_per_token);
}

net::Task<sim::AgentOutcome> attempt(AgentLink& link, const sim::AgentCall& call) {
  ++link.counts->calls;
  const Limits limits(*link.clock, call);
  const net::RequestHead head = request_head(link, call);
  const std::string body = request_body(link.wire, call, link.bytes_per_token);
  net::ClientExchange exchange = link.client->start(link.base);
  link.exchange = &exchange;
  sim::AgentOutcome outcome = co_await converse(link, exchange, head, body, limits);
  link.exchange = nullptr;
  co_return outcome;
}

}  // namespace hg::lab
