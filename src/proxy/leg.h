// leg.h: one exchange with the provider for an agent: sent, its first bytes looked at, passed on.
//
// Bytes go on as they came; what is to be known of them is read in a side copy. At most one chunk
// and the bytes held back (256 KiB) are in memory. Knows nothing of gates and retries.
// Thread-safety: none; one owner, which awaits each task at once. The client outlives it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/chunk.h"
#include "net/client.h"
#include "net/http.h"
#include "net/server.h"
#include "net/task.h"
#include "net/url.h"
#include "proxy/side_decoder.h"
#include "wire/dialect.h"
#include "wire/stream_usage.h"

namespace hg::proxy {

// The side copy of an answer's body.
class SideCopy {
 public:
  SideCopy(wire::Dialect dialect, const net::ResponseHead& answer);

  void feed(std::string_view bytes);
  void finish();  // The body ended.

  [[nodiscard]] const wire::ResponseReader& reader() const { return reader_; }
  [[nodiscard]] bool readable() const { return decoder_.readable(); }
  // Of an error (status 400 and up): the first bytes of the body, decoded, at most 64 KiB.
  [[nodiscard]] const std::string& beginning() const { return beginning_; }

 private:
  SideDecoder decoder_;
  wire::ResponseReader reader_;
  std::string beginning_;
  std::size_t beginning_max_;
};

// How passing an answer on ended.
struct Passed {
  enum class How : std::uint8_t { whole, upstream_broke, client_gone };
  How how = How::whole;
  std::uint64_t bytes = 0;              // Of the body that went down.
  std::optional<Instant> first_byte;    // When the head went down.
  std::optional<Error> upstream_error;  // upstream_broke: how.
};

class Leg {
 public:
  Leg(net::Client& client, const net::Url& upstream, const Clock& clock);

  // Sends the request and waits for the head of the answer. `head` and `body` stay valid until
  // then. Errors as of net::ClientExchange.
  [[nodiscard]] net::Task<Result<void>> open(const net::RequestHead& head, std::string_view body,
                                             wire::Dialect dialect, Micros first_byte_within);

  // After open succeeded:
  // Its fields are gone once it has been passed on.
  [[nodiscard]] const net::ResponseHead& head() const { return head_; }
  // Leaves a field of the answer's head out of what goes down.
  void drop_field(std::string_view name) { head_.headers.remove(name); }
  [[nodiscard]] const SideCopy& side() const { return *side_; }
  [[nodiscard]] bool event_stream() const { return event_stream_; }

  // Reads on and holds back, until the first event is whole (of a Responses stream: the first that
  // says more than that it began, for 1 s), the stream ended or broke, `deadline`,
  // 256 KiB, or it is clear that the side copy cannot read it.
  [[nodiscard]] net::Task<void> hold_first_event(Instant deadline);
  // The same until 64 KiB, the end, or `deadline`: the body of an error.
  [[nodiscard]] net::Task<void> hold_error_body(Instant deadline);
  // Whether the answer broke off before a byte of its body came.
  [[nodiscard]] bool broke_empty() const { return broke_.has_value() && held_.empty(); }

  // Before pass_on: the chunk that tells the usage of a streamed chat completion is left out of
  // what goes down, because the agent did not ask for it. A stream in a coding goes down without
  // it, which every agent takes; a coding that cannot be undone stays as it is.
  void hide_usage_chunk();

  // Sends the head, what was held back, and the rest as it comes. A cut upstream is a cut (reset)
  // downstream. `need_end_marker`: a stream of a known dialect that ends in good order but without
  // its terminal marker is cut too, so that nobody takes half an answer for a whole one.
  enum class EndMarker : std::uint8_t { not_needed, needed };
  [[nodiscard]] net::Task<Passed> pass_on(net::ServerExchange& down, EndMarker marker,
                                          Micros silence);

  // Closes the connection, unless the answer has ended. May be called from a callback.
  void close() { exchange_.close(); }
  [[nodiscard]] net::Progress progress() const { return exchange_.progress(); }

 private:
  // The next bytes into chunk_, and into the side copy; 0: ended, broke, or nothing within the
  // time.
  [[nodiscard]] net::Task<std::size_t> read_more(Micros within);
  // The same of what came with the head: no wait.
  [[nodiscard]] std::string_view take_ready();
  [[nodiscard]] net::Task<bool> send_down(net::ServerExchange& down, std::string_view bytes,
                                          Passed& passed);
  [[nodiscard]] net::Task<bool> send_unpacked(net::ServerExchange& down, std::string_view bytes,
                                              Passed& passed);

  [[nodiscard]] std::span<char> room() { return {chunk_.get(), chunk_bytes_}; }

  const Clock& clock_;
  net::ClientExchange exchange_;
  net::ResponseHead head_;
  std::optional<SideCopy> side_;
  std::size_t chunk_bytes_ = net::kChunkBytes;
  net::Piece chunk_;
  std::string held_;
  std::optional<wire::UsageChunkFilter> filter_;
  std::optional<SideDecoder> unpacked_;  // With a filter, of a stream in a coding.
  bool event_stream_ = false;
  bool announces_ = false;      // The dialect's first event says nothing.
  bool ended_ = false;          // The body ended as its framing says.
  bool silent_ = false;         // The last read ran out of time.
  std::optional<Error> broke_;  // It ended otherwise.
};

}  // namespace hg::proxy
