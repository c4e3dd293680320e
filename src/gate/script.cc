#include "gate/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace hg::gate::script {
namespace embedded {
extern const std::string_view gate_lua;
}

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string number(Micros value) { return std::to_string(value.count()); }

// An operation, the moment (empty: the store's own clock), and what follows.
Call make(Text text, std::string_view operation) {
  Call call;
  call.text = text;
  call.args.reserve(16);
  call.args.emplace_back(operation);
  call.args.emplace_back();
  return call;
}

void add_limits(std::vector<std::string>& args, const Limits& limits) {
  args.push_back(number(limits.c_burst));
  args.push_back(number(limits.r_tok));
  args.push_back(number(limits.k_inflight));
  args.push_back(number(limits.c_req));
  args.push_back(number(limits.r_qps));
  args.push_back(limits.c_out ? number(*limits.c_out) : std::string());
  args.push_back(limits.r_out ? number(*limits.r_out) : std::string());
}

void add_config(std::vector<std::string>& args, const PoolConfig& config) {
  add_limits(args, config.limits);
  args.emplace_back(config.refused_calls_count ? "1" : "0");
  args.push_back(number(config.priority_head_start_max));
  args.push_back(number(config.kappa_micro));
  args.push_back(number(config.weights.cached_ppm));
  args.push_back(number(config.weights.output_ppm));
  add_limits(args, config.seed);
  args.push_back(number(config.seeded_at.since_epoch));
  args.push_back(config.seed_source);
}

// Splits off what stands before the next separator; all of it without one.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Reads the items of a reply one after the other. What is missing or of another kind is 0 or empty,
// and told by ok() at the end.
class Reader {
 public:
  explicit Reader(const Value& value)
      : items_(&value.items), ok_(value.kind == Value::Kind::list) {}

