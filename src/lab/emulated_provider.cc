#include "lab/emulated_provider.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "lab/api.h"
#include "lab/codings.h"
#include "lab/wire_shapes.h"
#include "net/server.h"

namespace hg::lab {
namespace {

namespace json = boost::json;
using net::BodyFraming;
using net::ResponseHead;
using net::ServerExchange;
using net::Task;

// Writes of one stream are at least this far apart, so that fast models cost no CPU.
constexpr Micros kWriteGap = 20ms;
// An overload in the stream that comes late: after the first of this much output, and a moment in
// which a reader takes that for the answer.
constexpr Tokens kLateOutput = 60;
constexpr Micros kLateGap = 300ms;
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

// Where in a stream a refusal stands.
enum class StreamPoint : std::uint8_t { first_event, begun, late };

// What is done with one generation call, by the model's verdict or by an ordered fault.
struct Act {
  enum class What : std::uint8_t { answer, refuse, refuse_in_stream, drop, silence };
  What what = What::answer;
  RefusalShape shape = RefusalShape::rate_limit;
  RefusalHints hints;
  std::string kind;  // The word in `refused`; "" for an answer.
  bool injected = false;
  StreamPoint point = StreamPoint::first_event;
  Micros first_byte{0};
  Micros stall{0};               // Between the headers and what follows.
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
    case Fault::rate_limit:
    case Fault::stream_rate_limit: return RefusalShape::rate_limit;
    case Fault::rate_limit_bare: return RefusalShape::rate_limit_bare;
    case Fault::overloaded:
    case Fault::stream_overload:
    case Fault::stream_begun:
    case Fault::stream_late: return RefusalShape::overloaded;
    case Fault::unavailable: return RefusalShape::unavailable;
    case Fault::quota: return RefusalShape::quota;
    case Fault::server_error:
    case Fault::drop:
    case Fault::cut:
    case Fault::silence:
    case Fault::stall: return RefusalShape::server_error;
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

// Faults that spoil an answer of the model instead of standing in for it.
bool spoils_answer(const OrderedFault& ordered) {
  return ordered.fault == Fault::cut || ordered.fault == Fault::stall ||
         (ordered.fault == Fault::silence && ordered.seconds);
}

// Words that count as a refusal; the others are broken connections and internal errors.
bool is_refusal(std::string_view kind) {
  return kind == "429" || kind == "429-bare" || kind == "529" || kind == "503" || kind == "quota" ||
         kind.starts_with("stream");
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
  return json_text(out);
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
    const net::RequestHead& asked = exchange.head();
    const Target target = read_target(asked.method, asked.target, asked.headers);
    std::string body;
    if (asked.method != "GET" && asked.method != "HEAD") {
      Result<std::string> read = co_await read_body(exchange, target);
      if (!read) co_return;
      body = std::move(*read);
    }
    switch (target.want) {
      case Want::generate: co_await generate(exchange, target, body); break;
      case Want::count_tokens: co_await count(exchange, target, body); break;
      case Want::scale: co_await set_scale(exchange, body); break;
      default: co_await small(exchange, target); break;
    }
  }

  // An error: the client is gone, or has its answer.
  Task<Result<std::string>> read_body(ServerExchange& exchange, const Target& target) {
    Result<std::string> body = co_await exchange.read_body(config.body_bytes_max);
    if (body) {
      const std::string coding(exchange.head().headers.find("content-encoding").value_or(""));
      body = unpack_body(coding, std::move(*body), config.body_bytes_max);
    } else if (body.error().code != Errc::too_large && body.error().code != Errc::protocol) {
      co_return body;
    }
    if (body) co_return body;
    ++totals.bad_requests;
    const bool too_large = body.error().code == Errc::too_large;
    const RefusalText text = client_error(
        target.api, too_large ? 413 : 400,
        too_large ? "Request exceeds the maximum size" : "Malformed body", request_id(0));
    ResponseHead head = head_of(text);
    (void)co_await reply(exchange, std::move(head), text.body);
    co_return body;
  }

