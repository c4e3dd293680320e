// aws_frames.h: Amazon's binary event stream (application/vnd.amazon.eventstream) cut into events.
//
// A frame is two lengths and a checksum, headers, a payload and a checksum. Checksums are not
// verified: this is a side copy, and whoever gets the bytes verifies them. Bounded: a frame longer
// than the limit is skipped. Bytes that are no such stream end the reading. Pure; one owner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hg::wire {

struct AwsEvent {
  std::string_view type;     // ":event-type", or ":exception-type" of a fault.
  bool exception = false;    // ":message-type" is "exception" or "error".
  std::string_view payload;  // Nearly always JSON.
};

class AwsFrames {
 public:
  // `on_event` gets views that live until it returns.
  using OnEvent = std::function<void(const AwsEvent&)>;
  AwsFrames(OnEvent on_event, std::size_t max_frame_bytes);

  void feed(std::string_view bytes);

  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::uint64_t oversize_frames() const { return oversize_; }

 private:
  [[nodiscard]] bool take_frame();

  OnEvent on_event_;
  std::size_t max_frame_bytes_;
  std::string held_;      // The unfinished frame.
  std::size_t skip_ = 0;  // Bytes of a frame over the limit that are still to come.
  bool broken_ = false;
  std::uint64_t oversize_ = 0;
};

}  // namespace hg::wire
