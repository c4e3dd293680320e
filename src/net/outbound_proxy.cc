#include "net/outbound_proxy.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace hg::net {

namespace {

// The first of these variables that is set and not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

std::string base64(std::string_view text) {
  std::string encoded((text.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  encoded.resize(static_cast<std::size_t>(size));
  return encoded;
}

// "%40" -> "@". Other text stays.
std::string percent_decoded(std::string_view text) {
  const auto value_of = [](char c) {
    const std::size_t at = std::string_view("0123456789abcdef").find(to_lower({&c, 1}));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() && value_of(text[i + 1]) >= 0 &&
                         value_of(text[i + 2]) >= 0;
    if (!escaped) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(value_of(text[i + 1]) * 16 + value_of(text[i + 2]));
    i += 2;
  }
  return decoded;
}

// "example.com", ".example.com" and "*.example.com" all mean the host and all below it.
std::string direct_host(std::string_view item) {
  if (item == "*") return "*";
  if (item.starts_with('*')) item.remove_prefix(1);
  if (item.starts_with('.')) item.remove_prefix(1);
  return to_lower(item);
}

}  // namespace

Result<OutboundProxy> parse_proxy(std::string_view proxy, std::string_view no_proxy) {
  constexpr std::string_view kStart = "http://";
  OutboundProxy parsed;
  std::string_view rest = proxy;
  if (iequals(rest.substr(0, kStart.size()), kStart)) rest.remove_prefix(kStart.size());
  const bool other_scheme = rest.find("://") != std::string_view::npos;
  const std::size_t at = rest.rfind('@');
  if (at != std::string_view::npos) {
    parsed.credentials = percent_decoded(rest.substr(0, at));
    rest.remove_prefix(at + 1);
  }
  auto url = parse_url(fmt::format("{}{}", kStart, rest));
  if (other_scheme || !url) {
    return fail(Errc::invalid, "the proxy's URL is not `http://[user:password@]host[:port]`");
  }
  parsed.url = std::move(*url);
  parsed.url.path.clear();

  while (!no_proxy.empty()) {
    const std::size_t end = std::min(no_proxy.find_first_of(", "), no_proxy.size());
    const std::string host = direct_host(trim(no_proxy.substr(0, end)));
    if (!host.empty()) parsed.direct_hosts.push_back(host);
    no_proxy.remove_prefix(std::min(end + 1, no_proxy.size()));
  }
  return parsed;
}

Result<std::optional<OutboundProxy>> proxy_from_environment() {
  const std::string proxy = variable({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
  if (proxy.empty()) return std::nullopt;
  auto parsed = parse_proxy(proxy, variable({"no_proxy", "NO_PROXY"}));
  if (!parsed) return std::unexpected(parsed.error());
  return std::move(*parsed);
}

bool goes_through(const OutboundProxy& proxy, const Url& upstream) {
  if (upstream.scheme != Scheme::https) return false;
  if (upstream.host == "localhost" || upstream.host == "::1" || upstream.host.starts_with("127.")) {
    return false;
  }
  const std::string host = upstream.host;
  const std::string with_port = fmt::format("{}:{}", host, upstream.port);
  const auto names_it = [&](const std::string& direct) {
    return direct == "*" || direct == host || direct == with_port || host.ends_with("." + direct);
  };
  return std::ranges::none_of(proxy.direct_hosts, names_it);
}

std::string connect_request(const OutboundProxy& proxy, const Url& upstream) {
  const std::string host = upstream.host.find(':') == std::string::npos
                               ? upstream.host
                               : fmt::format("[{}]", upstream.host);
  std::string request = fmt::format("CONNECT {0}:{1} HTTP/1.1\r\nHost: {0}:{1}\r\n", host,
                                    upstream.port);
  if (!proxy.credentials.empty()) {
    request += fmt::format("Proxy-Authorization: Basic {}\r\n", base64(proxy.credentials));
  }
  return request + "\r\n";
}

}  // namespace hg::net
