// stream_over.h: a Stream over any Asio stream. Expensive to include: for the files of net and
// tests.
//
// How a carrier is ended differs from carrier to carrier: `Carrier<S>` knows.
#pragma once
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "net/stream.h"
#include "net/task.h"

namespace hg::net {

[[nodiscard]] std::string to_text(const asio::ip::tcp::endpoint& endpoint);

// What StreamOver needs beyond reading and writing. Errors are ignored: the stream ends anyway.
template <typename S>
struct Carrier;

template <typename Protocol, typename SocketExecutor>
struct Carrier<asio::basic_stream_socket<Protocol, SocketExecutor>> {
  using Socket = asio::basic_stream_socket<Protocol, SocketExecutor>;

  static void shutdown_send(Socket& socket) {
    boost::system::error_code ignored;
    socket.shutdown(asio::socket_base::shutdown_send, ignored);
  }
  static void close(Socket& socket) {
    boost::system::error_code ignored;
    socket.close(ignored);
  }
  static void reset(Socket& socket) {
    boost::system::error_code ignored;
    socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
  }
  static std::size_t read_now(Socket& socket, std::span<char> into) {
    const ssize_t count = ::recv(socket.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  static std::size_t write_now(Socket& socket, const Stream::Parts& parts) {
    std::array<iovec, std::tuple_size_v<Stream::Parts>> pieces{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      pieces[i].iov_base = const_cast<char*>(parts[i].data());
      pieces[i].iov_len = parts[i].size();
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t count = ::sendmsg(socket.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  static bool is_stale(Socket& socket) {
    char byte = 0;
    const ssize_t count = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    return true;  // An end, or bytes that nobody asked for.
  }
  static std::string peer(const Socket& socket) {
    boost::system::error_code ec;
    const auto endpoint = socket.remote_endpoint(ec);
    if constexpr (std::is_same_v<Protocol, asio::ip::tcp>) {
      return ec ? "gone" : to_text(endpoint);
    } else {
      return "unix";
    }
  }
};

// TLS: the socket below is ended; a close_notify is not waited for.
template <typename Below>
struct Carrier<asio::ssl::stream<Below>> {
  using Tls = asio::ssl::stream<Below>;

  static void shutdown_send(Tls& tls) { Carrier<Below>::shutdown_send(tls.next_layer()); }
  static void close(Tls& tls) { Carrier<Below>::close(tls.next_layer()); }
  static void reset(Tls& tls) { Carrier<Below>::reset(tls.next_layer()); }
  // Nothing of a TLS stream goes at once: a read may have to write, and the other way round.
  static std::size_t read_now(Tls&, std::span<char>) { return 0; }
  static std::size_t write_now(Tls&, const Stream::Parts&) { return 0; }
  // Bytes may be there without meaning anything (session tickets): only the pending read knows.
  static bool is_stale(Tls&) { return false; }
  static std::string peer(const Tls& tls) { return Carrier<Below>::peer(tls.next_layer()); }
};

template <typename S>
class StreamOver final : public Stream {
 public:
  explicit StreamOver(S carrier) : carrier_(std::move(carrier)) {}

  void read_some(std::span<char> into, Done done) override {
    carrier_.async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
  }

  void write(const Parts& parts, Done done) override {
    std::array<asio::const_buffer, 3> buffers;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      buffers[i] = asio::const_buffer(parts[i].data(), parts[i].size());
    }
    asio::async_write(carrier_, buffers, std::move(done));
  }

  std::size_t read_now(std::span<char> into) override {
    return Carrier<S>::read_now(carrier_, into);
  }
  std::size_t write_now(const Parts& parts) override {
    return Carrier<S>::write_now(carrier_, parts);
  }

  void shutdown_send() override { Carrier<S>::shutdown_send(carrier_); }
  void close() override { Carrier<S>::close(carrier_); }
  void reset() override { Carrier<S>::reset(carrier_); }
  bool is_stale() override { return Carrier<S>::is_stale(carrier_); }
  std::string peer() const override { return Carrier<S>::peer(carrier_); }

  S& carrier() { return carrier_; }

 private:
  S carrier_;
};

}  // namespace hg::net
