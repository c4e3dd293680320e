// time.h: the two kinds of time, and the clock that code with I/O is given.
//
// Instant is monotonic and for decisions; WallTime is for people, logs and HTTP dates. They are
// different types, so that a step of the wall clock can never reach a decision. Pure code takes
// `Instant now` as an argument; code with I/O takes a Clock& in its constructor. Thread-safety:
// Instant and WallTime are values; an OsClock may be used from any thread, a ManualClock from one.
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace hg {

// Durations everywhere are whole microseconds: 2^53 of them are 285 years, so Lua's doubles hold
// them too.
using Micros = std::chrono::microseconds;
using namespace std::chrono_literals;  // NOLINT: 30s is the clearest spelling of a duration there
                                       // is.

// A point on a monotonic clock whose zero means nothing.
struct Instant {
  Micros since_zero{0};

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
};

// Arithmetic of points and durations, as std::chrono has it: the one place where operators are
// overloaded.
constexpr Instant operator+(Instant at, Micros by) { return {at.since_zero + by}; }
constexpr Instant operator-(Instant at, Micros by) { return {at.since_zero - by}; }
constexpr Micros operator-(Instant later, Instant earlier) {
  return later.since_zero - earlier.since_zero;
}

// A point in UTC, microseconds since 1970.
struct WallTime {
  Micros since_epoch{0};

  friend constexpr auto operator<=>(const WallTime&, const WallTime&) = default;
};

// "2026-11-30T17:13:35.123Z": RFC 3339, milliseconds, UTC.
[[nodiscard]] std::string to_rfc3339(WallTime at);

// Seconds with a fraction, for people and JSON.
[[nodiscard]] constexpr double to_seconds(Micros duration) {
  return static_cast<double>(duration.count()) / 1e6;
}

// Where the time comes from; two implementations: the machine's, and one that tests and simulations
// set.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  [[nodiscard]] virtual WallTime wall() const = 0;
};

// The machine's clocks (steady and system).
class OsClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] WallTime wall() const override;
};

// Stands still until it is moved. Starts at 1,000 s, so that tests may look back, and in 2026.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }
  [[nodiscard]] WallTime wall() const override { return {kWallAtZero + now_.since_zero}; }

  void advance(Micros by) { now_ = now_ + by; }
  void set(Instant at) { now_ = at; }

 private:
  static constexpr Micros kWallAtZero{1'767'225'600'000'000};  // 2026-01-01T00:00:00Z.
  Instant now_{1000s};
};

}  // namespace hg
