#include "net/server_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/assert.h"
#include "net/chunk_codec.h"

namespace hg::net {

namespace {

// Read ahead of a pipelining client while its first request is answered.
constexpr std::size_t kWatchBytes = 512;

// Ours to say, whatever the answer brought.
constexpr std::array<std::string_view, 3> kFramingFields = {"Transfer-Encoding", "Connection",
                                                            "Keep-Alive"};

}  // namespace

Exchange::Exchange(std::shared_ptr<Connection> connection, const ServerConfig& config,
                   GuardedRequest request)
    : connection_(std::move(connection)), config_(config), request_(std::move(request)) {
  if (!request_.keep_alive) reuse_ = Reuse::forbidden;
  if (request_.body.kind == BodyKind::none) body_is_done();
}

Exchange::~Exchange() { connection_->on_input(nullptr); }

// ---- The request -----------------------------------------------------------------------------

void Exchange::body_is_done() {
  body_done_ = true;
  connection_->on_input([this] { watch(); });
  watch();
}

// Keeps a read pending, so that the end of the client is noticed while the handler waits. A client
// that pipelines more than kChunkBytes is watched no further: it is there.
void Exchange::watch() {
  if (connection_->input_ended()) {
    declare_gone();
  } else if (connection_->input().size() < kChunkBytes) {
    connection_->trim_memory();
    connection_->start_read(kWatchBytes);
  }
}

void Exchange::declare_gone() {
  gone_ = true;
  const std::function<void()> tell = std::exchange(on_gone_, nullptr);
  if (tell) tell();
}

void Exchange::on_gone(std::function<void()> gone) {
  on_gone_ = std::move(gone);
  if (gone_) declare_gone();
}

Task<Result<std::string>> Exchange::read_body(std::size_t bytes_max) {
  HG_ASSERT(!body_asked_);
  body_asked_ = true;
  if (body_done_) co_return std::string();
  const bool is_length = request_.body.kind == BodyKind::length;
  if (is_length && request_.body.length > bytes_max) {
    co_return fail(Errc::too_large,
                   fmt::format("a body of {} bytes; at most {}", request_.body.length, bytes_max));
  }
  if (request_.expects_continue && connection_->input().empty()) {
    const auto sent = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return std::unexpected(sent.error());
  }
  // Awaited in two branches of their own: a conditional with co_await is miscompiled (STYLE, 5).
  if (is_length) co_return co_await read_length(request_.body.length);
  co_return co_await read_chunks(bytes_max);
}

Task<Result<std::string>> Exchange::read_length(std::uint64_t length) {
  std::string body;
  // Not the second argument: libstdc++ 12 hands over the capacity it grew to.
  const auto leave_as_is = [length](char*, std::size_t) { return length; };
  body.resize_and_overwrite(length, leave_as_is);  // Pages are touched as bytes come.
  std::span<char> room = body;
  for (;;) {
    const std::string_view there = connection_->input().substr(0, room.size());
    there.copy(room.data(), there.size());  // Not std::ranges::copy: it goes byte by byte here.
    connection_->consume(there.size());
    room = room.subspan(there.size());
    if (!room.empty()) room = room.subspan(connection_->read_now(room));
    if (room.empty()) break;
    const auto more = co_await connection_->more(kChunkBytes, config_.body_silence);
    if (!more) co_return std::unexpected(more.error());
  }
  body_is_done();
  co_return body;
}

Task<Result<std::string>> Exchange::read_chunks(std::size_t bytes_max) {
  std::string body;
  ChunkDecoder decoder;
  for (;;) {
    while (!connection_->input().empty()) {
      const auto step = decoder.step(connection_->input());
      if (!step) co_return std::unexpected(step.error());
      if (body.size() + step->data.size() > bytes_max) {
        co_return fail(Errc::too_large, fmt::format("a body of more than {} bytes", bytes_max));
      }
      body += step->data;
      connection_->consume(step->consumed);
      if (!step->ended) continue;
      body_is_done();
      co_return body;
    }
    const auto more = co_await connection_->more(kChunkBytes, config_.body_silence);
    if (!more) co_return std::unexpected(more.error());
  }
}

// ---- The answer ------------------------------------------------------------------------------

// Decides on the framing and writes it into the head's fields.
std::string Exchange::prepare_head(ResponseHead head, BodyFraming body) {
  HG_ASSERT(!head_sent_);
  head_sent_ = true;
  bodiless_ = never_has_body(request_.head.method, head.status);
  framing_ = body;
  if (body.kind == BodyKind::chunked && request_.head.minor_version == 0) {
    framing_ = BodyFraming::until_close();
  }
  if (bodiless_) framing_ = BodyFraming::none();
  left_ = framing_.kind == BodyKind::length ? framing_.length : 0;
  const bool closes = reuse_ == Reuse::forbidden || !body_done_ ||
                      framing_.kind == BodyKind::until_close;
  if (closes) reuse_ = Reuse::forbidden;

  head.minor_version = 1;
  Headers& headers = head.headers;
  headers.remove(kFramingFields);
  // A HEAD or 304 answer keeps the length that a GET would have had; 1xx and 204 have none.
  const bool keeps_length = bodiless_ && head.status != 204 && head.status / 100 != 1;
  if (body.kind == BodyKind::length && (!bodiless_ || keeps_length)) {
    headers.set("Content-Length", std::to_string(body.length));
  } else if (body.kind == BodyKind::none && !bodiless_) {
    headers.set("Content-Length", "0");
  } else if (!keeps_length) {
    headers.remove("Content-Length");
  }
  if (framing_.kind == BodyKind::chunked) headers.add("Transfer-Encoding", "chunked");
  if (closes) {
    headers.add("Connection", "close");
  } else if (request_.head.minor_version == 0) {
    headers.add("Connection", "keep-alive");
  }
  return to_bytes(head);
}

Task<Result<void>> Exchange::write(std::string_view first, std::string_view second,
                                   std::string_view third) {
  if (gone_) co_return fail(Errc::closed, "the client is gone");
  Stream::Parts parts;
  parts[0] = first;
  parts[1] = second;
  parts[2] = third;
  co_return co_await connection_->write(parts, config_.write_silence);
}

Task<Result<void>> Exchange::send_head(ResponseHead head, BodyFraming body,
                                       std::string_view first) {
  const std::string bytes = prepare_head(std::move(head), body);
  co_return co_await send_bytes(bytes, first);
}

Task<Result<void>> Exchange::send_some(std::string_view bytes) {
  HG_ASSERT(head_sent_ && !finished_);
  co_return co_await send_bytes(std::string_view(), bytes);
}

// Framed bytes of the body, in one write with the head, if there is one.
Task<Result<void>> Exchange::send_bytes(std::string_view head, std::string_view bytes) {
  if (bodiless_) bytes = {};
  if (head.empty() && bytes.empty()) co_return Result<void>();
  if (framing_.kind == BodyKind::chunked && !bytes.empty()) {
    std::string prefix(head);
    prefix += chunk_prefix(bytes.size());
    co_return co_await write(prefix, bytes, "\r\n");
  }
  if (framing_.kind == BodyKind::length) {
    if (bytes.size() > left_) {
      abort();
      co_return fail(Errc::protocol, "an answer longer than its Content-Length");
    }
    left_ -= bytes.size();
  }
  co_return co_await write(head, bytes);
}

Task<Result<void>> Exchange::finish() {
  HG_ASSERT(head_sent_);
  if (std::exchange(finished_, true)) co_return Result<void>();
  if (left_ > 0) {
    abort();
    co_return fail(Errc::protocol, "an answer shorter than its Content-Length");
  }
  if (framing_.kind != BodyKind::chunked) co_return Result<void>();
  co_return co_await write(kLastChunk);
}

Task<Result<void>> Exchange::reply(ResponseHead head, std::string_view body) {
  const std::string bytes = prepare_head(std::move(head), BodyFraming::of_length(body.size()));
  left_ = 0;
  finished_ = true;
  co_return co_await write(bytes, bodiless_ ? std::string_view() : body);
}

void Exchange::abort() {
  finished_ = true;
  reuse_ = Reuse::forbidden;
  connection_->reset();
}

bool Exchange::may_continue() const {
  return finished_ && reuse_ == Reuse::allowed && !gone_ && !connection_->is_closed();
}

}  // namespace hg::net
