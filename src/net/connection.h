// connection.h: a stream with an input buffer and deadlines: what server and client have in common.
//
// Owns the stream and at most one pending read, which belongs to the connection and not to a
// coroutine: it may stay pending while a handler computes or writes, so that a peer that goes away
// is noticed at once and no byte that came early is lost. Lives in a shared_ptr, because pending
// operations hold it too. One thread; one coroutine reads, one writes.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/chunk.h"
#include "net/stream.h"
#include "net/task.h"

namespace hg::net {

// Bytes read and not yet used, in one piece.
class InputBuffer {
 public:
  [[nodiscard]] std::string_view view() const { return {bytes_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t count);
  // Room for `count` more bytes after those that are there. Moves them: no view survives.
  [[nodiscard]] std::span<char> prepare(std::size_t count);
  void commit(std::size_t count) { end_ += count; }
  // Gives the memory back if no byte is in it.
  void release_if_empty();

 private:
  Piece bytes_;
  std::size_t size_ = 0;  // Of bytes_.
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(const Executor& executor, std::unique_ptr<Stream> stream);

  // ---- Input. Views are valid until the next call that reads.
  [[nodiscard]] std::string_view input() const { return input_.view(); }
  void consume(std::size_t count) { input_.consume(count); }

  // Reads into `into` what is there, past the input, without waiting; 0 while a read is pending or
  // bytes are in the input, which come first.
  [[nodiscard]] std::size_t read_now(std::span<char> into);

  // Starts a read of at most `bytes` unless one is pending or the input has ended.
  void start_read(std::size_t bytes);

  // Waits until there are more bytes than now. Errors: closed (end or reset), timed_out (the read
  // stays pending), cancelled (closed by us, or the task was cancelled).
  [[nodiscard]] Task<Result<void>> more(std::size_t bytes, Micros within);

  [[nodiscard]] bool input_ended() const { return input_end_.has_value(); }
  // The peer ended in an orderly way (not by a reset, nor TLS without close_notify).
  [[nodiscard]] bool ended_cleanly() const { return ended_cleanly_; }

  // Called after each read that ended, with bytes or without, in that turn of the event loop. May
  // replace itself.
  void on_input(std::function<void()> callback) { on_input_ = std::move(callback); }

  // Gives back the buffer if nothing is in it and no read is pending.
  void trim_memory();

  // ---- Output.
  // Returns when the kernel has all of it, within `within`, else the connection is reset.
  [[nodiscard]] Task<Result<void>> write(Stream::Parts parts, Micros within);

  // ---- Ends. Whoever waits gets `cancelled`.
  void shutdown_send() { stream_->shutdown_send(); }
  void close();
  void reset();
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] bool is_stale() { return closed_ || input_ended() || stream_->is_stale(); }

  [[nodiscard]] std::string peer() const { return stream_->peer(); }

 private:
  void read_done(const boost::system::error_code& code, std::size_t count, std::size_t room);

  std::unique_ptr<Stream> stream_;
  InputBuffer input_;
  Event readable_;
  Event written_;
  std::function<void()> on_input_;
  std::optional<Error> input_end_;  // Why nothing more will come.
  boost::system::error_code write_code_;
  bool ended_cleanly_ = false;
  bool read_pending_ = false;  // While it is, input_ must not move.
  bool write_pending_ = false;
  bool closed_ = false;  // By us.
};

}  // namespace hg::net
