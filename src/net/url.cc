#include "net/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace hg::net {

namespace {

std::unexpected<Error> refuse(std::string_view text, std::string_view why) {
  return fail(Errc::invalid, fmt::format("`{}` is no usable URL: {}", escape_controls(text), why));
}

bool is_visible(char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; }

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_address_char(char c) {
  return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

std::optional<std::uint16_t> parse_port(std::string_view digits) {
  if (digits.empty() || digits.size() > 5) return std::nullopt;
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const std::optional<std::int64_t> number = parse_integer(digits);
  if (!number || *number < 1 || *number > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

// Splits "host", "host:port", "[address]:port" into `url`; the reason if it cannot.
std::string_view parse_authority(std::string_view authority, Url& url) {
  std::string_view host;
  std::string_view rest;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return "the bracket of the address is not closed";
    host = authority.substr(1, close - 1);
    rest = authority.substr(close + 1);
    url.host = to_lower(host);
    if (host.find(':') == std::string_view::npos ||
        !std::ranges::all_of(url.host, is_address_char)) {
      return "what stands in brackets is no IPv6 address";
    }
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    host = authority.substr(0, colon);
    rest = authority.substr(colon);
    url.host = to_lower(host);
    if (host.empty()) return "it names no host";
    if (!std::ranges::all_of(url.host, is_name_char)) {
      return "a host is made of letters, digits, '-', '.' and '_'";
    }
  }
  url.port = url.scheme == Scheme::https ? 443 : 80;
  if (rest.empty()) return "";
  if (!rest.starts_with(':')) return "after the host comes a port or a path";
  const std::optional<std::uint16_t> port = parse_port(rest.substr(1));
  if (!port) return "a port is a number from 1 to 65535";
  url.port = *port;
  return "";
}

std::string_view scheme_text(Scheme scheme) {
  switch (scheme) {
    case Scheme::http: return "http://";
    case Scheme::https: return "https://";
    case Scheme::unix_socket: return "unix://";
  }
  return "";
}

}  // namespace

std::string Url::authority() const {
  if (scheme == Scheme::unix_socket) return host;
  std::string text = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
  const std::uint16_t usual = scheme == Scheme::https ? 443 : 80;
  if (port != usual) text += fmt::format(":{}", port);
  return text;
}

std::string Url::origin() const {
  if (scheme == Scheme::unix_socket) return fmt::format("unix://{}", socket_path);
  return fmt::format("{}{}", scheme_text(scheme), authority());
}

std::string Url::text() const { return origin() + path; }

Result<Url> parse_url(std::string_view text) {
  Url url;
  if (!std::ranges::all_of(text, is_visible)) {
    return refuse(text, "it holds blanks or control characters");
  }
  if (text.find_first_of("\\#?") != std::string_view::npos) {
    return refuse(text, "'\\', '#' and '?' have no place in it");
  }
  std::string_view rest = text;
  for (const Scheme scheme : {Scheme::https, Scheme::http, Scheme::unix_socket}) {
    const std::string_view start = scheme_text(scheme);
    if (!iequals(text.substr(0, start.size()), start)) continue;
    url.scheme = scheme;
    rest = text.substr(start.size());
    break;
  }
  if (rest.size() == text.size())
    return refuse(text, "it starts with http://, https:// or unix://");
  if (url.scheme == Scheme::unix_socket) {
    if (!rest.starts_with('/') || rest.size() < 2)
      return refuse(text, "the socket's path is absolute");
    if (rest.size() > 107) return refuse(text, "a socket's path has at most 107 bytes");
    url.host = "localhost";
    url.socket_path = std::string(rest);
    return url;
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) {
    // Not repeated in the message: it may hold a password.
    return fail(Errc::invalid, "a URL with a user name ('@') is not allowed");
  }
  const std::string_view why = parse_authority(authority, url);
  if (!why.empty()) return refuse(text, why);
  url.path = std::string(rest.substr(slash));
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

namespace {

// "/api/paas/v4": its last segment is a v and a number.
bool ends_with_version(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last.size() > 1 && last.front() == 'v' &&
         last.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace

std::string join_target(std::string_view base_path, std::string_view target) {
  while (base_path.ends_with('/')) base_path.remove_suffix(1);
  std::string path(target);
  if (!path.starts_with('/')) path.insert(path.begin(), '/');
  // The longest end of the base, in whole segments, that the target's path begins with.
  const std::string_view target_path = std::string_view(path).substr(0, path.find('?'));
  for (std::size_t at = 0; at < base_path.size(); ++at) {
    if (base_path[at] != '/') continue;
    const std::string_view end = base_path.substr(at);
    const bool whole = target_path == end ||
                       (target_path.starts_with(end) && target_path[end.size()] == '/');
    if (whole) return std::string(base_path.substr(0, at)) + path;
  }
  // Clients say /v1 by habit; a base that ends with a version of its own knows better.
  constexpr std::string_view kHabit = "/v1";
  const bool habit = target_path == kHabit || target_path.starts_with("/v1/");
  if (habit && ends_with_version(base_path)) path.erase(0, kHabit.size());
  return std::string(base_path) + path;
}

}  // namespace hg::net
