#include "cli/config_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "base/text.h"
#include "cli/config.h"

namespace hg::cli {

namespace {

// "1.5 m" -> (1.5, "m"); nothing without a number at the start, or for a negative one.
std::optional<std::pair<double, std::string_view>> split_unit(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  return std::pair(number, trim(text.substr(static_cast<std::size_t>(end - text.data()))));
}

// number x scale as a whole number, if it stays exact enough to be one.
std::optional<std::int64_t> scaled(double number, double scale) {
  const double value = std::round(number * scale);
  if (value > 9.0e15) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

struct Unit {
  std::string_view name;
  double scale;
};

std::optional<std::int64_t> with_unit(std::string_view text, std::span<const Unit> units) {
  const auto parts = split_unit(text);
  if (!parts) return std::nullopt;
  for (const Unit& unit : units) {
    if (unit.name == parts->second) return scaled(parts->first, unit.scale);
  }
  return std::nullopt;
}

bool is_alphanumeric(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9');
}

bool usable(const Raw& raw, Raw::Type type) {
  return raw.type == Raw::Type::any || raw.type == type;
}

}  // namespace

std::optional<Micros> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 8> kUnits = {{{"", 1e6},
                                                  {"us", 1},
                                                  {"ms", 1e3},
                                                  {"s", 1e6},
                                                  {"m", 60e6},
                                                  {"min", 60e6},
                                                  {"h", 3600e6},
                                                  {"d", 86400e6}}};
  const auto count = with_unit(text, kUnits);
  if (!count) return std::nullopt;
  return Micros(*count);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr std::array<Unit, 9> kUnits = {{{"", 1},
                                                  {"B", 1},
                                                  {"kB", 1e3},
                                                  {"KB", 1e3},
                                                  {"MB", 1e6},
                                                  {"GB", 1e9},
                                                  {"KiB", 1024},
                                                  {"MiB", 1024.0 * 1024},
                                                  {"GiB", 1024.0 * 1024 * 1024}}};
  return with_unit(text, kUnits);
}

std::optional<std::pair<std::string, int>> parse_listen(std::string_view text) {
  text = trim(text);
  std::string host = "127.0.0.1";
  std::string_view port = text;
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    std::string_view before = text.substr(0, colon);
    port = text.substr(colon + 1);
    const bool bracketed = before.size() > 2 && before.front() == '[' && before.back() == ']';
    if (bracketed) before = before.substr(1, before.size() - 2);
    if (!bracketed && before.find(':') != std::string_view::npos) return std::nullopt;
    for (const char character : before) {
      if (!is_alphanumeric(character) && character != '.' && character != '-' && character != ':') {
        return std::nullopt;
      }
    }
    if (!before.empty()) host = std::string(before);
  }
  const auto number = parse_integer(port);
  if (!number || *number < 0 || *number > 65'535) return std::nullopt;
  return std::pair(host, static_cast<int>(*number));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::optional<std::int64_t> read_integer(const Raw& raw, std::int64_t low, std::int64_t high) {
  if (!usable(raw, Raw::Type::number)) return std::nullopt;
  std::string digits;
  for (const char character : trim(raw.text)) {
    if (character != '_' && character != ',') digits.push_back(character);
  }
  const auto number = parse_integer(digits);
  if (!number || *number < low || *number > high) return std::nullopt;
  return number;
}

std::optional<std::int64_t> read_millionths(const Raw& raw, std::int64_t low, std::int64_t high) {
  if (!usable(raw, Raw::Type::number)) return std::nullopt;
  const auto parts = split_unit(raw.text);
  if (!parts || !parts->second.empty()) return std::nullopt;
  const auto number = scaled(parts->first, 1e6);
  if (!number || *number < low || *number > high) return std::nullopt;
  return number;
}

std::optional<Micros> read_duration(const Raw& raw, Micros low, Micros high) {
  if (raw.type == Raw::Type::other || raw.type == Raw::Type::boolean) return std::nullopt;
  const auto duration = parse_duration(raw.text);
  if (!duration || *duration < low || *duration > high) return std::nullopt;
  return duration;
}

std::optional<std::int64_t> read_bytes(const Raw& raw, std::int64_t low, std::int64_t high) {
  if (raw.type == Raw::Type::other || raw.type == Raw::Type::boolean) return std::nullopt;
  const auto bytes = parse_bytes(raw.text);
  if (!bytes || *bytes < low || *bytes > high) return std::nullopt;
  return bytes;
}

std::optional<std::string> read_text(const Raw& raw) {
  if (!usable(raw, Raw::Type::text)) return std::nullopt;
  return raw.text;
}

std::optional<std::string> read_url(const Raw& raw) {
  if (!usable(raw, Raw::Type::text)) return std::nullopt;
  std::string_view rest = raw.text;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else {
    return std::nullopt;
  }
  if (rest.find_first_of("@?# \t\r\n\"'<>\\") != std::string_view::npos) return std::nullopt;
  const std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view host = authority;
  const auto colon = authority.rfind(':');
  const bool has_port = colon != std::string_view::npos && !authority.ends_with(']');
  if (has_port) {
    host = authority.substr(0, colon);
    const auto port = parse_integer(authority.substr(colon + 1));
    if (!port || *port < 1 || *port > 65'535) return std::nullopt;
  }
  if (host.empty()) return std::nullopt;
  std::string url = raw.text;
  while (url.ends_with('/')) url.pop_back();
  return url;
}

std::optional<bool> read_bool(const Raw& raw) {
  if (raw.type != Raw::Type::any && raw.type != Raw::Type::boolean) return std::nullopt;
  if (raw.text == "true") return true;
  if (raw.text == "false") return false;
  return std::nullopt;
}

std::optional<LogLevel> read_level(const Raw& raw) {
  if (!usable(raw, Raw::Type::text)) return std::nullopt;
  if (raw.text == "debug") return LogLevel::debug;
  if (raw.text == "info") return LogLevel::info;
  if (raw.text == "warn") return LogLevel::warn;
  if (raw.text == "error") return LogLevel::error;
  if (raw.text == "off") return LogLevel::off;
  return std::nullopt;
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t column = 0; column <= right.size(); ++column) row[column] = column;
  for (std::size_t line = 1; line <= left.size(); ++line) {
    std::size_t diagonal = row[0];
    row[0] = line;
    for (std::size_t column = 1; column <= right.size(); ++column) {
      const std::size_t above = row[column];
      const std::size_t replace = diagonal + (left[line - 1] == right[column - 1] ? 0 : 1);
      row[column] = std::min({above + 1, row[column - 1] + 1, replace});
      diagonal = above;
    }
  }
  return row[right.size()];
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  return std::all_of(text.begin(), text.end(), [](char character) {
    return is_alphanumeric(character) || character == '-' || character == '_';
  });
}

std::string loose_name(std::string_view name) {
  std::string loose = to_lower(name);
  std::replace(loose.begin(), loose.end(), '-', '_');
  return loose;
}

}  // namespace hg::cli
