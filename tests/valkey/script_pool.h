// script_pool.h: a pool in a real store that is called as gate::Pool is, one command at a time, at
// moments that the test gives.
#pragma once
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gate/pool.h"
#include "gate/script.h"
#include "tests/valkey/connection.h"

namespace hg::valkey {

class ScriptPool {
 public:
  // `name` is new in that store. The connection outlives the pool.
  ScriptPool(Connection& connection, std::string_view name, const gate::PoolConfig& config,
             gate::Birth birth, Instant now, std::int64_t version = 1)
      : connection_(&connection), keys_(name) {
    const bool full = birth == gate::Birth::created_full;
    need(read_done(
        run(full ? gate::script::create(config) : gate::script::restore(version, config), now)));
    // A pool that is created has version 1; any other comes as a restored configuration.
    if (full && version != 1) need(read_done(run(gate::script::restore(version, config), now)));
  }

  gate::AcquireReply acquire(const gate::AcquireRequest& request, Instant now) {
    return need(read_acquire(run(gate::script::acquire(request), now)));
  }
  bool settle(const gate::SettleRequest& request, Instant now) {
    return done(gate::script::settle(request), now);
  }
  bool overload(std::string_view id, Instant now) { return done(gate::script::overload(id), now); }
  bool leave(std::string_view id, gate::Pool::Leaving why, Instant now) {
    return done(gate::script::leave(id, why), now);
  }
  gate::RenewReply renew(std::string_view shim, std::span<const gate::LeaseRenewal> leases,
                         Micros ttl, Instant now) {
    return need(read_renew(run(gate::script::renew(shim, leases, ttl), now)));
  }
  void farewell(std::string_view shim, Instant now) { done(gate::script::farewell(shim), now); }
  Result<std::int64_t> configure(std::int64_t expected, const gate::PoolConfig& config,
                                 Instant now) {
    const auto answer = read_configure(run(gate::script::configure(expected, config), now));
    if (!answer) return std::unexpected(answer.error());
    keep(answer->notes);
    return answer->reply;
  }
  bool restore(std::int64_t version, const gate::PoolConfig& config, Instant now) {
    return done(gate::script::restore(version, config), now);
  }
  // The store answers the moment; that it tells every waiter is one message a shim.
  std::vector<gate::Wake> pause(Micros duration, Instant now) {
    const gate::script::PauseReply reply = need(
        read_pause(run(gate::script::pause(duration), now)));
    std::vector<gate::Wake> told;
    for (const gate::WaiterView& waiter : view(now).waiters) {
      told.push_back({waiter.id, waiter.shim, reply.at});
    }
    return told;
  }
  void resume(Instant now) { done(gate::script::resume(), now); }
  void step(Instant now) { done(gate::script::step(), now); }

  std::optional<gate::Wake> take_wake() { return std::exchange(wake_, std::nullopt); }
  // No shim asks a store for it: heartbeats are what makes a pool there step.
  static std::optional<Instant> next_event() { return std::nullopt; }
  gate::PoolView view(Instant now) {
    auto answer = read_view(run(gate::script::view(), now));
    if (!answer) throw std::runtime_error(answer.error().detail);
    return std::move(*answer);
  }
  gate::PoolConfig config() {
    // Of a moment that no clock reaches: looking changes nothing.
    const auto answer = read_summary(run(gate::script::summary(), Instant{}));
    if (!answer) throw std::runtime_error(answer.error().detail);
    return answer->config;
  }

 private:
  Value run(gate::script::Call call, Instant now) {
    set_now(call, now);
    return connection_->run(keys_, call);
  }
  bool done(const gate::script::Call& call, Instant now) { return need(read_done(run(call, now))); }

  template <typename T>
  T need(const Result<gate::script::Answer<T>>& answer) {
    if (!answer) throw std::runtime_error(answer.error().detail);
    keep(answer->notes);
    return answer->reply;
  }
  void keep(const gate::script::Notes& notes) {
    wake_.reset();
    if (notes.wake) wake_ = gate::Wake{notes.wake->id, notes.wake->shim, notes.wake->at};
  }

  Connection* connection_;
  gate::script::PoolKeys keys_;
  std::optional<gate::Wake> wake_;
};

}  // namespace hg::valkey
