#include "store/memory_store.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace hg::store {
namespace {

struct Sleeper;
using Sleepers = std::map<std::string, Sleeper*, std::less<>>;  // By id.

// One who sleeps in wait(); in the list of its pool for as long as it lives, also when its
// coroutine is destroyed instead of woken.
struct Sleeper {
  Sleeper(const net::Executor& executor, Sleepers& all, std::string_view id)
      : event(executor), list(all), key(id) {
    const bool alone = list.emplace(key, this).second;
    HG_ASSERT(alone);
  }
  ~Sleeper() { list.erase(key); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  net::Event event;
  Sleepers& list;
  std::string key;
  bool given_up = false;  // By end_wait or close, as opposed to its turn having come.
};

struct Entry {
  Entry(const gate::PoolConfig& config, gate::Birth birth, Instant now,
        const net::Executor& executor)
      : pool(config, birth, now), timer(executor) {}

  gate::Pool pool;
  boost::asio::steady_timer timer;
  std::optional<Instant> armed_for;  // What the timer is set to.
  std::optional<gate::Wake> turn;    // Whose turn it is or will be, as long as it was not told.
  Sleepers sleepers;
};

Error no_pool(std::string_view pool) {
  return Error(Errc::not_found, "no pool of the name " + std::string(pool));
}

}  // namespace

struct MemoryStore::State : std::enable_shared_from_this<MemoryStore::State> {
  State(const net::Executor& the_executor, const Clock& the_clock)
      : executor(the_executor), clock(the_clock) {}

  Entry* find(std::string_view pool) {
    const auto found = pools.find(pool);
    return found == pools.end() ? nullptr : found->second.get();
  }

  // After every operation: hears whose turn it is, tells it if it sleeps, and sets the timer.
  void after(Entry& entry) {
    const Instant now = clock.now();
    if (std::optional<gate::Wake> wake = entry.pool.take_wake()) entry.turn = std::move(wake);
    if (entry.turn && entry.turn->at <= now) tell(entry, entry.turn->id);
    arm(entry, now);
  }

  // Its turn stays noted while nobody sleeps under this id: wait() looks there first.
  void tell(Entry& entry, const std::string& id) {
    const auto sleeper = entry.sleepers.find(id);
    if (sleeper == entry.sleepers.end()) return;
    sleeper->second->event.notify();
    if (entry.turn && entry.turn->id == id) entry.turn.reset();
  }

  void arm(Entry& entry, Instant now) {
    std::optional<Instant> next = entry.pool.next_event();
    const bool turn_to_come = entry.turn && entry.turn->at > now;
    if (turn_to_come && (!next || entry.turn->at < *next)) next = entry.turn->at;
    if (closed) next.reset();
    if (next == entry.armed_for) return;
    entry.armed_for = next;
    if (!next) {
      entry.timer.cancel();
      return;
    }
    entry.timer.expires_after(std::max(*next - now, Micros(0)));
    entry.timer.async_wait([weak = weak_from_this(), which = &entry](boost::system::error_code ec) {
      const std::shared_ptr<State> self = weak.lock();
      if (!self || ec) return;
      which->armed_for.reset();
      self->run(*which);
    });
  }

  void run(Entry& entry) {
    entry.pool.step(clock.now());
    after(entry);
  }

  net::Executor executor;
  const Clock& clock;
  bool closed = false;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> pools;
};

MemoryStore::MemoryStore(const net::Executor& executor, const Clock& clock)
    : state_(std::make_shared<State>(executor, clock)) {}

MemoryStore::~MemoryStore() { close(); }

net::Task<Result<void>> MemoryStore::create(std::string_view pool, const gate::PoolConfig& config,
                                            gate::Birth birth) {
  if (state_->find(pool) != nullptr) {
    co_return fail(Errc::conflict, "there is a pool " + std::string(pool) + " already");
  }
  Result<void> valid = gate::Pool::validate(config);
  if (!valid) co_return valid;
  state_->pools.emplace(
      pool, std::make_unique<Entry>(config, birth, state_->clock.now(), state_->executor));
  co_return Result<void>();
}

bool MemoryStore::exists(std::string_view pool) const { return state_->find(pool) != nullptr; }

std::vector<std::string> MemoryStore::names() const {
  std::vector<std::string> names;
  names.reserve(state_->pools.size());
  for (const auto& [name, entry] : state_->pools) names.push_back(name);
  return names;
}

net::Task<Result<gate::AcquireReply>> MemoryStore::acquire(std::string_view pool,
                                                           const gate::AcquireRequest& request) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return gate::AcquireReply();
  // Who asks has heard of its turn; if it is not admitted, the pool says when the next one is.
  if (entry->turn && entry->turn->id == request.id) entry->turn.reset();
  gate::AcquireReply reply = entry->pool.acquire(request, state_->clock.now());
  state_->after(*entry);
  co_return reply;
}