  // Requests whose answer needs no body of theirs.
  Task<void> small(ServerExchange& exchange, const Target& target) {
    const net::RequestHead& asked = exchange.head();
    ResponseHead head = json_head(200);
    std::string body = "{}";
    switch (target.want) {
      case Want::stats: body = to_json(current_totals()) + "\n"; break;
      case Want::list_models:
        ++totals.free_requests;
        body = models_body(target.api, config.models);
        break;
      case Want::nothing: break;
      case Want::websocket:
        head = json_head(426);
        head.headers.add("Upgrade", "HTTP/1.1");
        break;
      case Want::side:
        ++totals.free_requests;
        if (asked.method == "POST" && target.path.contains("analytics")) break;
        head = json_head(404);
        body = R"({"detail":"Not Found"})";
        break;
      default: {
        const RefusalText text = client_error(
            target.api, 404, fmt::format("Not found: {} {}", asked.method, target.path),
            request_id(0));
        head = head_of(text);
        body = text.body;
        break;
      }
    }
    (void)co_await reply(exchange, std::move(head), body);
  }

  Task<void> count(ServerExchange& exchange, const Target& target, const std::string& body) {
    const Result<RequestView> view = view_request(target.api, body, config.tokens);
    if (!view) {
      co_await bad_request(exchange, target.api, view.error().detail);
      co_return;
    }
    ++totals.free_requests;
    ResponseHead head = json_head(200);
    const std::string text = token_count_body(target.api, view->prompt_tokens);
    (void)co_await reply(exchange, std::move(head), text);
  }

  // A whole answer, dated, and packed if that is on and the client accepts it.
  Task<Result<void>> reply(ServerExchange& exchange, ResponseHead head, std::string body) {
    finish_head(exchange, head);
    if (packs(exchange)) {
      GzipWriter gzip;
      std::string packed = gzip.write(body);
      packed += gzip.finish();
      body = std::move(packed);
    }
    Result<void> sent = co_await exchange.reply(std::move(head), body);
    co_return sent;
  }

  [[nodiscard]] bool packs(const ServerExchange& exchange) const {
    return config.gzip &&
           accepts_gzip(exchange.head().headers.find("accept-encoding").value_or(""));
  }

  void finish_head(const ServerExchange& exchange, ResponseHead& head) const {
    head.headers.add("Date", http_date(clock.wall()));
    if (packs(exchange)) head.headers.add("Content-Encoding", "gzip");
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
    (void)co_await reply(exchange, std::move(head), text);
  }

  Task<void> bad_request(ServerExchange& exchange, Api api, std::string message) {
    ++totals.bad_requests;
    const RefusalText text = client_error(api, 400, message, request_id(0));
    ResponseHead head = head_of(text);
    (void)co_await reply(exchange, std::move(head), text.body);
  }

  // --- A generation call ---

