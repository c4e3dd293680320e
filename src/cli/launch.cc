#include "cli/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cli/exit_codes.h"

namespace hg::cli {

namespace {

// The signals that a person or a job system sends to end or steer a program.
constexpr std::array<int, 6> kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Our environment with `changes` on top.
std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& change : changes) replaced = replaced || change.first == name;
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

// Only async-signal-safe calls between fork and exec.
[[noreturn]] void become(const char* file, char* const* arguments, char* const* environment,
                         const sigset_t& mask, int failure_pipe) {
  ::signal(SIGPIPE, SIG_DFL);  // Ignored signals stay so across exec.
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve(file, arguments, environment);
  const int error = errno;
  // The parent reads the errno; if even that fails, the exit status still tells.
  const ssize_t written = ::write(failure_pipe, &error, sizeof error);
  ::_exit(written == sizeof error ? kExitNotRunnable : kExitNotFound);
}

// Whether a signal came from the terminal, which gave it to the child as well.
bool from_terminal(const siginfo_t& info) {
  return info.si_code == SI_KERNEL && (info.si_signo == SIGINT || info.si_signo == SIGQUIT);
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  const auto runnable = [](const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return fail(Errc::not_found, "no program was named");
  if (name.find('/') != std::string::npos) {
    if (runnable(name)) return name;
    if (::access(name.c_str(), F_OK) == 0) {
      return fail(Errc::unavailable, fmt::format("{}: not an executable file", name));
    }
    return fail(Errc::not_found, fmt::format("{}: no such file", name));
  }
  const char* search = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): read at start.
  std::string_view rest = search == nullptr ? "/usr/local/bin:/usr/bin:/bin" : search;
  bool there = false;
  while (true) {
    const auto colon = rest.find(':');
    std::string directory(rest.substr(0, colon));
    if (directory.empty()) directory = ".";
    const std::string path = directory + "/" + name;
    if (runnable(path)) return path;
    there = there || ::access(path.c_str(), F_OK) == 0;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (there) return fail(Errc::unavailable, fmt::format("{}: not an executable file", name));
  return fail(Errc::not_found, fmt::format("{}: not found in PATH", name));
}

Result<int> run_program(const Program& program) {
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> variables = merged_environment(program.environment);
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> variable_list = pointers(variables);

  sigset_t waited;
  sigemptyset(&waited);
  for (const int signal : kForwarded) sigaddset(&waited, signal);
  sigaddset(&waited, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &waited, &before);

  int failure[2] = {-1, -1};
  if (::pipe2(failure, O_CLOEXEC) != 0) {
    return fail(Errc::internal, fmt::format("pipe: {}", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kExitExecFailed);
    become(program.file.c_str(), argument_list.data(), variable_list.data(), before, failure[1]);
  }
  ::close(failure[1]);
  if (child < 0) {
    ::close(failure[0]);
    return fail(Errc::internal, fmt::format("fork: {}", std::strerror(errno)));
  }

  int status = 0;
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited, &info);
    if (signal < 0) continue;
    if (signal != SIGCHLD) {
      if (!from_terminal(info)) ::kill(child, signal);
      continue;
    }
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
  }
  int error = 0;
  const ssize_t read = ::read(failure[0], &error, sizeof error);
  ::close(failure[0]);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (read == sizeof error) {
    return fail(Errc::unavailable, fmt::format("{}: {}", program.file, std::strerror(error)));
  }
  return WIFSIGNALED(status) ? kExitSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<int> start_detached(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<std::string> copy = arguments;
  const std::vector<char*> list = pointers(copy);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (null < 0 || file < 0) {
    const int error = errno;
    if (null >= 0) ::close(null);
    return fail(Errc::unavailable, fmt::format("{}: {}", log, std::strerror(error)));
  }
  int told[2] = {-1, -1};
  if (::pipe2(told, O_CLOEXEC) != 0) {
    return fail(Errc::internal, fmt::format("pipe: {}", std::strerror(errno)));
  }
  const pid_t first = ::fork();
  if (first == 0) {
    ::setsid();
    // The second fork gives the daemon to init, and keeps it from ever getting a terminal.
    const pid_t daemon = ::fork();
    if (daemon != 0) {
      const ssize_t written = ::write(told[1], &daemon, sizeof daemon);
      ::_exit(written == sizeof daemon ? 0 : 1);
    }
    ::dup2(null, STDIN_FILENO);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    if (::chdir("/") != 0) ::_exit(1);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv("/proc/self/exe", list.data());
    ::_exit(1);
  }
  ::close(told[1]);
  ::close(null);
  ::close(file);
  pid_t daemon = -1;
  const ssize_t read = first < 0 ? 0 : ::read(told[0], &daemon, sizeof daemon);
  ::close(told[0]);
  if (first > 0) ::waitpid(first, nullptr, 0);
  if (read != sizeof daemon || daemon < 0) {
    return fail(Errc::internal, "the daemon could not be started");
  }
  return static_cast<int>(daemon);
}

}  // namespace hg::cli
