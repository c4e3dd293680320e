#include "cli/doctor_machine.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "cli/compose.h"
#include "cli/daemon_client.h"
#include "cli/run_task.h"
#include "cli/runtime_dir.h"
#include "cli/version.h"
#include "net/client.h"
#include "net/server.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kAbout = "machine";
// Beside the calls that are held: those under way (two sockets each), logs, name look-ups.
constexpr std::uint64_t kFilesBeside = 1024;
constexpr std::size_t kAnswerBytesMax = std::size_t{1} << 20;

std::string about() { return std::string(kAbout); }

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || !value->is_string() ? "" : std::string(value->as_string());
}

RunningDaemon daemon_of(const json::object& version) {
  RunningDaemon daemon;
  daemon.version = text_of(version, "version");
  daemon.base_url = text_of(version, "base_url");
  daemon.fingerprint = text_of(version, "fingerprint");
  const json::value* pid = version.if_contains("pid");
  if (pid != nullptr && pid->is_number()) daemon.pid = pid->to_number<std::int64_t>();
  return daemon;
}

// Whether somebody accepts connections on this socket file.
bool accepts(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return false;
  const bool connected = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address),
                                   sizeof address) == 0 ||
                         errno == EAGAIN;  // Its queue is full: it is there.
  ::close(descriptor);
  return connected;
}

// The inode of the socket that listens on this port, as /proc/net says it; "" of none.
std::string listening_inode(const char* table, std::uint16_t port) {
  std::ifstream lines(table);
  const std::string wanted = fmt::format(":{:04X}", port);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : line + " ") {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, ""));
      }
    }
    // Place, local address, remote address, state (0A: listening), ..., inode.
    if (words.size() > 9 && words[3] == "0A" && words[1].ends_with(wanted)) return words[9];
  }
  return "";
}

// "process 123 (nginx)" for who has this socket open; "" if this user cannot see it.
std::string owner_of(const std::string& inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string pid = process.path().filename().string();
    if (!parse_integer(pid)) continue;
    std::error_code hidden;
    for (const auto& file : std::filesystem::directory_iterator(process.path() / "fd", hidden)) {
      std::error_code gone;
      if (std::filesystem::read_symlink(file.path(), gone).string() != wanted) continue;
      std::ifstream stream(process.path() / "comm");
      std::string name;
      std::getline(stream, name);
      return fmt::format("process {} ({})", pid, name);
    }
  }
  return "";
}

std::string port_owner(std::uint16_t port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string inode = listening_inode(table, port);
    if (inode.empty()) continue;
    if (std::string owner = owner_of(inode); !owner.empty()) return owner;
  }
  return "";
}

Findings check_directory(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      return {fine("machine.runtime_dir", about(),
                   fmt::format("runtime directory {}: made when it is first needed", path))};
    }
    return {problem("machine.runtime_dir", about(),
                    fmt::format("runtime directory {}: {}", path, std::strerror(errno)),
                    "Choose another by --runtime-dir (or HEADGATE_RUNTIME_DIR).")};
  }
  const std::string other = "or choose another by --runtime-dir (or HEADGATE_RUNTIME_DIR)";
  if (!S_ISDIR(status.st_mode)) {
    return {problem("machine.runtime_dir", about(),
                    fmt::format("runtime directory {} is no directory", path),
                    fmt::format("Move it away, {}.", other))};
  }
  if (status.st_uid != ::geteuid()) {
    return {problem(
        "machine.runtime_dir", about(),
        fmt::format("runtime directory {} belongs to user {}", path, status.st_uid),
        fmt::format("Have that user remove it, {}: whoever owns it gets your keys.", other))};
  }
  if ((status.st_mode & 0077) != 0) {
    return {problem("machine.runtime_dir", about(),
                    fmt::format("runtime directory {} is open to others (mode {:o})", path,
                                status.st_mode & 07777),
                    fmt::format("chmod 700 {}", path))};
  }
  return {
      fine("machine.runtime_dir", about(), fmt::format("runtime directory {}: yours alone", path))};
}

}  // namespace

