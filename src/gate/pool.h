// pool.h: L1, the gate: one provider limit domain, and the one atomic decision that every call asks
// of it.
//
// Decides who may send now, in which order the others follow, and keeps the books (levels, leases,
// waiters, kappa, windows). Pure: no clock, no randomness, no I/O, no logging; the caller passes
// `now`, the store's time. It never polls and owns no timer: `take_wake` says who is to be woken
// and when. gate.lua will do the same arithmetic inside Valkey, and tests/vectors/*.json hold the
// two to one answer. The rules are those of the design's section on the gate; every one has a test
// in pool_test.cc that names it. Cost: O(log n) in leases and waiters for every operation.
// Thread-safety: none; a Pool belongs to one strand.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "gate/types.h"

namespace hg::gate {

// How a pool comes to life: made on purpose it is full; rebuilt after its state was lost it is
// empty, so that a fleet does not burst twice.
enum class Birth : std::uint8_t { created_full, restored_empty };

class Pool {
 public:
  // `config` has passed `validate`.
  Pool(const PoolConfig& config, Birth birth, Instant now);
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
  // No-op on an unknown or ended id (answers false).
  bool settle(const SettleRequest& request, Instant now);

  // Ends a try that the provider refused for load: counts it, gives the lease back, refunds the
  // charge (unless the profile says that refused calls count). No-op on an unknown or ended id
  // (answers false).
  bool overload(std::string_view id, Instant now);

  // A waiter gives up: it leaves at once, `timed_out` counts as the end of its hold.
  enum class Leaving : std::uint8_t { gone, timed_out };
  bool leave(std::string_view id, Leaving why, Instant now);

  // The heartbeat of a shim, every 2 s while it has leases or waiters: extends its leases by
  // `lease_ttl` and rebuilds those that are missing (not ended ones). At most 100 a command.
  void renew(std::string_view shim, std::span<const LeaseRenewal> leases, Micros lease_ttl,
             Instant now);

  // Changes limits if `expected_version` is the present one: levels are kept, a lower capacity
  // clamps. Answers the new version; Errc::conflict or Errc::invalid.
  Result<std::int64_t> configure(std::int64_t expected_version, const PoolConfig& config,
                                 Instant now);

  // An exhausted quota: nobody is admitted for `duration`, but for one probe a minute.
  void pause(Micros duration, Instant now);
  void resume(Instant now);

  // Who is to be woken and when, if the head or its moment changed since the last call; else
  // nothing.
  [[nodiscard]] std::optional<Wake> take_wake(Instant now);

  // The next moment at which something changes by itself (a lease or waiter expires, a head loses
  // its reservation): the owner calls `step` then, so that nobody waits for a dead head. Nothing
  // when idle.
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
