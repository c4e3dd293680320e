// runtime_dir.h: the private directory where a user's daemon and the programs that join it meet.
//
// Holds the daemon's socket, its start lock and the log of a daemon that exec started. Only this
// user may enter it; a directory that somebody else owns or can write to is refused, because
// whoever controls the socket gets the keys. Blocking file operations; any thread.
#pragma once
#include <string>

#include "base/result.h"

namespace hg::cli {

struct RuntimeDir {
  std::string path;

  [[nodiscard]] std::string socket() const { return path + "/headgate.sock"; }
  [[nodiscard]] std::string lock() const { return path + "/start.lock"; }
  [[nodiscard]] std::string daemon_log() const { return path + "/serve.log"; }
};

// `configured`, else $XDG_RUNTIME_DIR/headgate, else /tmp/headgate-UID; made with mode 0700 if it
// is not there. Errc::unavailable: not ours, open to others, not a directory, or too long a path
// for a socket.
[[nodiscard]] Result<RuntimeDir> open_runtime_dir(const std::string& configured);

// The same without looking at it or making it: where it is. Errc::unavailable: too long a path.
[[nodiscard]] Result<RuntimeDir> runtime_dir_of(const std::string& configured);

// Makes the directories above a file of the user's own, mode 0700. Errc::unavailable.
[[nodiscard]] Result<void> make_parents(const std::string& file);

// $XDG_STATE_HOME/headgate/calls.jsonl, else ~/.local/state/headgate/calls.jsonl; "" without a
// home.
[[nodiscard]] std::string default_call_log();

// An exclusive lock on a file, released when it dies (or the process does).
class FileLock {
 public:
  // Waits up to 20 s for whoever has it. Errc::timed_out, Errc::unavailable.
  [[nodiscard]] static Result<FileLock> take(const std::string& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace hg::cli
