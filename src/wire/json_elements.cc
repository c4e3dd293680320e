#include "wire/json_elements.h"

#include <utility>

namespace hg::wire {

JsonElements::JsonElements(OnElement on_element, std::size_t max_element_bytes)
    : on_element_(std::move(on_element)), max_element_bytes_(max_element_bytes) {}

void JsonElements::feed(std::string_view bytes) {
  // What of these bytes belongs to the present element is copied in one go.
  std::size_t start = 0;
  const auto keep = [&](std::size_t end) {
    const std::string_view piece = bytes.substr(start, end - start);
    if (skipping_) return;
    if (element_.size() + piece.size() > max_element_bytes_) {
      skipping_ = true;
      ++oversize_;
      element_ = {};
    } else {
      element_ += piece;
    }
  };
  for (std::size_t at = 0; at < bytes.size() && !closed_; ++at) {
    const char c = bytes[at];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      continue;
    }
    if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      if (depth_ == 1) start = at;
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (depth_ == 0) continue;
      --depth_;
      if (depth_ == 0) closed_ = true;
      if (depth_ != 1) continue;
      keep(at + 1);
      if (!skipping_) on_element_(element_);
      element_.clear();
      skipping_ = false;
    }
  }
  if (depth_ > 1) keep(bytes.size());
}

}  // namespace hg::wire
