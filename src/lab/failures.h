// failures.h: faults on order: which generation calls of an emulated provider fail, and how.
//
// A plan is written as on the command line, parts separated by commas, counted over generation
// calls from 1:
//
//   429:2            the first two calls             529:1            then the next one
//   503@7            call 7                          drop@3-5         calls 3, 4 and 5
//   cut%10           every tenth call                silence~0.02     each with probability 0.02
//
// Kinds (in each API's own shape):
//   429           with retry-after and rate headers (Gemini: RetryInfo); "429=3" says the seconds
//   429-bare      with neither
//   529 503 500   overload (OpenAI's and Gemini's own is a 503), unavailable, internal error;
//                 "503=5" adds a retry-after
//   quota         exhausted: no use to come back
//   stream        an overload as the first event of a 200 stream; a plain overload where the call
//                 does not stream, as for the next three
//   stream-429    a rate limit as the first event; "stream-429=3" says the seconds
//   stream-begun  an overload after the opening events (message_start, response.created), before
//                 any output
//   stream-late   an overload after some output
//   drop          reset before the first byte
//   cut           reset after the first bytes of the answer
//   silence       no byte, until the client leaves; "silence=70": for 70 s, then the answer
//   stall         the headers at once, then 70 s of silence ("stall=5": 5 s), then the answer
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
  stream_rate_limit,
  stream_begun,
  stream_late,
  drop,
  cut,
  silence,
  stall,
};

// "429", "429-bare", ...: the word of the plan.
[[nodiscard]] const char* to_string(Fault fault);

struct OrderedFault {
  Fault fault = Fault::rate_limit;
  std::optional<Micros> seconds;  // Where the plan says some: retry-after, or of silence.
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
