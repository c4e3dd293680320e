#include "base/toml_table.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hg {
namespace {

constexpr std::size_t kLongestText = 64 * 1024;

std::string range(double least, double most) { return fmt::format("from {} to {}", least, most); }

}  // namespace

TomlTable::TomlTable(std::string file, std::string path, const toml::table& table,
                     std::optional<Error>& first_error)
    : file_(std::move(file)), path_(std::move(path)), table_(&table), first_error_(&first_error) {}

const toml::node* TomlTable::find(std::string_view key) {
  known_.emplace_back(key);
  return table_->get(key);
}

void TomlTable::fault(const toml::node& node, std::string_view key, std::string_view allowed) {
  if (first_error_->has_value()) return;
  const std::string name = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  *first_error_ = Error(Errc::invalid, fmt::format("{}:{}: {} must be {}", file_,
                                                   node.source().begin.line, name, allowed));
}

void TomlTable::complain(std::string_view what) {
  if (first_error_->has_value()) return;
  const auto line = std::max<toml::source_index>(table_->source().begin.line, 1);
  *first_error_ = Error(Errc::invalid, fmt::format("{}:{}: {}", file_, line, what));
}

void TomlTable::text(std::string_view key, std::string& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  if (value == nullptr || value->get().size() > kLongestText) {
    fault(*node, key, "a text");
    return;
  }
  target = value->get();
}

void TomlTable::texts(std::string_view key, std::vector<std::string>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    fault(*node, key, "a list of texts");
    return;
  }
  std::vector<std::string> values;
  for (const toml::node& member : *list) {
    const auto* value = member.as_string();
    if (value == nullptr) {
      fault(member, key, "a list of texts");
      return;
    }
    values.push_back(value->get());
  }
  target = std::move(values);
}

void TomlTable::flag(std::string_view key, bool& target) {
  std::optional<bool> value;
  flag(key, value);
  if (value) target = *value;
}

void TomlTable::flag(std::string_view key, std::optional<bool>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto* value = node->as_boolean();
  if (value == nullptr) {
    fault(*node, key, "true or false");
    return;
  }
  target = value->get();
}

void TomlTable::number(std::string_view key, double least, double most, double& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value || !(*value >= least && *value <= most)) {
    fault(*node, key, "a number " + range(least, most));
    return;
  }
  target = *value;
}

void TomlTable::integer(std::string_view key, std::int64_t least, std::int64_t most,
                        std::int64_t& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < least || value->get() > most) {
    fault(*node, key, fmt::format("a whole number from {} to {}", least, most));
    return;
  }
  target = value->get();
}

void TomlTable::integers(std::string_view key, std::int64_t least, std::int64_t most,
                         std::vector<int>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const std::string allowed = fmt::format("a list of whole numbers from {} to {}", least, most);
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    fault(*node, key, allowed);
    return;
  }
  std::vector<int> values;
  for (const toml::node& member : *list) {
    const auto* value = member.as_integer();
    if (value == nullptr || value->get() < least || value->get() > most) {
      fault(member, key, allowed);
      return;
    }
    values.push_back(static_cast<int>(value->get()));
  }
  target = std::move(values);
}

void TomlTable::seconds(std::string_view key, double least, double most, Micros& target) {
  std::optional<Micros> value;
  seconds(key, least, most, value);
  if (value) target = *value;
}

void TomlTable::seconds(std::string_view key, double least, double most,
                        std::optional<Micros>& target) {
  constexpr double kAbsent = -1;
  double value = kAbsent;
  number(key, least, most, value);
  if (value != kAbsent) target = Micros{std::llround(value * 1e6)};
}

std::optional<std::size_t> TomlTable::choice(std::string_view key,
                                             const std::vector<std::string_view>& allowed) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_string()) {
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      if (allowed[i] == value->get()) return i;
    }
  }
  fault(*node, key, fmt::format("one of \"{}\"", fmt::join(allowed, "\", \"")));
  return std::nullopt;
}

void TomlTable::evidence() {
  std::string ignored;
  text("evidence", ignored);
}

std::optional<TomlTable> TomlTable::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::table* inside = node->as_table();
  if (inside == nullptr) {
    fault(*node, key, "a table");
    return std::nullopt;
  }
  return TomlTable(file_, std::string(key), *inside, *first_error_);
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  std::vector<TomlTable> result;
  const toml::node* node = find(key);
  if (node == nullptr) return result;
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    fault(*node, key, fmt::format("a list of tables: [[{}]]", key));
    return result;
  }
  for (const toml::node& member : *list) {
    if (const toml::table* inside = member.as_table()) {
      result.emplace_back(file_, std::string(key), *inside, *first_error_);
    } else {
      fault(member, key, fmt::format("a list of tables: [[{}]]", key));
    }
  }
  return result;
}

void TomlTable::finish() {
  for (const auto& [key, node] : *table_) {
    if (std::ranges::find(known_, key.str()) != known_.end()) continue;
    if (first_error_->has_value()) return;
    std::vector<std::string> allowed = known_;
    std::ranges::sort(allowed);
    const std::string where = path_.empty() ? std::string() : fmt::format(" in [{}]", path_);
    *first_error_ = Error(Errc::invalid, fmt::format("{}:{}: unknown key \"{}\"{}; allowed: {}",
                                                     file_, key.source().begin.line, key.str(),
                                                     where, fmt::join(allowed, ", ")));
  }
}

}  // namespace hg
