// key_id.h: which key a request came with, without keeping the key: the first bytes of a salted
// HMAC-SHA-256 of it.
//
// The salt is this installation's own, so that nobody can try keys against a log. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/headers.h"

namespace hg::proxy {

// Twelve hexadecimal digits for the value of the first field of `auth_headers` that the request
// has; "nokey" if it has none.
[[nodiscard]] std::string key_id(const Headers& request,
                                 const std::vector<std::string>& auth_headers,
                                 std::string_view salt);

// The same of any text, such as a session's name.
[[nodiscard]] std::string salted_id(std::string_view text, std::string_view salt);

}  // namespace hg::proxy
