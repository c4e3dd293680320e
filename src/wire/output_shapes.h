// output_shapes.h: what one event of a stream, or one whole answer, holds of generated output, for
// every shape of answer that is known.
//
// Pure; looks at one object and keeps nothing. Citations, signatures and ids are not output; the
// text of an error never is.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <string_view>

#include "wire/dialect.h"

namespace hg::wire {

struct OutputFacts {
  std::int64_t chars = 0;  // Bytes of generated text.
  bool seen = false;       // Something was generated, text or not.
  bool finish = false;     // Says why it ended; the end of the body is then the end of the answer.
  bool complete = false;   // The terminal marker itself.
};

enum class Whole : std::uint8_t { event, body };  // One event of a stream, or a body by itself.

// `event_type` is the name that the stream gives to the event; "" when there is none. `before`:
// some output was seen already, so that a repetition at the end counts nothing.
[[nodiscard]] OutputFacts output_of(Dialect dialect, const simdjson::dom::object& object,
                                    std::string_view event_type, Whole whole, bool before);

}  // namespace hg::wire
