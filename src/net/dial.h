// dial.h: making a connection to an upstream: its name, the socket, TLS. Inside net only.
//
// An interface, because tests hand out streams that fail on purpose.
#pragma once
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "net/outbound_proxy.h"
#include "net/stream.h"
#include "net/task.h"
#include "net/url.h"

namespace hg::net {

// One attempt, kept in a shared_ptr.
class Dial {
 public:
  virtual ~Dial() = default;

  // Once. Errors: unavailable (nobody listens, no name service, TLS broke off), misconfigured (no
  // such host, a certificate that is not trusted, no TLS there, a proxy that will not), timed_out,
  // cancelled.
  [[nodiscard]] virtual Task<Result<std::unique_ptr<Stream>>> connect(Micros within) = 0;

  // Gives up: connect ends as cancelled. A name look-up cannot be stopped; it is left to end alone.
  virtual void abandon() = 0;
};

// The trust of a client: the system's store, or what SSL_CERT_FILE and SSL_CERT_DIR name in its
// place, and the certificates of `ca_file` (PEM) unless that is empty.
[[nodiscard]] Result<std::shared_ptr<asio::ssl::context>> make_client_tls(
    const std::string& ca_file);

// What a look-up's failure means. That a host does not exist is final: a name service that cannot
// say just now says so in another way.
enum class Named : std::uint8_t { upstream, proxy };
[[nodiscard]] Error lookup_error(const Url& url, Named what, const boost::system::error_code& code);

// `tls` may be null for http and unix. `proxy` is null, or leads to this upstream. `tasks` runs the
// attempt.
[[nodiscard]] std::shared_ptr<Dial> make_socket_dial(const Executor& executor, TaskGroup& tasks,
                                                     std::shared_ptr<asio::ssl::context> tls,
                                                     const OutboundProxy* proxy, const Url& url);

}  // namespace hg::net
