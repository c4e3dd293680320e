#include "net/probe.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <ctime>
#include <memory>
#include <utility>

#include "base/text.h"
#include "net/dial.h"
#include "net/framing_guard.h"

namespace hg::net {

namespace {

using asio::ip::tcp;
using Tls = asio::ssl::stream<tcp::socket>;

constexpr std::size_t kAddressesOfAFamily = 2;
constexpr std::size_t kNamesMax = 20;

std::string no_answer(Micros within) {
  return fmt::format("no answer within {:g} s", to_seconds(within));
}

// ---- What a certificate says -------------------------------------------------------------------

std::string text_of(const ASN1_STRING* text) {
  if (text == nullptr) return "";
  const auto* bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(text));
  return escape_controls({bytes, static_cast<std::size_t>(ASN1_STRING_length(text))});
}

std::string entry_of(const X509_NAME* name, int nid) {
  const int at = X509_NAME_get_index_by_NID(name, nid, -1);
  if (at < 0) return "";
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::string name_of(const X509_NAME* name) {
  const std::string common = entry_of(name, NID_commonName);
  return common.empty() ? entry_of(name, NID_organizationName) : common;
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return {std::chrono::seconds(::timegm(&parts))};
}

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int at = 0; at < sk_GENERAL_NAME_num(list) && names.size() < kNamesMax; ++at) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, at);
    if (name->type == GEN_DNS) names.push_back(text_of(name->d.dNSName));
    if (name->type != GEN_IPADD) continue;
    const unsigned char* bytes = ASN1_STRING_get0_data(name->d.iPAddress);
    if (ASN1_STRING_length(name->d.iPAddress) == 4) {
      names.push_back(fmt::format("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]));
    } else if (ASN1_STRING_length(name->d.iPAddress) == 16) {
      asio::ip::address_v6::bytes_type raw{};
      std::copy_n(bytes, raw.size(), raw.begin());
      names.push_back(asio::ip::address_v6(raw).to_string());
    }
  }
  GENERAL_NAMES_free(list);
  return names;
}

CertificateFacts facts_of(X509* certificate, const std::string& host) {
  CertificateFacts facts;
  facts.subject = name_of(X509_get_subject_name(certificate));
  facts.issuer = name_of(X509_get_issuer_name(certificate));
  facts.names = names_of(certificate);
  if (facts.subject.empty() && !facts.names.empty()) facts.subject = facts.names.front();
  facts.valid_from = time_of(X509_get0_notBefore(certificate));
  facts.valid_until = time_of(X509_get0_notAfter(certificate));
  facts.self_signed = X509_NAME_cmp(X509_get_subject_name(certificate),
                                    X509_get_issuer_name(certificate)) == 0;
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  facts.fits_host = is_name ? X509_check_host(certificate, host.data(), host.size(),
                                              X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, nullptr) == 1
                            : X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
  return facts;
}

// ---- The steps ---------------------------------------------------------------------------------

struct Lookup {
  explicit Lookup(const Executor& executor) : resolver(executor), done(executor) {}
  tcp::resolver resolver;
  Event done;
  bool ended = false;
  boost::system::error_code error;
  std::vector<tcp::endpoint> endpoints;
};

Task<void> look_up(std::shared_ptr<Lookup> lookup, std::string host, std::string service) {
  auto found = co_await lookup->resolver.async_resolve(host, service,
                                                       tcp::resolver::numeric_service, as_result);
  lookup->error = std::get<0>(found);
  for (const auto& entry : std::get<1>(found)) lookup->endpoints.push_back(entry.endpoint());
  lookup->ended = true;
  lookup->done.notify();
}

struct Attempt {
  Attempt(const Executor& executor, const tcp::endpoint& to) : socket(executor), endpoint(to) {
    report.address = to.address().to_string();
    report.is_v6 = to.address().is_v6();
  }
  tcp::socket socket;
  tcp::endpoint endpoint;
  AddressProbe report;
  bool ended = false;
};

Task<void> try_address(std::shared_ptr<Attempt> attempt, const Clock* clock,
                       std::shared_ptr<Event> done) {
  const Instant start = clock->now();
  const auto [ec] = co_await attempt->socket.async_connect(attempt->endpoint, as_result);
  if (attempt->ended) co_return;  // Given up meanwhile.
  attempt->ended = true;
  attempt->report.took = clock->now() - start;
  if (ec) attempt->report.error = ec.message();
  done->notify();
}

// Closes a socket when a step takes too long.
class Guard {
 public:
  Guard(const Executor& executor, std::shared_ptr<Tls> stream, Micros within)
      : timer_(executor, within), late_(std::make_shared<bool>(false)) {
    auto expired = [stream, late = late_](const boost::system::error_code& ec) {
      if (ec) return;
      *late = true;
      boost::system::error_code ignored;
      stream->next_layer().close(ignored);
    };
    timer_.async_wait(std::move(expired));
  }
  [[nodiscard]] bool late() const { return *late_; }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<bool> late_;
};

