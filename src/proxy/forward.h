// forward.h: which header fields go on to the other side: all but the hop-by-hop ones, in order,
// with their duplicates and their case.
//
// A deny list, never an allow list: providers check fields that we have never heard of. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/headers.h"

namespace hg::proxy {

// The agent's fields for the provider: without those of our own (x-headgate-...) too. Host and
// framing are the client's business (net/client.h); Expect goes there as well, because the whole
// body is here already.
[[nodiscard]] Headers for_upstream(Headers fields);

// The provider's fields for the agent. Framing is the server's business (net/server.h), which keeps
// a Content-Length that is right.
[[nodiscard]] Headers for_downstream(const Headers& fields);

// Whether a request may have come from a web page elsewhere: a Host that is neither loopback nor
// among `own_names` (DNS rebinding), or an Origin other than the Host itself. "" when it is fine,
// else what is wrong.
[[nodiscard]] std::string_view foreign_sign(const Headers& fields,
                                            const std::vector<std::string>& own_names);

}  // namespace hg::proxy
