#include "cli/doctor_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "cli/exit_codes.h"
#include "cli/launch.h"

namespace hg::cli {

namespace {

constexpr std::string_view kAbout = "programs";
constexpr std::size_t kOutputBytesMax = 4096;
constexpr Micros kLookEvery = 50ms;  // At children whose output stays open.

std::string about() { return std::string(kAbout); }

struct Child {
  pid_t pid = -1;
  int output = -1;
  BriefRun run;
};

// Started with its own session, so that it finds no terminal to ask on and is killed as one.
Child start(const std::vector<std::string>& command) {
  Child child;
  int pipe[2] = {-1, -1};
  if (command.empty() || ::pipe2(pipe, O_CLOEXEC) != 0) return child;
  ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  std::vector<std::string> copy = command;
  std::vector<char*> list;
  list.reserve(copy.size() + 1);
  for (std::string& word : copy) list.push_back(word.data());
  list.push_back(nullptr);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid == 0) {
    // Only async-signal-safe calls from here on.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kExitFailed);
    ::setsid();
    ::dup2(null, STDIN_FILENO);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::signal(SIGPIPE, SIG_DFL);
    ::execv(list[0], list.data());
    ::_exit(kExitNotRunnable);
  }
  ::close(pipe[1]);
  if (null >= 0) ::close(null);
  child.output = pipe[0];
  return child;
}

// Reads what there is; false when there will be no more.
bool read_some(Child& child) {
  char chunk[1024];
  const ssize_t count = ::read(child.output, chunk, sizeof chunk);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  const std::size_t room = kOutputBytesMax - child.run.output.size();
  child.run.output.append(chunk, std::min(room, static_cast<std::size_t>(count)));
  return true;
}

// Whether it has ended, though something that it started may hold its output open.
bool has_ended(const Child& child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child.pid;
}

void finish(Child& child, bool ended) {
  child.run.ended = ended;
  ::close(std::exchange(child.output, -1));
  if (child.pid <= 0) return;
  // Also when it has ended: what it left running goes with it.
  ::kill(-child.pid, SIGKILL);
  if (!ended) ::kill(child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view major_of(std::string_view version) { return version.substr(0, version.find('.')); }

}  // namespace

std::vector<BriefRun> run_briefly(const std::vector<std::vector<std::string>>& commands,
                                  Micros within) {
  const OsClock clock;
  const Instant deadline = clock.now() + within;
  std::vector<Child> children;
  children.reserve(commands.size());
  for (const auto& command : commands) children.push_back(start(command));
  while (true) {
    std::vector<pollfd> waited;
    std::vector<Child*> whose;
    for (Child& child : children) {
      if (child.output < 0) continue;
      waited.push_back({child.output, POLLIN, 0});
      whose.push_back(&child);
    }
    const Micros left = deadline - clock.now();
    if (waited.empty() || left <= 0s) break;
    const Micros pause = std::min(left, kLookEvery);
    const int ready = ::poll(waited.data(), waited.size(),
                             static_cast<int>(pause.count() / 1000) + 1);
    if (ready < 0 && errno != EINTR) break;
    for (std::size_t at = 0; at < waited.size(); ++at) {
      if (waited[at].revents == 0) {
        if (has_ended(*whose[at])) finish(*whose[at], true);
      } else if (!read_some(*whose[at])) {
        finish(*whose[at], true);
      }
    }
  }
  std::vector<BriefRun> runs;
  for (Child& child : children) {
    if (child.output >= 0) finish(child, false);
    runs.push_back(std::move(child.run));
  }
  return runs;
}

std::string version_in(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = is_digit(text[at]) &&
                        (at == 0 || (!is_digit(text[at - 1]) && text[at - 1] != '.'));
    if (!begins) continue;
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end + 1 >= text.size() || text[end] != '.' || !is_digit(text[end + 1])) continue;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == '-' ||
                                 (text[end] >= 'a' && text[end] <= 'z'))) {
      ++end;
    }
    while (text[end - 1] == '.' || text[end - 1] == '-') --end;
    return std::string(text.substr(at, end - at));
  }
  return "";
}

Finding judge_version(const wire::HarnessProfile& harness, const std::string& program,
                      const BriefRun& run) {
  const std::string version = version_in(run.output);
  if (!run.ended && version.empty()) {
    return warning("programs.silent", about(),
                   fmt::format("{} ({}) did not tell its version in time", harness.name, program),
                   fmt::format("Run {} --version by hand: it may just start slowly here; if it "
                               "hangs, install it anew.",
                               program));
  }
  if (version.empty()) {
    return fine("programs.version", about(),
                fmt::format("{} ({}) tells no version", harness.name, program));
  }
  const std::string seen = fmt::format("{} {} ({})", harness.name, version, program);
  const auto& verified = harness.verified;
  if (verified.empty()) {
    return fine("programs.version", about(), seen + "; its numbers were not measured, but read");
  }
  if (std::find(verified.begin(), verified.end(), version) != verified.end()) {
    return fine("programs.version", about(),
                seen + ", the version with which its numbers were measured");
  }
  const std::string than = fmt::format("{}; its numbers were measured with {}", seen,
                                       verified.back());
  if (major_of(version) == major_of(verified.back()))
    return fine("programs.version", about(), than);
  return warning("programs.version", about(), than,
                 fmt::format("If its calls are cut or bypass the gate, lower its hold cap "
                             "(hold_cap_s in a profile of your own, docs/profiles.md) or use {}.",
                             verified.back()));
}

Findings check_programs(const wire::Profiles& profiles, Micros within) {
  Findings findings;
  std::vector<const wire::HarnessProfile*> here;
  std::vector<std::string> programs;
  std::vector<std::vector<std::string>> commands;
  std::string missing;
  for (const wire::HarnessProfile& harness : profiles.harnesses()) {
    if (harness.programs.empty()) continue;
    std::string file;
    std::string name;
    for (const std::string& program : harness.programs) {
      const auto found = find_program(program);
      if (!found) continue;
      file = *found;
      name = program;
      break;
    }
    if (file.empty()) {
      missing += (missing.empty() ? "" : ", ") + harness.name;
      continue;
    }
    here.push_back(&harness);
    programs.push_back(name);
    commands.push_back({file, "--version"});
  }
  const std::vector<BriefRun> runs = run_briefly(commands, within);
  for (std::size_t at = 0; at < runs.size(); ++at) {
    findings.push_back(judge_version(*here[at], programs[at], runs[at]));
  }
  if (!missing.empty()) {
    findings.push_back(fine("programs.missing", about(), "not here: " + missing));
  }
  return findings;
}

}  // namespace hg::cli
