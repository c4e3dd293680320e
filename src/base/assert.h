// assert.h: HG_ASSERT, for invariants of ours. On in release builds: a gate whose books are wrong
// must stop.
//
// Outside input never reaches an assert; it gets an Error (base/result.h).
#pragma once

namespace hg::detail {

[[noreturn]] void assert_failed(const char* expression, const char* file, int line);

}  // namespace hg::detail

// A macro because the message needs the expression's text and place.
#define HG_ASSERT(condition) \
  ((condition) ? void(0) : ::hg::detail::assert_failed(#condition, __FILE__, __LINE__))
