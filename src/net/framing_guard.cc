#include "net/framing_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/text.h"

namespace hg::net {

namespace {

constexpr std::size_t kFieldsMax = 256;

std::unexpected<Error> refuse(std::string_view what) {
  return fail(Errc::protocol, std::string(what));
}

// RFC 9110, 5.6.2.
constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> in_token{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789"
                                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    in_token[static_cast<unsigned char>(c)] = true;
  }
  return in_token;
}();

bool is_token_char(char c) { return kTokenChars[static_cast<unsigned char>(c)]; }

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the next line off `rest`, without its CRLF. find_head_end has seen that each LF has its CR.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) return std::exchange(rest, std::string_view());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

// "HTTP/1.1" -> 1. Other versions are refused, and so is "http/1.1".
std::optional<int> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return 1;
  if (text == "HTTP/1.0") return 0;
  return std::nullopt;
}

Result<void> parse_fields(std::string_view rest, Headers& headers) {
  headers.reserve(std::min(kFieldsMax, static_cast<std::size_t>(std::ranges::count(rest, '\n'))));
  std::size_t count = 0;
  for (;;) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (++count > kFieldsMax) return fail(Errc::too_large, "more than 256 header fields");
    if (line.front() == ' ' || line.front() == '\t') return refuse("a folded header line");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return refuse("a header line without a colon");
    const std::string_view name = line.substr(0, colon);
    if (!is_token(name)) return refuse("a header name that is no token");
    const std::string_view value = trim(line.substr(colon + 1));
    const bool has_control = std::ranges::any_of(value, [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    });
    if (has_control) return refuse("a control character in a header value");
    headers.add(name, value);
  }
  if (!rest.empty()) return refuse("bytes after the empty line of a head");
  return {};
}

std::size_t count_fields(const Headers& headers, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      headers.all(), [&](const Header& field) { return iequals(field.name, name); }));
}

// The one Content-Length, if there is one: plain digits. "5, 5" and repeated fields are refused,
// although RFC 9110, 8.6 would let equal ones pass.
Result<std::optional<std::uint64_t>> content_length(const Headers& headers) {
  const std::optional<std::string_view> value = headers.find("Content-Length");
  if (!value) return std::nullopt;
  if (count_fields(headers, "Content-Length") > 1) return refuse("Content-Length is repeated");
  // 15 digits: far above any body, far below overflow.
  const bool plain = !value->empty() && value->size() <= 15 &&
                     std::ranges::all_of(*value, is_digit);
  if (!plain) return refuse("Content-Length is no plain number");
  return static_cast<std::uint64_t>(*parse_integer(*value));
}

// Whether the body is chunked: the one transfer coding that there is for us.
Result<bool> is_chunked(int minor_version, const Headers& headers) {
  const std::optional<std::string_view> value = headers.find("Transfer-Encoding");
  if (!value) return false;
  if (minor_version == 0) return refuse("Transfer-Encoding in HTTP/1.0");
  if (count_fields(headers, "Transfer-Encoding") > 1)
    return refuse("Transfer-Encoding is repeated");
  if (!iequals(*value, "chunked")) return refuse("a Transfer-Encoding other than chunked");
  return true;
}

// none, length or chunked; none stands for "neither field".
Result<BodyFraming> framing_of(int minor_version, const Headers& headers) {
  const auto chunked = is_chunked(minor_version, headers);
  if (!chunked) return std::unexpected(chunked.error());
  const auto length = content_length(headers);
  if (!length) return std::unexpected(length.error());
  if (*chunked && *length) return refuse("Content-Length beside Transfer-Encoding");
  if (*chunked) return BodyFraming::chunked();
  if (*length) return BodyFraming::of_length(**length);
  return BodyFraming::none();
}

// Whether none of eight bytes is below 0x10, which CR, LF and NUL are: nearly all are not.
bool plain_word(const char* at) {
  constexpr std::uint64_t kEach = 0x0101010101010101U;
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return ((word - kEach * 0x10) & ~word & (kEach * 0x80)) == 0;
}

}  // namespace

