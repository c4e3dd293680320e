// probe.h: looks at an upstream step by step, as nobody does who only wants an answer: its
// addresses, a connection to one of each family, the tunnel of a proxy, TLS and the certificate.
//
// For `headgate doctor`. Sends no request. Nothing is trusted and nothing kept open: what it finds
// is told, not acted upon. One thread (that of the executor).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/outbound_proxy.h"
#include "net/task.h"
#include "net/url.h"

namespace hg::net {

// One try to connect.
struct AddressProbe {
  std::string address;  // "192.0.2.1", "2001:db8::1"
  bool is_v6 = false;
  Micros took{0};
  std::string error;  // "": connected.
};

struct CertificateFacts {
  std::string subject;             // "api.example.com": the common name, else the first name.
  std::string issuer;              // The common name or the organisation of who signed it.
  std::vector<std::string> names;  // For which it is valid: DNS names and addresses.
  WallTime valid_from;
  WallTime valid_until;
  bool self_signed = false;
  bool fits_host = false;
};

struct UpstreamProbe {
  bool by_proxy = false;  // Then addresses are the proxy's.
  Micros resolve_took{0};
  std::string resolve_error;  // "": there is at least one address.
  std::vector<AddressProbe> addresses;
  std::string tunnel_error;  // Of the proxy.
  Micros tls_took{0};
  std::string tls_error;    // The handshake failed; "" also when there was none.
  std::string tls_version;  // "TLSv1.3".
  std::optional<CertificateFacts> certificate;
  int verdict = 0;           // What OpenSSL says of the chain; 0 is trusted.
  std::string verdict_text;  // The same in words.
  std::string trust_error;   // The certificates to trust could not be read; no TLS was tried.

  [[nodiscard]] bool connected() const;
};

// At most `within` for each step: name, connection (both families at once), tunnel, TLS. `proxy`
// is null, or leads to this upstream. Not for unix sockets. A name look-up that hangs is left to
// end by itself: the executor's context must not be destroyed before, or waits for it.
[[nodiscard]] Task<UpstreamProbe> probe_upstream(const Executor& executor, const Clock& clock,
                                                 const Url& url, const OutboundProxy* proxy,
                                                 std::string ca_file, Micros within);

}  // namespace hg::net
