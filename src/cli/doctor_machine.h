// doctor_machine.h: what this machine gives a daemon: the runtime directory and its socket, the
// listening port, open files, clocks, a place for the call log.
//
// Blocking looks at files, sockets and /proc; nothing is made or changed. The judge_ functions are
// pure. One thread.
#pragma once
#include <optional>
#include <string>

#include "base/time.h"
#include "cli/config.h"
#include "cli/doctor_addresses.h"
#include "cli/doctor_findings.h"
#include "cli/file_limit.h"
#include "net/url.h"

namespace hg::cli {

// The daemon of this user, as it says of itself.
struct RunningDaemon {
  std::string version;
  std::string base_url;
  std::string fingerprint;  // Of its configuration (compose.h).
  std::int64_t pid = 0;
};

// The runtime directory and the socket in it; `daemon` is set when one answers there.
[[nodiscard]] Findings check_runtime(const Config& config, Micros within,
                                     std::optional<RunningDaemon>& daemon);
// Whether programs of this version and configuration may join it.
[[nodiscard]] Finding judge_daemon(const RunningDaemon& daemon, const Config& config);

// Whether `serve` could listen where the configuration says. Not for port 0, nor while the daemon
// runs there.
[[nodiscard]] Findings check_port(const Config& config, const std::optional<RunningDaemon>& daemon,
                                  Micros within);

// Who answers at this URL: connects, and asks for what only a Headgate has. Plain http only; of
// other URLs it is not asked.
struct Heard {
  Listener who = Listener::not_asked;
  RunningDaemon gate;  // For Listener::gate.
};
[[nodiscard]] Heard ask_listener(const net::Url& url, Micros within);

// Whether the limit holds the calls that the configuration allows.
[[nodiscard]] Finding judge_files(const FileLimit& limit, const Config& config);

// Whether both clocks have run alike for a while.
[[nodiscard]] Finding judge_clocks(Micros monotonic, Micros wall);

// Whether the call log can be appended to.
[[nodiscard]] Finding check_call_log(const std::string& path);

}  // namespace hg::cli