Result<std::optional<std::size_t>> find_head_end(std::string_view bytes, std::size_t& scanned,
                                                 std::size_t bytes_max) {
  // Step back far enough to see an empty line that was cut.
  std::size_t at = scanned;
  for (; at < bytes.size(); ++at) {
    while (bytes.size() - at > sizeof(std::uint64_t) && plain_word(bytes.data() + at)) {
      at += sizeof(std::uint64_t);
    }
    if (at >= bytes_max) return fail(Errc::too_large, "a head of too many bytes");
    const char c = bytes[at];
    if (c == '\0') return refuse("a NUL in a head");
    if (c == '\r') {
      if (at + 1 == bytes.size()) break;  // Its LF has not come yet: look again with more.
      if (bytes[at + 1] != '\n') return refuse("a bare CR in a head");
      continue;
    }
    if (c != '\n') continue;
    if (at == 0 || bytes[at - 1] != '\r') return refuse("a bare LF in a head");
    if (at >= 3 && bytes[at - 2] == '\n') {
      scanned = at + 1;
      return at + 1;
    }
  }
  scanned = at;
  return std::nullopt;
}

Result<GuardedRequest> guard_request(std::string_view head) {
  GuardedRequest request;
  std::string_view rest = head;
  const std::string_view line = take_line(rest);
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end) {
    return refuse("a request line that is not `method target version`");
  }
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  if (!is_token(method)) return refuse("a method that is no token");
  const bool visible = std::ranges::all_of(
      target, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
  if (target.empty() || !visible)
    return refuse("a request target with blanks or control characters");
  const std::optional<int> version = parse_version(line.substr(target_end + 1));
  if (!version) return refuse("a version other than HTTP/1.1 and HTTP/1.0");

  request.head.method = std::string(method);
  request.head.target = std::string(target);
  request.head.minor_version = *version;
  const auto fields = parse_fields(rest, request.head.headers);
  if (!fields) return std::unexpected(fields.error());
  const std::size_t hosts = count_fields(request.head.headers, "Host");
  if (hosts > 1) return refuse("Host is repeated");
  if (hosts == 0 && *version == 1) return refuse("no Host in HTTP/1.1");

  const auto framing = framing_of(*version, request.head.headers);
  if (!framing) return std::unexpected(framing.error());
  request.body = *framing;
  if (request.body.kind == BodyKind::length && request.body.length == 0) {
    request.body = BodyFraming::none();
  }
  request.keep_alive = keeps_alive(*version, request.head.headers);
  const std::optional<std::string_view> expect = request.head.headers.find("Expect");
  request.expects_continue = *version == 1 && expect && iequals(*expect, "100-continue");
  return request;
}

Result<GuardedResponse> guard_response(std::string_view head, std::string_view request_method) {
  GuardedResponse response;
  std::string_view rest = head;
  const std::string_view line = take_line(rest);
  // "HTTP/1.1 200 OK"; some servers leave out the blank after the status with an empty reason.
  const std::optional<int> version = parse_version(line.substr(0, 8));
  if (!version) return refuse("an answer in another version than HTTP/1.1 and HTTP/1.0");
  const bool well_formed = line.size() >= 12 && line[8] == ' ' && line[9] >= '1' &&
                           line[9] <= '9' && is_digit(line[10]) && is_digit(line[11]) &&
                           (line.size() == 12 || line[12] == ' ');
  if (!well_formed) return refuse("a status line that is not `version status reason`");
  response.head.minor_version = *version;
  response.head.status = static_cast<int>(*parse_integer(line.substr(9, 3)));
  if (line.size() > 13) response.head.reason = std::string(line.substr(13));
  const auto fields = parse_fields(rest, response.head.headers);
  if (!fields) return std::unexpected(fields.error());

  const auto framing = framing_of(*version, response.head.headers);
  if (!framing) return std::unexpected(framing.error());
  response.keep_alive = keeps_alive(*version, response.head.headers);
  if (never_has_body(request_method, response.head.status)) {
    response.body = BodyFraming::none();
  } else if (framing->kind == BodyKind::none) {
    response.body = BodyFraming::until_close();
    response.keep_alive = false;
  } else {
    response.body = *framing;
  }
  return response;
}

}  // namespace hg::net