  std::int64_t integer() {
    const Value* value = next();
    if (value == nullptr) return 0;
    if (value->kind == Value::Kind::integer) return value->integer;
    ok_ = false;
    return 0;
  }
  Micros micros() { return Micros{integer()}; }
  std::string text() {
    const Value* value = next();
    if (value == nullptr) return "";
    if (value->kind == Value::Kind::text) return value->text;
    ok_ = false;
    return "";
  }
  const Value& any() {
    static const Value nothing;
    const Value* value = next();
    return value == nullptr ? nothing : *value;
  }
  const std::vector<Value>& list() {
    static const std::vector<Value> none;
    const Value& value = any();
    ok_ = ok_ && value.kind == Value::Kind::list;
    return ok_ ? value.items : none;
  }
  void fail() { ok_ = false; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  const Value* next() {
    if (at_ < items_->size()) return &(*items_)[at_++];
    ok_ = false;
    return nullptr;
  }

  const std::vector<Value>* items_;
  std::size_t at_ = 0;
  bool ok_;
};

std::unexpected<Error> not_understood(std::string_view what) {
  return fail(Errc::protocol,
              fmt::format("the pool's script gave an answer to {} that this release "
                          "of Headgate does not understand",
                          what));
}

// The script ends its own errors with its digest and line, which say nothing to people.
std::string without_place(std::string text) {
  const std::size_t at = text.find(" script: ");
  if (at != std::string::npos) text.resize(at);
  return text;
}

Error error_of(const Value& value) {
  const std::string text = without_place(value.text);
  std::string_view rest = text;
  const std::string_view code = next_part(rest, ' ');
  if (code == "NOPOOL") return {Errc::not_found, std::string(rest)};
  if (code == "HGCONFIG" || code == "HGARG" || code == "HGCLOCK") {
    return {Errc::invalid, std::string(rest)};
  }
  if (code == "HGVERSION") return {Errc::protocol, std::string(rest)};
  if (code == "OOM") {
    return {Errc::unavailable,
            "the store is out of memory (give it more, and maxmemory-policy noeviction): " + text};
  }
  return {Errc::unavailable, text};
}

WakeNote read_note(const Value& value, Reader& outer) {
  Reader reader(value);
  WakeNote note;
  note.id = reader.text();
  note.shim = reader.text();
  note.at = Instant{reader.micros()};
  note.in = reader.micros();
  if (!reader.ok()) outer.fail();
  return note;
}

// What every reply begins with: status, version, kappa, epoch, wake.
std::string begin(Reader& reader, Notes& notes) {
  std::string status = reader.text();
  notes.version = reader.integer();
  notes.kappa_micro = reader.integer();
  notes.epoch = static_cast<std::uint64_t>(reader.integer());
  const Value& wake = reader.any();
  if (wake.kind == Value::Kind::list) {
    notes.wake = read_note(wake, reader);
  } else if (wake.kind != Value::Kind::text || !wake.text.empty()) {
    reader.fail();
  }
  return status;
}

bool read_axis(std::string_view word, Axis& axis) {
  for (const Axis known : {Axis::paused, Axis::tok, Axis::req, Axis::inflight, Axis::out}) {
    if (word != to_string(known)) continue;
    axis = known;
    return true;
  }
  return false;
}

// Reads the numbers of a stored record, which are words.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  std::int64_t integer() {
    const std::optional<std::int64_t> value = to_number(next_part(rest_, ' '));
    ok_ = ok_ && value.has_value();
    return value.value_or(0);
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

Limits read_limits(Words& words) {
  Limits limits;
  limits.c_burst = words.integer();
  limits.r_tok = words.integer();
  limits.k_inflight = words.integer();
  limits.c_req = words.integer();
  limits.r_qps = words.integer();
  const std::int64_t c_out = words.integer();
  const std::int64_t r_out = words.integer();
  if (c_out != 0) limits.c_out = c_out;
  if (r_out != 0) limits.r_out = r_out;
  return limits;
}

bool read_config(std::string_view text, PoolConfig& config) {
  Words words(text);
  config.limits = read_limits(words);
  config.refused_calls_count = words.integer() != 0;
  config.priority_head_start_max = Micros{words.integer()};
  config.kappa_micro = words.integer();
  config.weights.cached_ppm = words.integer();
  config.weights.output_ppm = words.integer();
  config.seed = read_limits(words);
  config.seeded_at = WallTime{Micros{words.integer()}};
  config.seed_source = std::string(words.rest());
  return words.ok();
}

bool read_windows(std::string_view text, std::vector<Window>& windows) {
  while (!text.empty()) {
    Words words(next_part(text, ';'));
    Window window;
    window.index = words.integer();
    window.admitted = words.integer();
    window.waited_long = words.integer();
    window.held_tokens = words.integer();
    window.timeouts = words.integer();
    window.accepted = words.integer();
    window.overloads = words.integer();
    window.released_tokens = words.integer();
    if (!words.ok()) return false;
    windows.push_back(window);
  }
  return true;
}

std::optional<Error> failure(const Value& value) {
  if (value.kind != Value::Kind::error) return std::nullopt;
  return error_of(value);
}

}  // namespace

std::string_view text(Text which) {
  static const std::string taking = "#!lua\n" + std::string(embedded::gate_lua);
  static const std::string releasing = "#!lua flags=allow-oom\n" + std::string(embedded::gate_lua);
  return which == Text::taking ? taking : releasing;
}

PoolKeys::PoolKeys(std::string_view pool) {
  std::string tag;
  for (const char character : pool) {
    const auto byte = static_cast<unsigned char>(character);
    const bool plain = byte > ' ' && byte != 0x7F && character != '{' && character != '}' &&
                       character != '%';
    if (plain) {
      tag += character;
    } else {
      tag += fmt::format("%{:02X}", byte);
    }
  }
  const std::string prefix = "hg1:{" + tag + "}:";
  for (const char* name : {"pool", "due", "order", "index"}) {
    keys_.push_back(prefix + name);
  }
  wake_ = prefix + "wake:";
}

Call acquire(const AcquireRequest& request) {
  Call call = make(Text::taking, "acquire");
  call.args.push_back(request.id);
  call.args.push_back(request.shim);
  call.args.push_back(request.alias);
  call.args.push_back(number(request.estimate));
  call.args.push_back(number(request.charge));
  call.args.push_back(number(request.output));
  call.args.push_back(number(request.hold_left));
  call.args.push_back(number(request.head_start));
  call.args.push_back(number(request.since));
  call.args.push_back(number(request.lease_ttl));
  call.args.push_back(number(request.weights.cached_ppm));
  call.args.push_back(number(request.weights.output_ppm));
  return call;
}

