#include "proxy/route.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "net/url.h"

namespace hg::proxy {
namespace {

bool attribution_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == ':' || c == '+' || c == '~';
}

// The field that a prefix segment names; null for a segment of the provider's own path.
std::string* field_of(Attribution& attribution, std::string_view segment) {
  const std::array<std::pair<std::string_view, std::string*>, 5> fields = {{
      {"pool", &attribution.pool},
      {"harness", &attribution.harness},
      {"run", &attribution.run},
      {"task", &attribution.task},
      {"upstream", &attribution.upstream},
  }};
  for (const auto& [name, field] : fields) {
    if (segment == name) return field;
  }
  return nullptr;
}

// The first segment of a path that begins with '/': up to the next '/' or the query.
std::string_view first_segment(std::string_view path) {
  path.remove_prefix(1);
  return path.substr(0, path.find_first_of("/?"));
}

// "v1", "v1beta", "v2": what a base URL may already end with.
bool is_version(std::string_view segment) {
  if (segment.size() < 2 || segment[0] != 'v' || segment[1] < '0' || segment[1] > '9') return false;
  return std::all_of(segment.begin(), segment.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

}  // namespace

bool valid_attribution(std::string_view value) {
  if (value.empty() || value.size() > kMaxAttributionChars) return false;
  if (value.find_first_not_of('.') == std::string_view::npos) return false;  // "." and "..".
  return std::all_of(value.begin(), value.end(), attribution_char);
}

Result<Route> parse_route(std::string_view target) {
  if (target.empty() || target.front() != '/') {
    return fail(Errc::invalid,
                "the request target must be a path: this is not an open proxy, and CONNECT and "
                "absolute URLs are refused");
  }
  if (target.find_first_of("#\\") != std::string_view::npos) {
    return fail(Errc::invalid, "the request target may not contain '#' or '\\'");
  }
  Route route;
  for (;;) {
    const std::string_view name = first_segment(target);
    std::string* field = field_of(route.attribution, name);
    if (field == nullptr) break;
    if (!field->empty())
      return fail(Errc::invalid, fmt::format("/{} stands twice in the path", name));
    const std::string_view rest = target.substr(1 + name.size());
    const std::string_view value = rest.starts_with('/') ? first_segment(rest) : "";
    if (!valid_attribution(value)) {
      return fail(Errc::invalid,
                  fmt::format("/{} in the path needs a value of 1 to {} letters, digits, '-', '_', "
                              "'.', ':', '+' or '~'",
                              name, kMaxAttributionChars));
    }
    field->assign(value);
    target = rest.substr(1 + value.size());
    if (!target.starts_with('/')) break;  // The end, or a query behind the prefix.
  }
  if (!target.starts_with('/')) route.target = "/";
  route.target.append(target);
  return route;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string upstream_target(std::string_view base_path, std::string_view target) {
  // "//v1/messages" is a base URL with a trailing slash at the agent's side.
  while (target.starts_with("//")) target.remove_prefix(1);
  const std::string_view first = first_segment(target);
  if (is_version(first)) {
    const std::string_view rest = target.substr(1 + first.size());
    if (rest.starts_with('/') && first_segment(rest) == first) target = rest;
  }
  return net::join_target(base_path, target);
}

}  // namespace hg::proxy
