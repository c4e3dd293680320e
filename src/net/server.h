// server.h: an HTTP/1.1 server on loopback ports and unix sockets, one coroutine a connection.
//
// Owns acceptors and connections. It parses and guards heads, frames bodies, keeps connections
// alive, and notices a client that goes away. What is asked and answered is the handler's business.
// One thread (that of the executor). Memory of an idle connection: about 6 KB; of a busy one one
// chunk of 16 KiB each way beside what the handler holds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/chunk.h"
#include "net/framing_guard.h"
#include "net/http.h"
#include "net/task.h"

namespace hg::net {

// An answer of the server's own: to a head that its guard refused, or where a handler failed.
struct ServerFault {
  int status = 400;
  std::string_view code;  // "bad-head", "head-too-large", "internal".
  std::string message;    // For people; repeats nothing of the request.
  std::string target;     // The request's, as far as what came tells; may be anything.
};

// How it is put: fields (framing is the server's) and body.
struct ErrorPage {
  Headers headers;
  std::string body;
};

struct ServerConfig {
  std::size_t head_bytes_max = kHeadBytesMax;
  std::size_t connections_max = 8192;  // Over it, a new connection is closed at once.
  Micros idle{600s};           // Between requests; longer than clients keep sockets (90 s in Go and
                               // hyper, 5 min in others), so that it is the client who closes.
  Micros head_within{30s};     // From the first byte of a head to its last.
  Micros body_silence{60s};    // Between two bytes of a request body.
  Micros write_silence{120s};  // For a client to take one chunk.
  // Puts the server's own errors; empty: JSON in a shape that most clients read.
  std::function<ErrorPage(const ServerFault&)> error_page;
};

// One request and its answer. Lives as long as the handler's coroutine; used from it alone, except
// for abort, which may be called from anywhere on the thread.
//
// A client is taken for gone when its socket says end-of-stream or reset, also when it only closed
// its sending side (as every proxy does: a killed agent looks the same).
class ServerExchange {
 public:
  virtual ~ServerExchange() = default;

  [[nodiscard]] virtual const RequestHead& head() const = 0;
  [[nodiscard]] virtual const BodyFraming& body_framing() const = 0;  // Of the request.
  // Hands the head's fields over: head() has none from then on.
  [[nodiscard]] virtual Headers take_fields() = 0;

  // The whole request body, unchunked, at most `bytes_max`. Answers "Expect: 100-continue" first.
  // Errors: too_large (known from the length before a byte is read; answer 413 and finish; the
  // connection closes after that), timed_out, closed (truncated; answer 400: a client that ended
  // only its sending side hears it), protocol (bad chunks; answer 400). At most once.
  [[nodiscard]] virtual Task<Result<std::string>> read_body(std::size_t bytes_max) = 0;

  // Calls `gone` once, when the client goes away after the body was read (or the head, if there is
  // no body), in the same turn of the event loop; at once if it is gone already. Replaces an
  // earlier callback; an empty one stops the watching. It must not destroy what is waiting; it may
  // notify an Event, leave a queue, close an upstream. Also called when the server is stopped hard.
  virtual void on_gone(std::function<void()> gone) = 0;
  [[nodiscard]] virtual bool gone() const = 0;

  // Sends the head at once, together with `first`, the bytes of the body that are there already.
  // Its fields go out as given, except for framing, which belongs to the connection:
  // Transfer-Encoding, Connection and Keep-Alive are removed and set anew; Content-Length is kept
  // in its place where it is right, else set or removed. `body`: none, of_length(n) or chunked
  // (length unknown: chunked to HTTP/1.1, until close to HTTP/1.0). To a HEAD request, fields are
  // those of the answer to a GET, and no body follows; send_some is a no-op then. Errors of all
  // sends: closed (client gone), timed_out (client takes nothing), cancelled (aborted).
  [[nodiscard]] virtual Task<Result<void>> send_head(ResponseHead head, BodyFraming body,
                                                     std::string_view first = {}) = 0;

  // Sends payload bytes, returns when the kernel took them all: a slow reader slows the caller.
  // `bytes` stays valid until then.
  [[nodiscard]] virtual Task<Result<void>> send_some(std::string_view bytes) = 0;

  // Ends the answer. With of_length and bytes missing, the connection is reset instead (a cut must
  // look like a cut), and the error is `protocol`.
  [[nodiscard]] virtual Task<Result<void>> finish() = 0;

  // Resets the connection: no final chunk, no orderly end. For an answer that upstream cut short.
  virtual void abort() = 0;

  // Head, Content-Length and body in one write, and finish.
  [[nodiscard]] virtual Task<Result<void>> reply(ResponseHead head, std::string_view body) = 0;

  [[nodiscard]] virtual bool head_sent() const = 0;
  // "127.0.0.1:40112" or "unix": for logs.
  [[nodiscard]] virtual std::string peer() const = 0;
};

// A handler that returns without having answered makes a 500; one that returns amid a body, or
// throws, a reset. The exchange dies when it returns.
using Handler = std::function<Task<void>(ServerExchange&)>;

struct ServerStats {
  std::size_t connections = 0;  // Open now.
  std::uint64_t accepted = 0;   // Connections, since the start.
  std::uint64_t requests = 0;   // Heads that passed the guard.
  std::uint64_t refused = 0;    // Heads that did not.
};

class Server {
 public:
  // The executor's context and what the handler uses outlive the server.
  Server(const Executor& executor, ServerConfig config, Handler handler);
  ~Server();  // Call stop first; what is left is reset.
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens on 127.0.0.1 and, where the machine has it, on ::1, both on the same port; 0 lets the
  // kernel choose. Answers the port. Errors: conflict (in use), unavailable.
  [[nodiscard]] Result<std::uint16_t> listen_loopback(std::uint16_t port);

  // Listens on one numeric address, loopback or not. Answers the port.
  [[nodiscard]] Result<std::uint16_t> listen(std::string_view address, std::uint16_t port);

  // Listens on a unix socket that only this user may open. A stale socket file is replaced; one
  // that somebody listens on is a conflict. The file is removed at stop.
  [[nodiscard]] Result<void> listen_unix(const std::string& path);

  // Serves one stream that the caller opened (tests). See net/stream.h.
  void adopt(std::unique_ptr<class Stream> stream);

  // Accepts no more, closes idle connections, lets running requests end for at most `drain`, then
  // tells their handlers (on_gone) and resets them. Returns when all handlers have returned.
  [[nodiscard]] Task<void> stop(Micros drain);

  [[nodiscard]] ServerStats stats() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hg::net
