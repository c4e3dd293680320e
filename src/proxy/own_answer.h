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
#include "wire/profiles.h"

namespace hg::proxy {

struct OwnAnswer {
  int status = 400;
  wire::Dialect dialect = wire::Dialect::other;
  std::string code;     // The value of wire::kOwnHeader: "hold-cap", "bad-request", ...
  std::string message;  // For people; says "Headgate".
  std::optional<Micros> retry_after;  // Sent as whole seconds, at least 1: harnesses read no other
                                      // form.
};

// The same for what net refuses by itself, a request's head above all: the dialect is that of the
// path, as far as the path can be read.
[[nodiscard]] net::ErrorPage own_error_page(const wire::Profiles& profiles,
                                            const net::ServerFault& fault);

// Of a server before a shim: its errors are put as above. `profiles` outlive the server.
[[nodiscard]] net::ServerConfig shim_server_config(const wire::Profiles& profiles);

// Sends it. Errors as of net::ServerExchange::reply.
[[nodiscard]] net::Task<Result<void>> send_own(net::ServerExchange& exchange,
                                               const OwnAnswer& answer);

}  // namespace hg::proxy
