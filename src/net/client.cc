#include "net/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "net/chunk_codec.h"
#include "net/client_pool.h"
#include "net/connection.h"
#include "net/dial.h"
#include "net/framing_guard.h"

namespace hg::net {

namespace {

constexpr std::size_t kFirstReadBytes = std::size_t{4} * 1024;  // Nearly every head fits.
constexpr std::size_t kReadBytes = std::size_t{16} * 1024;
constexpr std::size_t kWriteBytes = std::size_t{256} * 1024;
constexpr int kInterimAnswersMax = 16;
constexpr Micros kLastWordWithin = 50ms;  // For an answer already under way when a write fails.

bool is_framing(std::string_view name) {
  return iequals(name, "Transfer-Encoding") || iequals(name, "Connection") ||
         iequals(name, "Keep-Alive") || iequals(name, "Expect");
}

// The head as it goes to the upstream: fields in their order, framing ours.
std::string request_bytes(const RequestHead& head, const Url& upstream, std::size_t body_bytes) {
  const std::string length = std::to_string(body_bytes);
  const std::string host = upstream.authority();
  bool host_said = head.headers.has("Host");
  bool length_said = head.headers.has("Content-Length");
  std::string out = request_line(head.method, head.target);
  // With what may be added: Host and Content-Length.
  out.reserve(out.size() + size_of(head.headers) + host.size() + length.size() + 32);
  if (!host_said) append_field(out, "Host", host);
  for (const Header& field : head.headers.all()) {
    if (is_framing(field.name)) continue;
    if (iequals(field.name, "Host")) {
      if (std::exchange(host_said, false)) append_field(out, field.name, host);
    } else if (iequals(field.name, "Content-Length")) {
      if (std::exchange(length_said, false)) append_field(out, field.name, length);
    } else {
      append_field(out, field.name, field.value);
    }
  }
  const bool has_body = body_bytes > 0 || head.method == "POST" || head.method == "PUT" ||
                        head.method == "PATCH";
  if (has_body && !head.headers.has("Content-Length")) append_field(out, "Content-Length", length);
  out += "\r\n";
  return out;
}

}  // namespace

// ---- Client ----------------------------------------------------------------------------------

struct Client::State {
  Executor executor;
  const Clock& clock;
  ClientConfig config;
  ClientStats stats;
  TaskGroup tasks;
  std::shared_ptr<ClientPool> pool;
  Dialer dialer;                            // Empty: sockets.
  std::shared_ptr<asio::ssl::context> tls;  // Made when first needed.

  State(const Executor& its_executor, const Clock& its_clock, ClientConfig its_config,
        Dialer its_dialer)
      : executor(its_executor),
        clock(its_clock),
        config(std::move(its_config)),
        tasks(its_executor),
        pool(std::make_shared<ClientPool>(its_executor, its_clock, config.idle, config.age,
                                          config.idle_max)),
        dialer(std::move(its_dialer)) {}

  Result<std::shared_ptr<Dial>> dial(const Url& url) {
    if (dialer) return dialer(url);
    if (url.scheme == Scheme::https && !tls) {
      auto made = make_client_tls(config.ca_file);
      if (!made) return std::unexpected(made.error());
      tls = std::move(*made);
    }
    const bool by_proxy = config.proxy && goes_through(*config.proxy, url);
    return make_socket_dial(executor, tasks, tls, by_proxy ? &*config.proxy : nullptr, url);
  }
};

Client::Client(const Executor& executor, const Clock& clock, ClientConfig config)
    : Client(executor, clock, std::move(config), nullptr) {}

Client::Client(const Executor& executor, const Clock& clock, ClientConfig config, Dialer dialer)
    : state_(std::make_shared<State>(executor, clock, std::move(config), std::move(dialer))) {}

Client::~Client() { state_->pool->close_all(); }

void Client::close_idle() { state_->pool->close_all(); }

ClientStats Client::stats() const {
  ClientStats stats = state_->stats;
  stats.idle = state_->pool->size();
  return stats;
}

// ---- ClientExchange --------------------------------------------------------------------------

struct ClientExchange::State : std::enable_shared_from_this<ClientExchange::State> {
  enum class Source : std::uint8_t { pool_first, new_one };

