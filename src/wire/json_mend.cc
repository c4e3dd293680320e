#include "wire/json_mend.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

namespace hg::wire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The length of the UTF-8 character that `text` starts with; 0 when it starts with none.
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  std::size_t length = 0;
  if (lead < 0x80) {
    length = 1;
  } else if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
  }
  if (length == 0 || length > text.size()) return 0;
  if (!std::ranges::all_of(text.substr(1, length - 1), is_continuation)) return 0;
  if (length < 3) return length;
  // Overlong forms, halves of surrogate pairs, and what lies past the last code point.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

// A number of JSON's grammar as one that fits a type.
std::string mend_number(std::string_view token) {
  const bool negative = token.front() == '-';
  const std::string huge = negative ? "-1e308" : "1e308";
  const char* const end = token.data() + token.size();
  if (token.find_first_of(".eE") == std::string_view::npos) {
    std::int64_t whole = 0;
    std::uint64_t large = 0;
    if (std::from_chars(token.data(), end, whole).ec == std::errc{} ||
        std::from_chars(token.data(), end, large).ec == std::errc{}) {
      return std::string(token);
    }
    // No longer an integer, but as large.
    constexpr std::size_t kMostDigits = 308;
    return token.size() > kMostDigits ? huge : std::string(token) + "e0";
  }
  double number = 0;
  const auto read = std::from_chars(token.data(), end, number);
  if (read.ec == std::errc{} && std::isfinite(number)) return std::string(token);
  const std::size_t mark = token.find_first_of("eE");
  const bool tiny = mark != std::string_view::npos && token[mark + 1] == '-';
  return tiny ? "0" : huge;
}

class Mender {
 public:
  explicit Mender(std::string_view text) : text_(text) { out_.reserve(text.size() + 2); }

  std::optional<std::string> run();

 private:
  // What the grammar allows next.
  enum class Next : std::uint8_t { value, value_or_close, key, key_or_close, comma_or_close, end };

  bool step();
  bool open(char bracket);
  bool close(char bracket);
  bool key();
  bool scalar();
  bool string();
  bool escape();
  bool unicode_escape();
  bool number();
  bool word(std::string_view word, std::string_view instead);
  std::optional<unsigned> code_unit(std::size_t at) const;

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  void take(std::size_t count) {
    out_.append(text_.substr(at_, count));
    at_ += count;
  }
  void value_ended() { next_ = open_.empty() ? Next::end : Next::comma_or_close; }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::string open_;  // The brackets that are open, outermost first.
  Next next_ = Next::value;
  std::size_t deep_text_ = 0;  // Where the value that is too deep began, in text_ and in out_.
  std::size_t deep_out_ = 0;
};

std::optional<std::string> Mender::run() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
    if (!step()) return std::nullopt;
  }
  if (next_ != Next::end) return std::nullopt;
  return std::move(out_);
}

bool Mender::step() {
  const char c = text_[at_];
  const bool closes = c == '}' || c == ']';
  switch (next_) {
    case Next::end: return false;
    case Next::comma_or_close:
      if (closes) return close(c);
      if (c != ',') return false;
      take(1);
      next_ = open_.back() == '{' ? Next::key : Next::value;
      return true;
    case Next::key_or_close:
    case Next::key:
      if (closes && next_ == Next::key_or_close) return close(c);
      return key();
    case Next::value_or_close:
      if (closes) return close(c);
      break;
    case Next::value: break;
  }
  if (c == '{' || c == '[') return open(c);
  if (!scalar()) return false;
  value_ended();
  return true;
}

bool Mender::open(char bracket) {
  if (open_.size() == kMendedDepth) {
    deep_text_ = at_;
    deep_out_ = out_.size();
  }
  open_ += bracket;
  take(1);
  next_ = bracket == '{' ? Next::key_or_close : Next::value_or_close;
  return true;
}

bool Mender::close(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '[')) return false;
  open_.pop_back();
  take(1);
  if (open_.size() == kMendedDepth) {
    out_.resize(deep_out_);
    out_ += '"';
    out_.append(at_ - deep_text_ - 2, 'x');
    out_ += '"';
  }
  value_ended();
  return true;
}

bool Mender::key() {
  if (!string()) return false;
  skip_blanks();
  if (peek() != ':') return false;
  take(1);
  next_ = Next::value;
  return true;
}

bool Mender::scalar() {
  switch (peek()) {
    case '"': return string();
    case 't': return word("true", "true");
    case 'f': return word("false", "false");
    case 'n': return word("null", "null");
    case 'N': return word("NaN", "0");
    case 'I': return word("Infinity", "0");
    default: return number();
  }
}

bool Mender::word(std::string_view word, std::string_view instead) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  out_ += instead;
  return true;
}

bool Mender::number() {
  std::size_t at = at_;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at - from;
  };
  const auto is = [&](std::string_view any) {
    return at < text_.size() && any.find(text_[at]) != std::string_view::npos;
  };
  if (is("-")) ++at;
  if (is("I") && at > at_) {
    ++at_;
    return word("Infinity", "0");
  }
  const bool zero = is("0");
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (is(".")) {
    ++at;
    if (digits() == 0) return false;
  }
  if (is("eE")) {
    ++at;
    if (is("+-")) ++at;
    if (digits() == 0) return false;
  }
  out_ += mend_number(text_.substr(at_, at - at_));
  at_ = at;
  return true;
}

bool Mender::string() {
  if (peek() != '"') return false;
  take(1);
  while (at_ < text_.size()) {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x20) return false;
      const std::size_t length = byte < 0x80 ? 1 : utf8_length(text_.substr(at_));
      if (length == 0) break;
      at_ += length;
    }
    out_.append(text_.substr(from, at_ - from));
    if (at_ == text_.size()) return false;
    if (text_[at_] == '"') {
      take(1);
      return true;
    }
    if (text_[at_] == '\\') {
      if (!escape()) return false;
    } else {
      // One byte for one byte: the replacement character is three.
      out_ += '?';
      ++at_;
    }
  }
  return false;
}

bool Mender::escape() {
  constexpr std::string_view kShort = "\"\\/bfnrt";
  if (at_ + 1 >= text_.size()) return false;
  if (text_[at_ + 1] == 'u') return unicode_escape();
  if (kShort.find(text_[at_ + 1]) == std::string_view::npos) return false;
  take(2);
  return true;
}

bool Mender::unicode_escape() {
  constexpr std::size_t kLength = 6;  // \uXXXX
  const auto unit = code_unit(at_);
  if (!unit) return false;
  if (*unit < 0xD800 || *unit > 0xDFFF) {
    take(kLength);
    return true;
  }
  const auto second = code_unit(at_ + kLength);
  if (*unit <= 0xDBFF && second && *second >= 0xDC00 && *second <= 0xDFFF) {
    take(2 * kLength);
    return true;
  }
  out_ += "\\ufffd";
  at_ += kLength;
  return true;
}

// The code unit of the escape \uXXXX at `at`; nothing when there is none.
std::optional<unsigned> Mender::code_unit(std::size_t at) const {
  if (at > text_.size() || text_.size() - at < 6) return std::nullopt;
  if (text_[at] != '\\' || text_[at + 1] != 'u') return std::nullopt;
  const std::string_view hex = text_.substr(at + 2, 4);
  unsigned unit = 0;
  const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), unit, 16);
  if (read.ec != std::errc{} || read.ptr != hex.data() + hex.size()) return std::nullopt;
  return unit;
}

}  // namespace

std::optional<std::string> mend_json(std::string_view text) { return Mender(text).run(); }

}  // namespace hg::wire
