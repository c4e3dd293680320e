// failures.h: faults on order: which generation calls of an emulated provider fail, and how.
//
// A plan is written as on the command line, parts separated by commas, counted over generation
// calls from 1:
//
//   429:2            the first two calls             529:1            then the next one
//   503@7            call 7                          drop@3-5         calls 3, 4 and 5
//   cut%10           every tenth call                silence~0.02     each with probability 0.02
//
// Kinds: 429 (with retry-after and rate headers; "429=3" says the seconds of retry-after), 429-bare
// (with neither), 529, 503, 500, quota, stream (an overload event inside a 200 stream; a plain
// overload where the call does not stream), drop (closed before the first byte), cut (closed after
// the first bytes), silence (no byte, until the client leaves).
// Parts "kind:N" queue up behind each other in the order written; the others are looked at first.
// Pure; one owner.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/time.h"

namespace hg::lab {

enum class Fault : std::uint8_t {
  rate_limit,
  rate_limit_bare,
  overloaded,
  unavailable,
  server_error,
  quota,
  stream_overload,
  drop,
  cut,
  silence,
};

// "429", "429-bare", ...: the word of the plan.
[[nodiscard]] const char* to_string(Fault fault);

struct OrderedFault {
  Fault fault = Fault::rate_limit;
  std::optional<Micros> retry_after;  // Only where the plan says so ("429=3").
};

class FailurePlan {
 public:
  FailurePlan() = default;

  // Errc::invalid with the part and what is allowed.
  [[nodiscard]] static Result<FailurePlan> parse(std::string_view plan);

  // Whether the next generation call fails; counts it.
  [[nodiscard]] std::optional<OrderedFault> next(Rng& rng);

  [[nodiscard]] std::int64_t calls() const { return calls_; }

 private:
  enum class When : std::uint8_t { counted, listed, every, chance };
  struct Part {
    OrderedFault what;
    When when = When::counted;
    std::int64_t first = 0;  // listed: from; counted: how many are left; every: N.
    std::int64_t last = 0;   // listed: to.
    double probability = 0;
  };
  std::vector<Part> parts_;
  std::int64_t calls_ = 0;
};

}  // namespace hg::lab