  std::shared_ptr<Client::State> client;
  Url upstream;
  std::string origin;
  std::string method;
  std::string head_bytes;      // Of the request, for the replay.
  std::string_view body;       // The caller's.
  std::shared_ptr<Dial> dial;  // While connecting.
  std::shared_ptr<Connection> connection;
  Instant born;  // Of the connection.
  Progress progress = Progress::not_sent;
  BodyFraming framing;  // Of the answer.
  ChunkDecoder decoder;
  std::optional<Error> failure;  // Of the decoder: told once the bytes before it were given.
  std::uint64_t left = 0;        // With BodyKind::length: bytes to come.
  bool reused = false;
  bool replayed = false;
  bool request_complete = false;  // The upstream was given the whole request.
  bool keep_alive = false;
  bool closed = false;

  State(std::shared_ptr<Client::State> its_client, const Url& its_upstream)
      : client(std::move(its_client)), upstream(its_upstream), origin(its_upstream.origin()) {}

  void close();
  void release();
  Task<Result<void>> obtain(Source source);
  Task<Result<void>> send(Source source);
  Task<Result<void>> write_request();
  [[nodiscard]] bool may_replay() const;
  Task<Result<void>> replay();
  Task<Result<ResponseHead>> read_head(Micros within);
  Result<std::optional<ResponseHead>> take_head(std::size_t& scanned);
  Task<Result<std::size_t>> read_some(std::span<char> buffer, Micros silence);
  Result<std::size_t> take_bytes(std::span<char> buffer);
  void end_body();
};

void ClientExchange::State::close() {
  closed = true;
  if (dial) dial->abandon();
  release();
}

// Ends the use of the connection by closing it.
void ClientExchange::State::release() {
  const std::shared_ptr<Connection> gone = std::exchange(connection, nullptr);
  if (!gone) return;
  --client->stats.open;
  gone->close();
}

// ---- Sending

Task<Result<void>> ClientExchange::State::obtain(Source source) {
  reused = false;
  if (source == Source::pool_first) {
    if (auto taken = client->pool->take(origin)) {
      connection = std::move(taken->connection);
      born = taken->born;
      reused = true;
      ++client->stats.reuses;
      ++client->stats.open;
      co_return Result<void>();
    }
  }
  auto made = client->dial(upstream);
  if (!made) co_return std::unexpected(made.error());
  dial = std::move(*made);
  auto stream = co_await dial->connect(client->config.connect_within);
  dial = nullptr;
  if (!stream) {
    ++client->stats.connect_failures;
    co_return std::unexpected(stream.error());
  }
  if (closed) {
    (*stream)->close();
    co_return fail(Errc::cancelled, "the exchange was closed");
  }
  connection = std::make_shared<Connection>(client->executor, std::move(*stream));
  born = client->clock.now();
  ++client->stats.connects;
  ++client->stats.open;
  co_return Result<void>();
}

Task<Result<void>> ClientExchange::State::send(Source source) {
  const auto obtained = co_await obtain(source);
  if (!obtained) co_return std::unexpected(obtained.error());
  const std::shared_ptr<Connection> used = connection;
  if (progress == Progress::not_sent) progress = Progress::sending;
  // An answer may come before the request has gone: refusals do.
  used->start_read(kFirstReadBytes);
  const auto written = co_await write_request();
  if (closed) co_return fail(Errc::cancelled, "the exchange was closed");
  if (written) {
    request_complete = true;
    progress = Progress::sent;
    co_return Result<void>();
  }
  if (used->input().empty() && !used->input_ended()) {
    co_await used->more(kFirstReadBytes, kLastWordWithin);
    if (closed) co_return fail(Errc::cancelled, "the exchange was closed");
  }
  if (!used->input().empty()) co_return Result<void>();
  if (may_replay() && written.error().code == Errc::closed) co_return co_await replay();
  release();
  co_return std::unexpected(written.error());
}

Task<Result<void>> ClientExchange::State::write_request() {
  const std::shared_ptr<Connection> used = connection;
  std::string_view head = head_bytes;
  std::string_view rest = body;
  do {
    Stream::Parts parts;
    parts[0] = std::exchange(head, std::string_view());
    parts[1] = rest.substr(0, kWriteBytes);
    rest.remove_prefix(parts[1].size());
    const auto written = co_await used->write(parts, client->config.write_silence);
    if (!written) co_return std::unexpected(written.error());
  } while (!rest.empty());
  co_return Result<void>();
}

bool ClientExchange::State::may_replay() const { return reused && !replayed && !closed; }

Task<Result<void>> ClientExchange::State::replay() {
  replayed = true;
  ++client->stats.replays;
  release();
  co_return co_await send(Source::new_one);
}

// ---- The answer

// The head, if the input holds all of one; interim ones are dropped.
Result<std::optional<ResponseHead>> ClientExchange::State::take_head(std::size_t& scanned) {
  for (int interim = 0; interim < kInterimAnswersMax; ++interim) {
    const auto end = find_head_end(connection->input(), scanned, client->config.head_bytes_max);
    if (!end) return std::unexpected(end.error());
    if (!*end) return std::nullopt;
    auto answer = guard_response(connection->input().substr(0, **end), method);
    if (!answer) return std::unexpected(answer.error());
    connection->consume(**end);
    scanned = 0;
    if (answer->head.status == 101) return fail(Errc::protocol, "an upgrade that nobody asked for");
    if (answer->head.status / 100 == 1) continue;
    framing = answer->body;
    keep_alive = answer->keep_alive;
    return std::move(answer->head);
  }
  return fail(Errc::protocol, "too many interim answers");
}

Task<Result<ResponseHead>> ClientExchange::State::read_head(Micros within) {
  const Instant deadline = client->clock.now() + within;
  std::size_t scanned = 0;
  bool heard = false;
  for (;;) {
    if (closed || !connection) co_return fail(Errc::cancelled, "the exchange was closed");
    heard = heard || !connection->input().empty();
    auto head = take_head(scanned);
    if (!head) {
      release();
      co_return std::unexpected(
          Error(head.error().code, "the answer's head: " + head.error().detail));
    }
    if (*head) {
      progress = Progress::answering;
      left = framing.length;
      const bool is_empty = framing.kind == BodyKind::none ||
                            (framing.kind == BodyKind::length && framing.length == 0);
      if (is_empty) end_body();
      co_return std::move(**head);
    }
    const std::shared_ptr<Connection> used = connection;
    const auto more = co_await used->more(kFirstReadBytes, deadline - client->clock.now());
    if (more) continue;
    if (closed) co_return fail(Errc::cancelled, "the exchange was closed");
    if (more.error().code == Errc::closed && !heard && may_replay()) {
      const auto again = co_await replay();
      if (!again) co_return std::unexpected(again.error());
      scanned = 0;
      continue;
    }
    if (more.error().code != Errc::timed_out) release();
    co_return std::unexpected(
        Error(more.error().code, "waiting for the answer's head: " + more.error().detail));
  }
}

// The body has ended as its framing says: the connection may serve again.
void ClientExchange::State::end_body() {
  progress = Progress::ended;
  const bool reusable = keep_alive && request_complete && !connection->is_closed() &&
                        !connection->input_ended() && connection->input().empty();
  if (!reusable) {
    release();
    return;
  }
  --client->stats.open;
  client->pool->put(origin, std::exchange(connection, nullptr), born);
}

// What the input holds of the body; 0: nothing yet, or the body has ended (see progress).
Result<std::size_t> ClientExchange::State::take_bytes(std::span<char> buffer) {
  if (failure) return std::unexpected(*failure);
  std::size_t filled = 0;
  bool ended = false;
  while (!ended && filled < buffer.size() && !connection->input().empty()) {
    std::string_view there = connection->input().substr(0, buffer.size() - filled);
    std::size_t consumed = there.size();
    if (framing.kind == BodyKind::chunked) {
      const auto step = decoder.step(there);
      if (!step) {
        failure = step.error();
        if (filled == 0) return std::unexpected(*failure);
        break;  // What came before goes first.
      }
      there = step->data;
      consumed = step->consumed;
      ended = step->ended;
    } else if (framing.kind == BodyKind::length) {
      there = there.substr(0, left);
      consumed = there.size();
      left -= consumed;
      ended = left == 0;
    }
    there.copy(buffer.data() + filled, there.size());
    filled += there.size();
    connection->consume(consumed);
  }
  if (ended) end_body();
  return filled;
}

Task<Result<std::size_t>> ClientExchange::State::read_some(std::span<char> buffer, Micros silence) {
  HG_ASSERT(!buffer.empty());
  for (;;) {
    if (progress == Progress::ended) co_return 0;
    if (closed || !connection) co_return fail(Errc::cancelled, "the exchange was closed");
    const auto taken = take_bytes(buffer);
    if (!taken) {
      release();
      co_return std::unexpected(taken.error());
    }
    if (*taken > 0) co_return *taken;
    if (progress == Progress::ended) co_return 0;
    const std::shared_ptr<Connection> used = connection;
    const auto more = co_await used->more(kReadBytes, silence);
    if (more) continue;
    if (closed) co_return fail(Errc::cancelled, "the exchange was closed");
    if (framing.kind == BodyKind::until_close && used->ended_cleanly()) {
      end_body();
      co_return 0;
    }
    // Silence is no end: the caller decides whether to wait on.
    if (more.error().code != Errc::timed_out) release();
    co_return std::unexpected(
        Error(more.error().code, "amid the answer's body: " + more.error().detail));
  }
}

// ---- The outside of an exchange

ClientExchange::ClientExchange(std::shared_ptr<State> state) : state_(std::move(state)) {}

ClientExchange::~ClientExchange() {
  if (state_) state_->close();
}

ClientExchange::ClientExchange(ClientExchange&&) noexcept = default;

ClientExchange& ClientExchange::operator=(ClientExchange&& other) noexcept {
  if (state_ && this != &other) state_->close();
  state_ = std::move(other.state_);
  return *this;
}

Task<Result<void>> ClientExchange::send(const RequestHead& head, std::string_view body) {
  const std::shared_ptr<State> state = state_;
  if (state->closed) co_return fail(Errc::cancelled, "the exchange was closed");
  state->method = head.method;
  state->head_bytes = request_bytes(head, state->upstream, body.size());
  state->body = body;
  co_return co_await state->send(State::Source::pool_first);
}

Task<Result<ResponseHead>> ClientExchange::read_head(Micros within) {
  const std::shared_ptr<State> state = state_;
  co_return co_await state->read_head(within);
}

Task<Result<std::size_t>> ClientExchange::read_some(std::span<char> buffer, Micros silence) {
  const std::shared_ptr<State> state = state_;
  co_return co_await state->read_some(buffer, silence);
}

Result<std::size_t> ClientExchange::read_ready(std::span<char> buffer) {
  if (state_->progress != Progress::answering || !state_->connection) return 0;
  Result<std::size_t> taken = state_->take_bytes(buffer);
  if (!taken) state_->release();
  return taken;
}

const BodyFraming& ClientExchange::body_framing() const { return state_->framing; }
void ClientExchange::close() { state_->close(); }
Progress ClientExchange::progress() const { return state_->progress; }
bool ClientExchange::reused() const { return state_->reused; }

ClientExchange Client::start(const Url& upstream) {
  return ClientExchange(std::make_shared<ClientExchange::State>(state_, upstream));
}

Task<Result<FetchedResponse>> Client::fetch(const Url& upstream, const RequestHead& head,
                                            std::string_view body, Micros within,
                                            std::size_t bytes_max) {
  ClientExchange exchange = start(upstream);
  const auto sent = co_await exchange.send(head, body);
  if (!sent) co_return std::unexpected(sent.error());
  auto answer = co_await exchange.read_head(within);
  if (!answer) co_return std::unexpected(answer.error());
  FetchedResponse response;
  response.head = std::move(*answer);
  std::vector<char> chunk(kReadBytes);
  for (;;) {
    const auto count = co_await exchange.read_some(chunk, within);
    if (!count) co_return std::unexpected(count.error());
    if (*count == 0) break;
    if (response.body.size() + *count > bytes_max) {
      co_return fail(Errc::too_large, fmt::format("an answer of more than {} bytes", bytes_max));
    }
    response.body.append(chunk.data(), *count);
  }
  co_return response;
}

}  // namespace hg::net
