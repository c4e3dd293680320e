// scheduler.h: the virtual clock: what happens next, in an order that is the same in every run.
//
// Events of one moment run in the order in which they were scheduled. Pure. Thread-safety: none.
// An action may schedule and cancel; it must not outlive what it refers to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/time.h"

namespace hg::sim {

class Scheduler {
 public:
  using Action = std::function<void()>;

  // Names one scheduled event; stays valid (and harmless) after the event ran.
  struct Event {
    Instant at;
    std::uint64_t sequence = 0;

    friend auto operator<=>(const Event&, const Event&) = default;
  };

  explicit Scheduler(Instant start);

  [[nodiscard]] Instant now() const { return now_; }

  // At `when`, or at once if that has passed.
  Event at(Instant when, Action action);
  Event after(Micros delay, Action action);

  // Takes an event back; nothing if it ran already. Clears the optional.
  void cancel(std::optional<Event>& event);

  // Runs everything up to and including `end`, then stands at `end`.
  void run_until(Instant end);

  [[nodiscard]] std::size_t pending() const { return events_.size(); }
  [[nodiscard]] std::uint64_t events_run() const { return run_; }

 private:
  Instant now_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t run_ = 0;
  std::map<Event, Action> events_;
};

}  // namespace hg::sim
