// wait_signal.h: Ctrl-C for programs that run an event loop.
//
// One thread; the context outlives it.
#pragma once
#include <functional>
#include <memory>

#include "net/task.h"

namespace hg::cli {

// Calls `asked` at the first SIGINT, SIGTERM or SIGHUP; at the second the program ends at once,
// with 128 + signal.
class SignalWatch {
 public:
  SignalWatch(const net::Executor& executor, std::function<void(int signal)> asked);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // The first signal that came; 0 if none did.
  [[nodiscard]] int signal() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::cli
