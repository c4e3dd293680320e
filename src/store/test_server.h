// test_server.h: a Valkey or Redis server of a test's own, in a temporary directory.
//
// For tests and benchmarks. Listens on a unix socket there, and on loopback if asked, on a port
// that the kernel picked; keeps nothing on disk unless its arguments say so. Ends with the object,
// and with the process that started it, however that ends. Thread-safety: none.
#pragma once
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hg::store::testing {

struct TestServerOptions {
  std::string program = "valkey-server";  // Or redis-server: looked for along PATH.
  bool tcp = false;                       // On loopback too.
  bool cluster = false;                   // A node of a cluster, without slots yet; needs tcp.
  std::vector<std::string> args;          // For example: "--cluster-enabled", "yes".
};

class TestServer {
 public:
  // Comes back when the server answers. unavailable: it ended or did not answer within 10 s; the
  // detail holds its log.
  [[nodiscard]] static Result<std::unique_ptr<TestServer>> start(TestServerOptions options) {
    std::string pattern = std::filesystem::temp_directory_path() / "headgate-test-server-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return fail(Errc::internal, "mkdtemp");
    std::unique_ptr<TestServer> server(new TestServer(std::move(options), pattern));
    // Another program may take the port between its choice and its use.
    for (int attempt = 0; attempt < 5; ++attempt) {
      if (server->spawn() && server->answers()) return server;
      server->end(SIGKILL);
    }
    return fail(Errc::unavailable, server->options_.program + " did not start: " + server->log());
  }

  ~TestServer() {
    end(SIGKILL);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  [[nodiscard]] std::string socket_path() const { return directory_ + "/socket"; }
  [[nodiscard]] std::uint16_t port() const { return port_; }  // 0 without tcp.
  [[nodiscard]] const std::string& directory() const { return directory_; }

  // Ends it as `signal` does and waits for that; restart() on the same places.
  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGCONT);
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] bool restart() {
    end(SIGKILL);
    return launch() && answers();
  }
  void freeze() { ::kill(pid_, SIGSTOP); }
  void thaw() { ::kill(pid_, SIGCONT); }

  [[nodiscard]] std::string log() const {
    std::ifstream in(directory_ + "/log");
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  TestServer(TestServerOptions options, std::string directory)
      : options_(std::move(options)), directory_(std::move(directory)) {}

  bool spawn() {
    port_ = options_.tcp ? free_port() : 0;
    bus_port_ = options_.cluster ? free_port() : 0;
    return launch();
  }

  bool launch() {
    std::filesystem::remove(socket_path());
    std::vector<std::string> words = {options_.program,
                                      "--port",
                                      std::to_string(port_),
                                      "--bind",
                                      "127.0.0.1",
                                      "--unixsocket",
                                      socket_path(),
                                      "--dir",
                                      directory_,
                                      "--save",
                                      "",
                                      "--appendonly",
                                      "no",
                                      "--daemonize",
                                      "no"};
    if (options_.cluster) {
      words.insert(words.end(), {"--cluster-enabled", "yes", "--cluster-port",
                                 std::to_string(bus_port_), "--cluster-config-file", "nodes"});
    }
    words.insert(words.end(), options_.args.begin(), options_.args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log_path = directory_ + "/log";
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      const int out = ::open(log_path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    return pid_ > 0;
  }

  // Waits until it says that it is ready: a PING that is answered.
  bool answers() {
    for (int waited_ms = 0; waited_ms < 10'000; waited_ms += 10) {
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return false;
      }
      if (ping()) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }

  bool ping() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_path().c_str(), sizeof address.sun_path - 1);
    bool alive = false;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::write(fd, "PING\r\n", 6) == 6) {
      pollfd wait{fd, POLLIN, 0};
      char answer[5] = {};
      alive = ::poll(&wait, 1, 1'000) == 1 && ::read(fd, answer, 5) == 5 &&
              std::memcmp(answer, "+PONG", 5) == 0;
    }
    ::close(fd);
    return alive;
  }

  static std::uint16_t free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    std::uint16_t port = 0;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      port = ntohs(address.sin_port);
    }
    ::close(fd);
    return port;
  }

  TestServerOptions options_;
  std::string directory_;
  std::uint16_t port_ = 0;
  std::uint16_t bus_port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace hg::store::testing
