#include "cli/doctor_verdicts.h"

#include <fmt/format.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "cli/terminal.h"
#include "wire/retry_after.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::int64_t kDaysSoon = 14;  // A certificate that ends within them is warned of.
constexpr Micros kClockOff = 30s;
constexpr Micros kDay{86'400'000'000};
constexpr std::size_t kNamesShown = 4;

std::string milliseconds(Micros took) {
  return took < 10ms ? fmt::format("{:.1f} ms", to_seconds(took) * 1e3)
                     : fmt::format("{} ms", (took.count() + 500) / 1000);
}

std::string date_of(WallTime at) { return to_rfc3339(at).substr(0, 10); }

std::string joined(const std::vector<std::string>& words, std::size_t most) {
  std::string text;
  for (std::size_t at = 0; at < words.size() && at < most; ++at) {
    text += (at > 0 ? ", " : "") + words[at];
  }
  if (words.size() > most) text += fmt::format(" and {} more", words.size() - most);
  return text;
}

Finding judge_name(const std::string& about, const std::string& host,
                   const net::UpstreamProbe& probe) {
  return problem("upstream.name", about,
                 fmt::format("the name {} has no address: {}", host, probe.resolve_error),
                 probe.by_proxy
                     ? "Mend the proxy's name in HTTPS_PROXY, or this machine's DNS."
                     : fmt::format("Mend the url if {} is misspelt; otherwise this machine's DNS "
                                   "(/etc/resolv.conf) or its way to the network.",
                                   host));
}

Findings judge_connections(const std::string& about, const net::Url& next, const std::string& via,
                           const net::UpstreamProbe& probe) {
  Findings findings;
  std::string reached;
  std::string failed;
  for (const net::AddressProbe& address : probe.addresses) {
    const std::string_view family = address.is_v6 ? "IPv6" : "IPv4";
    if (address.error.empty()) {
      reached += fmt::format("{}{} {} in {}", reached.empty() ? "" : ", ", family, address.address,
                             milliseconds(address.took));
    } else {
      failed += fmt::format("{}{} {} ({})", failed.empty() ? "" : ", ", family, address.address,
                            address.error);
    }
  }
  if (reached.empty()) {
    const std::string
        mend = probe.by_proxy
                   ? "Start the proxy, or correct HTTPS_PROXY (or name this host in NO_PROXY)."
               : is_loopback(next.host)
                   ? "Start the program that is to listen there, or correct the upstream's url."
                   : "See whether a firewall stands between, or whether this network needs a proxy "
                     "(HTTPS_PROXY).";
    findings.push_back(
        problem("upstream.connect", about, fmt::format("no connection{}: {}", via, failed), mend));
    return findings;
  }
  findings.push_back(fine("upstream.connect", about, fmt::format("connects{}: {}", via, reached)));
  if (!failed.empty()) {
    findings.push_back(warning(
        "upstream.address_dead", about,
        fmt::format("some of its addresses cannot be reached{}: {}", via, failed),
        "Calls use the others, some after a wait of 3 s: mend that route, or switch that family "
        "off on this machine."));
  }
  return findings;
}

// Only that the chain leads to nobody whom this machine trusts.
bool is_unknown_authority(int verdict) {
  return verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
         verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
         verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
         verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
         verdict == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

Findings judge_certificate(const std::string& about, const net::Url& url,
                           const net::UpstreamProbe& probe, WallTime wall) {
  Findings findings;
  const net::CertificateFacts& facts = *probe.certificate;
  const Micros left = facts.valid_until.since_epoch - wall.since_epoch;
  const std::int64_t days = left.count() / kDay.count();
  bool explained = false;
  if (left < 0s) {
    findings.push_back(
        problem("tls.expired", about,
                fmt::format("its certificate ended on {}, {} days ago (issued by {})",
                            date_of(facts.valid_until), -days, facts.issuer),
                "Renew it on the server; if this machine's date is wrong, set the clock."));
    explained = true;
  } else if (wall < facts.valid_from) {
    findings.push_back(
        problem("tls.not_yet_valid", about,
                fmt::format("its certificate begins on {} only", date_of(facts.valid_from)),
                "Set this machine's clock; if it is right, have the certificate "
                "issued anew."));
    explained = true;
  }
  if (!facts.fits_host) {
    findings.push_back(
        problem("tls.wrong_name", about,
                fmt::format("its certificate is for {}, not for {}",
                            facts.names.empty() ? facts.subject : joined(facts.names, kNamesShown),
                            url.host),
                fmt::format("Write one of its names into the upstream's url, or give the server a "
                            "certificate for {}.",
                            url.host)));
    explained = true;
  }
  if (is_unknown_authority(probe.verdict)) {
    findings.push_back(problem(
        "tls.unknown_authority", about,
        facts.self_signed
            ? fmt::format("its certificate is signed by itself ({})", facts.issuer)
            : fmt::format("nobody whom this machine trusts vouches for its certificate (issued by "
                          "{}): {}",
                          facts.issuer, probe.verdict_text),
        "If the authority is your own (a private server, a company's proxy), put its certificate "
        "as PEM into a file and name that by ca_file; otherwise trust nobody there."));
    explained = true;
  }
  if (probe.verdict != X509_V_OK && !explained) {
    findings.push_back(problem(
        "tls.refused", about, fmt::format("its certificate is not trusted: {}", probe.verdict_text),
        "Have the server's chain of certificates mended; calls are "
        "refused until then."));
  }
  if (!findings.empty()) return findings;
  const std::string seen = fmt::format("{} in {}; certificate until {} ({} days), issued by {}",
                                       probe.tls_version, milliseconds(probe.tls_took),
                                       date_of(facts.valid_until), days, facts.issuer);
  if (days < kDaysSoon) {
    findings.push_back(
        warning("tls.ends_soon", about, seen, "Renew the certificate before that day."));
  } else {
    findings.push_back(fine("tls.valid", about, seen));
  }
  return findings;
}

bool is_hop_by_hop(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "connection", "keep-alive", "transfer-encoding",  "te",
      "trailer",    "upgrade",    "proxy-authenticate", "proxy-connection"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view other) { return iequals(other, name); });
}

