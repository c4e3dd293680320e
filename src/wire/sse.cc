#include "wire/sse.h"

#include <algorithm>
#include <utility>

namespace hg::wire {
namespace {

constexpr std::size_t kTailBytes = std::size_t{8} * 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

SseParser::SseParser(OnEvent on_event, std::size_t max_event_bytes)
    : on_event_(std::move(on_event)), max_event_bytes_(max_event_bytes) {}

void SseParser::feed(std::string_view bytes) {
  std::size_t at = 0;
  if (after_cr_ && !bytes.empty()) {
    after_cr_ = false;
    if (bytes.front() == '\n') at = 1;
  }
  // The next of each kind, looked for anew only when it is passed: linear for any mixture.
  std::size_t feed_at = bytes.find('\n', at);
  std::size_t return_at = bytes.find('\r', at);
  for (;;) {
    const std::size_t end = std::min(feed_at, return_at);
    if (end == std::string_view::npos) {
      append_to_line(bytes.substr(at));
      return;
    }
    end_line(bytes.substr(at, end - at));
    at = end + 1;
    if (end == return_at) {
      return_at = bytes.find('\r', at);
      after_cr_ = at == bytes.size();
      if (feed_at == at) ++at;
    }
    if (feed_at < at) feed_at = bytes.find('\n', at);
  }
}

void SseParser::finish() {
  if (!line_empty_) end_line({});
  end_event();
}

void SseParser::append_to_line(std::string_view piece) {
  if (piece.empty()) return;
  line_empty_ = false;
  if (!skipping_ && line_.size() + data_.size() + piece.size() > max_event_bytes_) skip_event();
  if (skipping_) {
    keep_tail(piece);
    return;
  }
  line_.append(piece);
}

void SseParser::end_line(std::string_view last_piece) {
  const bool empty = line_empty_ && last_piece.empty();
  line_empty_ = true;
  if (empty) {
    first_line_ = false;
    end_event();
    return;
  }
  if (!skipping_ && line_.size() + data_.size() + last_piece.size() > max_event_bytes_)
    skip_event();
  if (skipping_) {
    keep_tail(last_piece);
    return;
  }
  if (line_.empty()) {
    take_line(last_piece);
    return;
  }
  line_.append(last_piece);
  take_line(line_);
  line_.clear();
}

void SseParser::take_line(std::string_view line) {
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    // A mark and nothing else is an empty line.
    if (line.empty()) return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) {
    ++comments_;
    return;
  }
  const std::string_view field = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) {
    value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
  }
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_.append(value);
    has_data_ = true;
  } else if (field == "event") {
    type_.assign(value);
  }
  // "id" and "retry" steer a browser's reconnection, which no model API uses; others are unknown.
}

void SseParser::end_event() {
  const bool complete = has_data_ && !skipping_;
  if (skipping_ && on_cut_)
    on_cut_(
        {type_, std::string_view(tail_).substr(tail_.size() - std::min(tail_.size(), kTailBytes))});
  if (skipping_) tail_ = {};
  skipping_ = false;
  has_data_ = false;
  if (complete) on_event_({type_, data_});
  type_.clear();
  data_.clear();
}

void SseParser::keep_tail(std::string_view piece) {
  if (piece.size() > kTailBytes) piece.remove_prefix(piece.size() - kTailBytes);
  // Cut now and then, not with every piece.
  if (tail_.size() + piece.size() > 4 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  tail_.append(piece);
}

void SseParser::skip_event() {
  skipping_ = true;
  ++oversize_;
  keep_tail(line_);
  // Frees what a long event had grown to.
  line_ = {};
  data_ = {};
}

}  // namespace hg::wire
