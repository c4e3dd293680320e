// daemon.h: the parts of `serve`, composed: store, client, shim, call log, the listener for agents
// and the unix socket for this user's own programs.
//
// The listener is the shim's; of the control endpoints it has only those that read:
//   GET  /_headgate/health                   {"status": "ok"}
//   GET  /_headgate/version                  version, process id, addresses, upstreams
//   GET  /_headgate/pools                    limits, levels, leases and queue of each pool
//   GET  /_headgate/totals                   of all calls
//   GET  /_headgate/runs/ID                  of one run
// The unix socket, which only this user can open, also has:
//   GET  /_headgate/attach/ID                stays open: a program of this run is alive
//   POST /_headgate/upstreams {"url": "..."} lets calls go to this URL; answers its name
//   POST /_headgate/stop                     ends the daemon in an orderly way
// One thread (the executor's). Clock and profiles outlive it; stop() before it dies.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cli/config.h"
#include "net/task.h"
#include "proxy/call_log.h"
#include "wire/profiles.h"

namespace hg::cli {

class Daemon {
 public:
  Daemon(const net::Executor& executor, const Clock& clock, const wire::Profiles& profiles,
         const Config& config);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Opens the call log, makes the configured pools, listens. `call_log` is a file name or "";
  // `socket_path` "" is no unix socket. Errc::invalid: the configuration; Errc::conflict: the
  // address or the socket is in use.
  [[nodiscard]] net::Task<Result<void>> start(const std::string& call_log,
                                              const std::string& socket_path);

  // Waits until somebody asked for the end (request_stop, or POST stop), or, with `idle_exit` > 0,
  // until so long nothing was asked, under way or attached.
  [[nodiscard]] net::Task<void> wait_for_end(Micros idle_exit);
  void request_stop();

  // Lets running calls end for at most `drain`, tells the rest to go, and closes.
  [[nodiscard]] net::Task<void> stop(Micros drain);

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string base_url() const;  // "http://127.0.0.1:4290"
  [[nodiscard]] proxy::UsageTotals totals() const;
  // The object of GET /_headgate/version, as text.
  [[nodiscard]] std::string version_json() const;
  // Lines for people: upstreams, pools and where their limits come from.
  [[nodiscard]] std::string description() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::cli