Call settle(const SettleRequest& request) {
  Call call = make(Text::releasing, "settle");
  call.args.push_back(request.id);
  switch (request.by) {
    case Settlement::usage: call.args.emplace_back("usage"); break;
    case Settlement::estimate: call.args.emplace_back("estimate"); break;
    case Settlement::refund: call.args.emplace_back("refund"); break;
  }
  call.args.push_back(number(request.usage.uncached));
  call.args.push_back(number(request.usage.cached));
  call.args.push_back(number(request.usage.output));
  call.args.push_back(number(request.text_chars));
  call.args.push_back(number(request.flat_tokens));
  call.args.emplace_back(request.overloaded ? "1" : "0");
  return call;
}

Call overload(std::string_view id) {
  Call call = make(Text::releasing, "overload");
  call.args.emplace_back(id);
  return call;
}

Call leave(std::string_view id, Pool::Leaving why) {
  Call call = make(Text::releasing, "leave");
  call.args.emplace_back(id);
  call.args.emplace_back(why == Pool::Leaving::timed_out ? "timed_out" : "gone");
  return call;
}

Call renew(std::string_view shim, std::span<const LeaseRenewal> leases, Micros lease_ttl) {
  Call call = make(Text::releasing, "renew");
  call.args.emplace_back(shim);
  call.args.push_back(number(lease_ttl));
  for (const LeaseRenewal& lease : leases.first(std::min(leases.size(), kRenewMax))) {
    call.args.push_back(lease.id);
    call.args.push_back(lease.alias);
    call.args.push_back(number(lease.estimate));
    call.args.push_back(number(lease.charge));
    call.args.push_back(number(lease.output));
    call.args.push_back(number(lease.weights.cached_ppm));
    call.args.push_back(number(lease.weights.output_ppm));
  }
  return call;
}

Call farewell(std::string_view shim) {
  Call call = make(Text::releasing, "farewell");
  call.args.emplace_back(shim);
  return call;
}

Call pause(Micros duration) {
  Call call = make(Text::releasing, "pause");
  call.args.push_back(number(duration));
  return call;
}

Call resume() { return make(Text::releasing, "resume"); }
Call step() { return make(Text::releasing, "step"); }
Call view() { return make(Text::releasing, "view"); }
Call summary() { return make(Text::releasing, "summary"); }

Call create(const PoolConfig& config) {
  Call call = make(Text::taking, "create");
  add_config(call.args, config);
  return call;
}

Call configure(std::int64_t expected_version, const PoolConfig& config) {
  Call call = make(Text::releasing, "configure");
  call.args.push_back(number(expected_version));
  add_config(call.args, config);
  return call;
}

Call restore(std::int64_t version, const PoolConfig& config, std::uint64_t last_epoch) {
  Call call = make(Text::taking, "restore");
  call.args.push_back(number(version));
  call.args.push_back(std::to_string(last_epoch));
  add_config(call.args, config);
  return call;
}

void set_now(Call& call, Instant now) { call.args[1] = number(now.since_zero); }

Result<Answer<AcquireReply>> read_acquire(const Value& value) {
  if (const std::optional<Error> error = failure(value)) {
    if (error->code == Errc::not_found) return Answer<AcquireReply>{};
    return std::unexpected(*error);
  }
  Answer<AcquireReply> answer;
  AcquireReply& reply = answer.reply;
  Reader reader(value);
  const std::string status = begin(reader, answer.notes);
  reply.epoch = answer.notes.epoch;
  reply.share_ppm = reader.integer();
  reply.shims = reader.integer();
  if (status == "admitted") {
    reply.verdict = Verdict::admitted;
  } else if (status == "ended") {
    reply.verdict = Verdict::ended;
  } else if (status == "denied") {
    reply.verdict = Verdict::denied;
    if (!read_axis(reader.text(), reply.axis)) reader.fail();
    reply.place = reader.integer();
    reply.predicted_wait = reader.micros();
    reply.pause_left = reader.micros();
  } else {
    reader.fail();
  }
  if (!reader.ok()) return not_understood("acquire");
  return answer;
}

Result<Answer<RenewReply>> read_renew(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Answer<RenewReply> answer;
  Reader reader(value);
  begin(reader, answer.notes);
  answer.reply.share_ppm = reader.integer();
  answer.reply.shims = reader.integer();
  answer.reply.epoch = answer.notes.epoch;
  if (!reader.ok()) return not_understood("renew");
  return answer;
}