net::Task<Result<bool>> MemoryStore::settle(std::string_view pool,
                                            const gate::SettleRequest& request) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  const bool done = entry->pool.settle(request, state_->clock.now());
  state_->after(*entry);
  co_return done;
}

net::Task<Result<bool>> MemoryStore::overload(std::string_view pool, std::string_view id) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  const bool done = entry->pool.overload(id, state_->clock.now());
  state_->after(*entry);
  co_return done;
}

net::Task<Result<bool>> MemoryStore::leave(std::string_view pool, std::string_view id,
                                           gate::Pool::Leaving why) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  if (entry->turn && entry->turn->id == id) entry->turn.reset();
  const bool done = entry->pool.leave(id, why, state_->clock.now());
  state_->after(*entry);
  co_return done;
}

net::Task<Result<gate::RenewReply>> MemoryStore::renew(std::string_view pool, std::string_view shim,
                                                       std::span<const gate::LeaseRenewal> leases,
                                                       Micros lease_ttl) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  const gate::RenewReply reply = entry->pool.renew(shim, leases, lease_ttl, state_->clock.now());
  state_->after(*entry);
  co_return reply;
}

net::Task<Result<void>> MemoryStore::farewell(std::string_view pool, std::string_view shim) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  entry->pool.farewell(shim, state_->clock.now());
  state_->after(*entry);
  co_return Result<void>();
}

net::Task<Result<std::int64_t>> MemoryStore::configure(std::string_view pool,
                                                       std::int64_t expected_version,
                                                       const gate::PoolConfig& config) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  Result<std::int64_t> version = entry->pool.configure(expected_version, config,
                                                       state_->clock.now());
  state_->after(*entry);
  co_return version;
}

net::Task<Result<void>> MemoryStore::pause(std::string_view pool, Micros duration) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  const std::vector<gate::Wake> told = entry->pool.pause(duration, state_->clock.now());
  for (const gate::Wake& wake : told) state_->tell(*entry, wake.id);
  state_->after(*entry);
  co_return Result<void>();
}

net::Task<Result<void>> MemoryStore::resume(std::string_view pool) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  entry->pool.resume(state_->clock.now());
  state_->after(*entry);
  co_return Result<void>();
}

net::Task<Result<gate::PoolView>> MemoryStore::view(std::string_view pool) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  co_return entry->pool.view(state_->clock.now());
}

net::Task<Result<PoolSummary>> MemoryStore::summary(std::string_view pool) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) co_return std::unexpected(no_pool(pool));
  PoolSummary summary;
  summary.config = entry->pool.config();
  summary.version = entry->pool.version();
  summary.kappa_micro = entry->pool.kappa_micro();
  co_return summary;
}

net::Task<net::Woken> MemoryStore::wait(std::string_view pool, std::string_view id, Instant until) {
  const std::shared_ptr<State> state = state_;  // The store may be closed while this sleeps.
  Entry* entry = state->find(pool);
  if (entry == nullptr || state->closed) co_return net::Woken::cancelled;
  if (entry->turn && entry->turn->id == id && entry->turn->at <= state->clock.now()) {
    entry->turn.reset();
    co_return net::Woken::notified;
  }
  Sleeper sleeper(state->executor, entry->sleepers, id);
  const Micros at_most = until - state->clock.now();
  const net::Woken woken = co_await sleeper.event.wait_for(at_most);
  if (sleeper.given_up) co_return net::Woken::cancelled;
  co_return woken;
}

void MemoryStore::end_wait(std::string_view pool, std::string_view id) {
  Entry* entry = state_->find(pool);
  if (entry == nullptr) return;
  const auto sleeper = entry->sleepers.find(id);
  if (sleeper == entry->sleepers.end()) return;
  sleeper->second->given_up = true;
  sleeper->second->event.notify();
}

void MemoryStore::run_due() {
  for (const auto& [name, entry] : state_->pools) state_->run(*entry);
}

void MemoryStore::close() {
  state_->closed = true;
  for (const auto& [name, entry] : state_->pools) {
    entry->timer.cancel();
    entry->armed_for.reset();
    for (const auto& [id, sleeper] : entry->sleepers) {
      sleeper->given_up = true;
      sleeper->event.notify();
    }
  }
}

}  // namespace hg::store
