#include "wire/rate_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>

#include "base/text.h"
#include "base/units.h"
#include "wire/retry_after.h"

namespace hg::wire {
namespace {

constexpr Micros kSecond{1'000'000};
constexpr Micros kMinute{60'000'000};
constexpr Micros kHour{3'600'000'000};
constexpr Micros kDay = 24 * kHour;
constexpr Micros kMonth = 30 * kDay;
constexpr Micros kUntold{0};

enum class Field : std::uint8_t { limit, remaining, reset, window, used, rejected };

// A name as providers write it, lower case, and what it means.
struct Name {
  std::string_view name;
  RateUnit unit;
  Micros window;
  Field field;
};

using enum RateUnit;
using enum Field;

constexpr auto kNames = std::to_array<Name>({
    // Anthropic. "-tokens-" is the tightest of its token limits, or the sum of both.
    {"anthropic-ratelimit-requests-limit", requests, kMinute, limit},
    {"anthropic-ratelimit-requests-remaining", requests, kMinute, remaining},
    {"anthropic-ratelimit-requests-reset", requests, kMinute, reset},
    {"anthropic-ratelimit-tokens-limit", tokens, kMinute, limit},
    {"anthropic-ratelimit-tokens-remaining", tokens, kMinute, remaining},
    {"anthropic-ratelimit-tokens-reset", tokens, kMinute, reset},
    {"anthropic-ratelimit-input-tokens-limit", input_tokens, kMinute, limit},
    {"anthropic-ratelimit-input-tokens-remaining", input_tokens, kMinute, remaining},
    {"anthropic-ratelimit-input-tokens-reset", input_tokens, kMinute, reset},
    {"anthropic-ratelimit-output-tokens-limit", output_tokens, kMinute, limit},
    {"anthropic-ratelimit-output-tokens-remaining", output_tokens, kMinute, remaining},
    {"anthropic-ratelimit-output-tokens-reset", output_tokens, kMinute, reset},
    {"anthropic-ratelimit-unified-5h-utilization", plan, 5 * kHour, used},
    {"anthropic-ratelimit-unified-5h-reset", plan, 5 * kHour, reset},
    {"anthropic-ratelimit-unified-5h-status", plan, 5 * kHour, rejected},
    {"anthropic-ratelimit-unified-7d-utilization", plan, 7 * kDay, used},
    {"anthropic-ratelimit-unified-7d-reset", plan, 7 * kDay, reset},
    {"anthropic-ratelimit-unified-7d-status", plan, 7 * kDay, rejected},
    // OpenAI and who follows it. Groq's requests are a day's, OpenAI's a minute's: told by `reset`.
    {"x-ratelimit-limit-requests", requests, kUntold, limit},
    {"x-ratelimit-remaining-requests", requests, kUntold, remaining},
    {"x-ratelimit-reset-requests", requests, kUntold, reset},
    {"x-ratelimit-renewalperiod-requests", requests, kUntold, window},
    {"x-ratelimit-limit-tokens", tokens, kUntold, limit},
    {"x-ratelimit-remaining-tokens", tokens, kUntold, remaining},
    {"x-ratelimit-reset-tokens", tokens, kUntold, reset},
    {"x-ratelimit-renewalperiod-tokens", tokens, kUntold, window},
    // Cerebras.
    {"x-ratelimit-limit-requests-day", requests, kDay, limit},
    {"x-ratelimit-remaining-requests-day", requests, kDay, remaining},
    {"x-ratelimit-reset-requests-day", requests, kDay, reset},
    {"x-ratelimit-limit-tokens-minute", tokens, kMinute, limit},
    {"x-ratelimit-remaining-tokens-minute", tokens, kMinute, remaining},
    {"x-ratelimit-reset-tokens-minute", tokens, kMinute, reset},
    // Mistral, newer and older.
    {"x-ratelimit-limit-req-10-second", requests, 10 * kSecond, limit},
    {"x-ratelimit-remaining-req-10-second", requests, 10 * kSecond, remaining},
    {"x-ratelimit-limit-req-second", requests, kSecond, limit},
    {"x-ratelimit-remaining-req-second", requests, kSecond, remaining},
    {"x-ratelimit-limit-req-minute", requests, kMinute, limit},
    {"x-ratelimit-remaining-req-minute", requests, kMinute, remaining},
    {"x-ratelimit-limit-tokens-month", tokens, kMonth, limit},
    {"x-ratelimit-remaining-tokens-month", tokens, kMonth, remaining},
    {"x-ratelimitbysize-limit-minute", tokens, kMinute, limit},
    {"x-ratelimitbysize-remaining-minute", tokens, kMinute, remaining},
    {"x-ratelimitbysize-limit-month", tokens, kMonth, limit},
    {"x-ratelimitbysize-remaining-month", tokens, kMonth, remaining},
    {"ratelimitbysize-reset", tokens, kMinute, reset},
    // Fireworks.
    {"x-ratelimit-limit-tokens-prompt", tokens, kMinute, limit},
    {"x-ratelimit-remaining-tokens-prompt", tokens, kMinute, remaining},
    {"x-ratelimit-limit-tokens-cache-adjusted-prompt", input_tokens, kMinute, limit},
    {"x-ratelimit-remaining-tokens-cache-adjusted-prompt", input_tokens, kMinute, remaining},
    {"x-ratelimit-limit-tokens-generated", output_tokens, kMinute, limit},
    {"x-ratelimit-remaining-tokens-generated", output_tokens, kMinute, remaining},
    // Together: a second's. Moonshot and others use the same plain names.
    {"x-ratelimit-limit", requests, kUntold, limit},
    {"x-ratelimit-remaining", requests, kUntold, remaining},
    {"x-ratelimit-reset", requests, kUntold, reset},
    {"x-tokenlimit-limit", tokens, kSecond, limit},
    {"x-tokenlimit-remaining", tokens, kSecond, remaining},
    {"x-tokenlimit-reset", tokens, kSecond, reset},
    // Codex under a plan: the two windows tell their own length.
    {"x-codex-primary-used-percent", plan, Micros{-1}, used},
    {"x-codex-primary-window-minutes", plan, Micros{-1}, window},
    {"x-codex-primary-reset-after-seconds", plan, Micros{-1}, reset},
    {"x-codex-secondary-used-percent", plan, Micros{-2}, used},
    {"x-codex-secondary-window-minutes", plan, Micros{-2}, window},
    {"x-codex-secondary-reset-after-seconds", plan, Micros{-2}, reset},
});

// "120000", "12.0"; negative is none.
std::optional<double> number_of(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.size() > 24) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0) || value > static_cast<double>(kMaxExact)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> count_of(std::string_view text) {
  const auto value = number_of(text);
  if (!value) return std::nullopt;
  return static_cast<std::int64_t>(std::floor(*value));
}

std::optional<Micros> length_of(std::string_view text, Micros unit) {
  const auto value = number_of(text);
  // A window of zero is one that there is not; a year is the longest believed.
  if (!value || *value <= 0 || *value > 366.0 * 86'400.0) return std::nullopt;
  return Micros(static_cast<std::int64_t>(*value * static_cast<double>(unit.count())));
}

bool empty(const RateReading& reading) {
  return !reading.limit && !reading.remaining && !reading.reset && !reading.used_ppm &&
         !reading.rejected;
}

// Readings while they are gathered: windows that are not told yet keep their mark apart.
class Gathered {
 public:
  RateReading& at(RateUnit unit, Micros mark) {
    for (Entry& entry : entries_) {
      if (entry.reading.unit == unit && entry.mark == mark) return entry.reading;
    }
    Entry entry;
    entry.mark = mark;
    entry.reading.unit = unit;
    if (mark > kUntold) entry.reading.window = mark;
    entries_.push_back(entry);
    return entries_.back().reading;
  }

  [[nodiscard]] std::vector<RateReading> readings() const {
    std::vector<RateReading> result;
    for (const Entry& entry : entries_) {
      if (!empty(entry.reading)) result.push_back(entry.reading);
    }
    std::ranges::stable_sort(result, {}, [](const RateReading& reading) {
      return std::tuple(reading.unit, reading.window.value_or(kUntold));
    });
    return result;
  }

 private:
  struct Entry {
    Micros mark{0};
    RateReading reading;
  };
  std::vector<Entry> entries_;
};

void take(const Name& name, std::string_view value, WallTime wall, RateReading& reading) {
  switch (name.field) {
    case Field::limit: reading.limit = count_of(value); return;
    case Field::remaining: reading.remaining = count_of(value); return;
    case Field::reset: reading.reset = parse_retry_after(value, wall); return;
    case Field::window:
      reading.window = length_of(value, name.unit == plan ? kMinute : kSecond);
      return;
    case Field::used: {
      const auto used = number_of(value);
      // Codex in per cent, Anthropic as a fraction.
      const double parts = name.window < kUntold ? 1e4 : 1e6;
      if (used && *used <= 1e6) reading.used_ppm = std::llround(*used * parts);
      return;
    }
    case Field::rejected: reading.rejected = iequals(trim(value), "rejected"); return;
  }
}

// The IETF draft's fields: `ratelimit: "api";r=999;t=295`, `ratelimit-policy: "api";q=1000;w=300`.
std::optional<std::string_view> parameter(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t semicolon = text.find(';');
    const std::string_view part = trim(text.substr(0, semicolon));
    text.remove_prefix(semicolon == std::string_view::npos ? text.size() : semicolon + 1);
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos && part.substr(0, equals) == name) {
      return part.substr(equals + 1);
    }
  }
  return std::nullopt;
}

void take_draft(const Headers& headers, Gathered& gathered) {
  constexpr Micros kMark{-3};
  if (const auto now = headers.find("ratelimit")) {
    RateReading& reading = gathered.at(requests, kMark);
    if (const auto left = parameter(*now, "r")) reading.remaining = count_of(*left);
    if (const auto time = parameter(*now, "t")) reading.reset = length_of(*time, kSecond);
  }
  if (const auto policy = headers.find("ratelimit-policy")) {
    RateReading& reading = gathered.at(requests, kMark);
    if (const auto quota = parameter(*policy, "q")) reading.limit = count_of(*quota);
    if (const auto length = parameter(*policy, "w")) reading.window = length_of(*length, kSecond);
  }
}

// A bucket that is refilled evenly says its window by itself: what is missing takes `reset` to come
// back, so all of it takes limit / missing times as long. Only the plain windows are told apart.
void infer_window(RateReading& reading) {
  if (reading.window || !reading.limit || !reading.remaining || !reading.reset) return;
  const std::int64_t missing = *reading.limit - *reading.remaining;
  if (missing <= 0 || *reading.reset <= kUntold) return;
  // Resets are rounded, to a millisecond at best.
  constexpr double kRounding = 1'000;
  const double times = static_cast<double>(*reading.limit) / static_cast<double>(missing);
  const auto reset = static_cast<double>(reading.reset->count());
  const double least = (reset - kRounding) * times * 0.95;
  const double most = (reset + kRounding) * times * 1.05;
  std::optional<Micros> found;
  for (const Micros window : {kSecond, kMinute, kHour, kDay}) {
    const auto length = static_cast<double>(window.count());
    if (length < least || length > most) continue;
    if (found) return;  // Too little is missing to tell.
    found = window;
  }
  reading.window = found;
}

// Nearly every field is something else: told without a copy in lower case.
bool may_tell_rates(std::string_view name) {
  constexpr std::string_view kCodex = "x-codex-";
  if (iequals(name.substr(0, kCodex.size()), kCodex)) return true;
  for (std::size_t at = name.find_first_of("lL"); at != std::string_view::npos;
       at = name.find_first_of("lL", at + 1)) {
    if (iequals(name.substr(at, 5), "limit")) return true;
  }
  return false;
}

}  // namespace

const char* to_string(RateUnit unit) {
  switch (unit) {
    case RateUnit::requests: return "requests";
    case RateUnit::tokens: return "tokens";
    case RateUnit::input_tokens: return "input_tokens";
    case RateUnit::output_tokens: return "output_tokens";
    case RateUnit::plan: return "plan";
  }
  return "?";
}

std::vector<RateReading> read_rate_headers(const Headers& headers, WallTime wall) {
  Gathered gathered;
  for (const Header& header : headers.all()) {
    if (!may_tell_rates(header.name)) continue;
    const std::string name = to_lower(header.name);
    const auto known = std::ranges::find(kNames, name, &Name::name);
    if (known == kNames.end()) continue;
    take(*known, header.value, wall, gathered.at(known->unit, known->window));
  }
  take_draft(headers, gathered);
  std::vector<RateReading> readings = gathered.readings();
  for (RateReading& reading : readings) infer_window(reading);
  return readings;
}

}  // namespace hg::wire
