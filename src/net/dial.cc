#include "net/dial.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "net/framing_guard.h"
#include "net/stream_over.h"

namespace hg::net {

namespace {

using asio::ip::tcp;
using Local = asio::local::stream_protocol;
using Tls = asio::ssl::stream<tcp::socket>;

// For one address when there are others to try: a dead IPv6 route must not use up the whole time.
constexpr Micros kAddressWithin = 3s;

std::unexpected<Error> unavailable(const Url& url, std::string_view doing,
                                   const boost::system::error_code& code) {
  return fail(Errc::unavailable, fmt::format("{} {}: {}", doing, url.authority(), code.message()));
}

// What to do about a certificate that was refused.
std::string_view certificate_mend(long verdict) {
  switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "It is another host's: correct the upstream's url.";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "Look at this machine's clock; if that is right, the host needs a new certificate.";
    default:
      return "If it is to be trusted, name its authority's certificate in ca_file or "
             "SSL_CERT_FILE.";
  }
}

// Whether the other side's first bytes were no TLS, or none that we may speak.
bool speaks_no_tls(const boost::system::error_code& code) {
  if (code.category() != asio::error::get_ssl_category()) return false;
  switch (ERR_GET_REASON(static_cast<unsigned long>(code.value()))) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION: return true;
    default: return false;
  }
}

// A proxy that says no to us; one that is only busy or finds no upstream may say yes later.
bool refuses_for_good(int status) {
  return status / 100 == 4 && status != 408 && status != 425 && status != 429;
}

class SocketDial final : public Dial, public std::enable_shared_from_this<SocketDial> {
 public:
  SocketDial(const Executor& executor, TaskGroup& tasks, std::shared_ptr<asio::ssl::context> tls,
             const OutboundProxy* proxy, const Url& url)
      : tasks_(tasks),
        tls_context_(std::move(tls)),
        url_(url),
        next_(proxy != nullptr ? proxy->url : url),
        done_(executor),
        resolver_(executor),
        tcp_(executor),
        local_(executor),
        address_timer_(executor) {
    if (proxy != nullptr) tunnel_request_ = connect_request(*proxy, url);
  }

  Task<Result<std::unique_ptr<Stream>>> connect(Micros within) override {
    const std::shared_ptr<SocketDial> self = shared_from_this();
    tasks_.spawn("connect", run(self));
    const Woken woken = co_await done_.wait_for(within);
    if (outcome_) co_return std::move(*outcome_);
    const bool given_up = abandoned_ || woken == Woken::cancelled;
    abandon();
    if (given_up) co_return fail(Errc::cancelled, "connecting was given up");
    co_return fail(Errc::timed_out, fmt::format("no connection to {} in time", url_.authority()));
  }

  void abandon() override {
    abandoned_ = true;
    close_sockets();
    resolver_.cancel();
    done_.notify();
  }

 private:
  static Task<void> run(std::shared_ptr<SocketDial> self) {
    auto outcome = co_await self->attempt();
    if (self->abandoned_) co_return;
    self->outcome_ = std::move(outcome);
    self->done_.notify();
  }

  Task<Result<std::unique_ptr<Stream>>> attempt() {
    if (url_.scheme == Scheme::unix_socket) co_return co_await attempt_local();
    auto addresses = co_await resolve();
    if (!addresses) co_return std::unexpected(addresses.error());
    Error last(Errc::unavailable, fmt::format("{} has no address", next_.authority()));
    for (std::size_t i = 0; i < addresses->size(); ++i) {
      const bool is_last = i + 1 == addresses->size();
      const auto connected = co_await connect_to((*addresses)[i], is_last);
      if (abandoned_) co_return fail(Errc::cancelled, "connecting was given up");
      if (connected) {
        if (!tunnel_request_.empty()) {
          const auto opened = co_await open_tunnel();
          if (!opened) co_return std::unexpected(opened.error());
        }
        if (url_.scheme == Scheme::https) co_return co_await handshake();
        co_return std::make_unique<StreamOver<tcp::socket>>(std::move(tcp_));
      }
      last = connected.error();
    }
    co_return std::unexpected(std::move(last));
  }