Findings check_runtime(const Config& config, Micros within, std::optional<RunningDaemon>& daemon) {
  auto runtime = runtime_dir_of(config.runtime_dir);
  if (!runtime) {
    return {problem("machine.runtime_dir", about(), runtime.error().detail,
                    "Choose a shorter one by --runtime-dir (or HEADGATE_RUNTIME_DIR).")};
  }
  Findings findings = check_directory(runtime->path);
  const std::string socket = runtime->socket();
  struct stat status{};
  const bool usable = findings.front().level == Level::ok;
  if (!usable || ::lstat(socket.c_str(), &status) != 0) {
    if (usable) {
      findings.push_back(fine("machine.daemon", about(),
                              "no daemon runs: headgate exec starts one when it needs it"));
    }
    return findings;
  }
  const DaemonClient client(socket, within);
  if (auto version = client.get("/_headgate/version"); version && version->is_object()) {
    daemon = daemon_of(version->as_object());
    findings.push_back(judge_daemon(*daemon, config));
  } else if (!accepts(socket)) {
    findings.push_back(warning("machine.stale_socket", about(),
                               fmt::format("{} was left by a daemon that is gone", socket),
                               "Nothing needs to be done: the next daemon replaces it; or remove "
                               "the file."));
  } else {
    findings.push_back(
        problem("machine.daemon_silent", about(),
                fmt::format("what listens on {} does not answer as a Headgate does: {}", socket,
                            version ? "an odd answer" : version.error().detail),
                fmt::format("End it (fuser {}), and start headgate serve anew.", socket)));
  }
  return findings;
}

Finding judge_daemon(const RunningDaemon& daemon, const Config& config) {
  const std::string seen = fmt::format("the daemon of this user runs: headgate {}, process {}, {}",
                                       daemon.version, daemon.pid, daemon.base_url);
  const std::string mend = fmt::format(
      "Stop it when its programs are done (kill {}); the next headgate exec or serve starts one "
      "that fits.",
      daemon.pid);
  if (daemon.version != kVersion) {
    return problem("machine.daemon_version", about(), fmt::format("{}; this is {}", seen, kVersion),
                   mend);
  }
  // As exec judges: who configured nothing joins any daemon.
  const std::string mine = fingerprint(config);
  if (mine != fingerprint(Config()) && mine != daemon.fingerprint) {
    return problem("machine.daemon_config", about(),
                   seen +
                       "; it has another configuration than this one, and headgate exec would "
                       "not join it",
                   mend);
  }
  return fine("machine.daemon", about(), seen);
}

Findings check_port(const Config& config, const std::optional<RunningDaemon>& daemon,
                    Micros within) {
  if (config.listen_port == 0 || daemon) return {};
  const auto port = static_cast<std::uint16_t>(config.listen_port);
  const std::string where = fmt::format("{}:{}", config.listen_host, port);
  boost::asio::io_context context(1);
  net::Server server(context.get_executor(), net::ServerConfig(),
                     [](net::ServerExchange&) -> net::Task<void> { co_return; });
  const bool loopback = config.listen_host == "127.0.0.1" || config.listen_host == "localhost";
  const auto listening = loopback ? server.listen_loopback(port)
                                  : server.listen(config.listen_host, port);
  run_task(context, server.stop(0s));
  if (listening) return {fine("machine.port", about(), fmt::format("{} is free", where))};
  if (listening.error().code != Errc::conflict) {
    return {problem(
        "machine.port", about(),
        fmt::format("headgate serve cannot listen on {}: {}", where, listening.error().detail),
        "Name an address of this machine by --listen; 127.0.0.1:4290 is the default.")};
  }
  net::Url url;
  url.host = is_loopback(config.listen_host) ? config.listen_host : "127.0.0.1";
  url.port = port;
  const Heard heard = ask_listener(url, within);
  std::string owner = port_owner(port);
  std::string
      mend = "End what listens there, or choose another port by --listen (0: any free one).";
  if (heard.who == Listener::gate) {
    owner = fmt::format("a headgate {} of another user or runtime directory, process {}",
                        heard.gate.version, heard.gate.pid);
    mend = fmt::format(
        "Use that one (--runtime-dir), stop it (kill {}), or choose another port by "
        "--listen.",
        heard.gate.pid);
  }
  return {problem("machine.port_taken", about(),
                  fmt::format("{} is taken{}: headgate serve would not start", where,
                              owner.empty() ? " by another user's program" : " by " + owner),
                  mend)};
}

