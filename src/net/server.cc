#include "net/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <exception>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/connection.h"
#include "net/server_exchange.h"
#include "net/stream_over.h"

namespace hg::net {

namespace {

using asio::ip::tcp;
using Local = asio::local::stream_protocol;

constexpr std::size_t kIdleReadBytes = 1024;  // Held by each idle connection.
constexpr std::size_t kHeadReadBytes = std::size_t{4} * 1024;
constexpr Micros kLingerSilence = 2s;  // For a client that still sends what nobody reads.
constexpr std::size_t kLingerBytesMax = std::size_t{128} * 1024 * 1024;
constexpr Micros kAcceptPause = 100ms;  // After a failure such as "too many open files".
constexpr Micros kUnwindWithin = 10s;   // For handlers, once their clients were reset.

// The client's connection and, while a request is handled, its exchange.
struct Serving {
  std::shared_ptr<Connection> connection;
  Exchange* exchange = nullptr;  // On the stack of the connection's coroutine.
};

bool is_socket_file(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// In a shape that both Anthropic's and OpenAI's clients read. The text holds no quotes.
ErrorPage plain_error_page(const ServerFault& fault) {
  ErrorPage page;
  page.headers.add("Content-Type", "application/json");
  page.body = fmt::format(
      R"({{"type":"error","error":{{"type":"invalid_request_error","message":"Headgate: {}"}}}})",
      fault.message);
  return page;
}

// The target of a head that may be broken anywhere; "" where the first line has none.
std::string target_of(std::string_view head) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t begin = line.find(' ');
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = line.substr(begin + 1);
  return std::string(rest.substr(0, rest.find(' ')));
}

template <typename Acceptor, typename Endpoint>
Result<void> open_acceptor(Acceptor& acceptor, const Endpoint& endpoint) {
  boost::system::error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if constexpr (std::is_same_v<Endpoint, tcp::endpoint>) {
    if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), ec);
  }
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) return {};
  boost::system::error_code ignored;
  acceptor.close(ignored);
  return std::unexpected(to_error(ec, "listening"));
}

}  // namespace

struct Server::State : std::enable_shared_from_this<Server::State> {
  Executor executor;
  ServerConfig config;
  Handler handler;
  OsClock clock;  // For the deadline of a head that comes in pieces.
  ServerStats stats;
  TaskGroup tasks;
  std::list<Serving> serving;
  std::vector<std::shared_ptr<tcp::acceptor>> tcp_acceptors;
  std::vector<std::shared_ptr<Local::acceptor>> local_acceptors;
  std::vector<std::string> socket_files;
  bool stopping = false;

  State(const Executor& its_executor, ServerConfig its_config, Handler its_handler)
      : executor(its_executor),
        config(its_config),
        handler(std::move(its_handler)),
        tasks(its_executor) {}

  Result<std::uint16_t> listen(const tcp::endpoint& endpoint);
  void start(std::unique_ptr<Stream> stream);
  void close_acceptors();
  void close_idle();
  void reset_all();

  // TCP and unix sockets.
  template <typename Acceptor>
  static Task<void> accept(std::shared_ptr<State> self, std::shared_ptr<Acceptor> acceptor);
  static Task<void> serve(std::shared_ptr<State> self, std::shared_ptr<Connection> connection);

  Task<void> serve_requests(Serving& entry);
  Task<Result<GuardedRequest>> read_request(Connection& connection, std::string& target);
  Task<void> refuse(Connection& connection, Error error, std::string target);
  [[nodiscard]] ErrorPage page_of(const ServerFault& fault) const {
    return config.error_page ? config.error_page(fault) : plain_error_page(fault);
  }
  Task<void> handle(Exchange& exchange);
  Task<void> linger(Connection& connection);
};

// ---- Accepting -------------------------------------------------------------------------------

Result<std::uint16_t> Server::State::listen(const tcp::endpoint& endpoint) {
  auto acceptor = std::make_shared<tcp::acceptor>(executor);
  const auto opened = open_acceptor(*acceptor, endpoint);
  if (!opened) {
    return fail(opened.error().code,
                fmt::format("{} on {}", opened.error().detail, to_text(endpoint)));
  }
  boost::system::error_code ec;
  const std::uint16_t port = acceptor->local_endpoint(ec).port();
  tcp_acceptors.push_back(acceptor);
  tasks.spawn("accept", accept(shared_from_this(), acceptor));
  return port;
}

template <typename Acceptor>
Task<void> Server::State::accept(std::shared_ptr<State> self, std::shared_ptr<Acceptor> acceptor) {
  using Socket = typename Acceptor::protocol_type::socket;
  while (acceptor->is_open()) {
    Socket socket(self->executor);
    const auto [ec] = co_await acceptor->async_accept(socket, as_result);
    if (!acceptor->is_open()) break;
    if (ec) {
      log_warn("a connection was not accepted: {}", ec.message());
      const bool slept = co_await sleep_for(kAcceptPause);
      if (!slept) break;
      continue;
    }
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) {
      boost::system::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
    }
    self->start(std::make_unique<StreamOver<Socket>>(std::move(socket)));
  }
}