  Task<Result<std::unique_ptr<Stream>>> attempt_local() {
    const auto [ec] = co_await local_.async_connect(Local::endpoint(url_.socket_path), as_result);
    if (ec) {
      co_return fail(Errc::unavailable,
                     fmt::format("connecting to {}: {}", url_.socket_path, ec.message()));
    }
    co_return std::make_unique<StreamOver<Local::socket>>(std::move(local_));
  }

  Task<Result<std::vector<tcp::endpoint>>> resolve() {
    std::vector<tcp::endpoint> endpoints;
    boost::system::error_code ec;
    const asio::ip::address literal = asio::ip::make_address(next_.host, ec);
    if (!ec) {
      endpoints.emplace_back(literal, next_.port);
      co_return endpoints;
    }
    const std::string service = std::to_string(next_.port);
    auto found = co_await resolver_.async_resolve(next_.host, service,
                                                  tcp::resolver::numeric_service, as_result);
    ec = std::get<0>(found);
    const Named named = tunnel_request_.empty() ? Named::upstream : Named::proxy;
    if (ec) co_return std::unexpected(lookup_error(next_, named, ec));
    for (const auto& entry : std::get<1>(found)) endpoints.push_back(entry.endpoint());
    co_return endpoints;
  }

  Task<Result<void>> connect_to(tcp::endpoint endpoint, bool is_last) {
    if (abandoned_) co_return fail(Errc::cancelled, "connecting was given up");
    close_sockets();
    ++address_number_;
    if (!is_last) {
      address_timer_.expires_after(kAddressWithin);
      auto too_late = [self = shared_from_this(),
                       number = address_number_](const boost::system::error_code& ec) {
        // A late call must not close the socket of the next address.
        if (!ec && self->address_number_ == number) self->close_sockets();
      };
      address_timer_.async_wait(std::move(too_late));
    }
    const auto [ec] = co_await tcp_.async_connect(endpoint, as_result);
    ++address_number_;
    address_timer_.cancel();
    if (ec) co_return unavailable(next_, "connecting to", ec);
    boost::system::error_code ignored;
    tcp_.set_option(tcp::no_delay(true), ignored);
    tcp_.set_option(asio::socket_base::keep_alive(true), ignored);
    co_return Result<void>();
  }

  // Asks the proxy that we are connected to for a tunnel to the upstream.
  Task<Result<void>> open_tunnel() {
    const auto asking = asio::buffer(tunnel_request_);
    const auto [ec, written] = co_await asio::async_write(tcp_, asking, as_result);
    if (ec) co_return unavailable(next_, "asking proxy", ec);
    std::string heard;
    std::size_t scanned = 0;
    std::array<char, 512> chunk;
    for (;;) {
      const auto [read_ec, count] = co_await tcp_.async_read_some(asio::buffer(chunk), as_result);
      if (read_ec) co_return unavailable(next_, "waiting for proxy", read_ec);
      heard.append(chunk.data(), count);
      const auto end = find_head_end(heard, scanned);
      if (!end) co_return no_proxy();
      if (!*end) continue;
      const auto answer = guard_response(std::string_view(heard).substr(0, **end), "CONNECT");
      if (!answer) co_return no_proxy();
      const int status = answer->head.status;
      // Nobody speaks in the tunnel before us: bytes after the head would be the proxy's own.
      if (status / 100 == 2 && **end == heard.size()) co_return Result<void>();
      const bool final = refuses_for_good(status);
      co_return fail(
          final ? Errc::misconfigured : Errc::unavailable,
          fmt::format("proxy {} refuses a tunnel to {}: {} {}{}", next_.authority(),
                      url_.authority(), status, escape_controls(answer->head.reason),
                      final ? ". Correct HTTPS_PROXY, or name the host in NO_PROXY." : ""));
    }
  }

  std::unexpected<Error> no_proxy() const {
    return fail(Errc::misconfigured, fmt::format("the proxy speaks no HTTP at {}. Correct "
                                                 "HTTPS_PROXY.",
                                                 next_.authority()));
  }

