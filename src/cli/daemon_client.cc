#include "cli/daemon_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "cli/run_task.h"
#include "net/client.h"

namespace hg::cli {

namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{64} * 1024 * 1024;

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<boost::json::value> DaemonClient::ask(std::string_view method, std::string_view target,
                                             const std::string& body) const {
  boost::asio::io_context context(1);
  const OsClock clock;
  net::Client client(context.get_executor(), clock, net::ClientConfig());
  net::Url url;
  url.scheme = net::Scheme::unix_socket;
  url.host = "localhost";
  url.socket_path = socket_path_;
  net::RequestHead head{std::string(method), std::string(target)};
  if (!body.empty()) head.headers.add("Content-Type", "application/json");
  auto fetched = run_task(context, client.fetch(url, head, body, within_, kAnswerBytesMax));
  client.close_idle();
  context.poll();
  if (!fetched) return std::unexpected(fetched.error());
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(fetched->body, error);
  if (error || !value.is_object()) {
    return fail(Errc::protocol, fmt::format("{}: what answers there is no headgate", socket_path_));
  }
  if (fetched->head.status >= 400) {
    const boost::json::value* text = value.as_object().if_contains("error");
    const bool said = text != nullptr && text->is_string();
    return fail(Errc::invalid, said ? std::string(text->as_string())
                                    : fmt::format("the daemon answered {}", fetched->head.status));
  }
  return value;
}

Result<boost::json::value> DaemonClient::get(std::string_view target) const {
  return ask("GET", target, "");
}

Result<boost::json::value> DaemonClient::post(std::string_view target,
                                              const boost::json::value& body) const {
  return ask("POST", target, boost::json::serialize(body));
}

Result<OpenFile> DaemonClient::attach(std::string_view run) const {
  const auto failed = [&](std::string_view what) {
    return fail(Errc::unavailable,
                fmt::format("{}: {}: {}", socket_path_, what, std::strerror(errno)));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) return failed("path too long");
  std::memcpy(address.sun_path, socket_path_.c_str(), socket_path_.size() + 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed("socket");
  OpenFile file(descriptor);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed("connect");
  }
  const std::string request = fmt::format(
      "GET /_headgate/attach/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", run);
  if (::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return failed("send");
  }
  std::string head;
  char chunk[512];
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < 4096) {
    pollfd wait{descriptor, POLLIN, 0};
    if (::poll(&wait, 1, 10'000) <= 0) return failed("no answer");
    const ssize_t count = ::recv(descriptor, chunk, sizeof chunk, 0);
    if (count <= 0) return failed("closed");
    head.append(chunk, static_cast<std::size_t>(count));
  }
  if (!head.starts_with("HTTP/1.1 200")) {
    return fail(Errc::protocol, fmt::format("{}: the daemon refused the run", socket_path_));
  }
  return file;
}

}  // namespace hg::cli
