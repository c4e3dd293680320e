#include "lab/failures.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace hg::lab {
namespace {

constexpr std::array<std::pair<std::string_view, Fault>, 14> kWords = {{
    {"429", Fault::rate_limit},
    {"429-bare", Fault::rate_limit_bare},
    {"529", Fault::overloaded},
    {"503", Fault::unavailable},
    {"500", Fault::server_error},
    {"quota", Fault::quota},
    {"stream", Fault::stream_overload},
    {"stream-429", Fault::stream_rate_limit},
    {"stream-begun", Fault::stream_begun},
    {"stream-late", Fault::stream_late},
    {"drop", Fault::drop},
    {"cut", Fault::cut},
    {"silence", Fault::silence},
    {"stall", Fault::stall},
}};

std::optional<Fault> fault_named(std::string_view word) {
  for (const auto& [name, fault] : kWords) {
    if (name == word) return fault;
  }
  return std::nullopt;
}

std::optional<double> parse_fraction(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  const std::optional<std::int64_t> count = parse_integer(text);
  if (!count || *count < 1) return std::nullopt;
  return count;
}

std::unexpected<Error> bad_part(std::string_view part) {
  return fail(Errc::invalid,
              fmt::format("'{}' is not a fault: write KIND:N, KIND@N, KIND@N-M, KIND%N or "
                          "KIND~PROBABILITY, with KIND (or KIND=SECONDS) one of 429, 429-bare, "
                          "529, 503, 500, quota, stream, stream-429, stream-begun, stream-late, "
                          "drop, cut, silence, stall",
                          part));
}

}  // namespace

const char* to_string(Fault fault) {
  for (const auto& [name, value] : kWords) {
    if (value == fault) return name.data();  // Views of literals: they end with a zero.
  }
  return "?";
}

Result<FailurePlan> FailurePlan::parse(std::string_view plan) {
  FailurePlan parsed;
  while (!trim(plan).empty()) {
    const std::size_t comma = plan.find(',');
    const std::string_view text = trim(plan.substr(0, comma));
    plan = comma == std::string_view::npos ? std::string_view() : plan.substr(comma + 1);

    const std::size_t sign = text.find_first_of(":@%~");
    if (sign == std::string_view::npos) return bad_part(text);
    std::string_view word = text.substr(0, sign);
    const std::string_view number = text.substr(sign + 1);
    Part part;
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      const std::optional<std::int64_t> seconds = parse_integer(word.substr(equals + 1));
      if (!seconds || *seconds < 0 || *seconds > 86'400) return bad_part(text);
      part.what.seconds = std::chrono::seconds(*seconds);
      word = word.substr(0, equals);
    }
    const std::optional<Fault> fault = fault_named(word);
    if (!fault) return bad_part(text);
    part.what.fault = *fault;

    std::optional<std::int64_t> first;
    std::optional<std::int64_t> last;
    switch (text[sign]) {
      case ':':
        part.when = When::counted;
        first = last = parse_count(number);
        break;
      case '%':
        part.when = When::every;
        first = last = parse_count(number);
        break;
      case '@': {
        part.when = When::listed;
        const std::size_t dash = number.find('-');
        first = parse_count(number.substr(0, dash));
        last = dash == std::string_view::npos ? first : parse_count(number.substr(dash + 1));
        break;
      }
      default: {
        part.when = When::chance;
        const std::optional<double> probability = parse_fraction(number);
        if (!probability || !(*probability >= 0.0 && *probability <= 1.0)) return bad_part(text);
        part.probability = *probability;
        first = last = 0;
        break;
      }
    }
    if (!first || !last || *last < *first) return bad_part(text);
    part.first = *first;
    part.last = *last;
    parsed.parts_.push_back(part);
  }
  return parsed;
}

std::optional<OrderedFault> FailurePlan::next(Rng& rng) {
  ++calls_;
  for (const Part& part : parts_) {
    bool hit = false;
    switch (part.when) {
      case When::counted: break;
      case When::listed: hit = calls_ >= part.first && calls_ <= part.last; break;
      case When::every: hit = calls_ % part.first == 0; break;
      case When::chance: hit = rng.chance(part.probability); break;
    }
    if (hit) return part.what;
  }
  for (Part& part : parts_) {
    if (part.when != When::counted || part.first == 0) continue;
    --part.first;
    return part.what;
  }
  return std::nullopt;
}

}  // namespace hg::lab
