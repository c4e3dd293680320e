// sse.h: an event stream cut into events: LF, CRLF, CR and mixed line ends, at any cut point.
//
// Follows the WHATWG EventSource grammar: the blank after a colon is optional, data lines join with
// LF, comments are counted and otherwise ignored, a byte order mark at the start is skipped. Reads
// a side copy and changes nothing. Bounded: an event longer than the limit is dropped but for its
// tail, and the parser goes on with the next. Pure; one owner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hg::wire {

struct SseEvent {
  std::string_view type;  // "" when the event names none (EventSource calls that "message").
  std::string_view data;
};

class SseParser {
 public:
  // `on_event` gets views that live until it returns.
  using OnEvent = std::function<void(const SseEvent&)>;
  explicit SseParser(OnEvent on_event, std::size_t max_event_bytes = 1024 * 1024);

  // Called where an event over the limit ended, with the last bytes of its lines, at most 8 KiB: a
  // provider's closing event repeats the whole answer and counts it at the end.
  void on_cut(OnEvent on_cut) { on_cut_ = std::move(on_cut); }

  void feed(std::string_view bytes);
  void finish();  // The stream ended: an event without its blank line counts.

  [[nodiscard]] std::uint64_t comments() const { return comments_; }
  [[nodiscard]] std::uint64_t oversize_events() const { return oversize_; }

 private:
  void append_to_line(std::string_view piece);
  void end_line(std::string_view last_piece);
  void take_line(std::string_view line);
  void end_event();
  void skip_event();
  void keep_tail(std::string_view piece);

  OnEvent on_event_;
  OnEvent on_cut_;
  std::size_t max_event_bytes_;
  std::string line_;  // The unfinished line, as far as it was fed.
  std::string type_;
  std::string data_;
  std::string tail_;  // Of an event over the limit.
  bool has_data_ = false;
  bool skipping_ = false;   // The present event is over the limit.
  bool line_empty_ = true;  // No byte of the present line came yet (also while skipping).
  bool after_cr_ = false;   // The last byte was CR: an LF now belongs to it.
  bool first_line_ = true;  // For the byte order mark.
  std::uint64_t comments_ = 0;
  std::uint64_t oversize_ = 0;
};

}  // namespace hg::wire
