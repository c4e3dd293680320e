// shim.h: the reverse proxy on loopback: what an agent's HTTP request becomes.
//
// Decides which upstream, pool and harness a request is for, refuses what is none of ours, passes
// free what does not generate, and carries the rest through one call's life (paced_call.h). Renews
// the leases of its calls every 2 s. It never decrypts anybody's TLS, and sends to configured
// upstreams only. No header value, key, query string or body reaches a log or an error of ours.
// Thread-safety: none; everything on the one thread of the executor. Clock, store, client, profiles
// and log outlive the shim; the server's handlers have ended before it dies.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/client.h"
#include "net/server.h"
#include "net/task.h"
#include "proxy/call_log.h"
#include "proxy/rate_note.h"
#include "proxy/shim_config.h"
#include "store/memory_store.h"
#include "wire/profiles.h"

namespace hg::proxy {

struct ShimStats {
  std::size_t calls_now = 0;         // Paced calls under way.
  std::size_t held_now = 0;          // Of these, waiting for their turn.
  std::uint64_t body_bytes_now = 0;  // Request bodies in memory.
  std::uint64_t queue_full = 0;      // Calls refused because too many were held.
  std::uint64_t calls = 0;           // Paced calls, since the start.
  std::uint64_t passed_free = 0;     // Requests that do not generate.
  std::uint64_t refused = 0;         // Requests that we could not accept (errors of the 400 class).
  std::uint64_t unread_requests = 0;  // Calls in a coding that could not be read: paced by size.
  std::uint64_t unread_answers = 0;   // Answers in a coding that the side copy could not read.
};

class Shim {
 public:
  Shim(const net::Executor& executor, const Clock& clock, store::MemoryStore& store,
       net::Client& client, const wire::Profiles& profiles, ShimConfig config, CallLog& log);
  ~Shim();
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;

  // Makes the pools of the configuration that the store lacks. Before the first request.
  // Errc::invalid: no upstream, a name that cannot stand in a path, limits out of range, an unknown
  // profile or upstream.
  [[nodiscard]] net::Task<Result<void>> start();

  // Answers one request; the handler of a net::Server.
  [[nodiscard]] net::Task<void> handle(net::ServerExchange& exchange);

  // After the server has stopped: ends the heartbeat and says farewell to the pools.
  [[nodiscard]] net::Task<void> stop();

  // Adds or replaces an upstream by name while running. Errc::invalid as in start.
  [[nodiscard]] Result<void> set_upstream(const Upstream& upstream);

  [[nodiscard]] const std::string& id() const;
  [[nodiscard]] ShimStats stats() const;

  // What the provider last said of its limits to calls of this pool: one note for each unit and
  // window, with its time. Empty for a pool that heard nothing.
  [[nodiscard]] std::vector<RateNote> rates(std::string_view pool) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::proxy
