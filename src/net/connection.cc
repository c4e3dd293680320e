#include "net/connection.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "net/stream_over.h"

namespace hg::net {

namespace {

constexpr std::size_t kDrainBytes = std::size_t{16} * 1024;

}  // namespace

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

// ---- InputBuffer -----------------------------------------------------------------------------

void InputBuffer::consume(std::size_t count) {
  HG_ASSERT(count <= end_ - begin_);
  begin_ += count;
}

std::span<char> InputBuffer::prepare(std::size_t count) {
  const std::size_t held = end_ - begin_;
  if (size_ - end_ < count) {
    Piece larger;
    if (size_ < held + count) {
      size_ = held + count;
      larger = take_piece(size_);
    }
    char* const to = larger ? larger.get() : bytes_.get();
    if (held > 0) std::memmove(to, bytes_.get() + begin_, held);
    if (larger) bytes_ = std::move(larger);
    begin_ = 0;
    end_ = held;
  }
  return {bytes_.get() + end_, count};
}

void InputBuffer::release_if_empty() {
  if (begin_ != end_) return;
  bytes_.reset();
  size_ = begin_ = end_ = 0;
}

// ---- Connection ------------------------------------------------------------------------------

Connection::Connection(const Executor& executor, std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), readable_(executor), written_(executor) {}

std::size_t Connection::read_now(std::span<char> into) {
  if (read_pending_ || closed_ || input_end_ || !input().empty()) return 0;
  return stream_->read_now(into);
}

void Connection::start_read(std::size_t bytes) {
  if (read_pending_ || closed_ || input_end_) return;
  read_pending_ = true;
  const std::span<char> room = input_.prepare(bytes);
  auto done = [self = shared_from_this(), bytes](const boost::system::error_code& code,
                                                 std::size_t count) {
    self->read_done(code, count, bytes);
  };
  stream_->read_some(room, std::move(done));
}

void Connection::read_done(const boost::system::error_code& code, std::size_t count,
                           std::size_t room) {
  read_pending_ = false;
  input_.commit(count);
  // Reads that wait long have little room, to hold little memory: what does not fit is there now.
  if (!code && count == room && room < kDrainBytes) {
    input_.commit(stream_->read_now(input_.prepare(kDrainBytes)));
  }
  if (code && !input_end_) {
    ended_cleanly_ = code == asio::error::eof;
    input_end_ = to_error(code, "reading");
  }
  readable_.notify();
  if (!on_input_) return;
  const std::function<void()> callback = on_input_;  // A copy: it may replace itself.
  callback();
}

Task<Result<void>> Connection::more(std::size_t bytes, Micros within) {
  const std::shared_ptr<Connection> self = shared_from_this();
  const std::size_t had = input().size();
  readable_.reset();
  while (input().size() == had) {
    if (closed_) co_return fail(Errc::cancelled, "the connection was closed here");
    if (input_end_) co_return std::unexpected(*input_end_);
    start_read(bytes);
    const Woken woken = co_await readable_.wait_for(within);
    if (woken == Woken::notified) continue;
    if (woken == Woken::cancelled) co_return fail(Errc::cancelled, "the task was cancelled");
    co_return fail(Errc::timed_out, "nothing came in time");
  }
  co_return Result<void>();
}

void Connection::trim_memory() {
  if (!read_pending_) input_.release_if_empty();
}

Task<Result<void>> Connection::write(Stream::Parts parts, Micros within) {
  const std::shared_ptr<Connection> self = shared_from_this();
  if (closed_) co_return fail(Errc::cancelled, "the connection was closed here");
  // Asio may wait for ever for a socket that has failed already to become writable: its one event
  // is over.
  if (input_end_ && !ended_cleanly_) co_return std::unexpected(*input_end_);
  if (write_code_) co_return std::unexpected(to_error(write_code_, "writing"));
  HG_ASSERT(!write_pending_);
  // Nearly always the socket's buffer takes all of it.
  std::size_t gone = stream_->write_now(parts);
  bool all = true;
  for (std::string_view& part : parts) {
    const std::size_t of_this = std::min(gone, part.size());
    part.remove_prefix(of_this);
    gone -= of_this;
    all = all && part.empty();
  }
  if (all) co_return Result<void>();
  write_pending_ = true;
  written_.reset();
  auto done = [self](const boost::system::error_code& code, std::size_t) {
    self->write_pending_ = false;
    self->write_code_ = code;
    self->written_.notify();
  };
  stream_->write(parts, std::move(done));
  const Woken woken = co_await written_.wait_for(within);
  if (write_pending_) {
    reset();
    // The bytes belong to the caller: they are in use until the stream says otherwise.
    while (write_pending_) co_await written_.wait_regardless();
    if (woken == Woken::deadline) co_return fail(Errc::timed_out, "the peer takes nothing");
    co_return fail(Errc::cancelled, "the task was cancelled");
  }
  if (closed_) co_return fail(Errc::cancelled, "the connection was closed here");
  if (write_code_) co_return std::unexpected(to_error(write_code_, "writing"));
  co_return Result<void>();
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  stream_->close();
  readable_.notify();
}

void Connection::reset() {
  if (std::exchange(closed_, true)) return;
  stream_->reset();
  readable_.notify();
}

}  // namespace hg::net
