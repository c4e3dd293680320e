#include "cli/runtime_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hg::cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read at start.
  return value == nullptr ? "" : value;
}

}  // namespace

Result<RuntimeDir> runtime_dir_of(const std::string& configured) {
  RuntimeDir dir;
  dir.path = configured;
  if (dir.path.empty()) {
    const std::string runtime = environment("XDG_RUNTIME_DIR");
    dir.path = runtime.empty() ? fmt::format("/tmp/headgate-{}", ::geteuid())
                               : runtime + "/headgate";
  }
  while (dir.path.size() > 1 && dir.path.ends_with('/')) dir.path.pop_back();
  if (dir.socket().size() >= sizeof(sockaddr_un{}.sun_path)) {
    return fail(Errc::unavailable,
                fmt::format("runtime directory {}: too long for a socket (at most {} characters); "
                            "choose another by --runtime-dir",
                            dir.path, sizeof(sockaddr_un{}.sun_path) - 16));
  }
  return dir;
}

Result<RuntimeDir> open_runtime_dir(const std::string& configured) {
  auto where = runtime_dir_of(configured);
  if (!where) return where;
  const RuntimeDir& dir = *where;
  if (::mkdir(dir.path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(Errc::unavailable,
                fmt::format("runtime directory {}: {}", dir.path, std::strerror(errno)));
  }
  struct stat status{};
  if (::lstat(dir.path.c_str(), &status) != 0) {
    return fail(Errc::unavailable,
                fmt::format("runtime directory {}: {}", dir.path, std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
    return fail(
        Errc::unavailable,
        fmt::format("runtime directory {}: must be a directory of your own that nobody else "
                    "may enter (chmod 700); choose another by --runtime-dir",
                    dir.path));
  }
  return dir;
}

Result<void> make_parents(const std::string& file) {
  for (auto slash = file.find('/', 1); slash != std::string::npos;
       slash = file.find('/', slash + 1)) {
    const std::string parent = file.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
      return fail(Errc::unavailable, fmt::format("{}: {}", parent, std::strerror(errno)));
    }
  }
  return {};
}

std::string default_call_log() {
  const std::string state = environment("XDG_STATE_HOME");
  if (!state.empty()) return state + "/headgate/calls.jsonl";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.local/state/headgate/calls.jsonl";
}

Result<FileLock> FileLock::take(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return fail(Errc::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  FileLock lock(descriptor);
  constexpr int kTries = 400;  // Of 50 ms: 20 s, twice what starting a daemon may take.
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return fail(Errc::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
    }
    ::poll(nullptr, 0, 50);
  }
  return fail(Errc::timed_out, fmt::format("{}: somebody has held this lock for 20 s", path));
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

}  // namespace hg::cli