  Task<void> generate(ServerExchange& exchange, const Target& target, const std::string& body) {
    Result<RequestView> view = view_request(target.api, body, config.tokens);
    if (!view) {
      co_await bad_request(exchange, target.api, view.error().detail);
      co_return;
    }
    if (target.api == Api::gemini_generate) {
      view->model = target.model;
      view->stream = target.stream;
      view->event_stream = target.event_stream;
    }
    if (!view->generates) {
      co_await prewarm(exchange, *view);
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
    Act act = decide(*view, planned, arrived);
    if (!act.kind.empty()) ++totals.refused[act.kind];
    if (act.injected) ++totals.injected;

    Watch watch(exchange, executor, clock);
    switch (act.what) {
      case Act::What::answer:
        co_await send_answer(exchange, watch, *view, act, std::move(answer), arrived, entry);
        break;
      case Act::What::refuse:
        co_await send_refusal(exchange, watch, *view, act, arrived, entry);
        break;
      case Act::What::refuse_in_stream:
        co_await refuse_in_stream(exchange, watch, *view, act, std::move(answer), arrived, entry);
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
    if (ordered && !spoils_answer(*ordered)) return act_of(*ordered, view);

    sim::ProviderRequest request;
    request.prompt_tokens = view.prompt_tokens;
    // Anthropic caches what the request marks, the others by themselves.
    if (view.api != Api::anthropic_messages || view.cache_marked) request.blocks = view.prefix;
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
        if (act.verdict.cut_after_output) act.kind = "cut";
        if (ordered) spoil(act, *ordered);
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

  static void spoil(Act& act, const OrderedFault& ordered) {
    const Micros seconds = ordered.seconds.value_or(70s);
    act.injected = true;
    act.kind = to_string(ordered.fault);
    if (ordered.fault == Fault::cut) {
      act.verdict.cut_after_output = std::max<Tokens>(1, act.verdict.output / 2);
    } else if (ordered.fault == Fault::stall) {
      act.stall = seconds;
    } else {
      act.first_byte += seconds;
      act.verdict.first_byte += seconds;
    }
  }

  // An ordered fault comes at once, like a front door that refuses before the model sees the call.
  Act act_of(const OrderedFault& ordered, const RequestView& view) {
    Act act;
    act.injected = true;
    act.shape = shape_of(ordered.fault);
    act.kind = to_string(ordered.fault);
    act.first_byte = 5ms;
    act.hints.retry_after = ordered.seconds;
    switch (ordered.fault) {
      case Fault::drop: act.what = Act::What::drop; break;
      case Fault::silence: act.what = Act::What::silence; break;
      case Fault::stream_overload:
      case Fault::stream_rate_limit:
      case Fault::stream_begun:
      case Fault::stream_late:
        act.what = view.stream && view.event_stream ? Act::What::refuse_in_stream
                                                    : Act::What::refuse;
        if (ordered.fault == Fault::stream_begun) act.point = StreamPoint::begun;
        if (ordered.fault == Fault::stream_late) act.point = StreamPoint::late;
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
    const RefusalText text = refusal_text(view.api, act.shape, act.hints, clock.wall(),
                                          request_id(entry.number));
    entry.status = text.status;
    ResponseHead head = head_of(text);
    const Result<void> sent = co_await reply(exchange, std::move(head), text.body);
    entry.client_closed = !sent;
  }

  // A 200 whose stream turns into an error: at once, after its opening, or amid the output.
  Task<void> refuse_in_stream(ServerExchange& exchange, Watch& watch, const RequestView& view,
                              const Act& act, std::optional<Answer> scripted, Instant arrived,
                              Entry& entry) {
    Reply cut_reply = reply_for(view, act, std::move(scripted), entry);
    if (cut_reply.usage.output == 0) cut_reply.usage.output = kLateOutput;
    if (cut_reply.answer.text.size() < 2) {
      cut_reply.answer.text = filler_text(kLateOutput, config.tokens);
    }
    const std::vector<StreamPiece> pieces = reply_stream(view.api, cut_reply, view.include_usage,
                                                         config.delta_bytes);
    std::string bytes;
    std::size_t sent_pieces = 0;
    if (act.point != StreamPoint::first_event) {
      while (sent_pieces < pieces.size() && !pieces[sent_pieces].carries_output) {
        bytes += pieces[sent_pieces++].bytes;
      }
    }
    if (act.point == StreamPoint::late && sent_pieces < pieces.size()) {
      entry.output_sent = pieces[sent_pieces].output_done;
      bytes += pieces[sent_pieces++].bytes;
    }
    // Responses numbers its events; each has three line ends.
    const auto events = static_cast<std::size_t>(std::ranges::count(bytes, '\n') / 3);
    const std::string error = stream_error(view.api, act.shape, act.hints, cut_reply, events);

    const bool here = co_await watch.wait_until(arrived + act.first_byte);
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    entry.status = 200;
    StreamOut out(*this, exchange);
    ResponseHead head = answer_head(view, act, entry.number);
    Result<void> sent = co_await out.begin(std::move(head));
    if (sent && !bytes.empty()) sent = co_await out.send(bytes);
    if (sent && act.point == StreamPoint::late) {
      const bool still_here = co_await watch.wait_until(clock.now() + kLateGap);
      if (!still_here) sent = fail(Errc::closed, "the client left");
    }
    if (sent) sent = co_await out.send(error);
    if (sent) sent = co_await out.end();
    entry.client_closed = !sent;
  }

  // `generate: false`: the events of an empty answer, and nothing is drawn.
  Task<void> prewarm(ServerExchange& exchange, const RequestView& view) {
    ++totals.free_requests;
    Reply empty;
    empty.id = fmt::format("{:016x}", stable_hash("prewarm", config.seed));
    empty.model = view.model;
    empty.created = clock.wall().since_epoch.count() / kMicro;
    ResponseHead head = answer_head(view, Act(), 0);
    if (!view.stream) {
      const std::string body = reply_body(view.api, empty);
      (void)co_await reply(exchange, std::move(head), body);
      co_return;
    }
    std::string bytes;
    for (const StreamPiece& piece : reply_stream(view.api, empty, true, config.delta_bytes)) {
      bytes += piece.bytes;
    }
    StreamOut out(*this, exchange);
    Result<void> sent = co_await out.begin(std::move(head));
    if (sent) sent = co_await out.send(bytes);
    if (sent) sent = co_await out.end();
  }

  // The body of a stream, packed where the head says so.
  class StreamOut {
   public:
    StreamOut(const State& state, ServerExchange& exchange) : state_(state), exchange_(exchange) {}

    Task<Result<void>> begin(ResponseHead head) {
      state_.finish_head(exchange_, head);
      if (state_.packs(exchange_)) gzip_.emplace();
      Result<void> sent = co_await exchange_.send_head(std::move(head), BodyFraming::chunked());
      co_return sent;
    }
    Task<Result<void>> send(std::string bytes) {
      if (gzip_) bytes = gzip_->write(bytes);
      Result<void> sent = co_await exchange_.send_some(bytes);
      co_return sent;
    }
    Task<Result<void>> end() {
      if (gzip_) {
        const std::string last = gzip_->finish();
        Result<void> sent = co_await exchange_.send_some(last);
        if (!sent) co_return sent;
      }
      Result<void> finished = co_await exchange_.finish();
      co_return finished;
    }

   private:
    const State& state_;
    ServerExchange& exchange_;
    std::optional<GzipWriter> gzip_;
  };

  Task<void> send_answer(ServerExchange& exchange, Watch& watch, const RequestView& view,
                         const Act& act, std::optional<Answer> scripted, Instant arrived,
                         Entry& entry) {
    const Reply whole = reply_for(view, act, std::move(scripted), entry);
    if (view.stream) {
      co_await send_stream(exchange, watch, view, act, whole, arrived, entry);
    } else {
      co_await send_whole(exchange, watch, view, act, whole, arrived, entry);
    }
    model.finished(act.verdict.id, entry.output_sent, clock.now());
  }

  Reply reply_for(const RequestView& view, const Act& act, std::optional<Answer> scripted,
                  const Entry& entry) const {
    const sim::ProviderVerdict& verdict = act.verdict;
    Reply reply;
    reply.id = fmt::format("{:016x}", stable_hash(std::to_string(entry.number), config.seed));
    reply.model = view.model;
    reply.created = entry.arrived.since_epoch.count() / kMicro;
    if (scripted) {
      reply.answer = std::move(*scripted);
    } else if (!view.answer_schema.empty() && view.tools.empty()) {
      reply.answer = answer_for(config.script, view, config.tokens, verdict.output);
    } else {
      reply.answer.text = filler_text(verdict.output, config.tokens);
      if (view.max_output && verdict.output >= *view.max_output) {
        reply.answer.stop = StopReason::max_tokens;
      }
    }
    reply.usage = usage_of(view, verdict);
    return reply;
  }

  Task<void> send_stream(ServerExchange& exchange, Watch& watch, const RequestView& view,
                         const Act& act, const Reply& whole, Instant arrived, Entry& entry) {
    const std::vector<StreamPiece> pieces = pieces_for(view, whole);
    const Instant first_byte = arrived + act.first_byte + act.stall;
    const bool here = co_await watch.wait_until(arrived + act.first_byte);
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    entry.status = 200;
    StreamOut out(*this, exchange);
    ResponseHead head = answer_head(view, act, entry.number);
    const Result<void> head_sent = co_await out.begin(std::move(head));
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
      const Result<void> sent = co_await out.send(std::move(bytes));
      if (!sent) {
        entry.client_closed = true;
        co_return;
      }
      if (cut) {
        exchange.abort();
        co_return;
      }
    }
    // Every event is out: some clients (Codex) leave without waiting for the end of the body.
    (void)co_await out.end();
  }

  // Gemini streams an array where events were not asked for; it goes out as one piece.
  std::vector<StreamPiece> pieces_for(const RequestView& view, const Reply& whole) const {
    if (view.api != Api::gemini_generate || view.event_stream) {
      return reply_stream(view.api, whole, view.include_usage, config.delta_bytes);
    }
    StreamPiece piece;
    piece.bytes = "[" + reply_body(view.api, whole) + "]";
    piece.output_done = whole.usage.output;
    piece.carries_output = true;
    return {piece};
  }

  Task<void> send_whole(ServerExchange& exchange, Watch& watch, const RequestView& view,
                        const Act& act, const Reply& whole, Instant arrived, Entry& entry) {
    const bool here = co_await watch.wait_until(arrived + act.verdict.duration());
    if (!here) {
      entry.client_closed = true;
      co_return;
    }
    const std::string body = reply_body(view.api, whole);
    entry.status = 200;
    ResponseHead head = answer_head(view, act, entry.number);
    if (act.verdict.cut_after_output || act.stall > Micros{0}) {
      // Not packed: only the ends of such an answer matter.
      head.headers.add("Date", http_date(clock.wall()));
      Result<void> sent = co_await exchange.send_head(std::move(head),
                                                      BodyFraming::of_length(body.size()));
      if (sent && act.verdict.cut_after_output) {
        const std::string half = body.substr(0, body.size() / 2);
        (void)co_await exchange.send_some(half);
        entry.output_sent = *act.verdict.cut_after_output;
        exchange.abort();
        co_return;
      }
      const bool stayed = co_await watch.wait_until(clock.now() + act.stall);
      if (!stayed) sent = fail(Errc::closed, "the client left");
      if (sent) sent = co_await exchange.send_some(body);
      if (sent) sent = co_await exchange.finish();
      entry.client_closed = !sent;
      if (sent) entry.output_sent = whole.usage.output;
      co_return;
    }
    const Result<void> sent = co_await reply(exchange, std::move(head), body);
    entry.client_closed = !sent;
    entry.output_sent = whole.usage.output;
  }

  ResponseHead answer_head(const RequestView& view, const Act& act, std::int64_t number) const {
    ResponseHead head(200);
    const bool gemini = view.api == Api::gemini_generate;
    const bool events = view.stream && (!gemini || view.event_stream);
    head.headers.add("Content-Type", !events  ? "application/json; charset=UTF-8"
                                     : gemini ? "text/event-stream"
                                              : "text/event-stream; charset=utf-8");
    if (events && !gemini) head.headers.add("Cache-Control", "no-cache");
    if (gemini) {
      for (const char* field : {"Origin", "X-Origin", "Referer"}) head.headers.add("Vary", field);
      return head;
    }
    if (view.api == Api::anthropic_messages) {
      head.headers.add("anthropic-organization-id", "00000000-0000-4000-8000-000000000000");
      head.headers.add("request-id", request_id(number));
    } else {
      head.headers.add("openai-organization", "emulated");
      head.headers.add("openai-processing-ms", std::to_string(act.first_byte.count() / 1000));
      head.headers.add("openai-version", "2020-10-01");
      head.headers.add("x-request-id", request_id(number));
    }
    if (act.hints.rate) add_rate_headers(view.api, *act.hints.rate, clock.wall(), head.headers);
    return head;
  }

  // Anthropic bills what it writes to the cache apart: all but the text after the last mark.
  static ProvidedUsage usage_of(const RequestView& view, const sim::ProviderVerdict& verdict) {
    ProvidedUsage usage;
    usage.cache_read = verdict.cached;
    usage.uncached = verdict.uncached;
    usage.output = verdict.output;
    if (view.api == Api::anthropic_messages && view.cache_marked) {
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
    line["dialect"] = to_string(view.api);
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
    log << json_text(line) << '\n' << std::flush;
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
