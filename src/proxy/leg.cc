#include "proxy/leg.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"

namespace hg::proxy {
namespace {

constexpr std::size_t kBeginningMax = std::size_t{64} * 1024;  // What error classification reads.
constexpr std::size_t kHeldMax = std::size_t{256} * 1024;  // Before a first event is given up on.
constexpr std::size_t kPackedMax = 1024;  // Unpacked at once: some megabytes by any coding.

// A Responses stream begins by announcing itself (response.created, response.in_progress), also
// when the next that it says is response.failed, which Codex does not survive. That comes at once;
// a model that thinks before it speaks is not waited for.
constexpr Micros kAnnouncedFor = 1s;

std::string_view field(const Headers& headers, std::string_view name) {
  return headers.find(name).value_or("");
}

bool tells_events(std::string_view content_type) {
  const auto begins = [&](std::string_view type) {
    return iequals(content_type.substr(0, type.size()), type);
  };
  return begins("text/event-stream") || begins("application/vnd.amazon.eventstream");
}

// How the answer's body goes down: by its length where that is known.
net::BodyFraming framing_down(const net::BodyFraming& up) {
  switch (up.kind) {
    case net::BodyKind::none: return net::BodyFraming::none();
    case net::BodyKind::length: return net::BodyFraming::of_length(up.length);
    case net::BodyKind::chunked:
    case net::BodyKind::until_close: break;
  }
  return net::BodyFraming::chunked();
}

}  // namespace

SideCopy::SideCopy(wire::Dialect dialect, const net::ResponseHead& answer)
    : decoder_(codings_of(answer.headers)),
      reader_(dialect, field(answer.headers, "content-type")),
      beginning_max_(answer.status >= 400 ? kBeginningMax : 0) {}

void SideCopy::feed(std::string_view bytes) {
  decoder_.feed(bytes, [this](std::string_view piece) {
    beginning_.append(piece.substr(0, beginning_max_ - beginning_.size()));
    reader_.feed(piece);
  });
}

void SideCopy::finish() { reader_.finish(); }

Leg::Leg(net::Client& client, const net::Url& upstream, const Clock& clock)
    : clock_(clock), exchange_(client.start(upstream)), chunk_(net::take_piece(chunk_bytes_)) {}

net::Task<Result<void>> Leg::open(const net::RequestHead& head, std::string_view body,
                                  wire::Dialect dialect, Micros first_byte_within) {
  Result<void> sent = co_await exchange_.send(head, body);
  if (!sent) co_return sent;
  Result<net::ResponseHead> answer = co_await exchange_.read_head(first_byte_within);
  if (!answer) co_return std::unexpected(answer.error());
  head_ = std::move(*answer);
  side_.emplace(dialect, head_);
  event_stream_ = tells_events(field(head_.headers, "content-type"));
  announces_ = dialect == wire::Dialect::openai_responses;
  co_return Result<void>();
}

net::Task<std::size_t> Leg::read_more(Micros within) {
  silent_ = false;
  if (ended_ || broke_) co_return 0;
  Result<std::size_t> count = co_await exchange_.read_some(room(), within);
  if (!count) {
    if (count.error().code == Errc::timed_out)
      silent_ = true;
    else
      broke_ = std::move(count.error());
    co_return 0;
  }
  if (*count == 0) {
    ended_ = true;
    side_->finish();
    co_return 0;
  }
  side_->feed(std::string_view(chunk_.get(), *count));
  co_return *count;
}

std::string_view Leg::take_ready() {
  if (ended_ || broke_) return {};
  Result<std::size_t> count = exchange_.read_ready(room());
  if (!count) broke_ = std::move(count.error());
  if (!count || *count == 0) return {};
  const std::string_view bytes(chunk_.get(), *count);
  side_->feed(bytes);
  return bytes;
}

net::Task<void> Leg::hold_first_event(Instant deadline) {
  bool announced = false;
  for (;;) {
    const wire::ResponseReader& reader = side_->reader();
    if (reader.error_event() || !side_->readable() || held_.size() >= kHeldMax) co_return;
    const bool said = reader.output_seen() || reader.complete();
    if (reader.first_event_seen() && (said || !announces_)) co_return;
    if (reader.first_event_seen() && !announced) {
      announced = true;
      deadline = std::min(deadline, clock_.now() + kAnnouncedFor);
    }
    const Micros left = deadline - clock_.now();
    if (left <= Micros(0)) co_return;
    const std::size_t count = co_await read_more(left);
    if (count == 0) co_return;
    held_.append(chunk_.get(), count);
  }
}

net::Task<void> Leg::hold_error_body(Instant deadline) {
  while (held_.size() < kBeginningMax) {
    const Micros left = deadline - clock_.now();
    if (left <= Micros(0)) co_return;
    const std::size_t count = co_await read_more(left);
    if (count == 0) co_return;
    held_.append(chunk_.get(), count);
  }
}

void Leg::hide_usage_chunk() {
  if (!event_stream()) return;
  const std::string codings = codings_of(head_.headers);
  if (!codings.empty()) {
    // An answer may be of any size; what is held of it is bounded by kPackedMax.
    SideDecoder decoder(codings, std::numeric_limits<std::size_t>::max());
    if (!decoder.readable()) return;
    unpacked_ = std::move(decoder);
    head_.headers.remove("content-encoding");
  }
  filter_.emplace();
  // The length that was told counts the chunk.
  head_.headers.remove("content-length");
}

// The stream as it is in plain text, a little at a time, because it may unpack to much more.
net::Task<bool> Leg::send_unpacked(net::ServerExchange& down, std::string_view bytes,
                                   Passed& passed) {
  while (!bytes.empty()) {
    const std::string_view some = bytes.substr(0, kPackedMax);
    bytes.remove_prefix(some.size());
    std::string text;
    unpacked_->feed(some, [&](std::string_view piece) { text += filter_->feed(piece); });
    if (!text.empty()) {
      const Result<void> sent = co_await down.send_some(text);
      if (!sent) co_return false;
      passed.bytes += text.size();
    }
    if (!unpacked_->readable()) {
      broke_ = Error(Errc::protocol, "the answer's content coding is damaged");
      break;
    }
  }
  co_return true;
}

net::Task<bool> Leg::send_down(net::ServerExchange& down, std::string_view bytes, Passed& passed) {
  if (unpacked_) co_return co_await send_unpacked(down, bytes, passed);
  std::string kept;
  if (filter_) {
    kept = filter_->feed(bytes);
    bytes = kept;
  }
  if (bytes.empty()) co_return true;
  const Result<void> sent = co_await down.send_some(bytes);
  if (!sent) co_return false;
  passed.bytes += bytes.size();
  co_return true;
}

net::Task<Passed> Leg::pass_on(net::ServerExchange& down, EndMarker marker, Micros silence) {
  Passed passed;
  passed.how = Passed::How::client_gone;  // Until it is whole or broken.
  net::ResponseHead head = head_.status_line();
  head.headers = std::exchange(head_.headers, Headers());
  net::remove_hop_by_hop(head.headers);
  const net::BodyFraming framing = filter_ ? net::BodyFraming::chunked()
                                           : framing_down(exchange_.body_framing());
  const std::string held = std::move(held_);
  std::string_view first = held.empty() ? take_ready() : std::string_view(held);
  std::string kept;
  std::string_view packed;
  if (unpacked_) {
    packed = std::exchange(first, std::string_view());
  } else if (filter_) {
    kept = filter_->feed(first);
    first = kept;
  }
  const Result<void> head_sent = co_await down.send_head(std::move(head), framing, first);
  if (!head_sent) co_return passed;
  passed.first_byte = clock_.now();
  passed.bytes = first.size();
  if (!packed.empty()) {
    const bool sent = co_await send_unpacked(down, packed, passed);
    if (!sent) co_return passed;
  }
  for (;;) {
    const std::size_t count = co_await read_more(silence);
    if (count == 0) break;
    const bool sent = co_await send_down(down, std::string_view(chunk_.get(), count), passed);
    if (!sent) co_return passed;
  }
  if (down.gone()) {
    // Why the read ended: the owner closed this leg. An agent that has the whole answer may close
    // before we are told of its end.
    const bool had_all = ended_ || (side_->readable() && side_->reader().complete());
    if (had_all) passed.how = Passed::How::whole;
    co_return passed;
  }
  if (silent_) {
    broke_ = Error(Errc::timed_out, "the provider fell silent amid its answer");
    exchange_.close();
  }
  const bool unmarked = !broke_ && marker == EndMarker::needed && event_stream() &&
                        side_->readable() && !side_->reader().complete() &&
                        !side_->reader().error_event();
  if (unmarked) broke_ = Error(Errc::closed, "the stream ended without its terminal marker");
  if (broke_) {
    passed.how = Passed::How::upstream_broke;
    passed.upstream_error = broke_;
    down.abort();
    co_return passed;
  }
  if (filter_) {
    unpacked_.reset();
    const std::string rest = std::exchange(filter_, std::nullopt)->finish();
    const bool sent = co_await send_down(down, rest, passed);
    if (!sent) co_return passed;
  }
  const Result<void> finished = co_await down.finish();
  if (finished || down.gone()) passed.how = Passed::How::whole;
  co_return passed;
}

}  // namespace hg::proxy
