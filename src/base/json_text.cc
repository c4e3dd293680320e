#include "base/json_text.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>
#include <utility>

namespace hg {

namespace json = boost::json;

namespace {

// The shortest text that reads back as the same number; past what it writes without an exponent,
// nine decimals.
std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";
  std::string text = fmt::format("{}", number);
  if (text.find('e') == std::string::npos) return text;
  text = fmt::format("{:.9f}", number);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

void append(std::string& out, const json::value& value) {
  if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.get_object()) {
      if (!std::exchange(first, false)) out += ',';
      out += json::serialize(json::string(key));
      out += ':';
      append(out, member);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const json::value& element : value.get_array()) {
      if (!std::exchange(first, false)) out += ',';
      append(out, element);
    }
    out += ']';
  } else if (value.is_double()) {
    out += number_text(value.get_double());
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace hg
