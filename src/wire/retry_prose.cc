#include "wire/retry_prose.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "base/units.h"
#include "wire/retry_after.h"

namespace hg::wire {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// What stands before a span, and before an instant.
constexpr std::array<std::string_view, 16> kBeforeSpan = {"try again in ",
                                                          "retry in ",
                                                          "try again after ",
                                                          "retry after ",
                                                          "retry your request in ",
                                                          "retrying in ",
                                                          "please wait ",
                                                          "wait at least ",
                                                          "must wait ",
                                                          "reset after ",
                                                          "resets after ",
                                                          "reset in ",
                                                          "resets in ",
                                                          "replenished in ",
                                                          "available in ",
                                                          "retrydelay"};
// A field's name in a text: what stands behind it may be bare seconds.
constexpr std::array<std::string_view, 2> kBeforeSeconds = {"retry-after", "retry_after"};
constexpr std::array<std::string_view, 11> kBeforeInstant = {
    "reset at",
    "resets at",
    "reset_at",
    "resets_at",
    "resets on",
    "reset on",
    "limit reached|",
    "regain access on",
    "regain access at",
    "available at",
    "\xE5\xB0\x86\xE5\x9C\xA8"};  // "will ... on", as Zhipu says it in Chinese.

std::string_view skip_any(std::string_view text, std::string_view characters) {
  const std::size_t first = text.find_first_not_of(characters);
  return first == kNowhere ? std::string_view{} : text.substr(first);
}

std::string_view skip_word(std::string_view text, std::string_view word) {
  return text.starts_with(word) ? text.substr(word.size()) : text;
}

// The seconds of a unit, written out or short; nothing for a word that is none ("requests").
std::optional<double> seconds_of(std::string_view word) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr std::array<Unit, 16> kUnits = {{{"ms", 1e-3},
                                                   {"msec", 1e-3},
                                                   {"millisecond", 1e-3},
                                                   {"s", 1},
                                                   {"sec", 1},
                                                   {"second", 1},
                                                   {"m", 60},
                                                   {"min", 60},
                                                   {"minute", 60},
                                                   {"h", 3'600},
                                                   {"hr", 3'600},
                                                   {"hour", 3'600},
                                                   {"d", 86'400},
                                                   {"day", 86'400},
                                                   {"w", 604'800},
                                                   {"week", 604'800}}};
  if (word.size() > 2 && word.ends_with('s')) word.remove_suffix(1);
  const auto unit = std::ranges::find(kUnits, word, &Unit::name);
  if (unit == kUnits.end()) return std::nullopt;
  return unit->seconds;
}

std::string_view digits_at(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  return text.substr(0, length);
}

// "01:12:00", "16.16:26:41": hours, minutes and seconds, with days before a point.
std::optional<Micros> clock_span(std::string_view text) {
  std::int64_t days = 0;
  std::string_view part = digits_at(text);
  if (!part.empty() && part.size() <= 4 && text.substr(part.size()).starts_with('.')) {
    days = parse_integer(part).value_or(0);
    text.remove_prefix(part.size() + 1);
  }
  std::int64_t seconds = 0;
  for (int i = 0; i < 3; ++i) {
    part = digits_at(text);
    if (part.size() != 2) return std::nullopt;
    seconds = seconds * 60 + parse_integer(part).value_or(0);
    text.remove_prefix(2);
    if (i == 2) break;
    if (!text.starts_with(':')) return std::nullopt;
    text.remove_prefix(1);
  }
  return Micros{(days * 86'400 + seconds) * kMicro};
}

// "1.898s", "6m12.5s", "20 seconds", "3 days 21 hours and 14 minutes", "about 2 hours".
std::optional<Micros> span_at(std::string_view text) {
  text = skip_any(text, " \t\n\"':=\\");
  for (const std::string_view word : {"about ", "approximately ", "another ", "~"}) {
    text = skip_word(text, word);
  }
  if (const auto span = clock_span(text)) return span;
  std::string_view token = text.substr(0, text.find_first_of(" \n\t,;)\"'\\"));
  while (token.ends_with('.')) token.remove_suffix(1);
  double total = 0;
  double last_unit = 1e18;
  bool any = false;
  while (true) {
    std::string_view rest = text;
    std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789."));
    if (number.empty() || !is_digit(number.front()) || number.size() > 24) break;
    rest = skip_any(rest.substr(number.size()), " ");
    std::size_t length = 0;
    while (length < rest.size() && is_letter(rest[length])) ++length;
    const auto unit = seconds_of(rest.substr(0, length));
    if (!unit || *unit >= last_unit) break;
    total += std::strtod(std::string(number).c_str(), nullptr) * *unit;
    last_unit = *unit;
    any = true;
    text = skip_any(rest.substr(length), " ,");
    text = skip_word(text, "and ");
  }
  // What is one word has an exact arithmetic of its own.
  const auto exact = parse_go_duration(token);
  if (exact && std::abs(total * 1e6 - static_cast<double>(exact->count())) < 2) return exact;
  constexpr double kLongest = 366.0 * 86'400;
  if (!any || !(total <= kLongest)) return exact;
  return Micros{static_cast<std::int64_t>(std::ceil(total * 1e6 - 1e-3))};
}

// "retry-after: 45", "retry_after=1.5".
std::optional<Micros> seconds_at(std::string_view text) {
  if (const auto span = span_at(text)) return span;
  text = skip_any(text, " \t\n\"':=\\");
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
  if (number.empty()) return std::nullopt;
  return parse_go_duration(std::string(number) + "s");
}

// The offset of a zone as RFC 3339 writes it; what is written here, else `zone`.
std::string offset_at(std::string_view text, Micros zone) {
  text = skip_any(text, " (");
  if (text.starts_with("z") || text.starts_with("utc") || text.starts_with("gmt")) return "Z";
  if (text.starts_with('+') || text.starts_with('-')) {
    const std::string_view hours = digits_at(text.substr(1));
    if (hours.size() == 4) {
      return fmt::format("{}{}:{}", text[0], hours.substr(0, 2), hours.substr(2));
    }
    const std::string_view whole = text.substr(0, 6);
    if (hours.size() == 2 && whole.size() == 6 && whole[3] == ':') return std::string(whole);
  }
  const std::int64_t minutes = std::abs(zone.count()) / (60 * kMicro);
  return fmt::format("{}{:02}:{:02}", zone.count() < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

// "2026-09-11 18:55:29", "2026-09-11t10:00:00.5+00:00", "2026-10-01 at 00:00 utc", epoch seconds
// and milliseconds.
std::optional<Micros> instant_at(std::string_view text, WallTime wall, Micros zone) {
  text = skip_any(text, " \t\n\"':=");
  const std::string_view digits = digits_at(text);
  if (digits.size() == 10 || digits.size() == 13) return parse_retry_after(digits, wall);
  if (digits.size() != 4 || text.size() < 10) return std::nullopt;
  const std::string date(text.substr(0, 10));
  text.remove_prefix(10);
  text = skip_word(text, " at");
  if (!text.starts_with(' ') && !text.starts_with('t')) return std::nullopt;
  text = skip_any(text.substr(1), " ");
  std::size_t length = 0;
  while (length < text.size() && (is_digit(text[length]) || text[length] == ':')) ++length;
  std::string time(text.substr(0, length));
  if (time.size() == 5) time += ":00";
  text.remove_prefix(length);
  if (text.size() > 1 && text[0] == '.' && is_digit(text[1])) {
    const std::string_view fraction = digits_at(text.substr(1));
    time += "." + std::string(fraction);
    text.remove_prefix(1 + fraction.size());
  }
  return parse_retry_after(date + "T" + time + offset_at(text, zone), wall);
}

template <std::size_t N, typename Read>
std::optional<Micros> first_behind(const std::array<std::string_view, N>& openings,
                                   std::string_view text, const Read& read) {
  for (const std::string_view opening : openings) {
    for (std::size_t at = text.find(opening); at != kNowhere; at = text.find(opening, at + 1)) {
      if (const auto delay = read(text.substr(at + opening.size()))) return delay;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Micros> delay_in_prose(std::string_view lower, WallTime wall, Micros zone) {
  if (const auto span = first_behind(kBeforeSpan, lower, span_at)) return span;
  if (const auto span = first_behind(kBeforeSeconds, lower, seconds_at)) return span;
  return first_behind(kBeforeInstant, lower,
                      [&](std::string_view text) { return instant_at(text, wall, zone); });
}

}  // namespace hg::wire
