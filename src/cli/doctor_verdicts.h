// doctor_verdicts.h: what the looks at an upstream mean: findings, each with its own mend.
//
// Pure: what was seen comes in, findings go out.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cli/doctor_findings.h"
#include "net/http.h"
#include "net/probe.h"
#include "net/url.h"

namespace hg::cli {

// Name, connection, proxy, TLS and certificate. `proxy` is the proxy's authority, "" without one;
// `wall` is the present.
[[nodiscard]] Findings judge_probe(const std::string& about, const net::Url& url,
                                   const net::UpstreamProbe& probe, const std::string& proxy,
                                   WallTime wall);

// One answer as it came.
struct PlainAnswer {
  net::ResponseHead head;
  std::string body;
  Micros took{0};
};

// The answer to the free request `asked`; `key_variable` is the variable whose key went along, ""
// for none.
[[nodiscard]] Finding judge_answer(const std::string& about, const std::string& asked,
                                   const PlainAnswer& answer, const std::string& key_variable);

// How far the server's Date is ahead of our clock (negative: behind); nothing without a Date.
// `sent` and `got` are our wall times around the answer.
[[nodiscard]] std::optional<Micros> clock_ahead(const net::ResponseHead& head, WallTime sent,
                                                WallTime got);
[[nodiscard]] Finding judge_clock(const std::string& about, Micros ahead);

// In what the gated answer differs from the direct ones, in words; empty for nothing. What already
// differs between the two direct ones (dates, ids, counters) is no difference of the gate's.
[[nodiscard]] std::vector<std::string> differences(const PlainAnswer& direct,
                                                   const PlainAnswer& again,
                                                   const PlainAnswer& gated);

// How a difference begins that is in the value of a field alone.
inline constexpr std::string_view kValueOf = "the value of ";

// The same of two calls that generate, whose words differ by themselves: status, names of fields,
// outermost keys of the body.
[[nodiscard]] std::vector<std::string> call_differences(const PlainAnswer& direct,
                                                        const PlainAnswer& gated);

// The models of a list, in any of the dialects' shapes; nothing when it is no list of models.
[[nodiscard]] std::optional<std::vector<std::string>> models_in(std::string_view body);

// The one whose name promises the least cost; "" of none.
[[nodiscard]] std::string cheapest(const std::vector<std::string>& models);

}  // namespace hg::cli
