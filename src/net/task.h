// task.h: coroutines: their type, how they wait, and the group that owns those nobody awaits.
//
// Everything runs on the one thread of the io_context; nothing here may be called from another.
// Waits end by themselves (a deadline), by a word (Event::notify) or by TaskGroup::cancel; none of
// them throws. A resource is given up by closing it (ServerExchange::abort, ClientExchange::close):
// whoever waits on it then gets Errc::cancelled. So no caller needs to destroy a waiting coroutine.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace hg::net {

namespace asio = boost::asio;

using Executor = asio::any_io_executor;

template <typename T = void>
using Task = asio::awaitable<T>;

// Completion token: `const auto [ec, count] = co_await stream.async_read_some(buffer, as_result);`
inline constexpr asio::as_tuple_t<asio::use_awaitable_t<>> as_result{};

// What a library's error code means to callers: eof and reset are `closed`, refused and unreachable
// `unavailable`, aborted `cancelled`, ... `doing` says what was tried ("reading from upstream").
[[nodiscard]] Error to_error(const boost::system::error_code& code, std::string_view doing);

// Why a wait ended.
enum class Woken : std::uint8_t { notified, deadline, cancelled };

// One coroutine waits, another part of the program says when to go on. A notice that comes while
// nobody waits is kept for the next wait; several are one. At most one waiter at a time.
// Must outlive the wait.
class Event {
 public:
  explicit Event(const Executor& executor);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Wakes the waiter in this same turn of the event loop (not inside this call).
  void notify();

  // Forgets a notice that nobody took.
  void reset();

  // `cancelled` when the task was cancelled by its group. A duration <= 0 only looks.
  [[nodiscard]] Task<Woken> wait_for(Micros at_most);

  // Waits for a notice, however long it takes and even if the task was cancelled: for what must end
  // before its memory may go. Only for notices that are sure to come.
  [[nodiscard]] Task<void> wait_regardless();

 private:
  struct State;
  template <typename Token>
  Task<bool> wait(Micros at_most, Token token);
  std::unique_ptr<State> state_;
};

// Sleeps. False if the task was cancelled by its group meanwhile.
[[nodiscard]] Task<bool> sleep_for(Micros duration);

// Sleeps until `clock` says `at`: looks at the clock again after each sleep. False as above.
[[nodiscard]] Task<bool> sleep_until(const Clock& clock, Instant at);

// Owns coroutines that nobody awaits. A task that ends by an exception is logged under its name.
// Tasks take their arguments by value (STYLE, section 5). Join before what the tasks use dies.
class TaskGroup {
 public:
  explicit TaskGroup(const Executor& executor);
  ~TaskGroup();  // Tasks that are left go on: cancel and join first.
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts `task` soon, never inside this call.
  void spawn(std::string name, Task<void> task);

  // Tells all tasks to stop: their present wait ends with `cancelled`, and so does each later one.
  void cancel();

  // Waits until all tasks have ended. False if some were still there after `at_most`.
  [[nodiscard]] Task<bool> join(Micros at_most);

  [[nodiscard]] std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::net
