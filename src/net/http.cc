#include "net/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"

namespace hg::net {

namespace {

constexpr std::array<std::string_view, 9> kHopByHop = {
    "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate",
    "TE",         "Trailer",    "Upgrade",          "Transfer-Encoding"};

void append_clean(std::string& out, std::string_view text) {
  const std::size_t start = out.size();
  out += text;
  const auto breaks_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  std::replace_if(out.begin() + static_cast<std::ptrdiff_t>(start), out.end(), breaks_line, ' ');
}

void append_fields(std::string& out, const Headers& headers) {
  out.reserve(out.size() + size_of(headers) + 2);
  for (const Header& field : headers.all()) append_field(out, field.name, field.value);
  out += "\r\n";
}

bool lists(const Headers& headers, std::string_view name, std::string_view item) {
  const std::vector<std::string_view> items = headers.list(name);
  return std::ranges::any_of(items, [&](std::string_view each) { return iequals(each, item); });
}

}  // namespace

ResponseHead::ResponseHead(int response_status)
    : status(response_status), reason(standard_reason(response_status)) {}

ResponseHead ResponseHead::status_line() const {
  ResponseHead line;
  line.status = status;
  line.reason = reason;
  line.minor_version = minor_version;
  return line;
}

BodyFraming BodyFraming::of_length(std::uint64_t bytes) {
  BodyFraming framing;
  framing.kind = BodyKind::length;
  framing.length = bytes;
  return framing;
}

BodyFraming BodyFraming::chunked() {
  BodyFraming framing;
  framing.kind = BodyKind::chunked;
  return framing;
}

BodyFraming BodyFraming::until_close() {
  BodyFraming framing;
  framing.kind = BodyKind::until_close;
  return framing;
}

std::string_view standard_reason(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Overloaded";
    default: return "";
  }
}

std::string request_line(std::string_view method, std::string_view target) {
  std::string out;
  append_clean(out, method);
  out += ' ';
  append_clean(out, target);
  out += " HTTP/1.1\r\n";
  return out;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out += ": ";
  append_clean(out, value);
  out += "\r\n";
}

std::size_t size_of(const Headers& headers) {
  std::size_t bytes = 0;
  for (const Header& field : headers.all()) bytes += field.name.size() + field.value.size() + 4;
  return bytes;
}

std::string to_bytes(const RequestHead& head) {
  std::string out;
  append_clean(out, head.method);
  out += ' ';
  append_clean(out, head.target);
  out += fmt::format(" HTTP/1.{}\r\n", head.minor_version);
  append_fields(out, head.headers);
  return out;
}

std::string to_bytes(const ResponseHead& head) {
  std::string out = fmt::format("HTTP/1.{} {:03} ", head.minor_version, head.status);
  append_clean(out, head.reason);
  out += "\r\n";
  append_fields(out, head.headers);
  return out;
}

void remove_hop_by_hop(Headers& headers) {
  std::vector<std::string> named;  // Copies: the views die with the fields.
  for (const std::string_view name : headers.list("Connection")) named.emplace_back(name);
  for (const std::string& name : named) {
    // A peer cannot talk us out of the fields that say where a body ends and who is asked.
    if (!iequals(name, "Content-Length") && !iequals(name, "Host")) headers.remove(name);
  }
  headers.remove(kHopByHop);
}

bool keeps_alive(int minor_version, const Headers& headers) {
  if (lists(headers, "Connection", "close")) return false;
  return minor_version >= 1 || lists(headers, "Connection", "keep-alive");
}

bool never_has_body(std::string_view request_method, int status) {
  return request_method == "HEAD" || status / 100 == 1 || status == 204 || status == 304;
}

}  // namespace hg::net
