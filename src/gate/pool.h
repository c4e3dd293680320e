// pool.h: L1, the gate: one provider limit domain, and the one atomic decision that every call asks
// of it.
//
// Decides who may send now, in which order the others follow, and keeps the books (levels, leases,
// waiters, kappa, windows). Pure: no clock, no randomness, no I/O, no logging; the caller passes
// `now`, the store's time. It never polls and owns no timer: `take_wake` says who is to be woken
// and when. gate.lua does the same arithmetic inside Valkey, and tests/vectors/*.json hold the
// two to one answer. The rules are those of the design's section on the gate; every one has a test
// that names it. Cost: O(log n) in leases and waiters for every operation (view: O(n)).
//
// What the owner of a pool must do (a store in memory, the simulator):
//   - after every operation ask take_wake(): it names the head and the moment to wake it;
//   - call step() at next_event(), and ask take_wake() and next_event() again. While the pool has
//     leases or waiters next_event() is at most 5 s away, because
//   - a pool with leases or waiters that sees no command for over 10 s was itself away (frozen,
//     stopped): it takes the gap out of its time, so that nothing is refilled and nothing expires;
//   - for each shim that holds leases or waiters, call renew() every 2 s, with an empty list when
//     it only waits: a shim that is not seen for 6 s (acquire, settle, renew and the like all
//     count) is taken for dead: its waiters lose their reservations until it is seen again, its
//     leases run out, and its share of the admissions is withheld from the others for 10 minutes.
// Thread-safety: none; a Pool belongs to one strand.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gate/types.h"

namespace hg::gate {

// How a pool comes to life: made on purpose it is full; rebuilt after its state was lost it is
// empty, so that a fleet does not burst twice.
enum class Birth : std::uint8_t { created_full, restored_empty };

// The most leases that one renew() reads; a shim with more sends several.
inline constexpr std::size_t kRenewMax = 100;

class Pool {
 public:
  // `config` has passed `validate`. `version`: of a configuration that is restored; a new one
  // has 1.
  Pool(const PoolConfig& config, Birth birth, Instant now, std::int64_t version = 1);
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // Errc::invalid with the field and what is allowed. Also keeps every product of the arithmetic
  // below 2^53.
  [[nodiscard]] static Result<void> validate(const PoolConfig& config);

  // Asks for admission, or asks again; idempotent by id. See the design for the order of the
  // checks.
  AcquireReply acquire(const AcquireRequest& request, Instant now);

  // Ends a call that was admitted: gives the lease back and replaces the charge by the true one.
  // No-op on an id that is unknown, ended or still waiting (answers false).
  bool settle(const SettleRequest& request, Instant now);

  // Ends a try that the provider refused for load: counts it, gives the lease back, refunds the
  // charge (unless the profile says that refused calls count). No-op on an unknown or ended id
  // (answers false).
  bool overload(std::string_view id, Instant now);

  // A waiter gives up: it leaves at once, `timed_out` counts as the end of its hold. False when it
  // is not waiting: then it was dropped at its own deadline, or admitted (and must be settled).
  enum class Leaving : std::uint8_t { gone, timed_out };
  bool leave(std::string_view id, Leaving why, Instant now);

  // The heartbeat of a shim, every 2 s while it has leases or waiters: extends its leases by
  // `lease_ttl` and rebuilds those that are missing (not ended ones). Leases past the first
  // kRenewMax are not read. An empty list counts too: the shim is alive.
  RenewReply renew(std::string_view shim, std::span<const LeaseRenewal> leases, Micros lease_ttl,
                   Instant now);

  // A shim goes in an orderly way, its calls ended: its silence is no sign of a lost one.
  void farewell(std::string_view shim, Instant now);

  // Changes limits if `expected_version` is the present one: levels are kept, a lower capacity
  // clamps. Answers the new version; Errc::conflict or Errc::invalid.
  Result<std::int64_t> configure(std::int64_t expected_version, const PoolConfig& config,
                                 Instant now);

  // Takes what a shim last saw of the configuration, if its version is higher than the present one
  // (answers whether it was). Levels are kept, a lower capacity clamps.
  bool restore(std::int64_t version, const PoolConfig& config, Instant now);

  // An exhausted quota: nobody is admitted for `duration` (at most 7 days), but for the head once a
  // minute, as a probe. Answers every waiter, head first, each to be told at once that it will not
  // pass before `at`: when it asks again, the answer says `paused` and how long.
  std::vector<Wake> pause(Micros duration, Instant now);
  void resume(Instant now);

  // Who is to be woken and when, if the head or its moment changed since the last call, or the head
  // itself asked since; else nothing. A head that waits for others to give back in-flight tokens
  // has no moment: it is told when the release has come. Moments are on the caller's clock, as
  // `now` is.
  [[nodiscard]] std::optional<Wake> take_wake();

  // The next moment at which something changes by itself (a lease or waiter expires, a shim is
  // taken for dead, a head loses its reservation), at most 5 s after the last command: the owner
  // calls `step` then, so that nobody waits for a dead head. Nothing when idle.
  [[nodiscard]] std::optional<Instant> next_event() const;

  // Refills, drops what is past its deadline, passes reservations on. Every operation begins so.
  void step(Instant now);

  [[nodiscard]] PoolView view(Instant now) const;
  [[nodiscard]] std::int64_t kappa_micro() const;  // Characters per token, millionths.
  [[nodiscard]] std::int64_t version() const;
  [[nodiscard]] const PoolConfig& config() const;
  [[nodiscard]] bool idle() const;  // No lease and no waiter.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The charge of a call: uncached + w_cached x cached + w_out x output, floored once at the end.
[[nodiscard]] Tokens charge_of(const Usage& usage, const Weights& weights);

}  // namespace hg::gate
