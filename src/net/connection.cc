#include "net/connection.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "base/assert.h"
#include "net/stream_over.h"

namespace hg::net {

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
  if (begin_ > 0 && bytes_.size() - end_ < count) {
    std::copy(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
              bytes_.begin() + static_cast<std::ptrdiff_t>(end_), bytes_.begin());
    begin_ = 0;
    end_ = held;
  }
  if (bytes_.size() - end_ < count) bytes_.resize(end_ + count);
  return {bytes_.data() + end_, count};
}

void InputBuffer::release_if_empty() {
  if (begin_ != end_) return;
  std::vector<char>().swap(bytes_);
  begin_ = end_ = 0;
}

// ---- Connection ------------------------------------------------------------------------------

Connection::Connection(const Executor& executor, std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), readable_(executor), written_(executor) {}

void Connection::start_read(std::size_t bytes) {
  if (read_pending_ || closed_ || input_end_) return;
  read_pending_ = true;
  const std::span<char> room = input_.prepare(bytes);
  stream_->read_some(
      room, [self = shared_from_this()](const boost::system::error_code& code, std::size_t count) {
        self->read_done(code, count);
      });
}

void Connection::read_done(const boost::system::error_code& code, std::size_t count) {
  read_pending_ = false;
  input_.commit(count);
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