Result<Answer<bool>> read_done(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Answer<bool> answer;
  Reader reader(value);
  begin(reader, answer.notes);
  // Operations that cannot fail to take place say nothing more.
  answer.reply = value.items.size() <= 5 || reader.integer() != 0;
  if (!reader.ok()) return not_understood("an ending");
  return answer;
}

Result<Answer<bool>> read_create(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Answer<bool> answer;
  Reader reader(value);
  const std::string status = begin(reader, answer.notes);
  if (!reader.ok()) return not_understood("create");
  if (status == "exists") return fail(Errc::conflict, "the pool is there already");
  answer.reply = true;
  return answer;
}

Result<Answer<std::int64_t>> read_configure(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Answer<std::int64_t> answer;
  Reader reader(value);
  const std::string status = begin(reader, answer.notes);
  if (!reader.ok()) return not_understood("configure");
  if (status == "conflict") {
    return fail(Errc::conflict,
                fmt::format("the pool's configuration has version {}", answer.notes.version));
  }
  answer.reply = answer.notes.version;
  return answer;
}

Result<Answer<PauseReply>> read_pause(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Answer<PauseReply> answer;
  Reader reader(value);
  begin(reader, answer.notes);
  answer.reply.at = Instant{reader.micros()};
  answer.reply.in = reader.micros();
  if (!reader.ok()) return not_understood("pause");
  return answer;
}

Result<PoolView> read_view(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Notes notes;
  PoolView view;
  Reader reader(value);
  begin(reader, notes);
  view.version = notes.version;
  view.kappa_micro = notes.kappa_micro;
  view.epoch = notes.epoch;
  bool ok = read_config(reader.text(), view.config);
  view.tokens = reader.integer();
  view.requests = reader.integer();
  const MicroTokens out = reader.integer();
  if (view.config.limits.c_out) view.out = out;
  view.inflight = reader.integer();
  view.paused_for = reader.micros();
  for (const Value& row : reader.list()) {
    Reader item(row);
    LeaseView lease;
    lease.id = item.text();
    lease.shim = item.text();
    lease.alias = item.text();
    lease.estimate = item.integer();
    lease.age = item.micros();
    lease.left = item.micros();
    ok = ok && item.ok();
    view.leases.push_back(std::move(lease));
  }
  for (const Value& row : reader.list()) {
    Reader item(row);
    WaiterView waiter;
    waiter.id = item.text();
    waiter.shim = item.text();
    waiter.alias = item.text();
    waiter.estimate = item.integer();
    waiter.charge = item.integer();
    waiter.waited = item.micros();
    waiter.predicted_wait = item.micros();
    ok = ok && item.ok();
    view.waiters.push_back(std::move(waiter));
  }
  ok = ok && read_windows(reader.text(), view.windows);
  for (const Value& row : reader.list()) {
    Reader item(row);
    AliasView alias;
    alias.alias = item.text();
    ok = ok && read_windows(item.text(), alias.windows) && item.ok();
    view.aliases.push_back(std::move(alias));
  }
  for (const Value& row : reader.list()) {
    Reader item(row);
    ShimView shim;
    shim.shim = item.text();
    shim.seen_ago = item.micros();
    shim.share_ppm = item.integer();
    shim.vanished = item.integer() != 0;
    ok = ok && item.ok();
    view.shims.push_back(std::move(shim));
  }
  if (!ok || !reader.ok()) return not_understood("view");
  std::ranges::sort(view.leases, {}, &LeaseView::id);
  std::ranges::sort(view.aliases, {}, &AliasView::alias);
  std::ranges::sort(view.shims, {}, &ShimView::shim);
  return view;
}

Result<Summary> read_summary(const Value& value) {
  if (const std::optional<Error> error = failure(value)) return std::unexpected(*error);
  Notes notes;
  Summary summary;
  Reader reader(value);
  begin(reader, notes);
  summary.version = notes.version;
  summary.kappa_micro = notes.kappa_micro;
  summary.epoch = notes.epoch;
  const bool ok = read_config(reader.text(), summary.config);
  if (!ok || !reader.ok()) return not_understood("summary");
  return summary;
}

Result<WakeNote> read_wake(std::string_view message) {
  Words words(message);
  WakeNote note;
  note.in = Micros{words.integer()};
  note.at = Instant{Micros{words.integer()}};
  note.id = std::string(words.rest());
  if (!words.ok() || note.in < Micros{0}) return not_understood("nobody: a message of a wake");
  return note;
}

}  // namespace hg::gate::script