// Fields whose values change from answer to answer, even where two happened to be alike.
bool is_volatile(std::string_view name) {
  const std::string lower = to_lower(name);
  static constexpr std::string_view kParts[] = {"date",    "age",   "ratelimit", "request-id",
                                                "cf-ray",  "trace", "cookie",    "time",
                                                "expires", "-ms"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

bool is_own(std::string_view name) { return to_lower(name).starts_with("x-headgate-"); }

// The fields that should pass, names as written.
std::vector<Header> passing(const net::ResponseHead& head) {
  std::vector<Header> fields;
  for (const Header& field : head.headers.all()) {
    if (!is_hop_by_hop(field.name) && !is_own(field.name)) fields.push_back(field);
  }
  return fields;
}

std::vector<std::string> names_of(const std::vector<Header>& fields) {
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const Header& field : fields) names.push_back(field.name);
  return names;
}

// Names that are in `left` and not in `right`, counting duplicates, without regard to case.
std::vector<std::string> lacking(const std::vector<std::string>& left,
                                 std::vector<std::string> right) {
  std::vector<std::string> missing;
  for (const std::string& name : left) {
    const auto found = std::find_if(right.begin(), right.end(),
                                    [&](const std::string& other) { return iequals(name, other); });
    if (found == right.end()) {
      missing.push_back(name);
    } else {
      right.erase(found);
    }
  }
  return missing;
}

void compare_names(const std::vector<std::string>& direct, const std::vector<std::string>& gated,
                   std::vector<std::string>& found) {
  if (direct == gated) return;
  const std::vector<std::string> missing = lacking(direct, gated);
  const std::vector<std::string> added = lacking(gated, direct);
  if (!missing.empty()) {
    found.push_back("fields that are missing: " + joined(missing, kNamesShown));
  }
  if (!added.empty()) found.push_back("fields that were added: " + joined(added, kNamesShown));
  if (!missing.empty() || !added.empty()) return;
  const bool same_order = std::equal(
      direct.begin(), direct.end(), gated.begin(), gated.end(),
      [](const std::string& left, const std::string& right) { return iequals(left, right); });
  found.emplace_back(same_order ? "the case of fields' names" : "the order of the fields");
}

std::vector<std::string> keys_of(std::string_view body) {
  std::vector<std::string> keys;
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  if (error || !value.is_object()) return keys;
  for (const auto& [key, member] : value.get_object()) keys.emplace_back(key);
  return keys;
}

}  // namespace

