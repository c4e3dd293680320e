#include "proxy/own_answer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "proxy/route.h"
#include "wire/errors.h"

namespace hg::proxy {

namespace {

wire::Dialect dialect_of(const wire::Profiles& profiles, const std::string& target) {
  const Result<Route> route = parse_route(target);
  if (!route) return wire::Dialect::other;
  const wire::Dialect of_path = wire::classify("POST", path_of(route->target)).dialect;
  if (of_path != wire::Dialect::other) return of_path;
  const wire::HarnessProfile* harness = profiles.harness(route->attribution.harness);
  return harness == nullptr ? wire::Dialect::other : harness->dialect;
}

}  // namespace

net::ErrorPage own_error_page(const wire::Profiles& profiles, const net::ServerFault& fault) {
  net::ErrorPage page;
  page.headers.add("content-type", "application/json");
  page.headers.add(wire::kOwnHeader, fault.code);
  page.body = wire::error_body(dialect_of(profiles, fault.target), fault.status, fault.code,
                               fault.message);
  return page;
}

net::ServerConfig shim_server_config(const wire::Profiles& profiles) {
  net::ServerConfig config;
  config.error_page = [&profiles](const net::ServerFault& fault) {
    return own_error_page(profiles, fault);
  };
  return config;
}

net::Task<Result<void>> send_own(net::ServerExchange& exchange, const OwnAnswer& answer) {
  net::ResponseHead head(answer.status);
  head.headers.add("content-type", "application/json");
  head.headers.add(wire::kOwnHeader, answer.code);
  if (answer.retry_after) {
    const std::int64_t seconds = ceil_div(answer.retry_after->count(), kMicro);
    head.headers.add("retry-after", std::to_string(std::max<std::int64_t>(seconds, 1)));
    // SDKs that read it give up at "false" and at nothing else.
    head.headers.add("x-should-retry", "true");
  }
  if (answer.status == 426) head.headers.add("upgrade", "HTTP/1.1");
  const std::string body = wire::error_body(answer.dialect, answer.status, answer.code,
                                            answer.message, answer.retry_after);
  Result<void> sent = co_await exchange.reply(std::move(head), body);
  co_return sent;
}

}  // namespace hg::proxy
