// test_peer.h: the other end of a TCP connection in tests, which says and hears raw bytes.
//
// For tests only. Coroutines, so that they run on the loop of what is tested.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "net/task.h"

namespace hg::net {

class TestPeer {
 public:
  using Socket = asio::ip::tcp::socket;

  explicit TestPeer(const Executor& executor) : socket_(executor) {}
  explicit TestPeer(Socket socket) : socket_(std::move(socket)) {}

  Task<void> connect(std::uint16_t port) {
    const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
    const auto [ec] = co_await socket_.async_connect(endpoint, as_result);
    if (ec) heard_ += "[" + ec.message() + "]";
  }

  // Whether all of it left.
  Task<bool> send(std::string bytes) {
    if (is_broken_) co_return false;  // Asio may wait for ever on a socket that failed to write.
    const auto [ec, count] = co_await asio::async_write(socket_, asio::buffer(bytes), as_result);
    is_broken_ = ec.failed();
    co_return !is_broken_;
  }

  // Reads until `marker` was heard and answers everything up to its end, which is then forgotten.
  Task<std::string> hear(std::string marker) {
    for (;;) {
      const std::size_t at = heard_.find(marker);
      if (at != std::string::npos) {
        std::string text = heard_.substr(0, at + marker.size());
        heard_.erase(0, at + marker.size());
        co_return text;
      }
      const bool more = co_await hear_some();
      if (!more) co_return std::exchange(heard_, "") + "[end]";
    }
  }

  // What has come and what comes next, at least one byte and at most `count`; "[end]" at the end.
  Task<std::string> hear_count(std::size_t count) {
    if (heard_.empty()) {
      const bool more = co_await hear_some();
      if (!more) co_return "[end]";
    }
    std::string text = heard_.substr(0, count);
    heard_.erase(0, text.size());
    co_return text;
  }

  // Everything until the end: "[end]" or "[reset]" is appended.
  Task<std::string> hear_all() {
    for (;;) {
      const bool more = co_await hear_some();
      if (!more) break;
    }
    heard_ += was_reset_ ? "[reset]" : "[end]";
    co_return std::exchange(heard_, "");
  }

  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  void reset() {
    boost::system::error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }

  Socket& socket() { return socket_; }

 private:
  Task<bool> hear_some() {
    char bytes[4096];
    const auto [ec, count] = co_await socket_.async_read_some(asio::buffer(bytes), as_result);
    heard_.append(bytes, count);
    was_reset_ = ec == asio::error::connection_reset;
    co_return !ec;
  }

  Socket socket_;
  std::string heard_;
  bool was_reset_ = false;
  bool is_broken_ = false;
};

}  // namespace hg::net