  Task<Result<std::unique_ptr<Stream>>> handshake() {
    tls_.emplace(std::move(tcp_), *tls_context_);
    const bool wanted = want_identity(tls_->native_handle());
    if (!wanted) co_return fail(Errc::internal, "preparing TLS failed");
    const auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_result);
    if (!ec) co_return std::make_unique<StreamOver<Tls>>(std::move(*tls_));
    const long verdict = SSL_get_verify_result(tls_->native_handle());
    if (verdict != X509_V_OK) {
      co_return fail(
          Errc::misconfigured,
          fmt::format("the certificate of {} is not trusted: {}. {}", url_.authority(),
                      X509_verify_cert_error_string(verdict), certificate_mend(verdict)));
    }
    if (speaks_no_tls(ec)) {
      co_return fail(Errc::misconfigured,
                     fmt::format("TLS with {}: {}. It speaks no TLS that may be spoken: correct "
                                 "the upstream's url (https, host, port).",
                                 url_.authority(), ec.message()));
    }
    co_return unavailable(url_, "TLS with", ec);
  }

  // The certificate must be for our host. The host's name goes along in clear text, so that the
  // server can choose its certificate; an address has none.
  bool want_identity(SSL* ssl) {
    X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    boost::system::error_code is_name;
    asio::ip::make_address(url_.host, is_name);
    if (!is_name) return X509_VERIFY_PARAM_set1_ip_asc(wanted, url_.host.c_str()) == 1;
    return SSL_set_tlsext_host_name(ssl, url_.host.c_str()) == 1 &&
           X509_VERIFY_PARAM_set1_host(wanted, url_.host.data(), url_.host.size()) == 1;
  }

  void close_sockets() {
    boost::system::error_code ignored;
    tcp_.close(ignored);
    local_.close(ignored);
    if (tls_) tls_->next_layer().close(ignored);
  }

  TaskGroup& tasks_;
  std::shared_ptr<asio::ssl::context> tls_context_;
  Url url_;
  Url next_;                    // Where the socket goes: the upstream, or the proxy before it.
  std::string tunnel_request_;  // For the proxy, if there is one.
  Event done_;
  tcp::resolver resolver_;
  tcp::socket tcp_;
  Local::socket local_;
  std::optional<Tls> tls_;  // While shaking hands; took over tcp_.
  asio::steady_timer address_timer_;
  int address_number_ = 0;  // Counts starts and ends of connecting to one address.
  std::optional<Result<std::unique_ptr<Stream>>> outcome_;
  bool abandoned_ = false;
};

}  // namespace

Error lookup_error(const Url& url, Named what, const boost::system::error_code& code) {
  std::string detail = fmt::format("looking up {}: {}", url.host, code.message());
  if (code != asio::error::host_not_found) return Error(Errc::unavailable, std::move(detail));
  detail += what == Named::proxy ? ". Correct HTTPS_PROXY." : ". Correct the upstream's url.";
  return Error(Errc::misconfigured, std::move(detail));
}

Result<std::shared_ptr<asio::ssl::context>> make_client_tls(const std::string& ca_file) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code ec;
  tls->set_default_verify_paths(ec);
  if (ec) return std::unexpected(to_error(ec, "reading the system's certificates"));
  if (!ca_file.empty()) {
    tls->load_verify_file(ca_file, ec);
    if (ec) {
      return fail(Errc::misconfigured, fmt::format("no certificates in {}: {}. Correct ca_file.",
                                                   ca_file, ec.message()));
    }
  }
  tls->set_verify_mode(asio::ssl::verify_peer, ec);
  if (ec) return std::unexpected(to_error(ec, "preparing TLS"));
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  // We speak HTTP/1.1; an edge that would choose HTTP/2 must know.
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(tls->native_handle(), kProtocols, sizeof(kProtocols) - 1);
  return tls;
}

std::shared_ptr<Dial> make_socket_dial(const Executor& executor, TaskGroup& tasks,
                                       std::shared_ptr<asio::ssl::context> tls,
                                       const OutboundProxy* proxy, const Url& url) {
  return std::make_shared<SocketDial>(executor, tasks, std::move(tls), proxy, url);
}

}  // namespace hg::net