// Asks the proxy for a tunnel; what went wrong, "" for nothing.
Task<std::string> open_tunnel(tcp::socket& socket, const std::string& request) {
  const auto [ec, written] = co_await asio::async_write(socket, asio::buffer(request), as_result);
  if (ec) co_return ec.message();
  std::string heard;
  std::size_t scanned = 0;
  std::array<char, 512> chunk{};
  for (;;) {
    const auto [read_ec, count] = co_await socket.async_read_some(asio::buffer(chunk), as_result);
    if (read_ec) co_return read_ec.message();
    heard.append(chunk.data(), count);
    const auto end = find_head_end(heard, scanned);
    if (!end) co_return "it speaks no HTTP";
    if (!*end) continue;
    const auto answer = guard_response(std::string_view(heard).substr(0, **end), "CONNECT");
    if (!answer) co_return "it speaks no HTTP";
    if (answer->head.status / 100 == 2) co_return "";
    co_return fmt::format("it answers {} {}", answer->head.status,
                          escape_controls(answer->head.reason));
  }
}

// Not held to any verdict: the handshake ends, and the verdict is read.
bool prepare(SSL* ssl, const std::string& host) {
  SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr);
  X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  if (!is_name) return X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  return SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 &&
         X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size()) == 1;
}

void read_verdict(SSL* ssl, const std::string& host, UpstreamProbe& report) {
  report.tls_version = SSL_get_version(ssl);
  report.verdict = static_cast<int>(SSL_get_verify_result(ssl));
  report.verdict_text = X509_verify_cert_error_string(report.verdict);
  X509* certificate = SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return;
  report.certificate = facts_of(certificate, host);
  X509_free(certificate);
}

// The first two addresses of each family, in the order in which the machine would try them.
std::vector<tcp::endpoint> chosen(const std::vector<tcp::endpoint>& found) {
  std::vector<tcp::endpoint> kept;
  std::array<std::size_t, 2> of_family{};
  for (const tcp::endpoint& endpoint : found) {
    std::size_t& count = of_family[endpoint.address().is_v6() ? 1 : 0];
    if (count++ < kAddressesOfAFamily) kept.push_back(endpoint);
  }
  return kept;
}

}  // namespace

bool UpstreamProbe::connected() const {
  return std::any_of(addresses.begin(), addresses.end(),
                     [](const AddressProbe& probe) { return probe.error.empty(); });
}

Task<UpstreamProbe> probe_upstream(const Executor& executor, const Clock& clock, const Url& url,
                                   const OutboundProxy* proxy, std::string ca_file, Micros within) {
  UpstreamProbe report;
  TaskGroup tasks(executor);
  report.by_proxy = proxy != nullptr;
  const Url& next = proxy != nullptr ? proxy->url : url;

  const Instant start = clock.now();
  std::vector<tcp::endpoint> endpoints;
  boost::system::error_code ec;
  const asio::ip::address literal = asio::ip::make_address(next.host, ec);
  if (!ec) {
    endpoints.emplace_back(literal, next.port);
  } else {
    const auto lookup = std::make_shared<Lookup>(executor);
    tasks.spawn("look up", look_up(lookup, next.host, std::to_string(next.port)));
    co_await lookup->done.wait_for(within);
    report.resolve_took = clock.now() - start;
    if (!lookup->ended || lookup->error) {
      report.resolve_error = lookup->ended ? lookup->error.message() : no_answer(within);
      co_return report;
    }
    endpoints = chosen(lookup->endpoints);
  }

  const auto one_ended = std::make_shared<Event>(executor);
  std::vector<std::shared_ptr<Attempt>> attempts;
  for (const tcp::endpoint& endpoint : endpoints) {
    attempts.push_back(std::make_shared<Attempt>(executor, endpoint));
    tasks.spawn("connect", try_address(attempts.back(), &clock, one_ended));
  }
  const Instant deadline = clock.now() + within;
  const auto all_ended = [&attempts] {
    return std::all_of(attempts.begin(), attempts.end(),
                       [](const auto& one) { return one->ended; });
  };
  while (!all_ended()) {
    const Woken woken = co_await one_ended->wait_for(deadline - clock.now());
    if (woken != Woken::notified) break;
  }
  std::shared_ptr<Attempt> used;
  for (const auto& attempt : attempts) {
    if (!std::exchange(attempt->ended, true)) {
      attempt->report.took = within;
      attempt->report.error = no_answer(within);
    }
    report.addresses.push_back(attempt->report);
    if (attempt->report.error.empty() && !used) {
      used = attempt;
    } else {
      boost::system::error_code ignored;
      attempt->socket.close(ignored);
    }
  }
  if (!used || url.scheme != Scheme::https) co_return report;

  auto trust = make_client_tls(ca_file);
  if (!trust) {
    report.trust_error = trust.error().detail;
    co_return report;
  }
  const auto stream = std::make_shared<Tls>(std::move(used->socket), **trust);
  if (proxy != nullptr) {
    const std::string request = connect_request(*proxy, url);
    const Guard guard(executor, stream, within);
    report.tunnel_error = co_await open_tunnel(stream->next_layer(), request);
    if (guard.late()) report.tunnel_error = no_answer(within);
    if (!report.tunnel_error.empty()) co_return report;
  }
  const Instant tls_start = clock.now();
  const Guard guard(executor, stream, within);
  if (!prepare(stream->native_handle(), url.host)) {
    report.tls_error = "preparing it failed";
    co_return report;
  }
  const auto [tls_ec] = co_await stream->async_handshake(asio::ssl::stream_base::client, as_result);
  report.tls_took = clock.now() - tls_start;
  if (tls_ec) {
    report.tls_error = guard.late() ? no_answer(within) : tls_ec.message();
  } else {
    read_verdict(stream->native_handle(), url.host, report);
  }
  boost::system::error_code ignored;
  stream->next_layer().close(ignored);
  co_return report;
}

}  // namespace hg::net
