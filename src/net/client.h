// client.h: an HTTP/1.1 client with a pool of connections to each upstream.
//
// Owns connections, names and TLS (OpenSSL: system store, SSL_CERT_FILE, and a CA file of one's
// own; host names are verified). It delivers bytes as they come and never retries, with one
// exception: a request on a reused connection that the upstream had closed meanwhile, if not one
// byte of an answer came, is sent again on a new connection, once, and counted.
// One thread (that of the executor). Holds at most one chunk of 16 KiB of an answer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/http.h"
#include "net/outbound_proxy.h"
#include "net/task.h"
#include "net/url.h"

namespace hg::net {

struct ClientConfig {
  Micros connect_within{10s};  // Name, connection and TLS handshake together.
  Micros write_silence{60s};   // For the upstream to take the next 64 KiB of a request.
  Micros idle{60s};            // A pooled connection unused this long is closed: well below the
                               // limits of known edges (400 s).
  Micros age{300s};            // None is reused past this age, so that a DNS change is followed.
  std::size_t idle_max = 256;  // Pooled connections an upstream.
  std::size_t head_bytes_max = std::size_t{64} * 1024;
  std::string ca_file;                 // PEM; trusted beside the system's store. Empty: none.
  std::optional<OutboundProxy> proxy;  // For https upstreams; see proxy_from_environment.
};

struct ClientStats {
  std::uint64_t connects = 0;  // Connections made.
  std::uint64_t connect_failures = 0;
  std::uint64_t reuses = 0;   // Requests on a pooled connection.
  std::uint64_t replays = 0;  // Requests sent again because a pooled connection was stale.
  std::size_t idle = 0;       // In the pools now.
  std::size_t open = 0;       // Exchanges with a connection now.
};

// How far an exchange has come: what settlement asks after a failure.
enum class Progress : std::uint8_t {
  not_sent,   // No byte of the request left: the upstream cannot know of it.
  sending,    // Some of it left.
  sent,       // All of it left; no byte of an answer came.
  answering,  // The head of the answer came.
  ended,      // The body ended as its framing says.
};

// One request and its answer. Destroying it closes its connection, unless the body ended cleanly:
// then the connection went back to the pool at that moment. The Client outlives it.
class ClientExchange {
 public:
  struct State;
  explicit ClientExchange(std::shared_ptr<State> state);
  ~ClientExchange();
  ClientExchange(ClientExchange&&) noexcept;
  ClientExchange& operator=(ClientExchange&&) noexcept;

  // Connects (or reuses) and sends. The head goes out as given, in its order, except for framing,
  // which belongs to the connection: Transfer-Encoding, Connection, Keep-Alive and Expect are
  // removed; Content-Length is kept in its place with the true length, and added where there is
  // none and the body is not empty or the method is POST, PUT or PATCH. Host is set in its place,
  // or put first, with the upstream's own authority. `head` and `body` stay valid until read_head
  // has returned, because of the replay. Errors: unavailable (no connection: the detail
  // says why), misconfigured (no waiting helps: no such host, a certificate that is not trusted, no
  // TLS there; the detail says what does), timed_out, closed, cancelled. progress() tells whether a
  // byte left. A failure to write while an answer is already there is none: read_head gets it.
  [[nodiscard]] Task<Result<void>> send(const RequestHead& head, std::string_view body);

  // Waits for the head of the answer; 100 and 103 are skipped. Errors: timed_out (none within
  // `within`; wait again, or close), closed (upstream closed without one), protocol, too_large,
  // cancelled.
  [[nodiscard]] Task<Result<ResponseHead>> read_head(Micros within);

  // Valid after read_head: how the body is framed.
  [[nodiscard]] const BodyFraming& body_framing() const;

  // The next bytes of the body, unchunked, as soon as there are any; 0: the body ended cleanly (and
  // every later call says 0). Errors: closed (cut before its end), protocol (bad chunks), timed_out
  // (no byte within `silence`; the exchange stays usable: read again, or close), cancelled.
  // `buffer` is not empty and stays valid until the end.
  [[nodiscard]] Task<Result<std::size_t>> read_some(std::span<char> buffer, Micros silence);

  // The same without waiting: what is here already, or 0, which says nothing about the end. Errors:
  // protocol.
  [[nodiscard]] Result<std::size_t> read_ready(std::span<char> buffer);

  // Gives up: closes the connection now. Whoever waits in this exchange gets `cancelled`. May be
  // called from a callback, at any time, more than once.
  void close();

  [[nodiscard]] Progress progress() const;
  [[nodiscard]] bool reused() const;  // Sent on a pooled connection.

 private:
  std::shared_ptr<State> state_;
};

class Dial;
using Dialer = std::function<std::shared_ptr<Dial>(const Url&)>;

// A whole answer, for callers that want no stream.
struct FetchedResponse {
  ResponseHead head;
  std::string body;
};

class Client {
 public:
  // The executor's context and the clock (for the age of connections) outlive the client.
  Client(const Executor& executor, const Clock& clock, ClientConfig config);
  // With a way to connect of one's own (tests). See net/dial.h.
  Client(const Executor& executor, const Clock& clock, ClientConfig config, Dialer dialer);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An exchange with this upstream; no I/O yet. Only origin and authority are used: the target of
  // the request is the caller's (join_target).
  [[nodiscard]] ClientExchange start(const Url& upstream);

  // send, read_head and the whole body (at most `bytes_max`, else too_large), each wait at most
  // `within`. `head` and `body` stay valid meanwhile.
  [[nodiscard]] Task<Result<FetchedResponse>> fetch(const Url& upstream, const RequestHead& head,
                                                    std::string_view body, Micros within,
                                                    std::size_t bytes_max);

  // Closes pooled connections and stops the pool's timer. For the end of the program; the client
  // may be used again.
  void close_idle();

  [[nodiscard]] ClientStats stats() const;

 private:
  friend class ClientExchange;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::net
