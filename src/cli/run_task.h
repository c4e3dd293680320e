// run_task.h: runs one coroutine to its end on an event loop of the caller's.
//
// For main programs that have nothing else to wait for. The context runs on this thread until the
// task has ended; what else is on it runs too.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "net/task.h"

namespace hg::cli {

template <typename T>
T run_task(boost::asio::io_context& context, net::Task<T> task) {
  std::optional<T> result;
  std::exception_ptr failure;
  bool ended = false;
  boost::asio::co_spawn(context, std::move(task), [&](std::exception_ptr error, T value) {
    failure = error;
    if (!error) result.emplace(std::move(value));
    ended = true;
  });
  while (!ended) {
    if (context.stopped()) context.restart();
    HG_ASSERT(context.run_one() > 0 || ended);
  }
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

inline void run_task(boost::asio::io_context& context, net::Task<void> task) {
  std::exception_ptr failure;
  bool ended = false;
  boost::asio::co_spawn(context, std::move(task), [&](std::exception_ptr error) {
    failure = error;
    ended = true;
  });
  while (!ended) {
    if (context.stopped()) context.restart();
    HG_ASSERT(context.run_one() > 0 || ended);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace hg::cli
