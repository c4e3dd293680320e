// test_loop.h: runs coroutines to their end in tests, on an event loop of the test's own.
//
// For tests only. Nothing here sleeps; waits inside end by an event or by a deadline of a few
// milliseconds that the test asks for.
#pragma once
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "base/time.h"
#include "net/task.h"

namespace hg::net {

struct TestLoop {
  asio::io_context io{1};
  OsClock clock;

  Executor executor() { return io.get_executor(); }

  // Runs the loop until `task` has ended; what else is on the loop runs too and may stay.
  template <typename T>
  T run(Task<T> task) {
    std::exception_ptr failure;
    std::optional<T> result;
    bool ended = false;
    asio::co_spawn(io, std::move(task), [&](std::exception_ptr f, T value) {
      failure = std::move(f);
      result.emplace(std::move(value));
      ended = true;
    });
    drive(ended);
    if (failure) std::rethrow_exception(failure);
    return std::move(*result);
  }

  void run(Task<void> task) {
    std::exception_ptr failure;
    bool ended = false;
    asio::co_spawn(io, std::move(task), [&](std::exception_ptr f) {
      failure = std::move(f);
      ended = true;
    });
    drive(ended);
    if (failure) std::rethrow_exception(failure);
  }

  // Runs what is on the loop until nothing is left: shows that nothing stays behind.
  void run_dry() {
    io.restart();
    io.run();
  }

 private:
  void drive(const bool& ended) {
    io.restart();
    while (!ended && io.run_one() > 0) {
    }
    ASSERT_TRUE(ended) << "the loop ran dry before the task had ended";
  }
};

}  // namespace hg::net
