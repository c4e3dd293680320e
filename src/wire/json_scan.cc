#include "wire/json_scan.h"

#include <utility>

namespace hg::wire {

void JsonScan::feed(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size() && !closed_) {
    // Inside a string that nobody wants, only its end and escapes matter: most of the bytes.
    if (in_string_ && !escaped_ && !in_key_ && wanted_ == kNames.size()) {
      const std::size_t next = bytes.find_first_of("\"\\", at);
      if (next == std::string_view::npos) return;
      at = next;
    }
    byte(bytes[at]);
    ++at;
  }
}

void JsonScan::end_value() {
  if (wanted_ < kNames.size() && !too_long_) found_[wanted_] = std::exchange(value_, {});
  value_.clear();
  wanted_ = kNames.size();
  too_long_ = false;
  expect_key_ = true;
  key_.clear();
}

void JsonScan::byte(char c) {
  const bool ends_member = !in_string_ && depth_ == 1 && (c == ',' || c == '}');
  if (ends_member) end_value();

  if (wanted_ < kNames.size() && !too_long_) {
    value_ += c;
    if (value_.size() > kMostValueBytes) {
      too_long_ = true;
      value_ = {};
    }
  }

  if (in_string_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (ends) {
      in_string_ = false;
      in_key_ = false;
    } else if (in_key_ && key_.size() <= kLongestName) {
      key_ += c;
    }
    return;
  }
  switch (c) {
    case '"':
      in_string_ = true;
      in_key_ = depth_ == 1 && expect_key_;
      if (in_key_) expect_key_ = false;
      return;
    case ':':
      if (depth_ != 1 || wanted_ != kNames.size()) return;
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (kNames[i] == key_) wanted_ = i;
      }
      return;
    case '{':
    case '[':
      ++depth_;
      if (depth_ == 1) expect_key_ = c == '{';
      return;
    case '}':
    case ']':
      if (depth_ > 0) --depth_;
      if (depth_ == 0) closed_ = true;
      return;
    default: return;
  }
}

}  // namespace hg::wire