void Server::State::start(std::unique_ptr<Stream> stream) {
  ++stats.accepted;
  if (stopping || stats.connections >= config.connections_max) {
    stream->close();
    return;
  }
  auto connection = std::make_shared<Connection>(executor, std::move(stream));
  tasks.spawn("connection", serve(shared_from_this(), std::move(connection)));
}

// ---- One connection --------------------------------------------------------------------------

Task<void> Server::State::serve(std::shared_ptr<State> self,
                                std::shared_ptr<Connection> connection) {
  ++self->stats.connections;
  const auto entry = self->serving.insert(self->serving.end(), Serving());
  entry->connection = connection;
  // List entries stay where they are: `entry` is valid until it is erased here.
  if (!self->stopping) co_await self->serve_requests(*entry);
  connection->close();
  self->serving.erase(entry);
  --self->stats.connections;
}

Task<void> Server::State::serve_requests(Serving& entry) {
  Connection& connection = *entry.connection;
  for (;;) {
    std::string target;  // Of a request that is refused.
    auto request = co_await read_request(connection, target);
    if (!request) {
      co_await refuse(connection, request.error(), std::move(target));
      co_return;
    }
    ++stats.requests;
    Exchange exchange(entry.connection, config, std::move(*request));
    entry.exchange = &exchange;
    if (stopping) exchange.forbid_reuse();
    co_await handle(exchange);
    entry.exchange = nullptr;
    if (!exchange.may_continue()) {
      if (exchange.body_unread()) co_await linger(connection);
      co_return;
    }
    if (stopping) co_return;
  }
}

// Runs the handler and makes sure that the client got an answer or a reset.
Task<void> Server::State::handle(Exchange& exchange) {
  bool failed = false;
  try {
    co_await handler(exchange);
  } catch (const std::exception& e) {
    failed = true;
    log_error("a request handler failed: {}", e.what());
  }
  if (exchange.finished()) co_return;
  if (exchange.gone() || exchange.head_sent()) {
    exchange.abort();
    co_return;
  }
  if (!failed) log_error("a request was left without an answer");
  exchange.forbid_reuse();
  ServerFault fault;
  fault.status = 500;
  fault.code = "internal";
  fault.message = "an internal error; the log says more";
  fault.target = exchange.head().target;
  ErrorPage page = page_of(fault);
  ResponseHead head(fault.status);
  head.headers = std::move(page.headers);
  const auto sent = co_await exchange.reply(std::move(head), page.body);
  if (!sent) log_debug("no answer could be sent: {}", sent.error().detail);
}

// Errors: closed and timed_out when no further request comes, which is how most connections end.
Task<Result<GuardedRequest>> Server::State::read_request(Connection& connection,
                                                         std::string& target) {
  std::size_t scanned = 0;
  Micros within = config.idle;
  std::optional<Instant> deadline;
  for (;;) {
    // Some old clients send an empty line after a body.
    while (scanned == 0 && connection.input().starts_with("\r\n")) connection.consume(2);
    const auto end = find_head_end(connection.input(), scanned, config.head_bytes_max);
    if (!end) {
      target = target_of(connection.input());
      co_return std::unexpected(end.error());
    }
    if (*end) {
      auto request = guard_request(connection.input().substr(0, **end));
      if (!request) target = target_of(connection.input());
      connection.consume(**end);
      co_return request;
    }
    const bool is_idle = connection.input().empty();
    if (is_idle) {
      if (stopping) co_return fail(Errc::cancelled, "the server stops");
      connection.trim_memory();
    } else {
      if (!deadline) deadline = clock.now() + config.head_within;
      within = *deadline - clock.now();
    }
    const auto more = co_await connection.more(is_idle ? kIdleReadBytes : kHeadReadBytes, within);
    if (!more) co_return std::unexpected(more.error());
  }
}

// Answers what the guard refused; says nothing where nothing was asked.
Task<void> Server::State::refuse(Connection& connection, Error error, std::string target) {
  if (error.code != Errc::protocol && error.code != Errc::too_large) co_return;
  ++stats.refused;
  log_info("a request was refused: {}", error.detail);
  const bool too_large = error.code == Errc::too_large;
  ServerFault fault;
  fault.status = too_large ? 431 : 400;
  fault.code = too_large ? "head-too-large" : "bad-head";
  fault.message = std::move(error.detail);
  fault.target = std::move(target);
  ErrorPage page = page_of(fault);
  const std::string body = std::move(page.body);
  ResponseHead head(fault.status);
  head.headers = std::move(page.headers);
  head.headers.add("Content-Length", std::to_string(body.size()));
  head.headers.add("Connection", "close");
  const std::string bytes = to_bytes(head);
  Stream::Parts parts;
  parts[0] = bytes;
  parts[1] = body;
  const auto sent = co_await connection.write(parts, config.write_silence);
  if (sent) co_await linger(connection);
}

