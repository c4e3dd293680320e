// client_pool.h: idle connections, by upstream. Inside net only.
//
// Each idle connection keeps a read pending, so that one that the upstream ends leaves the pool at
// once. Lives in a shared_ptr, because its timer and its connections call back.
#pragma once
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "net/connection.h"

namespace hg::net {

class ClientPool : public std::enable_shared_from_this<ClientPool> {
 public:
  struct Entry {
    std::shared_ptr<Connection> connection;
    Instant born;        // When it was connected.
    Instant idle_since;  // When it came back.
  };

  // The clock outlives the pool.
  ClientPool(const Executor& executor, const Clock& clock, Micros idle, Micros age,
             std::size_t idle_max);

  // The connection used last, so that the others can age away. Those that are too old or ended by
  // their peer are closed on the way.
  [[nodiscard]] std::optional<Entry> take(const std::string& origin);

  // Closes it instead if it is too old or the pool is full.
  void put(const std::string& origin, std::shared_ptr<Connection> connection, Instant born);

  void close_all();
  [[nodiscard]] std::size_t size() const;

 private:
  using Origins = std::map<std::string, std::list<Entry>>;

  void forget_if_empty(Origins::iterator origin);
  [[nodiscard]] bool is_fresh(const Entry& entry) const;
  void drop(const std::string& origin, const Connection* connection);
  void sweep_later();
  void sweep();

  const Clock& clock_;
  Micros idle_;
  Micros age_;
  std::size_t idle_max_;  // An origin.
  Origins idle_by_origin_;
  asio::steady_timer timer_;
  bool sweeping_ = false;
};

}  // namespace hg::net
