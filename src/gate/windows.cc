#include "gate/windows.h"

#include <algorithm>

namespace hg::gate {
namespace {

std::size_t slot_of(std::int64_t index) {
  return static_cast<std::size_t>(index - floor_div(index, kWindowsKept) * kWindowsKept);
}

}  // namespace

Window& WindowRing::at(Instant now) {
  const std::int64_t index = window_index(now);
  Window& window = ring_[slot_of(index)];
  if (window.index != index) {
    window = Window{};
    window.index = index;
  }
  return window;
}

Tokens WindowRing::released_lately(Instant now) const {
  const std::int64_t index = window_index(now);
  Tokens released = 0;
  for (std::int64_t back = 1; back <= kReleaseWindows; ++back) {
    const Window& window = ring_[slot_of(index - back)];
    if (window.index == index - back) released += window.released_tokens;
  }
  return released;
}

std::vector<Window> WindowRing::list(Instant now) const {
  const std::int64_t index = window_index(now);
  std::vector<Window> windows;
  for (std::int64_t back = kWindowsKept - 1; back >= 0; --back) {
    const Window& window = ring_[slot_of(index - back)];
    Window nothing;
    nothing.index = window.index;
    if (window.index == index - back && !(window == nothing)) windows.push_back(window);
  }
  return windows;
}

// Moves the newest window to `index`, dropping what falls out of the five minutes.
void AdmissionMeter::forget(std::int64_t index) {
  const std::int64_t steps = std::min(index - newest_, kWindowsKept);
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::int32_t& count = counts_[slot_of(index - steps + step)];
    total_ -= count;
    count = 0;
  }
  newest_ = std::max(newest_, index);
}

void AdmissionMeter::add(Instant now) {
  forget(window_index(now));
  ++counts_[slot_of(newest_)];
  ++total_;
}

std::int64_t AdmissionMeter::count(Instant now) const {
  const std::int64_t index = window_index(now);
  std::int64_t count = total_;
  for (std::int64_t dropped = newest_ - kWindowsKept + 1; dropped <= index - kWindowsKept;
       ++dropped) {
    if (dropped > newest_) break;
    count -= counts_[slot_of(dropped)];
  }
  return count;
}

}  // namespace hg::gate
