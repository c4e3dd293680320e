// json_text.h: a JSON value as text that people can read too: numbers without an exponent.
//
// Boost.JSON writes 0.93 as 9.3E-1, which is JSON and which nobody reads. Pure; any thread.
#pragma once
#include <boost/json/value.hpp>
#include <string>

namespace hg {

// One line, keys in their order. Numbers that are none (NaN, infinity) become null.
[[nodiscard]] std::string json_text(const boost::json::value& value);

}  // namespace hg
