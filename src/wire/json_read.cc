#include "wire/json_read.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

namespace hg::wire {

namespace dom = simdjson::dom;

namespace {

constexpr std::size_t kParserKept = std::size_t{512} * 1024;  // Bytes of a body.

// Null while somebody uses it.
std::unique_ptr<dom::parser>& kept_parser() {
  static thread_local std::unique_ptr<dom::parser> parser;
  return parser;
}

}  // namespace

bool one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

std::string_view string_of(const Found& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

Found last_of(const dom::object& object, std::string_view name) {
  Found found(simdjson::NO_SUCH_FIELD);
  for (const auto& [key, value] : object) {
    if (key == name) found = Found(dom::element(value));
  }
  return found;
}

Found last_of(const dom::element& value, std::string_view name) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return Found(simdjson::NO_SUCH_FIELD);
  return last_of(object, name);
}

Found last_of(const Found& value, std::string_view name) {
  dom::element element;
  if (value.get(element) != simdjson::SUCCESS) return Found(simdjson::NO_SUCH_FIELD);
  return last_of(element, name);
}

KeptParser::KeptParser() : parser_(std::exchange(kept_parser(), nullptr)) {
  if (!parser_) parser_ = std::make_unique<dom::parser>();
}

KeptParser::~KeptParser() {
  if (parser_->capacity() <= kParserKept) kept_parser() = std::move(parser_);
}

Found KeptParser::parse(std::string_view text) {
  return parser_->parse(text.data(), text.size(), true);
}

std::optional<Tokens> declared_count(const dom::element& value) {
  if (std::int64_t number = 0; value.get(number) == simdjson::SUCCESS) {
    if (number < 0) return std::nullopt;
    return std::min(number, kMaxExact);
  }
  if (std::uint64_t number = 0; value.get(number) == simdjson::SUCCESS) return kMaxExact;
  if (double number = 0; value.get(number) == simdjson::SUCCESS) {
    if (!(number >= 0) || number != std::floor(number)) return std::nullopt;
    return number >= static_cast<double>(kMaxExact) ? kMaxExact : static_cast<Tokens>(number);
  }
  return std::nullopt;
}

}  // namespace hg::wire
