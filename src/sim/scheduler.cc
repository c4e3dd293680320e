#include "sim/scheduler.h"

#include <algorithm>
#include <utility>

namespace hg::sim {

Scheduler::Scheduler(Instant start) : now_(start) {}

Scheduler::Event Scheduler::at(Instant when, Action action) {
  const Event event{std::max(when, now_), next_sequence_++};
  events_.emplace(event, std::move(action));
  return event;
}

Scheduler::Event Scheduler::after(Micros delay, Action action) {
  return at(now_ + delay, std::move(action));
}

void Scheduler::cancel(std::optional<Event>& event) {
  if (event) events_.erase(*event);
  event.reset();
}

void Scheduler::run_until(Instant end) {
  while (!events_.empty() && events_.begin()->first.at <= end) {
    auto node = events_.extract(events_.begin());
    now_ = node.key().at;
    ++run_;
    node.mapped()();
  }
  now_ = std::max(now_, end);
}

}  // namespace hg::sim
