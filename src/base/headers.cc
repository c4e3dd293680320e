#include "base/headers.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace hg {

Header::Header(std::string header_name, std::string header_value)
    : name(std::move(header_name)), value(std::move(header_value)) {}

void Headers::add(std::string_view name, std::string_view value) {
  fields_.emplace_back(std::string(name), std::string(value));
}

void Headers::set(std::string_view name, std::string_view value) {
  const auto is_named = [&](const Header& field) { return iequals(field.name, name); };
  const auto first = std::ranges::find_if(fields_, is_named);
  if (first == fields_.end()) {
    add(name, value);
    return;
  }
  first->value = std::string(value);
  fields_.erase(std::remove_if(first + 1, fields_.end(), is_named), fields_.end());
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const Header& field) { return iequals(field.name, name); });
}

void Headers::remove(std::span<const std::string_view> names) {
  std::erase_if(fields_, [&](const Header& field) {
    return std::ranges::any_of(names,
                               [&](std::string_view name) { return iequals(field.name, name); });
  });
}

std::optional<std::string_view> Headers::find(std::string_view name) const {
  for (const Header& field : fields_) {
    if (iequals(field.name, name)) return field.value;
  }
  return std::nullopt;
}

bool Headers::has(std::string_view name) const { return find(name).has_value(); }

std::vector<std::string_view> Headers::list(std::string_view name) const {
  std::vector<std::string_view> items;
  for (const Header& field : fields_) {
    if (!iequals(field.name, name)) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view item = trim(rest.substr(0, comma));
      if (!item.empty()) items.push_back(item);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return items;
}

}  // namespace hg
