#include "proxy/paced_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "proxy/own_answer.h"
#include "wire/errors.h"
#include "wire/refusal.h"

namespace hg::proxy {
namespace {

using call::Do;

// How long the body of an error is waited for before its status alone decides.
constexpr Micros kErrorBodyWithin = 10s;

// Units times windows that a provider tells of; more are not kept.
constexpr std::size_t kRateNotesMax = 32;

// What Anthropic answers under load; Claude Code fails after three of them in two seconds.
constexpr int kOverloaded = 529;

// For the output of an answer that broke off, when the provider had not said its count: bytes of
// text a token, low, so that the guess is rather too high.
constexpr std::int64_t kOutputBytesPerToken = 4;

// What the provider said, if it said enough to settle by.
std::optional<gate::Usage> usage_of(const wire::UsageReport& report) {
  if (!report.uncached) return std::nullopt;
  gate::Usage usage;
  usage.uncached = *report.uncached;
  usage.cached = report.cached.value_or(0);
  usage.output = report.output.value_or(0);
  return usage;
}

const char* word_of(gate::Settlement by) {
  switch (by) {
    case gate::Settlement::usage: return "usage";
    case gate::Settlement::estimate: return "estimate";
    case gate::Settlement::refund: return "refund";
  }
  return "?";
}

call::NoAnswer how_unsent(const Error& error) {
  return error.code == Errc::misconfigured ? call::NoAnswer::misconfigured
                                           : call::NoAnswer::not_sent;
}

// Settles an admission whose call was destroyed amid its life.
net::Task<void> release(store::MemoryStore* store, std::string pool, std::string id) {
  co_await store->leave(pool, id, gate::Pool::Leaving::gone);
  gate::SettleRequest request;
  request.id = id;
  co_await store->settle(pool, request);
}

}  // namespace

PacedCall::PacedCall(CallParts& parts, net::ServerExchange& exchange, CallSetup setup, Rng rng)
    : parts_(parts),
      exchange_(exchange),
      setup_(std::move(setup)),
      call_(setup_.demand, setup_.patience, rng, setup_.started),
      backed_off_(parts.executor) {
  parts_.live.insert(this);
  parts_.body_bytes += setup_.body.size();
}

PacedCall::~PacedCall() {
  free_body();
  parts_.live.erase(this);
  exchange_.on_gone({});
  if (finished_) return;
  leg_.reset();
  const call::Step step = call_.next(now());
  parts_.tasks.spawn("release", release(&parts_.store, setup_.pool, step.id));
}

net::Task<void> PacedCall::run() {
  exchange_.on_gone([this] { client_went(); });
  for (;;) {
    if (gone_) call_.on_client_gone(now());
    const call::Step step = call_.next(now());
    if (step.what == Do::finish) break;
    co_await carry_out(step);
  }
  finished_ = true;
  leg_.reset();
  exchange_.on_gone({});
  learn();
  write_entry();
}

void PacedCall::client_went() {
  gone_ = true;
  if (leg_) leg_->close();
  if (!waiting_id_.empty()) parts_.store.end_wait(setup_.pool, waiting_id_);
  backed_off_.notify();
}

net::Task<void> PacedCall::carry_out(const call::Step& step) {
  switch (step.what) {
    case Do::ask: co_await ask(step); break;
    case Do::wait: co_await wait(step); break;
    case Do::back_off: co_await back_off(step); break;
    case Do::send: co_await send(); break;
    case Do::relay: co_await relay(); break;
    case Do::refuse: co_await refuse(step); break;
    case Do::leave: co_await give_up_waiting(step); break;
    case Do::give_back: co_await give_back(step); break;
    case Do::settle: co_await settle(step); break;
    case Do::pause_pool: co_await pause_pool(step); break;
    case Do::finish: break;
  }
}

net::Task<void> PacedCall::ask(const call::Step& step) {
  const Result<gate::AcquireReply> reply = co_await parts_.store.acquire(setup_.pool, step.ask);
  if (!reply) log_error("pool {}: {}", setup_.pool, reply.error().detail);
  call_.on_reply(reply.value_or(gate::AcquireReply()), now());
}

net::Task<void> PacedCall::wait(const call::Step& step) {
  waiting_id_ = step.id;
  ++parts_.held;
  const net::Woken woken = co_await parts_.store.wait(setup_.pool, step.id, step.until);
  --parts_.held;
  waiting_id_.clear();
  // Cancelled although the client is there: the program is about to end.
  if (woken == net::Woken::cancelled && !gone_) {
    gone_ = true;
    exchange_.abort();
  }
  if (!gone_) call_.on_timer(now());
}

void PacedCall::free_body() {
  parts_.body_bytes -= setup_.body.size();
  setup_.body = std::string();
}

net::Task<void> PacedCall::back_off(const call::Step& step) {
  backed_off_.reset();
  const Micros rest = step.until - now();
  const net::Woken woken = co_await backed_off_.wait_for(rest);
  if (woken == net::Woken::cancelled && !gone_) {
    gone_ = true;
    exchange_.abort();
  }
  if (!gone_) call_.on_timer(now());
}

net::Task<void> PacedCall::send() {
  leg_.emplace(parts_.client, setup_.upstream.url, parts_.clock);
  const Instant sent_at = now();
  const Result<void> opened = co_await leg_->open(setup_.head, setup_.body, setup_.dialect,
                                                  setup_.first_byte_within);
  if (!opened) {
    no_answer(opened.error());
    co_return;
  }
  if (const auto line = parts_.watch.answered(setup_.upstream.name, now())) log_info("{}", *line);
  const bool success = leg_->head().status < 400;
  if (success) learn_answer_time(now() - sent_at);
  note_rates();
  const call::Answer answer = co_await look_at_answer();
  if (gone_) co_return;
  const bool again = refuses_to_be_asked();
  if (again) co_return;  // The step is to be sent still: as it came, this time.
  if (leg_->broke_empty() && leg_->event_stream()) {
    no_answer(Error(Errc::closed, "the answer broke off before its first byte"));
    co_return;
  }
  call_.on_answer(answer, now());
}

// Nothing of this has gone down yet.
net::Task<call::Answer> PacedCall::look_at_answer() {
  call::Answer answer;
  answer.status = leg_->head().status;
  const WallTime wall = parts_.clock.wall();
  if (answer.status >= 400) {
    co_await leg_->hold_error_body(now() + kErrorBodyWithin);
    answer.refusal = wire::classify_response(*setup_.provider, answer.status, leg_->head().headers,
                                             leg_->side().beginning(), wall);
    answer.usage = usage_of(leg_->side().reader().usage());
    // Agents give up after a few of these, so none gets one, whatever its body says.
    if (answer.status == kOverloaded) answer.refusal.kind = wire::RefusalKind::overload;
    // An SDK told not to retry fails its task for a fault of the provider's own.
    if (answer.refusal.kind == wire::RefusalKind::server) leg_->drop_field("x-should-retry");
  } else if (leg_->event_stream()) {
    co_await leg_->hold_first_event(call_.peek_deadline(now()));
    const std::optional<std::string>& error = leg_->side().reader().error_event();
    if (error) answer.refusal = wire::classify_stream_error(*setup_.provider, *error, wall);
  }
  co_return answer;
}

// A provider that does not know stream_options refuses the whole call for what we added: it gets
// the call as it came, and no such question any more.
bool PacedCall::refuses_to_be_asked() {
  if (!setup_.undo_asking) return false;
  const int status = leg_->head().status;
  if (!wire::refuses_stream_options(status, leg_->side().beginning())) return false;
  log_info("upstream {} refuses stream_options: it is not asked for usage any more",
           setup_.upstream.name);
  parts_.refuse_usage.insert(setup_.upstream.name);
  leg_.reset();
  parts_.body_bytes -= setup_.body.size();
  setup_.body = wire::apply(*setup_.undo_asking, setup_.body);
  parts_.body_bytes += setup_.body.size();
  setup_.undo_asking.reset();
  return true;
}

// Refusals say the most.
void PacedCall::note_rates() {
  const WallTime wall = parts_.clock.wall();
  std::vector<RateNote>& notes = parts_.memories[setup_.pool].rates;
  for (wire::RateReading& reading : wire::read_rate_headers(leg_->head().headers, wall)) {
    const auto same = std::ranges::find_if(notes, [&](const RateNote& note) {
      return note.reading.unit == reading.unit && note.reading.window == reading.window;
    });
    if (same != notes.end()) {
      *same = RateNote{std::move(reading), wall};
    } else if (notes.size() < kRateNotesMax) {
      notes.push_back(RateNote{std::move(reading), wall});
    }
  }
}

void PacedCall::no_answer(const Error& error) {
  const net::Progress progress = leg_->progress();
  const bool asked = progress != net::Progress::not_sent && progress != net::Progress::sending;
  leg_.reset();
  failure_ = error.detail;
  // A client that went after the whole request had left leaves work behind that may be billed.
  if (gone_ && asked) return;
  call_.on_no_answer(asked ? how_unanswered(error) : how_unsent(error), now());
  if (gone_) return;
  const auto line = parts_.watch.failed(setup_.upstream.name, failure_, now());
  if (line) log_warn("{}", *line);
}

// What a second POST of a kind that nobody here knows would do cannot be told.
call::NoAnswer PacedCall::how_unanswered(const Error& error) const {
  const bool may_repeat = error.code == Errc::closed && setup_.dialect != wire::Dialect::other;
  return may_repeat ? call::NoAnswer::no_bytes : call::NoAnswer::silent;
}

net::Task<void> PacedCall::relay() {
  free_body();  // No more retries from here on.
  const bool known = setup_.dialect != wire::Dialect::other;
  const bool success = leg_->head().status < 400;
  const auto marker = known && success ? Leg::EndMarker::needed : Leg::EndMarker::not_needed;
  setup_.entry.status = leg_->head().status;
  if (setup_.undo_asking && success) leg_->hide_usage_chunk();
  const Passed passed = co_await leg_->pass_on(exchange_, marker, setup_.silence);
  if (passed.how != Passed::How::whole) leg_->close();
  if (!passed.first_byte) setup_.entry.status = 0;
  if (passed.first_byte) setup_.entry.first_byte = *passed.first_byte - setup_.started;
  if (passed.upstream_error) failure_ = passed.upstream_error->detail;
  setup_.entry.bytes_out = passed.bytes;
  const wire::UsageReport& usage = leg_->side().reader().usage();
  setup_.entry.uncached = usage.uncached;
  setup_.entry.cached = usage.cached;
  setup_.entry.output = usage.output;
  setup_.entry.cache_write = usage.cache_write;
  setup_.entry.reasoning = usage.reasoning;
  setup_.entry.unread_encoding = !leg_->side().readable();
  if (setup_.entry.unread_encoding) ++parts_.unread_answers;
  call_.on_end(end_of(passed), now());
}

call::End PacedCall::end_of(const Passed& passed) const {
  const SideCopy& side = leg_->side();
  const wire::ResponseReader& reader = side.reader();
  call::End end;
  end.usage = usage_of(reader.usage());
  end.output_seen = reader.output_seen();
  const Tokens guessed = reader.output_chars() / kOutputBytesPerToken;
  if (reader.output_seen()) end.output_estimate = std::max<Tokens>(guessed, 1);
  switch (passed.how) {
    case Passed::How::whole: end.how = call::End::How::complete; break;
    case Passed::How::upstream_broke: end.how = call::End::How::upstream_broke; break;
    case Passed::How::client_gone: end.how = call::End::How::client_gone; break;
  }
  // What a whole answer says of its output is believed, also where it says zero.
  if (end.how == call::End::How::complete && reader.usage().output) end.output_estimate.reset();
  const bool told = reader.error_event() && leg_->head().status < 400;
  if (told && end.how != call::End::How::client_gone) {
    end.how = call::End::How::stream_error;
    end.stream_refusal = wire::classify_stream_error(*setup_.provider, *reader.error_event(),
                                                     parts_.clock.wall())
                             .kind;
  }
  return end;
}

net::Task<void> PacedCall::refuse(const call::Step& step) {
  const call::Record& record = call_.record();
  OwnAnswer answer;
  answer.dialect = setup_.dialect;
  answer.code = call::to_string(step.refusal);
  switch (step.refusal) {
    case call::OwnRefusal::hold_cap:
      answer.status = 429;
      answer.message = fmt::format(
          "Headgate held this call for {:.0f} s, which is as long as {} can wait. Pool {} is bound "
          "by {}; place {} in its queue. Come back after retry-after: the place is kept.",
          to_seconds(record.waited + record.backed_off), setup_.harness->name, setup_.pool,
          gate::to_string(record.last_axis), record.last_place + 1);
      break;
    case call::OwnRefusal::overload:
      answer.status = 429;
      answer.message = fmt::format(
          "The provider refused this call for load {} times, and Headgate cannot hold it any "
          "longer. Pool {}. Come back after retry-after.",
          record.overloads, setup_.pool);
      break;
    case call::OwnRefusal::upstream:
      answer.status = 502;
      answer.message = fmt::format("Headgate got no answer from upstream {}: {}",
                                   setup_.upstream.name, failure_);
      break;
  }
  if (answer.status == 429) {
    answer.retry_after = std::min(setup_.harness->retry_after, setup_.harness->retry_after_max);
  }
  setup_.entry.own_answer = true;
  setup_.entry.status = answer.status;
  const Result<void> sent = co_await send_own(exchange_, answer);
  if (!sent) setup_.entry.status = 0;
  call_.on_done(now());
}

net::Task<void> PacedCall::give_up_waiting(const call::Step& step) {
  const auto why = step.timed_out ? gate::Pool::Leaving::timed_out : gate::Pool::Leaving::gone;
  const Result<bool> left = co_await parts_.store.leave(setup_.pool, step.id, why);
  if (!left) log_error("pool {}: {}", setup_.pool, left.error().detail);
  call_.on_done(now());
}

net::Task<void> PacedCall::give_back(const call::Step& step) {
  leg_.reset();
  const Result<bool> done = co_await parts_.store.overload(setup_.pool, step.id);
  if (!done) log_error("pool {}: {}", setup_.pool, done.error().detail);
  call_.on_done(now());
}

net::Task<void> PacedCall::settle(const call::Step& step) {
  leg_.reset();
  const Result<bool> done = co_await parts_.store.settle(setup_.pool, step.settle);
  if (!done) log_error("pool {}: {}", setup_.pool, done.error().detail);
  call_.on_done(now());
}

net::Task<void> PacedCall::pause_pool(const call::Step& step) {
  log_warn("pool {} is paused for {:.0f} s: the provider says that its quota is used up",
           setup_.pool, to_seconds(step.pause));
  const Result<void> done = co_await parts_.store.pause(setup_.pool, step.pause);
  if (!done) log_error("pool {}: {}", setup_.pool, done.error().detail);
  call_.on_done(now());
}

void PacedCall::learn_answer_time(Micros took) {
  parts_.memories[setup_.pool].answer_times.observe(setup_.facts.stream, took);
}

void PacedCall::learn() {
  PoolMemory& memory = parts_.memories[setup_.pool];
  const call::Record& record = call_.record();
  if (record.outcome == call::Record::Outcome::ok) {
    memory.conversations.answered(setup_.conversation, setup_.facts, setup_.shared_tokens,
                                  record.usage, now());
    if (record.usage) memory.outputs[setup_.harness->name].observe(record.usage->output);
  }
  if (record.seniority > Micros(0)) {
    memory.conversations.refused(setup_.conversation, setup_.facts.prompt_hash, record.seniority,
                                 now());
  }
}

void PacedCall::write_entry() {
  const call::Record& record = call_.record();
  CallEntry& entry = setup_.entry;
  entry.charge = record.charge;
  entry.settled_by = record.tries == 0 ? "" : word_of(record.settled_by);
  entry.outcome = call::to_string(record.outcome);
  entry.tries = record.tries;
  entry.overloads = record.overloads;
  entry.unreachable = record.unreachable;
  entry.unanswered = record.unanswered;
  entry.asks = record.asks;
  if (record.last_axis != gate::Axis::none) entry.denied_by = gate::to_string(record.last_axis);
  entry.waited = record.waited;
  entry.backed_off = record.backed_off;
  entry.total = now() - setup_.started;
  parts_.log.record(entry);
}

}  // namespace hg::proxy
