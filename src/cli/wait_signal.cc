#include "cli/wait_signal.h"

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "cli/exit_codes.h"

namespace hg::cli {

struct SignalWatch::State {
  State(const net::Executor& executor, std::function<void(int)> callback)
      : signals(executor, SIGINT, SIGTERM, SIGHUP), asked(std::move(callback)) {}

  boost::asio::signal_set signals;
  std::function<void(int)> asked;
  int first = 0;
};

SignalWatch::SignalWatch(const net::Executor& executor, std::function<void(int)> asked)
    : state_(std::make_shared<State>(executor, std::move(asked))) {
  const std::shared_ptr<State> state = state_;
  state->signals.async_wait([state](const boost::system::error_code& error, int signal) {
    if (error) return;
    state->first = signal;
    state->asked(signal);
    state->signals.async_wait([](const boost::system::error_code& again, int second) {
      if (!again) std::_Exit(kExitSignal + second);
    });
  });
}

SignalWatch::~SignalWatch() {
  boost::system::error_code ignored;
  state_->signals.cancel(ignored);
}

int SignalWatch::signal() const { return state_->first; }

}  // namespace hg::cli
