#include "proxy/own_answer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "wire/errors.h"

namespace hg::proxy {

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
