#include "lab/emulated_provider.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "lab/wire_shapes.h"
#include "net/server.h"

namespace hg::lab {
namespace {

namespace json = boost::json;
using net::BodyFraming;
using net::ResponseHead;
using net::ServerExchange;
using net::Task;
using wire::Dialect;

// Writes of one stream are at least this far apart, so that fast models cost no CPU.
constexpr Micros kWriteGap = 20ms;
// A silent call ends when its client leaves; this bounds it for clients that never do.
constexpr Micros kSilenceMax = 3600s;

// Waits that end when the client leaves. Lives as long as the handler of one request.
class Watch {
 public:
  Watch(ServerExchange& exchange, const net::Executor& executor, const Clock& clock)
      : exchange_(exchange), clock_(clock), event_(executor) {
    exchange_.on_gone([this] { event_.notify(); });
  }
  ~Watch() { exchange_.on_gone({}); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // False: the client left, or the server is stopped.
  Task<bool> wait_until(Instant at) {
    for (;;) {
      if (exchange_.gone()) co_return false;
      const Micros left = at - clock_.now();
      if (left <= Micros{0}) co_return true;
      const net::Woken woken = co_await event_.wait_for(left);
      if (woken == net::Woken::cancelled) co_return false;
    }
  }

 private:
  ServerExchange& exchange_;
  const Clock& clock_;
  net::Event event_;
};

// What is done with one generation call, by the model's verdict or by an ordered fault.
struct Act {
  enum class What : std::uint8_t { answer, refuse, refuse_in_stream, drop, silence };
  What what = What::answer;
  RefusalShape shape = RefusalShape::rate_limit;
  RefusalHints hints;
  std::string kind;  // The word in `refused`; "" for an answer.
  bool injected = false;
  Micros first_byte{0};
  sim::ProviderVerdict verdict;  // answer.
};

// One generation call, for its line in the log.
struct Entry {
  std::int64_t number = 0;
  WallTime arrived;
  Tokens output_sent = 0;
  int status = 0;  // 0: nothing was sent.
  bool client_closed = false;
};

RefusalShape shape_of(Fault fault) {
  switch (fault) {
    case Fault::rate_limit: return RefusalShape::rate_limit;
    case Fault::rate_limit_bare: return RefusalShape::rate_limit_bare;
    case Fault::overloaded:
    case Fault::stream_overload: return RefusalShape::overloaded;
    case Fault::unavailable: return RefusalShape::unavailable;
    case Fault::quota: return RefusalShape::quota;
    case Fault::server_error:
    case Fault::drop:
    case Fault::cut:
    case Fault::silence: return RefusalShape::server_error;
  }
  return RefusalShape::server_error;
}

Fault fault_of(sim::ProviderError error) {
  switch (error) {
    case sim::ProviderError::rate_limit_tokens:
    case sim::ProviderError::rate_limit_requests: return Fault::rate_limit;
    case sim::ProviderError::overloaded: return Fault::overloaded;
    case sim::ProviderError::unavailable: return Fault::unavailable;
    case sim::ProviderError::quota: return Fault::quota;
    case sim::ProviderError::none: return Fault::server_error;
  }
  return Fault::server_error;
}

// Words that count as a refusal; the others are broken connections and internal errors.
bool is_refusal(std::string_view kind) {
  return kind == "429" || kind == "429-bare" || kind == "529" || kind == "503" || kind == "quota" ||
         kind == "stream";
}

// "/v1/messages" of "//v1/messages?beta=true".
std::string path_of(std::string_view target) {
  std::string path;
  for (const char letter : target.substr(0, target.find('?'))) {
    if (letter == '/' && path.ends_with('/')) continue;
    path += letter;
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Dialect dialect_by_headers(const Headers& headers) {
  const bool anthropic = headers.has("anthropic-version") || headers.has("x-api-key");
  return anthropic ? Dialect::anthropic_messages : Dialect::openai_chat;
}

ResponseHead head_of(const RefusalText& text) {
  ResponseHead head(text.status);
  head.headers = text.headers;
  return head;
}

ResponseHead json_head(int status) {
  ResponseHead head(status);
  head.headers.add("Content-Type", "application/json");
  return head;
}

}  // namespace

std::string to_json(const ProviderTotals& totals) {
  json::object refused;
  for (const auto& [kind, count] : totals.refused) refused[kind] = count;
  json::object out;
  out["seconds"] = totals.seconds;
  out["calls"] = totals.calls;
  out["accepted"] = totals.accepted;
  out["accepted_tokens"] = totals.accepted_tokens;
  out["accepted_prompt"] = totals.accepted_prompt;
  out["accepted_output"] = totals.accepted_output;
  out["cached_tokens"] = totals.cached_tokens;
  out["refused"] = std::move(refused);
  out["refused_total"] = totals.refused_total;
  out["injected"] = totals.injected;
  out["client_closed"] = totals.client_closed;
  out["in_flight"] = totals.in_flight;
  out["in_flight_max"] = totals.in_flight_max;
  out["bad_requests"] = totals.bad_requests;
  out["free_requests"] = totals.free_requests;
  out["script_mismatches"] = totals.script_mismatches;
  out["offered_tokens"] = totals.offered_tokens;
  out["limit_used"] = totals.limit_used;
  return json::serialize(out);
}

struct EmulatedProvider::State {
  State(const net::Executor& the_executor, const Clock& the_clock, ProviderConfig the_config)
      : executor(the_executor),
        clock(the_clock),
        config(std::move(the_config)),
        rng(config.seed),
        started(clock.now()),
        model(config.model, config.seed, started),
        server(executor, net::ServerConfig(),
               [this](ServerExchange& exchange) { return handle(exchange); }) {}

  // --- One request ---

  Task<void> handle(ServerExchange& exchange) {
    const std::string& method = exchange.head().method;
    const std::string path = path_of(exchange.head().target);
    if (method == "POST" && (path == "/v1/messages" || path == "/messages")) {
      co_await with_body(exchange, Dialect::anthropic_messages, Route::generate);
    } else if (method == "POST" &&
               (path == "/v1/chat/completions" || path == "/chat/completions")) {
      co_await with_body(exchange, Dialect::openai_chat, Route::generate);
    } else if (method == "POST" && path == "/v1/messages/count_tokens") {
      co_await with_body(exchange, Dialect::anthropic_messages, Route::count);
    } else if (method == "POST" && path == "/_emulated/scale") {
      co_await with_body(exchange, Dialect::other, Route::scale);
    } else {
      co_await without_body(exchange, path);
    }
  }

  enum class Route : std::uint8_t { generate, count, scale };

  Task<void> with_body(ServerExchange& exchange, Dialect dialect, Route route) {
    const Result<std::string> body = co_await exchange.read_body(config.body_bytes_max);
    if (!body) {
      const bool too_large = body.error().code == Errc::too_large;
      const bool nobody_left = !too_large && body.error().code != Errc::protocol;
      if (nobody_left) co_return;
      ++totals.bad_requests;
      const RefusalText text = client_error(
          dialect, too_large ? 413 : 400,
          too_large ? "Request exceeds the maximum size" : "Malformed body", request_id(0));
      ResponseHead head = head_of(text);
      (void)co_await exchange.reply(std::move(head), text.body);
      co_return;
    }
    switch (route) {
      case Route::generate: co_await generate(exchange, dialect, *body); break;
      case Route::count: co_await count(exchange, *body); break;
      case Route::scale: co_await set_scale(exchange, *body); break;
    }
  }

  Task<void> without_body(ServerExchange& exchange, const std::string& path) {
    const std::string& method = exchange.head().method;
    const bool reads = method == "GET" || method == "HEAD";
    const Dialect dialect = dialect_by_headers(exchange.head().headers);
    ResponseHead head = json_head(200);
    std::string body;
    if (reads && path == "/_emulated/stats") {
      body = to_json(current_totals()) + "\n";
    } else if (reads && (path == "/v1/models" || path == "/models")) {
      ++totals.free_requests;
      body = models_body(dialect, config.models);
    } else if (reads && path == "/") {
      body = "{}";
    } else {
      const RefusalText text = client_error(
          dialect, 404, fmt::format("Not found: {} {}", method, path), request_id(0));
      head = head_of(text);
      body = text.body;
    }
    (void)co_await exchange.reply(std::move(head), body);
  }

  Task<void> count(ServerExchange& exchange, const std::string& body) {
    const Result<RequestView> view = view_request(Dialect::anthropic_messages, body, config.tokens);
    if (!view) {
      co_await bad_request(exchange, Dialect::anthropic_messages, view.error().detail);
      co_return;
    }
    ++totals.free_requests;
    ResponseHead head = json_head(200);
    const std::string text = token_count_body(view->prompt_tokens);
    (void)co_await exchange.reply(std::move(head), text);
  }

  Task<void> set_scale(ServerExchange& exchange, const std::string& body) {
    boost::system::error_code parse_ec;
    const json::value root = json::parse(body, parse_ec);
    double factor = 0;
    if (!parse_ec && root.is_object()) {
      const json::value* given = root.get_object().if_contains("factor");
      if (given != nullptr && given->is_number()) factor = given->to_number<double>();
    }
    const bool valid = std::isfinite(factor) && factor > 0;
    if (valid) model.scale(factor, clock.now());
    ResponseHead head = json_head(valid ? 200 : 400);
    const std::string text = valid ? "{}\n" : "{\"error\":\"factor must be a number above 0\"}\n";
    (void)co_await exchange.reply(std::move(head), text);
  }

  Task<void> bad_request(ServerExchange& exchange, Dialect dialect, std::string message) {
    ++totals.bad_requests;
    const RefusalText text = client_error(dialect, 400, message, request_id(0));
    ResponseHead head = head_of(text);
    (void)co_await exchange.reply(std::move(head), text.body);
  }

  // --- A generation call ---

  Task<void> generate(ServerExchange& exchange, Dialect dialect, const std::string& body) {
    const Result<RequestView> view = view_request(dialect, body, config.tokens);
    if (!view) {
      co_await bad_request(exchange, dialect, view.error().detail);
      co_return;
    }
    const Instant arrived = clock.now();
    Entry entry;
    entry.number = ++totals.calls;
    entry.arrived = clock.wall();
    totals.in_flight_max = std::max(totals.in_flight_max, ++totals.in_flight);

    std::optional<Tokens> planned;
    if (const auto asked = exchange.head().headers.find("x-emulated-output")) {
      planned = parse_integer(*asked);
    }
    std::optional<Answer> answer;
    if (!config.script.conversations.empty()) {
      answer = answer_for(config.script, *view, config.tokens, planned.value_or(200));
      planned = count_tokens(answer->text, config.tokens);
      for (const ToolCall& call : answer->calls) {
        *planned += count_tokens(call.input_json, config.tokens) + 20;
      }
      if (answer->mismatch) {
        ++totals.script_mismatches;
        log_warn("emulated provider: {}", answer->text);
      }
    }
    const Act act = decide(*view, planned, arrived);
    if (!act.kind.empty()) ++totals.refused[act.kind];
    if (act.injected) ++totals.injected;

    Watch watch(exchange, executor, clock);
    switch (act.what) {
      case Act::What::answer:
        co_await send_answer(exchange, watch, *view, act, std::move(answer), arrived, entry);
        break;
      case Act::What::refuse:
      case Act::What::refuse_in_stream:
        co_await send_refusal(exchange, watch, *view, act, arrived, entry);
        break;
      case Act::What::drop:
        (void)co_await watch.wait_until(arrived + act.first_byte);
        exchange.abort();
        break;
      case Act::What::silence:
        co_await stay_silent(watch, arrived, entry);
        exchange.abort();
        break;
    }
    --totals.in_flight;
    if (entry.client_closed) ++totals.client_closed;
    write_log(*view, act, entry, arrived);
  }

  Task<void> stay_silent(Watch& watch, Instant arrived, Entry& entry) {
    const bool stayed = co_await watch.wait_until(arrived + kSilenceMax);
    entry.client_closed = !stayed;
  }

  Act decide(const RequestView& view, std::optional<Tokens> planned, Instant now) {
    const std::optional<OrderedFault> ordered = config.failures.next(rng);
    if (ordered && ordered->fault != Fault::cut) return act_of(*ordered, view);

    sim::ProviderRequest request;
    request.prompt_tokens = view.prompt_tokens;
    // OpenAI caches by itself, Anthropic what the request marks.
    if (view.dialect == Dialect::openai_chat || view.cache_marked) request.blocks = view.prefix;
    request.max_output = view.max_output;
    request.output_planned = planned;
    request.stream = view.stream;

    Act act;
    act.verdict = model.decide(request, now);
    const sim::ProviderVerdict& verdict = act.verdict;
    act.first_byte = verdict.first_byte;
    act.hints.rate = verdict.rate;
    switch (verdict.kind) {
      case sim::ProviderVerdict::Kind::accept:
        if (ordered) {
          act.injected = true;
          act.verdict.cut_after_output = std::max<Tokens>(1, verdict.output / 2);
        }
        if (act.verdict.cut_after_output) act.kind = "cut";
        break;
      case sim::ProviderVerdict::Kind::refuse:
        act.what = Act::What::refuse;
        act.hints.retry_after = verdict.retry_after;
        act.hints.retry_after_ms = verdict.retry_after_ms;
        act.shape = shape_of(fault_of(verdict.error));
        act.kind = to_string(fault_of(verdict.error));
        if (act.shape == RefusalShape::rate_limit && !verdict.retry_after && !verdict.rate) {
          act.kind = "429-bare";
          act.shape = RefusalShape::rate_limit_bare;
        }
        break;
      case sim::ProviderVerdict::Kind::refuse_in_stream:
        act.what = Act::What::refuse_in_stream;
        act.shape = RefusalShape::overloaded;
        act.kind = "stream";
        break;
      case sim::ProviderVerdict::Kind::drop:
        act.what = Act::What::drop;
        act.kind = "drop";
        break;
    }
    return act;
  }

  // An ordered fault comes at once, like a front door that refuses before the model sees the call.
  Act act_of(const OrderedFault& ordered, const RequestView& view) {
    Act act;
    act.injected = true;
    act.shape = shape_of(ordered.fault);
    act.kind = to_string(ordered.fault);
    act.first_byte = 5ms;
    act.hints.retry_after = ordered.retry_after;
    switch (ordered.fault) {
      case Fault::drop: act.what = Act::What::drop; break;
      case Fault::silence: act.what = Act::What::silence; break;
      case Fault::stream_overload:
        act.what = view.stream ? Act::What::refuse_in_stream : Act::What::refuse;
        break;
      case Fault::rate_limit:
        act.what = Act::What::refuse;
        if (!act.hints.retry_after) act.hints.retry_after = 1s;
        act.hints.rate = full_rate();
        break;
      default: act.what = Act::What::refuse; break;
    }
    return act;
  }

  // Headers of a refusal on order: nothing left, full again in a minute.
  sim::RateState full_rate() const {
    sim::RateState rate;
    rate.tokens_limit = static_cast<Tokens>(config.model.tokens_per_second * 60);
    rate.tokens_reset = 60s;
    rate.requests_limit = static_cast<std::int64_t>(config.model.requests_per_second * 60);
    rate.requests_left = rate.requests_limit / 2;
    rate.requests_reset = 30s;
    return rate;
  }

  Task<void> send_refusal(ServerExchange& exchange, Watch& watch, const RequestView& view,
                          const Act& act, Instant arrived, Entry& entry) {
    const bool here = co_await watch.wait_until(arrived + act.first_byte);
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    if (act.what == Act::What::refuse_in_stream) {
      entry.status = 200;
      ResponseHead head = answer_head(view, act, entry.number);
      const Result<void> sent = co_await exchange.send_head(std::move(head),
                                                            BodyFraming::chunked());
      const std::string event = stream_error(view.dialect);
      if (sent) (void)co_await exchange.send_some(event);
      if (sent) (void)co_await exchange.finish();
      co_return;
    }
    const RefusalText text = refusal_text(view.dialect, act.shape, act.hints, clock.wall(),
                                          request_id(entry.number));
    entry.status = text.status;
    ResponseHead head = head_of(text);
    const Result<void> sent = co_await exchange.reply(std::move(head), text.body);
    entry.client_closed = !sent;
  }

  Task<void> send_answer(ServerExchange& exchange, Watch& watch, const RequestView& view,
                         const Act& act, std::optional<Answer> scripted, Instant arrived,
                         Entry& entry) {
    const sim::ProviderVerdict& verdict = act.verdict;
    Reply reply;
    reply.id = fmt::format("{:016x}", stable_hash(std::to_string(entry.number), config.seed));
    reply.model = view.model;
    reply.created = entry.arrived.since_epoch.count() / kMicro;
    if (scripted) {
      reply.answer = std::move(*scripted);
    } else {
      reply.answer.text = filler_text(verdict.output, config.tokens);
      if (view.max_output && verdict.output >= *view.max_output) {
        reply.answer.stop = StopReason::max_tokens;
      }
    }
    reply.usage = usage_of(view, verdict);

    if (view.stream) {
      co_await send_stream(exchange, watch, view, act, reply, arrived, entry);
    } else {
      co_await send_whole(exchange, watch, view, act, reply, arrived, entry);
    }
    model.finished(verdict.id, entry.output_sent, clock.now());
  }

  Task<void> send_stream(ServerExchange& exchange, Watch& watch, const RequestView& view,
                         const Act& act, const Reply& reply, Instant arrived, Entry& entry) {
    const std::vector<StreamPiece> pieces = reply_stream(view.dialect, reply, view.include_usage,
                                                         config.delta_bytes);
    const Instant first_byte = arrived + act.first_byte;
    const bool here = co_await watch.wait_until(first_byte);
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    entry.status = 200;
    ResponseHead head = answer_head(view, act, entry.number);
    const Result<void> head_sent = co_await exchange.send_head(std::move(head),
                                                               BodyFraming::chunked());
    if (!head_sent) {
      entry.client_closed = true;
      co_return;
    }
    const auto due = [&](const StreamPiece& piece) {
      return first_byte + act.verdict.per_output_token * piece.output_done;
    };
    for (std::size_t next = 0; next < pieces.size();) {
      const bool still_here = co_await watch.wait_until(due(pieces[next]));
      if (!still_here) {
        entry.client_closed = true;
        co_return;
      }
      // All that is due by now, or shortly, goes out in one write.
      const Instant until = clock.now() + (next == 0 ? Micros{0} : kWriteGap);
      std::string bytes;
      bool cut = false;
      while (next < pieces.size() && due(pieces[next]) <= until && !cut) {
        bytes += pieces[next].bytes;
        entry.output_sent = pieces[next].output_done;
        ++next;
        cut = act.verdict.cut_after_output && next < pieces.size() &&
              pieces[next].output_done > *act.verdict.cut_after_output;
      }
      const Result<void> sent = co_await exchange.send_some(bytes);
      if (!sent) {
        entry.client_closed = true;
        co_return;
      }
      if (cut) {
        exchange.abort();
        co_return;
      }
    }
    const Result<void> finished = co_await exchange.finish();
    entry.client_closed = !finished;
  }

  Task<void> send_whole(ServerExchange& exchange, Watch& watch, const RequestView& view,
                        const Act& act, const Reply& reply, Instant arrived, Entry& entry) {
    const bool here = co_await watch.wait_until(arrived + act.verdict.duration());
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    const std::string body = reply_body(view.dialect, reply);
    entry.status = 200;
    ResponseHead head = answer_head(view, act, entry.number);
    if (act.verdict.cut_after_output) {
      const Result<void> sent = co_await exchange.send_head(std::move(head),
                                                            BodyFraming::of_length(body.size()));
      const std::string half = body.substr(0, body.size() / 2);
      if (sent) (void)co_await exchange.send_some(half);
      entry.output_sent = *act.verdict.cut_after_output;
      exchange.abort();
      co_return;
    }
    const Result<void> sent = co_await exchange.reply(std::move(head), body);
    entry.client_closed = !sent;
    entry.output_sent = reply.usage.output;
  }

  ResponseHead answer_head(const RequestView& view, const Act& act, std::int64_t number) const {
    ResponseHead head(200);
    head.headers.add("Content-Type",
                     view.stream ? "text/event-stream; charset=utf-8" : "application/json");
    if (view.stream) head.headers.add("Cache-Control", "no-cache");
    if (view.dialect == Dialect::anthropic_messages) {
      head.headers.add("anthropic-organization-id", "00000000-0000-4000-8000-000000000000");
      head.headers.add("request-id", request_id(number));
    } else {
      head.headers.add("openai-organization", "emulated");
      head.headers.add("openai-processing-ms", std::to_string(act.first_byte.count() / 1000));
      head.headers.add("openai-version", "2020-10-01");
      head.headers.add("x-request-id", request_id(number));
    }
    if (act.hints.rate) add_rate_headers(view.dialect, *act.hints.rate, clock.wall(), head.headers);
    return head;
  }

  // Anthropic bills what it writes to the cache apart: all but the text after the last mark.
  static ProvidedUsage usage_of(const RequestView& view, const sim::ProviderVerdict& verdict) {
    ProvidedUsage usage;
    usage.cache_read = verdict.cached;
    usage.uncached = verdict.uncached;
    usage.output = verdict.output;
    if (view.dialect == Dialect::anthropic_messages && view.cache_marked) {
      usage.uncached = std::min<Tokens>(verdict.uncached, 4);
      usage.cache_written = verdict.uncached - usage.uncached;
    }
    return usage;
  }

  std::string request_id(std::int64_t number) const {
    return fmt::format("req_{:016x}", stable_hash(std::to_string(number), config.seed + 1));
  }

  // --- The account ---

  void write_log(const RequestView& view, const Act& act, const Entry& entry, Instant arrived) {
    if (!log.is_open()) return;
    const bool answered = act.what == Act::What::answer;
    json::object line;
    line["t"] = to_rfc3339(entry.arrived);
    line["n"] = entry.number;
    line["dialect"] = wire::to_string(view.dialect);
    line["model"] = view.model;
    line["stream"] = view.stream;
    line["outcome"] = answered ? (act.kind.empty() ? "accepted" : act.kind) : act.kind;
    line["status"] = entry.status;
    line["injected"] = act.injected;
    line["prompt_tokens"] = view.prompt_tokens;
    line["cached_tokens"] = answered ? act.verdict.cached : 0;
    line["output_tokens"] = answered ? act.verdict.output : 0;
    line["output_sent"] = entry.output_sent;
    if (act.hints.retry_after) line["retry_after_s"] = to_seconds(*act.hints.retry_after);
    line["first_byte_ms"] = act.first_byte.count() / 1000;
    line["ms"] = (clock.now() - arrived).count() / 1000;
    line["client_closed"] = entry.client_closed;
    line["turn"] = view.assistant_turns;
    line["tools"] = view.tools.size();
    log << json::serialize(line) << '\n' << std::flush;
  }

  ProviderTotals current_totals() {
    const Instant now = clock.now();
    ProviderTotals out = totals;
    const sim::ProviderBooks& books = model.books();
    out.seconds = to_seconds(now - started);
    out.accepted = books.accepted;
    out.accepted_tokens = books.accepted_tokens;
    out.accepted_prompt = books.accepted_prompt;
    out.accepted_output = books.accepted_output;
    out.cached_tokens = books.cached_tokens;
    for (const auto& [kind, count] : out.refused) {
      if (is_refusal(kind)) out.refused_total += count;
    }
    out.offered_tokens = model.offered_tokens(now);
    out.limit_used = model.limit_used(now);
    return out;
  }

  net::Executor executor;
  const Clock& clock;
  ProviderConfig config;
  Rng rng;
  Instant started;
  sim::ModelProvider model;
  ProviderTotals totals;  // What the model's own books do not hold.
  std::ofstream log;
  net::Server server;  // Last: its handlers use the rest.
};

EmulatedProvider::EmulatedProvider(const net::Executor& executor, const Clock& clock,
                                   ProviderConfig config)
    : state_(std::make_unique<State>(executor, clock, std::move(config))) {}

EmulatedProvider::~EmulatedProvider() = default;

Result<std::uint16_t> EmulatedProvider::listen(std::uint16_t port) {
  if (!state_->config.log_path.empty()) {
    state_->log.open(state_->config.log_path, std::ios::app);
    if (!state_->log) {
      return fail(Errc::unavailable, fmt::format("cannot write {}", state_->config.log_path));
    }
  }
  return state_->server.listen_loopback(port);
}

net::Task<void> EmulatedProvider::stop(Micros drain) { co_await state_->server.stop(drain); }

ProviderTotals EmulatedProvider::totals() const { return state_->current_totals(); }

void EmulatedProvider::restart() {
  state_->started = state_->clock.now();
  state_->model = sim::ModelProvider(state_->config.model, state_->config.seed, state_->started);
  state_->totals = ProviderTotals();
}

void EmulatedProvider::scale(double factor) { state_->model.scale(factor, state_->clock.now()); }

}  // namespace hg::lab
