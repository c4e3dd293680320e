// json_scan.h: finds chosen members of one JSON object too long to be held: their raw text.
//
// Looks only at the outermost object, byte by byte, and keeps nothing but the values asked for,
// each up to a limit; so a body of any length costs bounded memory. It checks no more of the
// grammar than it needs. Pure; one owner.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hg::wire {

class JsonScan {
 public:
  void feed(std::string_view bytes);

  // The raw text of the last such member whose value came whole; nothing for values over the limit.
  [[nodiscard]] const std::optional<std::string>& usage() const { return found_[0]; }
  [[nodiscard]] const std::optional<std::string>& error() const { return found_[1]; }
  [[nodiscard]] const std::optional<std::string>& x_groq() const { return found_[2]; }
  [[nodiscard]] const std::optional<std::string>& usage_metadata() const { return found_[3]; }

  // The outermost object was closed.
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  static constexpr std::array<std::string_view, 4> kNames = {"usage", "error", "x_groq",
                                                             "usageMetadata"};
  static constexpr std::size_t kLongestName = 13;
  static constexpr std::size_t kMostValueBytes = 64 * 1024;

  void byte(char c);
  void end_value();

  std::array<std::optional<std::string>, kNames.size()> found_;
  std::string key_;    // The present member's name, as far as it can be one of kNames.
  std::string value_;  // Of the wanted member that is being read.
  std::size_t wanted_ = kNames.size();
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool in_key_ = false;
  bool expect_key_ = false;
  bool too_long_ = false;
  bool closed_ = false;
};

}  // namespace hg::wire
