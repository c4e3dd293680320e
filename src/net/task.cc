#include "net/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <list>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/log.h"

namespace hg::net {

namespace {

// Longer waits are cut to this, so that the timer's nanoseconds cannot overflow.
constexpr Micros kLongestWait = std::chrono::hours(24 * 365);

// Also makes cancellation quiet: waits tell it by their result instead of throwing.
Task<void> run_quietly(Task<void> task) {
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await std::move(task);
}

Errc errc_of(const boost::system::error_code& code) {
  if (code == asio::error::operation_aborted) return Errc::cancelled;
  if (code == asio::error::eof || code == asio::error::connection_reset ||
      code == asio::error::broken_pipe || code == asio::error::connection_aborted ||
      code == asio::error::not_connected || code == asio::error::bad_descriptor ||
      code == asio::ssl::error::stream_truncated) {
    return Errc::closed;
  }
  if (code == asio::error::timed_out) return Errc::timed_out;
  if (code == asio::error::address_in_use) return Errc::conflict;
  if (code == asio::error::connection_refused || code == asio::error::host_unreachable ||
      code == asio::error::network_unreachable || code == asio::error::network_down ||
      code.category() == asio::error::get_netdb_category() ||
      code.category() == asio::error::get_addrinfo_category() ||
      code == boost::system::errc::no_such_file_or_directory) {
    return Errc::unavailable;
  }
  return Errc::internal;
}

}  // namespace

Error to_error(const boost::system::error_code& code, std::string_view doing) {
  return Error(errc_of(code), fmt::format("{}: {}", doing, code.message()));
}

// ---- Event -----------------------------------------------------------------------------------

struct Event::State {
  asio::steady_timer timer;
  bool noticed = false;
  bool waiting = false;

  explicit State(const Executor& executor) : timer(executor) {}
};

Event::Event(const Executor& executor) : state_(std::make_unique<State>(executor)) {}
Event::~Event() = default;

void Event::notify() {
  state_->noticed = true;
  if (state_->waiting) state_->timer.cancel();
}

void Event::reset() { state_->noticed = false; }

Task<Woken> Event::wait_for(Micros at_most) {
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  if (!state_->noticed && cancellation.cancelled() != asio::cancellation_type::none) {
    co_return Woken::cancelled;
  }
  const bool timer_ended = co_await wait(at_most, as_result);
  if (std::exchange(state_->noticed, false)) co_return Woken::notified;
  co_return timer_ended ? Woken::deadline : Woken::cancelled;
}

Task<void> Event::wait_regardless() {
  const auto deaf = asio::bind_cancellation_slot(asio::cancellation_slot(), as_result);
  while (!std::exchange(state_->noticed, false)) co_await wait(kLongestWait, deaf);
}

// Whether the time ran out (rather than the wait being broken off).
template <typename Token>
Task<bool> Event::wait(Micros at_most, Token token) {
  if (state_->noticed || at_most <= Micros(0)) co_return true;
  HG_ASSERT(!state_->waiting);
  state_->waiting = true;
  state_->timer.expires_after(std::min(at_most, kLongestWait));
  const auto [ec] = co_await state_->timer.async_wait(token);
  state_->waiting = false;
  co_return !ec;
}

// ---- Sleeping --------------------------------------------------------------------------------

Task<bool> sleep_for(Micros duration) {
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  if (cancellation.cancelled() != asio::cancellation_type::none) co_return false;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(std::min(duration, kLongestWait));
  const auto [ec] = co_await timer.async_wait(as_result);
  co_return !ec;
}

Task<bool> sleep_until(const Clock& clock, Instant at) {
  for (;;) {
    const Micros rest = at - clock.now();
    if (rest <= Micros(0)) co_return true;
    const bool slept = co_await sleep_for(rest);
    if (!slept) co_return false;
  }
}

// ---- TaskGroup -------------------------------------------------------------------------------

struct TaskGroup::State {
  struct Entry {
    std::string name;
    asio::cancellation_signal stop;
  };

  Executor executor;
  std::list<std::shared_ptr<Entry>> entries;
  Event emptied;

  explicit State(const Executor& its_executor) : executor(its_executor), emptied(its_executor) {}

  void ended(const std::shared_ptr<Entry>& entry, const std::exception_ptr& failure) {
    entries.remove(entry);
    if (entries.empty()) emptied.notify();
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      log_error("task {} failed: {}", entry->name, e.what());
    } catch (...) {
      log_error("task {} failed", entry->name);
    }
  }
};

TaskGroup::TaskGroup(const Executor& executor) : state_(std::make_shared<State>(executor)) {}
TaskGroup::~TaskGroup() = default;

void TaskGroup::spawn(std::string name, Task<void> task) {
  auto entry = std::make_shared<State::Entry>();
  entry->name = std::move(name);
  state_->entries.push_back(entry);
  auto on_end = [state = state_, entry](const std::exception_ptr& failure) {
    state->ended(entry, failure);
  };
  asio::co_spawn(state_->executor, run_quietly(std::move(task)),
                 asio::bind_cancellation_slot(entry->stop.slot(), std::move(on_end)));
}

void TaskGroup::cancel() {
  // A copy, because a task may end while the others are told.
  const std::vector<std::shared_ptr<State::Entry>> entries(state_->entries.begin(),
                                                           state_->entries.end());
  for (const auto& entry : entries) entry->stop.emit(asio::cancellation_type::terminal);
  // Asio may deliver the word in a later turn, by a pointer into the entry, when the task may have
  // ended: the entries live until then.
  asio::post(state_->executor, [entries] {});
}

Task<bool> TaskGroup::join(Micros at_most) {
  const std::shared_ptr<State> state = state_;
  if (state->entries.empty()) co_return true;
  state->emptied.reset();
  co_await state->emptied.wait_for(at_most);
  const bool all_ended = state->entries.empty();
  co_return all_ended;
}

std::size_t TaskGroup::size() const { return state_->entries.size(); }

}  // namespace hg::net
