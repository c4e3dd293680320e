#include "wire/aws_frames.h"

#include <algorithm>
#include <utility>

namespace hg::wire {
namespace {

constexpr std::size_t kPreludeBytes = 12;  // Whole length, length of the headers, checksum.
constexpr std::size_t kTrailerBytes = 4;   // Checksum.
constexpr std::uint8_t kString = 7;        // The only type of header that is read.

std::size_t big_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (const char c : bytes) value = (value << 8U) | static_cast<unsigned char>(c);
  return value;
}

// The bytes of a header's value of that type, its length field included; nothing for an unknown
// one.
std::size_t value_bytes(std::uint8_t type, std::string_view rest) {
  switch (type) {
    case 0:
    case 1: return 0;  // true, false
    case 2: return 1;
    case 3: return 2;
    case 4: return 4;
    case 5:
    case 8: return 8;
    case 9: return 16;
    default: return rest.size() < 2 ? rest.size() + 1 : 2 + big_endian(rest.substr(0, 2));
  }
}

void read_headers(std::string_view headers, AwsEvent& event) {
  while (headers.size() > 2) {
    const std::size_t name_bytes = static_cast<unsigned char>(headers[0]);
    if (headers.size() < name_bytes + 2) return;
    const std::string_view name = headers.substr(1, name_bytes);
    const auto type = static_cast<std::uint8_t>(headers[1 + name_bytes]);
    headers.remove_prefix(name_bytes + 2);
    const std::size_t size = value_bytes(type, headers);
    if (size > headers.size()) return;
    if (type == kString) {
      const std::string_view value = headers.substr(2, size - 2);
      if (name == ":event-type" || name == ":exception-type" || name == ":error-code") {
        event.type = value;
      } else if (name == ":message-type") {
        event.exception = value == "exception" || value == "error";
      }
    }
    headers.remove_prefix(size);
  }
}

}  // namespace

AwsFrames::AwsFrames(OnEvent on_event, std::size_t max_frame_bytes)
    : on_event_(std::move(on_event)), max_frame_bytes_(max_frame_bytes) {}

void AwsFrames::feed(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    if (skip_ > 0) {
      const std::size_t count = std::min(skip_, bytes.size());
      skip_ -= count;
      bytes.remove_prefix(count);
      continue;
    }
    // No more than what the frame still lacks, so that a frame is never held twice.
    const std::size_t wanted = held_.size() < kPreludeBytes
                                   ? kPreludeBytes
                                   : big_endian(std::string_view(held_).substr(0, 4));
    const std::size_t count = std::min(wanted - held_.size(), bytes.size());
    held_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    while (take_frame()) {
    }
  }
}

// Whether something was taken out of what is held.
bool AwsFrames::take_frame() {
  if (held_.size() < kPreludeBytes) return false;
  const std::string_view held = held_;
  const std::size_t frame_bytes = big_endian(held.substr(0, 4));
  const std::size_t header_bytes = big_endian(held.substr(4, 4));
  if (frame_bytes < kPreludeBytes + kTrailerBytes ||
      header_bytes > frame_bytes - kPreludeBytes - kTrailerBytes) {
    broken_ = true;
    held_ = {};
    return false;
  }
  if (frame_bytes > max_frame_bytes_) {
    ++oversize_;
    skip_ = frame_bytes - held_.size();
    held_ = {};
    return false;
  }
  if (held_.size() < frame_bytes) return false;
  AwsEvent event;
  read_headers(held.substr(kPreludeBytes, header_bytes), event);
  event.payload = held.substr(kPreludeBytes + header_bytes,
                              frame_bytes - kPreludeBytes - header_bytes - kTrailerBytes);
  on_event_(event);
  held_.clear();
  return true;
}

}  // namespace hg::wire
