// json_elements.h: a list of JSON objects that arrives in pieces, cut into its elements: the form
// in which Gemini streams when nobody asks for events.
//
// Checks no more of the grammar than it needs to find where an element ends. Bounded: an element
// longer than the limit is dropped, and the next one is read again. Pure; one owner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hg::wire {

class JsonElements {
 public:
  // `on_element` gets a view that lives until it returns.
  using OnElement = std::function<void(std::string_view)>;
  JsonElements(OnElement on_element, std::size_t max_element_bytes);

  // Bytes from the list's opening bracket on; what stands after its end is ignored.
  void feed(std::string_view bytes);

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::uint64_t oversize_elements() const { return oversize_; }

 private:
  OnElement on_element_;
  std::size_t max_element_bytes_;
  std::string element_;
  std::size_t depth_ = 0;  // 1 between elements.
  bool in_string_ = false;
  bool escaped_ = false;
  bool skipping_ = false;
  bool closed_ = false;
  std::uint64_t oversize_ = 0;
};

}  // namespace hg::wire
