// exit_codes.h: what the program's exit status means; docs/cli.md has the same table.
//
// `exec` ends with the status of the program that it ran, or 128 + signal; its own failures take
// the numbers that env(1) and timeout(1) use, which agents do not.
#pragma once

namespace hg::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // It did not work, or (demo) a promise was broken.
inline constexpr int kExitUsage = 2;          // Arguments or configuration: says what is allowed.
inline constexpr int kExitExecFailed = 125;   // exec: Headgate itself failed; nothing was run.
inline constexpr int kExitNotRunnable = 126;  // exec: the program is there but cannot be run.
inline constexpr int kExitNotFound = 127;     // exec: no such program.
inline constexpr int kExitSignal = 128;       // exec: + the signal that ended the program.

}  // namespace hg::cli