Heard ask_listener(const net::Url& url, Micros within) {
  Heard heard;
  if (url.scheme != net::Scheme::http) return heard;
  boost::asio::io_context context(1);
  const OsClock clock;
  net::ClientConfig config;
  config.connect_within = within;
  net::Client client(context.get_executor(), clock, config);
  net::Url root = url;
  root.path.clear();
  const net::RequestHead head("GET", "/_headgate/version");
  auto fetched = run_task(context, client.fetch(root, head, "", within, kAnswerBytesMax));
  const bool connected = client.stats().connects > 0;
  client.close_idle();
  context.poll();
  heard.who = connected ? Listener::other : Listener::nobody;
  if (!fetched || fetched->head.status != 200) return heard;
  boost::system::error_code error;
  const json::value value = json::parse(fetched->body, error);
  if (error || !value.is_object() || !value.as_object().contains("fingerprint")) return heard;
  heard.who = Listener::gate;
  heard.gate = daemon_of(value.as_object());
  return heard;
}

Finding judge_files(const FileLimit& limit, const Config& config) {
  const std::uint64_t held = std::min<std::uint64_t>(static_cast<std::uint64_t>(config.queue_max),
                                                     net::ServerConfig().connections_max);
  const std::uint64_t needed = held + kFilesBeside;
  const std::string seen = fmt::format(
      "a daemon may open {} files; {} calls held at once need about {}",
      with_thousands(static_cast<std::int64_t>(std::min<std::uint64_t>(limit.hard, 1U << 30))),
      with_thousands(static_cast<std::int64_t>(held)),
      with_thousands(static_cast<std::int64_t>(needed)));
  // serve raises the soft limit by itself.
  if (limit.hard >= needed) return fine("machine.files", about(), seen);
  return warning(
      "machine.files", about(), seen,
      fmt::format("Raise the hard limit (ulimit -Hn {}, LimitNOFILE= of the service), or "
                  "lower queue_max.",
                  needed));
}

Finding judge_clocks(Micros monotonic, Micros wall) {
  if (monotonic < 0s) {
    return problem("clock.monotonic", about(), "the monotonic clock went back",
                   "Restart this machine, or the virtual one below it: no deadline holds here.");
  }
  const Micros apart = wall > monotonic ? wall - monotonic : monotonic - wall;
  if (apart <= 1s) return fine("clock.monotonic", about(), "both clocks run alike");
  return warning("clock.monotonic", about(),
                 fmt::format("the wall clock moved by {:.1f} s within {:.1f} s", to_seconds(wall),
                             to_seconds(monotonic)),
                 "If nobody has just set the clock, see what does so again and again (two time "
                 "services?).");
}

Finding check_call_log(const std::string& path) {
  if (path.empty()) return fine("machine.call_log", about(), "calls are logged in no file");
  // The nearest part of it that is there.
  std::filesystem::path part = path;
  std::error_code error;
  while (!std::filesystem::exists(part, error) && part.has_relative_path()) {
    part = part.parent_path();
  }
  const bool whole = part == std::filesystem::path(path);
  const bool directory = std::filesystem::is_directory(part, error);
  const std::string mend = "Name another file by call_log (or \"none\"), or mend the rights there.";
  if (whole == directory) {
    return problem("machine.call_log", about(),
                   fmt::format("call log {}: {} is {}", path, part.string(),
                               directory ? "a directory" : "no directory"),
                   mend);
  }
  if (::access(part.c_str(), W_OK) != 0) {
    return problem("machine.call_log", about(),
                   fmt::format("call log {}: {} cannot be written: {}", path, part.string(),
                               std::strerror(errno)),
                   mend);
  }
  const auto space = std::filesystem::space(directory ? part : part.parent_path(), error);
  constexpr std::uintmax_t kLittle = std::uintmax_t{100} << 20;
  if (!error && space.available < kLittle) {
    return warning("machine.call_log", about(),
                   fmt::format("call log {}: {} MiB are free there", path, space.available >> 20),
                   "Make room: calls go on when the disk is full, but are not logged.");
  }
  return fine("machine.call_log", about(), fmt::format("call log {}: can be written", path));
}

}  // namespace hg::cli
