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

enum class Field : std::uint8_t {
  limit,
  remaining,
  reset,
  reset_at,  // Counts where `reset` is not there too.
  window,
  used,          // As a fraction.
  used_percent,  // Per cent.
  rejected,
};

// A name as providers write it, lower case, and what it means.
struct Name {
  std::string_view name;
  RateUnit unit;
  Micros window;  // kUntold where the name says none.
  Field field;
  std::string_view series = "";  // Limits of one unit and window that are counted apart.
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
    // The week of one family of models.
    {"anthropic-ratelimit-unified-7d_opus-utilization", plan, 7 * kDay, used, "opus"},
    {"anthropic-ratelimit-unified-7d_opus-reset", plan, 7 * kDay, reset, "opus"},
    {"anthropic-ratelimit-unified-7d_opus-status", plan, 7 * kDay, rejected, "opus"},
    {"anthropic-ratelimit-unified-7d_sonnet-utilization", plan, 7 * kDay, used, "sonnet"},
    {"anthropic-ratelimit-unified-7d_sonnet-reset", plan, 7 * kDay, reset, "sonnet"},
    {"anthropic-ratelimit-unified-7d_sonnet-status", plan, 7 * kDay, rejected, "sonnet"},
    // Mistral's older names; the newer ones say what they are, as Cerebras' do.
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
    // Together: a second's.
    {"x-tokenlimit-limit", tokens, kSecond, limit},
    {"x-tokenlimit-remaining", tokens, kSecond, remaining},
    {"x-tokenlimit-reset", tokens, kSecond, reset},
    // Codex under a plan: the two windows tell their own length.
    {"x-codex-primary-used-percent", plan, kUntold, used_percent, "primary"},
    {"x-codex-primary-window-minutes", plan, kUntold, window, "primary"},
    {"x-codex-primary-reset-after-seconds", plan, kUntold, reset, "primary"},
    {"x-codex-primary-reset-at", plan, kUntold, reset_at, "primary"},
    {"x-codex-secondary-used-percent", plan, kUntold, used_percent, "secondary"},
    {"x-codex-secondary-window-minutes", plan, kUntold, window, "secondary"},
    {"x-codex-secondary-reset-after-seconds", plan, kUntold, reset, "secondary"},
    {"x-codex-secondary-reset-at", plan, kUntold, reset_at, "secondary"},
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

// "x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens-minute",
// "x-ratelimit-limit-req-10-second", "ratelimit-reset": names that say what they are, in whatever
// order; nothing when a word is not understood. What tells no window may mean any: OpenAI's
// requests are a minute's, Groq's a day's, Together's plain ones a second's; `reset` tells.
std::optional<Name> spelled_out(std::string_view name) {
  struct Word {
    std::string_view word;
    std::optional<Field> field;
    std::optional<RateUnit> unit;
    Micros window = kUntold;
  };
  static constexpr auto kWords = std::to_array<Word>({
      {"limit", limit, {}},
      {"remaining", remaining, {}},
      {"reset", reset, {}},
      {"renewalperiod", window, {}},
      {"requests", {}, requests},
      {"request", {}, requests},
      {"req", {}, requests},
      {"tokens", {}, tokens},
      {"token", {}, tokens},
      {"input", {}, input_tokens},
      {"output", {}, output_tokens},
      {"second", {}, {}, kSecond},
      {"minute", {}, {}, kMinute},
      {"hour", {}, {}, kHour},
      {"day", {}, {}, kDay},
      {"week", {}, {}, 7 * kDay},
      {"month", {}, {}, kMonth},
  });
  // A limit beside the account's own: OpenAI's projects, LiteLLM's keys.
  static constexpr std::array<std::string_view, 3> kSeries = {"project", "api_key",
                                                              "model_per_key"};
  if (name.starts_with("x-")) name.remove_prefix(2);
  const std::size_t prefix = name.starts_with("rate-limit-")  ? 11
                             : name.starts_with("ratelimit-") ? 10
                                                              : 0;
  if (prefix == 0) return std::nullopt;
  name.remove_prefix(prefix);
  std::optional<Field> field;
  Name result{"", requests, kUntold, limit};
  bool unit_known = false;
  std::int64_t count = 1;
  while (!name.empty()) {
    const std::size_t dash = name.find('-');
    const std::string_view part = name.substr(0, dash);
    name.remove_prefix(dash == std::string_view::npos ? name.size() : dash + 1);
    if (const auto number = parse_integer(part); number && *number > 0 && *number <= 1'000) {
      count = *number;
      continue;
    }
    if (std::ranges::find(kSeries, part) != kSeries.end()) {
      result.series = *std::ranges::find(kSeries, part);
      continue;
    }
    const auto word = std::ranges::find(kWords, part, &Word::word);
    if (word == kWords.end() || (word->field && field)) return std::nullopt;
    if (word->field) field = word->field;
    // "input-tokens" is input's.
    if (word->unit && !(unit_known && *word->unit == tokens)) {
      if (unit_known) return std::nullopt;
      result.unit = *word->unit;
      unit_known = true;
    }
    if (word->window > kUntold) result.window = count * word->window;
  }
  if (!field) return std::nullopt;
  result.field = *field;
  return result;
}

// Readings while they are gathered: the same unit and window may be counted in several series.
class Gathered {
 public:
  RateReading& at(RateUnit unit, Micros told, std::string_view series) {
    for (Entry& entry : entries_) {
      if (entry.reading.unit == unit && entry.told == told && entry.series == series) {
        return entry.reading;
      }
    }
    Entry entry;
    entry.told = told;
    entry.series = series;
    entry.reading.unit = unit;
    if (told > kUntold) entry.reading.window = told;
    entries_.push_back(std::move(entry));
    return entries_.back().reading;
  }

