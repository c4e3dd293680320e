// stream.h: a byte stream to a peer, whatever carries it: TCP, TLS, a unix socket, or a stream that
// a test breaks on purpose.
//
// An interface, so that HTTP is compiled once and not once a carrier. Carriers are made by
// stream_over.h. Completion by callback, because reads stay pending across the coroutines that use
// them (see connection.h). One read and one write at a time; the stream outlives both.
#pragma once
#include <array>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace hg::net {

class Stream {
 public:
  using Done = std::move_only_function<void(boost::system::error_code, std::size_t)>;
  using Parts = std::array<std::string_view, 3>;

  virtual ~Stream() = default;

  // Calls `done` later, never inside this call, also after close: with asio::error::eof when the
  // peer ended in an orderly way.
  virtual void read_some(std::span<char> into, Done done) = 0;

  // Reads or writes what goes at once, without waiting, and answers how many bytes went: 0 also
  // when the stream has ended or failed, which the calls with `done` will tell.
  [[nodiscard]] virtual std::size_t read_now(std::span<char> into) = 0;
  [[nodiscard]] virtual std::size_t write_now(const Parts& parts) = 0;

  // Writes all parts, in order. They stay valid until `done`.
  virtual void write(const Parts& parts, Done done) = 0;

  // No more will be written; the peer sees an end and may still send.
  virtual void shutdown_send() = 0;

  // Ends both directions; what was written may still arrive. Pending calls end as aborted.
  virtual void close() = 0;

  // Ends both directions so that the peer sees a reset.
  virtual void reset() = 0;

  // Whether the peer has closed a stream that we believe to be idle. A look, no wait.
  [[nodiscard]] virtual bool is_stale() = 0;

  // The peer's address for logs.
  [[nodiscard]] virtual std::string peer() const = 0;
};

}  // namespace hg::net
