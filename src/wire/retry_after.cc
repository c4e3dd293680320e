#include "wire/retry_after.h"

#include <array>
#include <cstdint>
#include <limits>

#include "base/text.h"
#include "base/units.h"

namespace hg::wire {
namespace {

constexpr std::int64_t kMaxMicros = kMaxExact;  // 285 years: what the rest of Headgate can hold.

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads text from the left; every method leaves the place alone when it answers nothing.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[nodiscard]] bool done() const { return text_.empty(); }

  bool take(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }

  bool take_any(std::string_view characters) {
    if (text_.empty() || characters.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  // Exactly `count` digits.
  std::optional<int> digits(std::size_t count) {
    if (text_.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_digit(text_[i])) return std::nullopt;
      value = value * 10 + (text_[i] - '0');
    }
    text_.remove_prefix(count);
    return value;
  }

  // One of the names; its place in the list.
  template <std::size_t N>
  std::optional<int> name(const std::array<std::string_view, N>& names) {
    for (std::size_t i = 0; i < N; ++i) {
      if (take(names[i])) return static_cast<int>(i);
    }
    return std::nullopt;
  }

  // Digits with an optional fraction, in units of `unit_ns` nanoseconds, as whole nanoseconds; a
  // fraction below that rounds up. Nothing when it is no number or above 285 years.
  std::optional<std::int64_t> nanoseconds(std::int64_t unit_ns);

  [[nodiscard]] std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

std::optional<std::int64_t> Cursor::nanoseconds(std::int64_t unit_ns) {
  // 128 bits hold 19 digits times an hour in nanoseconds.
  __extension__ using Wide = __int128;
  std::size_t at = 0;
  Wide value = 0;
  while (at < text_.size() && is_digit(text_[at])) {
    if (at >= 18) return std::nullopt;
    value = value * 10 + (text_[at] - '0');
    ++at;
  }
  if (at == 0) return std::nullopt;
  value *= unit_ns;
  if (at < text_.size() && text_[at] == '.') {
    ++at;
    const std::size_t first = at;
    Wide fraction = 0;
    Wide scale = 1;
    bool rest = false;
    while (at < text_.size() && is_digit(text_[at])) {
      if (at - first < 18) {
        fraction = fraction * 10 + (text_[at] - '0');
        scale *= 10;
      } else {
        rest = rest || text_[at] != '0';
      }
      ++at;
    }
    if (at == first) return std::nullopt;
    const Wide scaled = fraction * unit_ns;
    value += scaled / scale;
    if (scaled % scale != 0 || rest) ++value;
  }
  if (value > Wide{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
  text_.remove_prefix(at);
  return static_cast<std::int64_t>(value);
}

std::optional<Micros> to_micros(std::int64_t ns) {
  const std::int64_t us = ceil_div(ns, 1'000);
  if (us > kMaxMicros) return std::nullopt;
  return Micros{us};
}

// Days from 1970-01-01 of a date of the Gregorian calendar; nothing for a date that is none.
std::optional<std::int64_t> days_from_civil(int year, int month, int day) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1) return std::nullopt;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const int last = kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
  if (day > last) return std::nullopt;
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = floor_div(y, 400);
  const std::int64_t of_era = y - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

struct TimeOfDay {
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// "17:13:35"; a leap second counts as the one after it.
std::optional<TimeOfDay> time_of_day(Cursor& cursor) {
  const auto hour = cursor.digits(2);
  if (!hour || *hour > 23 || !cursor.take(":")) return std::nullopt;
  const auto minute = cursor.digits(2);
  if (!minute || *minute > 59 || !cursor.take(":")) return std::nullopt;
  const auto second = cursor.digits(2);
  if (!second || *second > 60) return std::nullopt;
  return TimeOfDay{*hour, *minute, *second};
}

std::int64_t to_seconds_since_epoch(std::int64_t days, const TimeOfDay& time) {
  return days * 86'400 + time.hour * 3'600 + time.minute * 60 + time.second;
}

Micros until(std::int64_t epoch_us, WallTime wall) {
  const std::int64_t left = epoch_us - wall.since_epoch.count();
  return Micros{left > 0 ? left : 0};
}

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kDays = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> kLongDays = {
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<std::int64_t> imf_date(std::string_view text) {
  Cursor cursor(text);
  if (!cursor.name(kDays) || !cursor.take(", ")) return std::nullopt;
  const auto day = cursor.digits(2);
  if (!day || !cursor.take(" ")) return std::nullopt;
  const auto month = cursor.name(kMonths);
  if (!month || !cursor.take(" ")) return std::nullopt;
  const auto year = cursor.digits(4);
  if (!year || !cursor.take(" ")) return std::nullopt;
  const auto time = time_of_day(cursor);
  if (!time || !cursor.take(" GMT") || !cursor.done()) return std::nullopt;
  const auto days = days_from_civil(*year, *month + 1, *day);
  if (!days) return std::nullopt;
  return to_seconds_since_epoch(*days, *time);
}

// "Sunday, 06-Nov-94 08:49:37 GMT": a year more than 50 years ahead is of the century before.
std::optional<std::int64_t> rfc850_date(std::string_view text, WallTime wall) {
  Cursor cursor(text);
  if (!cursor.name(kLongDays) || !cursor.take(", ")) return std::nullopt;
  const auto day = cursor.digits(2);
  if (!day || !cursor.take("-")) return std::nullopt;
  const auto month = cursor.name(kMonths);
  if (!month || !cursor.take("-")) return std::nullopt;
  const auto short_year = cursor.digits(2);
  if (!short_year || !cursor.take(" ")) return std::nullopt;
  const auto time = time_of_day(cursor);
  if (!time || !cursor.take(" GMT") || !cursor.done()) return std::nullopt;
  constexpr std::int64_t kMicrosAYear = 31'556'952'000'000;
  const int this_year = 1970 + static_cast<int>(floor_div(wall.since_epoch.count(), kMicrosAYear));
  int year = this_year - this_year % 100 + *short_year;
  if (year > this_year + 50) year -= 100;
  const auto days = days_from_civil(year, *month + 1, *day);
  if (!days) return std::nullopt;
  return to_seconds_since_epoch(*days, *time);
}

// "Sun Nov  6 08:49:37 1994".
std::optional<std::int64_t> asctime_date(std::string_view text) {
  Cursor cursor(text);
  if (!cursor.name(kDays) || !cursor.take(" ")) return std::nullopt;
  const auto month = cursor.name(kMonths);
  if (!month || !cursor.take(" ")) return std::nullopt;
  const auto day = cursor.take(" ") ? cursor.digits(1) : cursor.digits(2);
  if (!day || !cursor.take(" ")) return std::nullopt;
  const auto time = time_of_day(cursor);
  if (!time || !cursor.take(" ")) return std::nullopt;
  const auto year = cursor.digits(4);
  if (!year || !cursor.done()) return std::nullopt;
  const auto days = days_from_civil(*year, *month + 1, *day);
  if (!days) return std::nullopt;
  return to_seconds_since_epoch(*days, *time);
}

// "2026-09-11T06:27:29Z", with an optional fraction and any offset; answers microseconds.
std::optional<std::int64_t> rfc3339_instant(std::string_view text) {
  Cursor cursor(text);
  const auto year = cursor.digits(4);
  if (!year || !cursor.take("-")) return std::nullopt;
  const auto month = cursor.digits(2);
  if (!month || !cursor.take("-")) return std::nullopt;
  const auto day = cursor.digits(2);
  if (!day || !cursor.take_any("Tt ")) return std::nullopt;
  const auto time = time_of_day(cursor);
  if (!time) return std::nullopt;
  std::int64_t fraction_us = 0;
  if (cursor.rest().starts_with('.')) {
    // The number parser wants a digit before the point.
    const std::string with_zero = "0" + std::string(cursor.rest());
    Cursor fraction(with_zero);
    const auto ns = fraction.nanoseconds(1'000'000'000);
    if (!ns) return std::nullopt;
    fraction_us = ceil_div(*ns, 1'000);
    cursor = Cursor(cursor.rest().substr(with_zero.size() - fraction.rest().size() - 1));
  }
  std::int64_t offset_minutes = 0;
  if (!cursor.take_any("Zz")) {
    const bool east = cursor.take("+");
    if (!east && !cursor.take("-")) return std::nullopt;
    const auto hours = cursor.digits(2);
    if (!hours || *hours > 23 || !cursor.take(":")) return std::nullopt;
    const auto minutes = cursor.digits(2);
    if (!minutes || *minutes > 59) return std::nullopt;
    offset_minutes = (east ? 1 : -1) * (*hours * 60 + *minutes);
  }
  if (!cursor.done()) return std::nullopt;
  const auto days = days_from_civil(*year, *month, *day);
  if (!days) return std::nullopt;
  return (to_seconds_since_epoch(*days, *time) - offset_minutes * 60) * kMicro + fraction_us;
}

// A bare number: a delay in seconds, or an instant as seconds or milliseconds since 1970, told
// apart by size: 10^9 s of delay would be 31 years, and 10^9 s after 1970 is 2001.
std::optional<Micros> bare_number(std::string_view text, WallTime wall) {
  constexpr std::int64_t kEpochSeconds = 1'000'000'000;
  constexpr std::int64_t kEpochMillis = 1'000'000'000'000;
  Cursor cursor(text);
  if (const auto whole = parse_integer(text); whole && *whole >= kEpochMillis) {
    if (*whole >= kEpochMillis * 10) return std::nullopt;
    return until(*whole * 1'000, wall);
  }
  const auto ns = cursor.nanoseconds(1'000'000'000);
  if (!ns || !cursor.done()) return std::nullopt;
  if (*ns / 1'000'000'000 >= kEpochSeconds) return until(ceil_div(*ns, 1'000), wall);
  return to_micros(*ns);
}

}  // namespace

std::optional<Micros> parse_retry_after(std::string_view value, WallTime wall) {
  const std::string_view text = trim(value);
  if (text.empty() || text.size() > 64) return std::nullopt;
  if (const auto delay = bare_number(text, wall)) return delay;
  if (const auto delay = parse_go_duration(text)) return delay;
  if (const auto at = rfc3339_instant(text)) return until(*at, wall);
  if (const auto at = imf_date(text)) return until(*at * kMicro, wall);
  if (const auto at = rfc850_date(text, wall)) return until(*at * kMicro, wall);
  if (const auto at = asctime_date(text)) return until(*at * kMicro, wall);
  return std::nullopt;
}

std::optional<Micros> parse_retry_after_ms(std::string_view value) {
  Cursor cursor(trim(value));
  const auto ns = cursor.nanoseconds(1'000'000);
  if (!ns || !cursor.done()) return std::nullopt;
  return to_micros(*ns);
}

std::optional<Micros> parse_go_duration(std::string_view value) {
  struct Unit {
    std::string_view name;
    std::int64_t ns;
  };
  // Longer names first, so that "ms" is not read as minutes. Both spellings of micro that Go knows.
  static constexpr std::array<Unit, 8> kUnits = {{{"ms", 1'000'000},
                                                  {"us", 1'000},
                                                  {"\xC2\xB5s", 1'000},
                                                  {"\xCE\xBCs", 1'000},
                                                  {"ns", 1},
                                                  {"h", 3'600'000'000'000},
                                                  {"m", 60'000'000'000},
                                                  {"s", 1'000'000'000}}};
  Cursor cursor(trim(value));
  if (cursor.done()) return std::nullopt;
  std::int64_t total_ns = 0;
  std::int64_t last_unit_ns = std::numeric_limits<std::int64_t>::max();
  while (!cursor.done()) {
    // The unit stands behind its number, so the number is looked past first.
    std::size_t length = 0;
    const std::string_view rest = cursor.rest();
    while (length < rest.size() && (is_digit(rest[length]) || rest[length] == '.')) ++length;
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits) {
      if (rest.substr(length).starts_with(candidate.name)) {
        unit = &candidate;
        break;
      }
    }
    // Units go down: 6m0s, never 0s6m.
    if (unit == nullptr || unit->ns >= last_unit_ns) return std::nullopt;
    last_unit_ns = unit->ns;
    const auto part = cursor.nanoseconds(unit->ns);
    if (!part || !cursor.take(unit->name)) return std::nullopt;
    if (*part > std::numeric_limits<std::int64_t>::max() - total_ns) return std::nullopt;
    total_ns += *part;
  }
  return to_micros(total_ns);
}

}  // namespace hg::wire
