#include "proxy/call_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace hg::proxy {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxRuns = 4096;  // A run's totals are 100 bytes; a daemon lives for weeks.

// Whole ones, rounded up: what took any time at all does not look like nothing.
std::int64_t milliseconds(Micros duration) { return ceil_div(duration.count(), 1000); }

json::value number_or_null(const std::optional<Tokens>& tokens) {
  return tokens ? json::value(*tokens) : json::value(nullptr);
}

void add_if_said(json::object& line, const char* name, const std::string& value) {
  if (!value.empty()) line[name] = value;
}

}  // namespace

std::string to_json_line(const CallEntry& entry) {
  json::object line;
  line["time"] = to_rfc3339(entry.at);
  line["id"] = entry.id;
  add_if_said(line, "upstream", entry.upstream);
  add_if_said(line, "pool", entry.pool);
  add_if_said(line, "harness", entry.harness);
  add_if_said(line, "run", entry.run);
  add_if_said(line, "task", entry.task);
  add_if_said(line, "session", entry.session);
  add_if_said(line, "model", entry.model);
  line["dialect"] = entry.dialect;
  line["stream"] = entry.stream;
  line["estimate"] = entry.estimate;
  line["charge"] = entry.charge;
  json::object usage;
  usage["uncached"] = number_or_null(entry.uncached);
  usage["cached"] = number_or_null(entry.cached);
  usage["output"] = number_or_null(entry.output);
  line["usage"] = std::move(usage);
  add_if_said(line, "settled_by", entry.settled_by);
  line["outcome"] = entry.outcome;
  line["status"] = entry.status;
  if (entry.own_answer) line["own_answer"] = true;
  line["tries"] = entry.tries;
  line["overloads"] = entry.overloads;
  line["asks"] = entry.asks;
  add_if_said(line, "denied_by", entry.denied_by);
  line["waited_ms"] = milliseconds(entry.waited);
  line["backed_off_ms"] = milliseconds(entry.backed_off);
  if (entry.first_byte) line["first_byte_ms"] = milliseconds(*entry.first_byte);
  line["total_ms"] = milliseconds(entry.total);
  line["bytes_in"] = entry.bytes_in;
  line["bytes_out"] = entry.bytes_out;
  if (entry.unread_encoding) line["unread_encoding"] = true;
  return json::serialize(line);
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
  const std::string line = to_json_line(entry) + "\n";
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