Findings judge_probe(const std::string& about, const net::Url& url, const net::UpstreamProbe& probe,
                     const std::string& proxy, WallTime wall) {
  Findings findings;
  const std::string via = proxy.empty() ? "" : fmt::format(" to the proxy {}", proxy);
  const auto next = proxy.empty() ? url : net::parse_url("http://" + proxy).value_or(url);
  if (!probe.resolve_error.empty()) {
    findings.push_back(judge_name(about, next.host, probe));
    return findings;
  }
  append(findings, judge_connections(about, next, via, probe));
  if (!probe.connected() || url.scheme != net::Scheme::https) return findings;
  if (!probe.trust_error.empty()) {
    findings.push_back(problem("tls.ca_file", about, probe.trust_error,
                               "Name a readable file of PEM certificates by ca_file (or "
                               "SSL_CERT_FILE), or leave it out."));
    return findings;
  }
  if (!probe.tunnel_error.empty()) {
    findings.push_back(
        problem("upstream.tunnel", about,
                fmt::format("the proxy {} opens no way to {}: {}", proxy, url.authority(),
                            probe.tunnel_error),
                fmt::format("Have the proxy allow CONNECT to {}, put its user and password into "
                            "HTTPS_PROXY, or name the host in NO_PROXY.",
                            url.authority())));
    return findings;
  }
  if (!probe.tls_error.empty() || !probe.certificate) {
    findings.push_back(problem(
        "tls.handshake", about,
        fmt::format("TLS fails: {}",
                    probe.tls_error.empty() ? "it shows no certificate" : probe.tls_error),
        "Write http:// if the server speaks no TLS; otherwise see whether the port is right and "
        "the server speaks TLS 1.2 or later."));
    return findings;
  }
  append(findings, judge_certificate(about, url, probe, wall));
  return findings;
}

Finding judge_answer(const std::string& about, const std::string& asked, const PlainAnswer& answer,
                     const std::string& key_variable) {
  const int status = answer.head.status;
  const std::string took = milliseconds(answer.took);
  const std::string seen = fmt::format("{} answers {} in {}", asked, status, took);
  if (status / 100 == 2) {
    const auto models = models_in(answer.body);
    return fine(
        "upstream.answers", about,
        models ? fmt::format("{} lists {} models in {}", asked, models->size(), took) : seen);
  }
  if ((status == 401 || status == 403) && !key_variable.empty()) {
    return problem("keys.refused", about, fmt::format("{} with the key of {}", seen, key_variable),
                   fmt::format("Put a valid key into {}; it may be revoked, of another account, or "
                               "not allowed here.",
                               key_variable));
  }
  if (status == 401 || status == 403) {
    return fine("upstream.answers", about, seen + ": no key was sent");
  }
  if (status / 100 == 3) {
    return warning("upstream.redirects", about, fmt::format("{} and leads elsewhere", seen),
                   "Write the final address into the upstream's url: a redirect is passed on, and "
                   "most programs drop their key there.");
  }
  if (status == 404) {
    return warning("upstream.no_models", about, seen,
                   "If calls get 404, too, correct the path of the upstream's url; some gateways "
                   "just have no list of models.");
  }
  if (status == 407) {
    return problem("upstream.tunnel", about, seen,
                   "Put the proxy's user and password into HTTPS_PROXY.");
  }
  if (status == 429) {
    return warning("upstream.busy", about, seen,
                   "It refuses for load or quota at this moment: wait, or see its console.");
  }
  if (status >= 500) {
    return warning("upstream.fails", about, seen,
                   "The provider has trouble of its own: see its status page, and try again.");
  }
  return fine("upstream.answers", about, seen);
}

std::optional<Micros> clock_ahead(const net::ResponseHead& head, WallTime sent, WallTime got) {
  const auto date = head.headers.find("date");
  if (!date) return std::nullopt;
  // The parser answers how far ahead of a moment a date lies, and never less than nothing: asked
  // from long ago, it tells all.
  constexpr Micros kLongAgo = kDay * 3650;
  const Micros middle = (sent.since_epoch + got.since_epoch) / 2;
  const auto since = wire::parse_retry_after(*date, {middle - kLongAgo});
  if (!since) return std::nullopt;
  // A Date has whole seconds: on average half a second has passed since.
  return *since - kLongAgo + 500ms;
}

