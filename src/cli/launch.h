// launch.h: child processes: the agent that exec runs, and the daemon that it starts.
//
// Blocking; one thread, before any other is started. No shell is involved.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hg::cli {

struct Program {
  std::string file;                    // Path, as found.
  std::vector<std::string> arguments;  // argv, the first as the user wrote it.
  std::vector<std::pair<std::string, std::string>> environment;  // Set on top of ours.
};

// Where `name` is: itself if it has a slash, else in PATH. Errc::not_found: no such file;
// Errc::unavailable: there, but not executable.
[[nodiscard]] Result<std::string> find_program(const std::string& name);

// Runs it in our process group with our terminal and waits. SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1 and SIGUSR2 that reach us are passed on (but for those that the terminal gave to the
// whole group already); stopping and continuing work as in a shell. Answers the exit status, 128 +
// signal if it died of one. If we die, the child gets SIGTERM.
[[nodiscard]] Result<int> run_program(const Program& program);

// Starts a daemon in a session of its own, stdin and stdout on /dev/null, stderr appended to `log`.
// Answers its process id; it is reaped by nobody of ours.
[[nodiscard]] Result<int> start_detached(const std::vector<std::string>& arguments,
                                         const std::string& log);

}  // namespace hg::cli
