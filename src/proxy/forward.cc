#include "proxy/forward.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "net/http.h"

namespace hg::proxy {
namespace {

constexpr std::string_view kOwnPrefix = "x-headgate-";

bool is_own(std::string_view name) {
  return name.size() > kOwnPrefix.size() && iequals(name.substr(0, kOwnPrefix.size()), kOwnPrefix);
}

// The host of a Host field's value: without port, IPv6 brackets gone.
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return end == std::string_view::npos ? "" : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

// 127.0.0.0/8 written in full: four decimal numbers.
bool loopback_v4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int dots = 0;
  for (const char c : host) {
    if (c == '.')
      ++dots;
    else if (c < '0' || c > '9')
      return false;
  }
  return dots == 3;
}

bool loopback_name(std::string_view host) {
  return iequals(host, "localhost") || host == "::1" || loopback_v4(host);
}

}  // namespace

Headers for_upstream(Headers fields) {
  std::vector<std::string> own;  // Copies: the views die with the fields.
  for (const Header& field : fields.all()) {
    if (is_own(field.name)) own.push_back(field.name);
  }
  for (const std::string& name : own) fields.remove(name);
  net::remove_hop_by_hop(fields);
  return fields;
}

Headers for_downstream(const Headers& fields) {
  Headers out = fields;
  net::remove_hop_by_hop(out);
  return out;
}

std::string_view foreign_sign(const Headers& fields, const std::vector<std::string>& own_names) {
  const std::string_view authority = trim(fields.find("host").value_or(""));
  if (!authority.empty()) {
    const std::string_view host = host_of(authority);
    const bool own = std::any_of(own_names.begin(), own_names.end(),
                                 [&](const std::string& name) { return iequals(name, host); });
    if (!own && !loopback_name(host)) return "the Host field names another machine";
  }
  const std::optional<std::string_view> origin = fields.find("origin");
  if (!origin) return "";
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin->starts_with(scheme) && iequals(origin->substr(scheme.size()), authority)) return "";
  }
  return "the Origin field names another site";
}

}  // namespace hg::proxy
