// errors.h: error bodies of our own, in the caller's dialect, that name Headgate.
//
// Pure. Bodies are what the dialect's SDKs parse; every one says "headgate" and what to do. No
// secret and no content of the request is repeated.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "wire/dialect.h"

namespace hg::wire {

// The field that marks an answer as ours; no provider sends it. Its value is a word: "hold-cap",
// "bad-request", "too-large", "unknown-pool", "upstream", ...
inline constexpr std::string_view kOwnHeader = "x-headgate-refusal";

// A JSON error body in the dialect's shape: {"type":"error","error":{"type":...,"message":...}},
// {"error":{"message":...,"type":...,"code":...}}, or Google's {"error":{"code":...,"status":...,
// "details":[...]}}, which carries `retry_after` in whole seconds, because its clients read no
// header.
[[nodiscard]] std::string error_body(Dialect dialect, int status, std::string_view code,
                                     std::string_view message,
                                     std::optional<Micros> retry_after = std::nullopt);

}  // namespace hg::wire
