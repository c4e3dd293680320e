// call_log.h: what is kept of every call until the ledger takes over: one JSON line a call in a
// file, and running totals by run for the line that `exec` prints.
//
// A line holds no header value, key, query string, prompt or answer: names, numbers and salted
// hashes only. A file that cannot be written to is said once in the log and counted; no call fails
// for it. Thread-safety: none; it belongs to the shim's executor. Memory is bounded: the totals of
// the runs that were quiet for longest are dropped.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace hg::proxy {

// One call, when it is over. Durations are from the request's first byte.
struct CallEntry {
  WallTime at;  // When it began.
  std::string id;
  std::string upstream;
  std::string pool;
  std::string harness;  // With the pool: the alias.
  std::string run;
  std::string task;
  std::string session;  // Salted hash of what names the conversation; "" if nothing does.
  std::string model;
  std::string dialect;
  bool stream = false;
  Tokens estimate = 0;
  Tokens charge = 0;
  std::optional<Tokens> uncached;  // As the provider reported; absent when it did not.
  std::optional<Tokens> cached;
  std::optional<Tokens> output;
  std::optional<Tokens> cache_write;  // Of the uncached ones, those written to the cache.
  std::optional<Tokens> reasoning;    // Of the output, what was thought and not said.
  std::string settled_by;   // "usage", "estimate", "refund"; "" for a call that never asked.
  std::string outcome;      // call::Record::Outcome, or "bad_request" for one that never asked.
  int status = 0;           // What the agent got; 0 when it left before.
  bool own_answer = false;  // The status is ours, not the provider's.
  int tries = 0;
  int overloads = 0;
  int unreachable = 0;  // Tries that never got to the provider.
  int unanswered = 0;   // Tries that got there, and not a byte back.
  int asks = 0;
  std::string denied_by;  // The axis of the last denial; "" if there was none.
  Micros waited{0};
  Micros backed_off{0};
  std::optional<Micros> first_byte;  // Until the answer's first byte went down.
  Micros total{0};
  std::uint64_t bytes_in = 0;    // Of the request's body.
  std::uint64_t bytes_out = 0;   // Of the answer's body.
  bool unread_encoding = false;  // The answer came in a coding that the side copy cannot read.
};

// The line, without its line break: docs/call-log.md. Times in whole milliseconds, rounded up.
[[nodiscard]] std::string to_json_line(const CallEntry& entry);

// What the calls of a run (or of everything) came to.
struct UsageTotals {
  std::int64_t calls = 0;
  std::int64_t failed = 0;  // Ended with a status of 400 or more, or without an answer.
  std::int64_t overloads_absorbed = 0;
  std::int64_t refused_by_us = 0;  // Our own 429s.
  Tokens uncached = 0;
  Tokens cached = 0;
  Tokens output = 0;
  Micros waited{0};

  void add(const CallEntry& entry);
};

class CallLog {
 public:
  // Keeps totals only.
  CallLog() = default;

  // Appends to `path`, which is created for this user alone (mode 0600). Errc::unavailable.
  [[nodiscard]] static Result<CallLog> open(const std::string& path);

  ~CallLog();
  CallLog(CallLog&& other) noexcept;
  CallLog& operator=(CallLog&& other) noexcept;

  // One write of one line, so that several processes may share a file.
  void record(const CallEntry& entry);

  // Of one run, by the id in its path; all zero for one that is unknown or long gone.
  [[nodiscard]] UsageTotals totals(std::string_view run) const;
  [[nodiscard]] UsageTotals totals() const { return all_; }
  [[nodiscard]] std::uint64_t lines_lost() const { return lines_lost_; }

 private:
  struct Run {
    UsageTotals totals;
    std::uint64_t last_used = 0;  // Of record()'s count.
  };
  void forget_oldest_run();

  int file_ = -1;  // Descriptor; -1: no file.
  std::uint64_t records_ = 0;
  std::uint64_t lines_lost_ = 0;
  UsageTotals all_;
  std::map<std::string, Run, std::less<>> runs_;
};

}  // namespace hg::proxy
