// socket_test_util.h: what the lab's tests over loopback share: one event loop with a bound, and
// small requests.
//
// For tests only. Ports are the kernel's choice.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "net/client.h"
#include "net/task.h"
#include "net/url.h"

namespace hg::lab {

// Runs a task to its end; nothing after `at_most`.
template <typename T>
std::optional<T> run(boost::asio::io_context& io, net::Task<T> task,
                     std::chrono::seconds at_most = std::chrono::seconds(30)) {
  std::optional<T> result;
  bool ended = false;
  boost::asio::co_spawn(io, std::move(task), [&](std::exception_ptr error, T value) {
    if (!error) result.emplace(std::move(value));
    ended = true;
  });
  io.restart();
  const OsClock clock;
  const Instant until = clock.now() + at_most;
  while (!ended && clock.now() < until) io.run_one_for(100ms);
  return result;
}

inline net::Url loopback(std::uint16_t port, std::string path = "") {
  net::Url url;
  url.host = "127.0.0.1";
  url.port = port;
  url.path = std::move(path);
  return url;
}

}  // namespace hg::lab
