// stream_usage.h: asks a streamed chat completion for its usage, and hides the extra chunk from a
// client that did not ask.
//
// Pure. The request is changed by the fewest bytes that do it, whatever its layout; everything else
// stays as it came. The filter passes a byte on as soon as the event that it belongs to is known
// not to be the extra chunk: at its end in general, at once when it is long.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hg::wire {

// What to change in a body: `removed` bytes from `at` on become `text`.
struct BodyEdit {
  std::size_t at = 0;
  std::size_t removed = 0;
  std::string text;

  friend bool operator==(const BodyEdit&, const BodyEdit&) = default;
};

[[nodiscard]] std::string apply(const BodyEdit& edit, std::string_view body);

// Sets stream_options.include_usage to true in a chat request that streams; nothing when it asks
// already, does not stream, or is no JSON object. Of a name that is there twice the last counts.
[[nodiscard]] std::optional<BodyEdit> ask_for_usage(std::string_view body);

// Whether a 400 complains of the field that was added: `body` names stream_options or
// include_usage.
[[nodiscard]] bool refuses_stream_options(int status, std::string_view body);

// Takes the usage chunk (usage, and no choices) out of an event stream, fed in any pieces. Line
// ends may be LF, CRLF or CR. One owner.
class UsageChunkFilter {
 public:
  UsageChunkFilter();
  ~UsageChunkFilter();
  UsageChunkFilter(UsageChunkFilter&&) noexcept;
  UsageChunkFilter& operator=(UsageChunkFilter&&) noexcept;

  // The bytes to pass on now; "" while an event is undecided.
  [[nodiscard]] std::string feed(std::string_view bytes);
  // The stream ended: what was held back of an unfinished event.
  [[nodiscard]] std::string finish();

  [[nodiscard]] std::size_t hidden() const;  // Chunks taken out.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::wire