  [[nodiscard]] std::vector<RateReading> readings() const {
    std::vector<RateReading> result;
    for (const Entry& entry : entries_) {
      if (!empty(entry.reading)) result.push_back(entry.reading);
    }
    return result;
  }

 private:
  struct Entry {
    Micros told{0};
    std::string series;
    RateReading reading;
  };
  std::vector<Entry> entries_;
};

void take(const Name& name, std::string_view value, WallTime wall, RateReading& reading) {
  switch (name.field) {
    // "100, 100;w=60" of an older draft says more behind it.
    case Field::limit: reading.limit = count_of(value.substr(0, value.find_first_of(",;"))); return;
    case Field::remaining: reading.remaining = count_of(value); return;
    case Field::reset: reading.reset = parse_retry_after(value, wall); return;
    case Field::reset_at:
      if (!reading.reset) reading.reset = parse_retry_after(value, wall);
      return;
    case Field::window:
      reading.window = length_of(value, name.unit == plan ? kMinute : kSecond);
      return;
    case Field::used:
    case Field::used_percent: {
      const auto used = number_of(value);
      const double parts = name.field == Field::used_percent ? 1e4 : 1e6;
      if (used && *used <= 1e6) reading.used_ppm = std::llround(*used * parts);
      return;
    }
    case Field::rejected: reading.rejected = iequals(trim(value), "rejected"); return;
  }
}

// Of a structured field: what stands up to the next `mark` outside of quotes; `text` then begins
// behind it.
std::string_view piece(std::string_view& text, char mark) {
  bool quoted = false;
  std::size_t at = 0;
  while (at < text.size() && (quoted || text[at] != mark)) {
    if (text[at] == '"') quoted = !quoted;
    ++at;
  }
  const std::string_view result = trim(text.substr(0, at));
  text.remove_prefix(std::min(text.size(), at + 1));
  return result;
}

// The fields of the IETF's draft, in their newer form, where each limit is an item of a list
// (`ratelimit: "api";r=999;t=295`, `ratelimit-policy: "api";q=1000;w=300;qu="requests"`), and in
// their older one (`ratelimit: limit=100, remaining=50, reset=30`, `ratelimit-policy: 100;w=60`).
struct DraftItem {
  std::string_view name;
  RateReading reading;
  bool counted = true;  // In requests or tokens, not in bytes or connections.
};

void take_parameter(std::string_view name, std::string_view value, DraftItem& item) {
  if (value.starts_with('"') && value.size() >= 2) value = value.substr(1, value.size() - 2);
  if (name == "r" || name == "remaining") item.reading.remaining = count_of(value);
  if (name == "q" || name == "limit") item.reading.limit = count_of(value);
  if (name == "t" || name == "reset") item.reading.reset = length_of(value, kSecond);
  if (name == "w") item.reading.window = length_of(value, kSecond);
  if (name == "qu") {
    if (value == "tokens") item.reading.unit = tokens;
    item.counted = value == "requests" || value == "tokens";
  }
}

std::vector<DraftItem> draft_items(std::string_view text) {
  constexpr std::size_t kMostItems = 8;
  std::vector<DraftItem> items;
  while (!text.empty() && items.size() < kMostItems) {
    std::string_view rest = piece(text, ',');
    DraftItem item;
    for (bool first = true; !rest.empty(); first = false) {
      const std::string_view part = piece(rest, ';');
      const std::size_t equals = part.find('=');
      if (!part.starts_with('"') && equals != std::string_view::npos) {
        take_parameter(part.substr(0, equals), part.substr(equals + 1), item);
      } else if (first) {
        item.name = part;
        if (const auto limit = count_of(part)) item.reading.limit = limit;
      }
    }
    // The older form spreads one limit over the items.
    const bool goes_on = item.name.empty() && !items.empty() && items.back().name.empty();
    if (!goes_on) {
      items.push_back(item);
      continue;
    }
    RateReading& whole = items.back().reading;
    if (item.reading.limit) whole.limit = item.reading.limit;
    if (item.reading.remaining) whole.remaining = item.reading.remaining;
    if (item.reading.reset) whole.reset = item.reading.reset;
  }
  return items;
}

// What is left of each limit, completed by its policy.
std::vector<RateReading> draft_readings(const Headers& headers) {
  const std::string_view now = headers.find("ratelimit").value_or("");
  const std::string_view policy = headers.find("ratelimit-policy").value_or("");
  std::vector<DraftItem> items = draft_items(now);
  const std::vector<DraftItem> policies = draft_items(policy);
  for (const DraftItem& rule : policies) {
    auto item = std::ranges::find(items, rule.name, &DraftItem::name);
    // One limit needs no name to be told.
    if (item == items.end() && items.size() == 1 && policies.size() == 1) item = items.begin();
    if (item == items.end()) {
      items.push_back(rule);
      continue;
    }
    if (!item->reading.limit) item->reading.limit = rule.reading.limit;
    item->reading.window = rule.reading.window;
    item->reading.unit = rule.reading.unit;
    item->counted = item->counted && rule.counted;
  }
  std::vector<RateReading> readings;
  for (const DraftItem& item : items) {
    if (item.counted && !empty(item.reading)) readings.push_back(item.reading);
  }
  return readings;
}

// Azure and GitHub name their period and write resets as bare numbers, of milliseconds or of
// seconds: of the two the one that is closer to an even refill of the period.
void mend_reset_unit(RateReading& reading) {
  if (!reading.window || !reading.limit || !reading.remaining || !reading.reset) return;
  const std::int64_t missing = *reading.limit - *reading.remaining;
  if (missing <= 0 || *reading.reset <= kUntold) return;
  const double even = static_cast<double>(reading.window->count()) * static_cast<double>(missing) /
                      static_cast<double>(*reading.limit);
  const double said = static_cast<double>(reading.reset->count());
  if (std::abs(std::log(said / 1'000 / even)) < std::abs(std::log(said / even))) {
    *reading.reset /= 1'000;
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

// Whether `left` refuses before `right`.
bool tighter(const RateReading& left, const RateReading& right) {
  if (left.rejected != right.rejected) return left.rejected;
  if (left.used_ppm != right.used_ppm) return left.used_ppm > right.used_ppm;
  if (left.remaining && right.remaining) return *left.remaining < *right.remaining;
  if (left.limit && right.limit) return *left.limit < *right.limit;
  return left.remaining || (left.limit && !right.remaining);
}

// In order; of several limits of one unit and window the tightest.
void keep_tightest(std::vector<RateReading>& readings) {
  const auto key = [](const RateReading& reading) {
    return std::tuple(reading.unit, reading.window.value_or(kUntold));
  };
  std::ranges::stable_sort(readings, [&](const RateReading& left, const RateReading& right) {
    if (key(left) != key(right)) return key(left) < key(right);
    return tighter(left, right);
  });
  const auto rest = std::ranges::unique(readings, {}, key);
  readings.erase(rest.begin(), rest.end());
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
  bool period_told = false;
  for (const Header& header : headers.all()) {
    if (!may_tell_rates(header.name)) continue;
    const std::string name = to_lower(header.name);
    const auto known = std::ranges::find(kNames, name, &Name::name);
    const std::optional<Name> field = known != kNames.end() ? *known : spelled_out(name);
    if (!field) continue;
    period_told = period_told || (field->field == Field::window && field->unit != plan);
    take(*field, header.value, wall, gathered.at(field->unit, field->window, field->series));
  }
  std::vector<RateReading> readings = gathered.readings();
  if (period_told) std::ranges::for_each(readings, mend_reset_unit);
  for (const RateReading& reading : draft_readings(headers)) readings.push_back(reading);
  std::ranges::for_each(readings, infer_window);
  keep_tightest(readings);
  return readings;
}

}  // namespace hg::wire
