// memory_store.h: pools that live in this process: the gate's operations by name, and waiting.
//
// Owns the pools, one timer a pool, and those who wait. Nothing polls: a waiter sleeps until the
// pool says that its turn has come, until its own deadline, or until its owner gives up. The time
// is the clock's; callers bring durations, except for wait(), whose deadline is on the same clock.
// The operations are tasks and can fail, because the store behind them may be remote some day; here
// they complete without suspending. Errors: not_found (no such pool), invalid, conflict.
// Thread-safety: none; all calls on the one thread of the executor. The clock outlives the store.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gate/pool.h"
#include "gate/types.h"
#include "net/task.h"

namespace hg::store {

// What a shim needs to know of a pool for every call, without the lists of a whole view.
struct PoolSummary {
  gate::PoolConfig config;
  std::int64_t version = 0;
  std::int64_t kappa_micro = 0;  // Characters per token, millionths.
};

class MemoryStore {
 public:
  MemoryStore(const net::Executor& executor, const Clock& clock);
  ~MemoryStore();  // As close().
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // Makes a pool, full or (rebuilt after its state was lost) empty. conflict if it is there.
  [[nodiscard]] net::Task<Result<void>> create(std::string_view pool,
                                               const gate::PoolConfig& config,
                                               gate::Birth birth = gate::Birth::created_full);
  [[nodiscard]] bool exists(std::string_view pool) const;
  [[nodiscard]] std::vector<std::string> names() const;  // In order.

  // The gate's operations; what they mean stands in gate/pool.h. An acquire in a pool that is not
  // there answers Verdict::no_pool, not an error.
  [[nodiscard]] net::Task<Result<gate::AcquireReply>> acquire(std::string_view pool,
                                                              const gate::AcquireRequest& request);
  [[nodiscard]] net::Task<Result<bool>> settle(std::string_view pool,
                                               const gate::SettleRequest& request);
  [[nodiscard]] net::Task<Result<bool>> overload(std::string_view pool, std::string_view id);
  [[nodiscard]] net::Task<Result<bool>> leave(std::string_view pool, std::string_view id,
                                              gate::Pool::Leaving why);
  [[nodiscard]] net::Task<Result<gate::RenewReply>> renew(
      std::string_view pool, std::string_view shim, std::span<const gate::LeaseRenewal> leases,
      Micros lease_ttl);
  [[nodiscard]] net::Task<Result<void>> farewell(std::string_view pool, std::string_view shim);
  [[nodiscard]] net::Task<Result<std::int64_t>> configure(std::string_view pool,
                                                          std::int64_t expected_version,
                                                          const gate::PoolConfig& config);
  [[nodiscard]] net::Task<Result<void>> pause(std::string_view pool, Micros duration);
  [[nodiscard]] net::Task<Result<void>> resume(std::string_view pool);
  [[nodiscard]] net::Task<Result<gate::PoolView>> view(std::string_view pool);
  [[nodiscard]] net::Task<Result<PoolSummary>> summary(std::string_view pool);

  // Sleeps while `id`, denied before, is in the queue. `notified`: ask again now, your turn has
  // come (or the pool was paused, which the answer will say). `deadline`: `until` has passed.
  // `cancelled`: by end_wait, close, or a task group. One wait an id at a time.
  [[nodiscard]] net::Task<net::Woken> wait(std::string_view pool, std::string_view id,
                                           Instant until);

  // Ends the wait of `id`, if it waits, as `cancelled`, in this turn of the event loop. It is in
  // the queue still: leave() is next. May be called from a callback.
  void end_wait(std::string_view pool, std::string_view id);

  // Does what the timers would do at the clock's present moment: for tests whose clock is set by
  // hand, and after the machine slept.
  void run_due();

  // Ends all waits as `cancelled` and stops the timers.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::store
