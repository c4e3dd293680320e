// headers.h: HTTP header fields as they came: order, duplicates and case kept. Here because wire
// and net share it.
//
// Pure; a value type. Names compare without case. Lookups are linear: a request has some twenty
// fields.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

struct Header {
  std::string name;
  std::string value;

  Header(std::string header_name, std::string header_value);
  friend bool operator==(const Header&, const Header&) = default;
};

class Headers {
 public:
  Headers() = default;

  void reserve(std::size_t count) { fields_.reserve(count); }
  void add(std::string_view name,
           std::string_view value);  // At the end, even if there is one already.
  void set(std::string_view name,
           std::string_view value);    // In place of the first, others removed; else add.
  void remove(std::string_view name);  // All of that name.
  void remove(std::span<const std::string_view> names);  // All of any of these names.

  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;  // The first.
  [[nodiscard]] bool has(std::string_view name) const;
  // All values of that name that are lists, joined and split at commas, trimmed: for Connection,
  // TE, ...
  [[nodiscard]] std::vector<std::string_view> list(std::string_view name) const;
  [[nodiscard]] const std::vector<Header>& all() const { return fields_; }
  [[nodiscard]] bool empty() const { return fields_.empty(); }

 private:
  std::vector<Header> fields_;
};

}  // namespace hg