// Lets a client that is still sending read our answer: closing now would reset the connection and
// throw the answer away.
Task<void> Server::State::linger(Connection& connection) {
  if (connection.is_closed() || stopping) co_return;
  connection.shutdown_send();
  std::size_t dropped_bytes = 0;
  while (dropped_bytes < kLingerBytesMax) {
    dropped_bytes += connection.input().size();
    connection.consume(connection.input().size());
    const auto more = co_await connection.more(kChunkBytes, kLingerSilence);
    if (!more) co_return;
  }
}

// ---- Stopping --------------------------------------------------------------------------------

void Server::State::close_acceptors() {
  boost::system::error_code ignored;
  for (const auto& acceptor : tcp_acceptors) acceptor->close(ignored);
  for (const auto& acceptor : local_acceptors) acceptor->close(ignored);
  for (const std::string& path : socket_files) ::unlink(path.c_str());
  tcp_acceptors.clear();
  local_acceptors.clear();
  socket_files.clear();
}

void Server::State::close_idle() {
  for (const Serving& entry : serving) {
    if (entry.exchange == nullptr) {
      entry.connection->close();
    } else {
      entry.exchange->forbid_reuse();
    }
  }
}

void Server::State::reset_all() {
  // Pointers first: a callback may do anything but end a connection's coroutine.
  std::vector<Serving> all(serving.begin(), serving.end());
  for (const Serving& entry : all) {
    entry.connection->reset();
    if (entry.exchange != nullptr) entry.exchange->declare_gone();
  }
}

// ---- Server ----------------------------------------------------------------------------------

Server::Server(const Executor& executor, ServerConfig config, Handler handler)
    : state_(std::make_shared<State>(executor, config, std::move(handler))) {}

Server::~Server() {
  state_->stopping = true;
  state_->close_acceptors();
  state_->reset_all();
}

Result<std::uint16_t> Server::listen_loopback(std::uint16_t port) {
  const auto v4 = asio::ip::address(asio::ip::address_v4::loopback());
  const auto v6 = asio::ip::address(asio::ip::address_v6::loopback());
  // With a port of the kernel's choice the other address may have it in use: then choose again.
  constexpr int kTries = 20;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto chosen = state_->listen(tcp::endpoint(v4, port));
    if (!chosen) return chosen;
    const auto other = state_->listen(tcp::endpoint(v6, *chosen));
    if (other) return *chosen;
    if (other.error().code != Errc::conflict) {
      log_debug("no listening on ::1: {}", other.error().detail);
      return *chosen;
    }
    boost::system::error_code ignored;
    state_->tcp_acceptors.back()->close(ignored);
    state_->tcp_acceptors.pop_back();
    if (port != 0) return other;
  }
  return fail(Errc::conflict, "no port is free on both 127.0.0.1 and ::1");
}

Result<std::uint16_t> Server::listen(std::string_view address, std::uint16_t port) {
  boost::system::error_code ec;
  const auto parsed = asio::ip::make_address(std::string(address), ec);
  if (ec) return fail(Errc::invalid, fmt::format("`{}` is no numeric address", address));
  return state_->listen(tcp::endpoint(parsed, port));
}

Result<void> Server::listen_unix(const std::string& path) {
  if (path.size() > 107) return fail(Errc::invalid, "a socket's path has at most 107 bytes");
  const Local::endpoint endpoint(path);
  auto acceptor = std::make_shared<Local::acceptor>(state_->executor);
  // Nobody else may open the socket, not even between bind and chmod.
  const ::mode_t old_mask = ::umask(0077);
  auto opened = open_acceptor(*acceptor, endpoint);
  if (!opened && opened.error().code == Errc::conflict) {
    Local::socket probe(state_->executor);
    boost::system::error_code ec;
    probe.connect(endpoint, ec);
    if (ec == asio::error::connection_refused && is_socket_file(path)) {
      ::unlink(path.c_str());
      opened = open_acceptor(*acceptor, endpoint);
    }
  }
  ::umask(old_mask);
  if (!opened) {
    return fail(opened.error().code, fmt::format("{} on {}", opened.error().detail, path));
  }
  state_->local_acceptors.push_back(acceptor);
  state_->socket_files.push_back(path);
  state_->tasks.spawn("accept", State::accept(state_, acceptor));
  return {};
}

void Server::adopt(std::unique_ptr<Stream> stream) { state_->start(std::move(stream)); }

Task<void> Server::stop(Micros drain) {
  const std::shared_ptr<State> state = state_;
  state->stopping = true;
  state->close_acceptors();
  state->close_idle();
  const bool drained = co_await state->tasks.join(drain);
  if (drained) co_return;
  state->reset_all();
  const bool ended = co_await state->tasks.join(kUnwindWithin);
  if (!ended) log_error("{} request handlers did not end", state->tasks.size());
}

ServerStats Server::stats() const { return state_->stats; }

}  // namespace hg::net
