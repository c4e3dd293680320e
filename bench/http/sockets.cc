#include "bench/http/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/time.h"

namespace hg::bench {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

void die(std::string_view what) {
  std::fprintf(stderr, "bench: %.*s: %s\n", static_cast<int>(what.size()), what.data(),
               std::strerror(errno));
  std::exit(1);
}

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (fd < 0) die("socket");
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    die("connect");
  }
  set_no_delay(fd);
  return fd;
}

Listener listen_anywhere() {
  Listener listener;
  listener.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (listener.fd < 0 || ::bind(listener.fd, where, length) != 0) die("bind");
  if (::listen(listener.fd, 4096) != 0) die("listen");
  if (::getsockname(listener.fd, where, &length) != 0) die("getsockname");
  listener.port = ntohs(address.sin_port);
  return listener;
}

void set_nonblocking(int fd) {
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) die("fcntl");
}

void set_no_delay(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) die("setsockopt");
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) die("setrlimit");
}

std::optional<std::size_t> head_length(std::string_view text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  return end + 4;
}

std::string_view field(std::string_view head, std::string_view name) {
  std::size_t at = head.find("\r\n");
  while (at != std::string_view::npos) {
    std::string_view line = head.substr(at + 2);
    const std::size_t end = line.find("\r\n");
    line = line.substr(0, end);
    const bool same = line.size() > name.size() && line[name.size()] == ':' &&
                      ::strncasecmp(line.data(), name.data(), name.size()) == 0;
    if (same) {
      line.remove_prefix(name.size() + 1);
      while (line.starts_with(' ')) line.remove_prefix(1);
      return line;
    }
    if (end == std::string_view::npos) break;
    at += 2 + end;
  }
  return "";
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t now_us() { return OsClock().now().since_zero.count(); }

}  // namespace hg::bench