Finding judge_clock(const std::string& about, Micros ahead) {
  const Micros off = ahead < 0s ? -ahead : ahead;
  if (off <= kClockOff) {
    return fine("clock.wall", about,
                off < 2s ? std::string("this machine's clock agrees with its Date")
                         : fmt::format("this machine's clock is {} {} its Date",
                                       short_duration(off), ahead > 0s ? "behind" : "ahead of"));
  }
  return warning("clock.wall", about,
                 fmt::format("this machine's clock is {} {} its Date", short_duration(off),
                             ahead > 0s ? "behind" : "ahead of"),
                 "Set the clock (timedatectl set-ntp true): certificates, retry-after dates and "
                 "the call log depend on it; if it is right, the server's is wrong.");
}

std::vector<std::string> differences(const PlainAnswer& direct, const PlainAnswer& again,
                                     const PlainAnswer& gated) {
  std::vector<std::string> found;
  if (direct.head.status != gated.head.status) {
    found.push_back(fmt::format("status {} instead of {}", gated.head.status, direct.head.status));
  }
  const std::vector<Header> one = passing(direct.head);
  const std::vector<Header> two = passing(again.head);
  const std::vector<Header> three = passing(gated.head);
  if (names_of(one) == names_of(two)) {
    compare_names(names_of(one), names_of(three), found);
  }
  for (const Header& field : one) {
    const auto other = again.head.headers.find(field.name);
    const auto through = gated.head.headers.find(field.name);
    const bool stable = !is_volatile(field.name) && direct.head.headers.find(field.name) == other;
    if (stable && through && *through != *other) {
      found.push_back(fmt::format("{}{}", kValueOf, field.name));
    }
  }
  if (direct.body == again.body && direct.body != gated.body) {
    found.push_back(
        fmt::format("the body: {} bytes instead of {}", gated.body.size(), direct.body.size()));
  }
  return found;
}

std::vector<std::string> call_differences(const PlainAnswer& direct, const PlainAnswer& gated) {
  std::vector<std::string> found;
  if (direct.head.status != gated.head.status) {
    found.push_back(fmt::format("status {} instead of {}", gated.head.status, direct.head.status));
    return found;
  }
  compare_names(names_of(passing(direct.head)), names_of(passing(gated.head)), found);
  if (keys_of(direct.body) != keys_of(gated.body)) found.emplace_back("the keys of the body");
  return found;
}

std::optional<std::vector<std::string>> models_in(std::string_view body) {
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  if (error) return std::nullopt;
  const json::value* list = value.is_array() ? &value : nullptr;
  if (value.is_object()) {
    for (const std::string_view name : {"data", "models"}) {
      const json::value* member = value.get_object().if_contains(name);
      if (list == nullptr && member != nullptr && member->is_array()) list = member;
    }
  }
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> models;
  for (const json::value& entry : list->get_array()) {
    if (!entry.is_object()) continue;
    for (const std::string_view name : {"id", "name"}) {
      const json::value* text = entry.get_object().if_contains(name);
      if (text == nullptr || !text->is_string()) continue;
      std::string model(text->get_string());
      if (model.starts_with("models/")) model.erase(0, 7);  // Gemini's own way to name them.
      models.push_back(std::move(model));
      break;
    }
  }
  return models;
}

std::string cheapest(const std::vector<std::string>& models) {
  const auto holds = [](std::string_view text, std::string_view word) {
    // "gemini" has a "mini" in it that promises nothing.
    if (word == "mini") return text.find("-mini") != std::string_view::npos;
    return text.find(word) != std::string_view::npos;
  };
  for (const std::string_view word : {"nano", "lite", "haiku", "mini", "flash", "small"}) {
    for (const std::string& model : models) {
      const std::string lower = to_lower(model);
      bool writes = true;  // Not what speaks, listens, paints or embeds.
      for (const std::string_view other :
           {"embed", "audio", "tts", "image", "realtime", "transcribe", "moderation"}) {
        writes = writes && !holds(lower, other);
      }
      if (writes && holds(lower, word)) return model;
    }
  }
  return models.empty() ? "" : models.front();
}

}  // namespace hg::cli
