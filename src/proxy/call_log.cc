#include "proxy/call_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace hg::proxy {
namespace {

constexpr std::size_t kUsualLine = 768;  // Bytes; longer ones grow.
constexpr std::size_t kMaxRuns = 4096;   // A run's totals are 100 bytes; a daemon lives for weeks.

// Whole ones, rounded up: what took any time at all does not look like nothing.
std::int64_t milliseconds(Micros duration) { return ceil_div(duration.count(), 1000); }

// A JSON object as it is written, a member at a time. Names are plain words.
class Line {
 public:
  Line() {
    text_.reserve(kUsualLine);
    text_ += '{';
  }

  void text(std::string_view name, std::string_view value) {
    begin(name);
    text_ += '"';
    for (const char c : value) character(c);
    text_ += '"';
  }
  void text_if_said(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  void number(std::string_view name, std::int64_t value) {
    begin(name);
    text_ += std::string_view(fmt::format_int(value).c_str());
  }
  void number_or_null(std::string_view name, const std::optional<Tokens>& value) {
    if (value) return number(name, *value);
    begin(name);
    text_ += "null";
  }
  void number_if_said(std::string_view name, const std::optional<Tokens>& value) {
    if (value) number(name, *value);
  }
  void boolean(std::string_view name, bool value) {
    begin(name);
    text_ += value ? "true" : "false";
  }
  void open(std::string_view name) {
    begin(name);
    text_ += '{';
  }
  void close() { text_ += '}'; }

  std::string take() {
    close();
    return std::move(text_);
  }

 private:
  void begin(std::string_view name) {
    if (text_.back() != '{') text_ += ',';
    text_ += '"';
    text_ += name;
    text_ += "\":";
  }
  void character(char c) {
    if (static_cast<unsigned char>(c) < 0x20) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      return;
    }
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }

  std::string text_;
};

}  // namespace

std::string to_json_line(const CallEntry& entry) {
  Line line;
  line.text("time", to_rfc3339(entry.at));
  line.text("id", entry.id);
  line.text_if_said("upstream", entry.upstream);
  line.text_if_said("pool", entry.pool);
  line.text_if_said("harness", entry.harness);
  line.text_if_said("run", entry.run);
  line.text_if_said("task", entry.task);
  line.text_if_said("session", entry.session);
  line.text_if_said("model", entry.model);
  line.text("dialect", entry.dialect);
  line.boolean("stream", entry.stream);
  line.number("estimate", entry.estimate);
  line.number("charge", entry.charge);
  line.open("usage");
  line.number_or_null("uncached", entry.uncached);
  line.number_or_null("cached", entry.cached);
  line.number_or_null("output", entry.output);
  line.number_if_said("cache_write", entry.cache_write);
  line.number_if_said("reasoning", entry.reasoning);
  line.close();
  line.text_if_said("settled_by", entry.settled_by);
  line.text("outcome", entry.outcome);
  line.number("status", entry.status);
  if (entry.own_answer) line.boolean("own_answer", true);
  line.number("tries", entry.tries);
  line.number("overloads", entry.overloads);
  if (entry.unreachable > 0) line.number("unreachable", entry.unreachable);
  if (entry.unanswered > 0) line.number("unanswered", entry.unanswered);
  line.number("asks", entry.asks);
  line.text_if_said("denied_by", entry.denied_by);
  line.number("waited_ms", milliseconds(entry.waited));
  line.number("backed_off_ms", milliseconds(entry.backed_off));
  if (entry.first_byte) line.number("first_byte_ms", milliseconds(*entry.first_byte));
  line.number("total_ms", milliseconds(entry.total));
  line.number("bytes_in", static_cast<std::int64_t>(entry.bytes_in));
  line.number("bytes_out", static_cast<std::int64_t>(entry.bytes_out));
  if (entry.unread_encoding) line.boolean("unread_encoding", true);
  return line.take();
}

void UsageTotals::add(const CallEntry& entry) {
  ++calls;
  if (entry.status == 0 || entry.status >= 400) ++failed;
  overloads_absorbed += entry.overloads;
  if (entry.own_answer && entry.status == 429) ++refused_by_us;
  uncached += entry.uncached.value_or(0);
  cached += entry.cached.value_or(0);
  output += entry.output.value_or(0);
  waited += entry.waited + entry.backed_off;
}

Result<CallLog> CallLog::open(const std::string& path) {
  CallLog log;
  log.file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log.file_ < 0) {
    return fail(Errc::unavailable,
                fmt::format("cannot open the call log {}: {}", path, std::strerror(errno)));
  }
  return log;
}

CallLog::~CallLog() {
  if (file_ >= 0) ::close(file_);
}

CallLog::CallLog(CallLog&& other) noexcept { *this = std::move(other); }

CallLog& CallLog::operator=(CallLog&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(records_, other.records_);
  std::swap(lines_lost_, other.lines_lost_);
  std::swap(all_, other.all_);
  std::swap(runs_, other.runs_);
  return *this;
}

void CallLog::record(const CallEntry& entry) {
  ++records_;
  all_.add(entry);
  if (!entry.run.empty()) {
    Run& run = runs_[entry.run];
    run.totals.add(entry);
    run.last_used = records_;
    if (runs_.size() > kMaxRuns) forget_oldest_run();
  }
  if (file_ < 0) return;
  std::string line = to_json_line(entry);
  line += '\n';
  const ssize_t written = ::write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  if (lines_lost_++ == 0) log_error("the call log cannot be written: {}", std::strerror(errno));
}

void CallLog::forget_oldest_run() {
  const auto oldest = std::min_element(
      runs_.begin(), runs_.end(),
      [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; });
  runs_.erase(oldest);
}

UsageTotals CallLog::totals(std::string_view run) const {
  const auto found = runs_.find(run);
  return found == runs_.end() ? UsageTotals() : found->second.totals;
}

}  // namespace hg::proxy
