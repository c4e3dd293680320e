// route.h: reads the request target: Headgate's own prefix (attribution) apart from the provider's
// path, and puts the latter behind an upstream's base path.
//
//   /pool/NAME /harness/NAME /run/ID /task/ID /upstream/NAME   in any order, any subset, each once,
//   then the provider's own path and query, which stay untouched to the last percent sign.
//
// Never builds a host from request text: absolute-form targets are refused, names are looked up in
// the configuration by their exact spelling. Pure; values.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace hg::proxy {

// Who a call is counted for; a field that the path did not name is empty.
struct Attribution {
  std::string pool;  // Forces the pool; else it follows from upstream, key and model.
  std::string harness;
  std::string run;
  std::string task;
  std::string upstream;  // Forces the upstream; else it follows from pool and dialect.
};

struct Route {
  Attribution attribution;
  std::string target;  // The provider's own path and query: begins with '/', "/" if there is none.
};

// Longest value of each field; a row in a log must stay readable.
inline constexpr std::size_t kMaxAttributionChars = 128;

// Errc::invalid: not an origin-form target, a prefix named twice or without a value, or a value
// with other characters than letters, digits, '-', '_', '.', ':', '+', '~', or over the limit. The
// detail says which and repeats no value.
[[nodiscard]] Result<Route> parse_route(std::string_view target);

// Whether a name from a path or a configuration file can be an attribution value.
[[nodiscard]] bool valid_attribution(std::string_view value);

// "/v1/messages?x=y" -> "/v1/messages".
[[nodiscard]] std::string_view path_of(std::string_view target);

// The target to ask the upstream for: net::join_target, after mending what a base URL at the
// agent's side does to a path: a doubled slash in front, and a version segment said twice
// ("/v1/v1/x"). Agents differ in whether their base URL ends with /v1, and providers are strict.
[[nodiscard]] std::string upstream_target(std::string_view base_path, std::string_view target);

}  // namespace hg::proxy
