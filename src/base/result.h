// result.h: how an expected failure is told: a peer, a disk, a file or a person did something
// wrong.
//
// A broken invariant of ours is HG_ASSERT's business, not an Error. No exception crosses a module:
// code that calls a throwing library catches at that call and makes an Error of it.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace hg {

// What callers branch on. Add a value only when some caller does something different for it.
enum class Errc : std::uint8_t {
  invalid,        // Input that cannot be understood; the detail says what is allowed.
  too_large,      // Over a limit of ours.
  not_found,      // No such pool, file, harness, ...
  conflict,       // Another version, or already there.
  unavailable,    // The peer refuses, or is not there.
  misconfigured,  // The peer cannot be reached as things are set up: no waiting helps, and the
                  // detail says what does.
  timed_out,      // A deadline passed.
  closed,         // The peer went away in an orderly way, or end of stream.
  cancelled,      // We gave up ourselves, at shutdown or because the client left.
  protocol,       // The peer broke its protocol.
  internal,       // A library or the system failed in a way nobody handles.
};

// "invalid", "too_large", ...: for logs and JSON.
[[nodiscard]] const char* to_string(Errc code);

struct Error {
  Errc code = Errc::internal;
  std::string detail;  // For logs and people; holds no secret.

  Error() = default;
  Error(Errc error_code, std::string error_detail)
      : code(error_code), detail(std::move(error_detail)) {}
};

template <typename T>
using Result = std::expected<T, Error>;

// std::unexpected(Error(...)), shorter.
[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string detail) {
  return std::unexpected<Error>(Error(code, std::move(detail)));
}

}  // namespace hg
