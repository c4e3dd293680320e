// own_answer.h: an answer that Headgate gives itself, in the caller's dialect and with the header
// that no provider sends.
//
// Repeats nothing of the request but names from the configuration. One thread.
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "net/server.h"
#include "net/task.h"
#include "wire/dialect.h"

namespace hg::proxy {

struct OwnAnswer {
  int status = 400;
  wire::Dialect dialect = wire::Dialect::other;
  std::string code;     // The value of wire::kOwnHeader: "hold-cap", "bad-request", ...
  std::string message;  // For people; says "Headgate".
  std::optional<Micros> retry_after;  // Sent as whole seconds, at least 1: harnesses read no other
                                      // form.
};

// Sends it. Errors as of net::ServerExchange::reply.
[[nodiscard]] net::Task<Result<void>> send_own(net::ServerExchange& exchange,
                                               const OwnAnswer& answer);

}  // namespace hg::proxy
