#include "cli/doctor_verdicts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>

namespace hg::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr WallTime kNow{Micros(1'796'083'200'000'000)};  // 2026-12-01.
constexpr Micros kDay{86'400'000'000};

std::vector<std::string> verdicts(const Findings& findings) {
  std::vector<std::string> list;
  for (const Finding& one : findings) {
    list.push_back(fmt::format("{} {}", to_string(one.level), one.check));
  }
  return list;
}

net::UpstreamProbe good_probe() {
  net::UpstreamProbe probe;
  probe.addresses.push_back({"192.0.2.1", false, 12ms, ""});
  probe.tls_version = "TLSv1.3";
  probe.tls_took = 30ms;
  net::CertificateFacts facts;
  facts.subject = "api.example.com";
  facts.issuer = "Example CA";
  facts.names = {"api.example.com"};
  facts.valid_from = {kNow.since_epoch - 10 * kDay};
  facts.valid_until = {kNow.since_epoch + 80 * kDay};
  facts.fits_host = true;
  probe.certificate = facts;
  return probe;
}

Findings judge(const net::UpstreamProbe& probe, const std::string& proxy = "",
               const char* url = "https://api.example.com") {
  return judge_probe("upstream x", *net::parse_url(url), probe, proxy, kNow);
}

TEST(DoctorVerdictsTest, AGoodUpstreamIsDescribed) {
  const Findings findings = judge(good_probe());
  EXPECT_THAT(verdicts(findings), ElementsAre("ok upstream.connect", "ok tls.valid"));
  EXPECT_THAT(findings[0].seen, HasSubstr("IPv4 192.0.2.1 in 12 ms"));
  EXPECT_THAT(findings[1].seen, HasSubstr("until 2027-02-19 (80 days), issued by Example CA"));
}

TEST(DoctorVerdictsTest, EachFaultOfACertificateHasItsOwnMend) {
  struct Row {
    const char* why;
    void (*spoil)(net::UpstreamProbe&);
    std::vector<std::string> verdicts;
    const char* mend;
  };
  const Row rows[] = {
      {"expired",
       [](net::UpstreamProbe& probe) {
         probe.certificate->valid_until = {kNow.since_epoch - 30 * kDay};
         probe.verdict = X509_V_ERR_CERT_HAS_EXPIRED;
       },
       {"problem tls.expired"},
       "Renew it on the server"},
      {"not yet valid",
       [](net::UpstreamProbe& probe) {
         probe.certificate->valid_from = {kNow.since_epoch + kDay};
         probe.verdict = X509_V_ERR_CERT_NOT_YET_VALID;
       },
       {"problem tls.not_yet_valid"},
       "clock"},
      {"another's",
       [](net::UpstreamProbe& probe) {
         probe.certificate->fits_host = false;
         probe.verdict = X509_V_ERR_HOSTNAME_MISMATCH;
       },
       {"problem tls.wrong_name"},
       "a certificate for api.example.com"},
      {"a private authority",
       [](net::UpstreamProbe& probe) {
         probe.verdict = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
       },
       {"problem tls.unknown_authority"},
       "ca_file"},
      {"everything at once",
       [](net::UpstreamProbe& probe) {
         probe.certificate->self_signed = true;
         probe.certificate->fits_host = false;
         probe.certificate->valid_until = {kNow.since_epoch - kDay};
         probe.verdict = X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
       },
       {"problem tls.expired", "problem tls.wrong_name", "problem tls.unknown_authority"},
       ""},
      {"an intermediate one ended",
       [](net::UpstreamProbe& probe) { probe.verdict = X509_V_ERR_CERT_HAS_EXPIRED; },
       {"problem tls.refused"},
       "chain"},
      {"soon",
       [](net::UpstreamProbe& probe) {
         probe.certificate->valid_until = {kNow.since_epoch + 5 * kDay};
       },
       {"warning tls.ends_soon"},
       "Renew"},
  };
  for (const Row& row : rows) {
    net::UpstreamProbe probe = good_probe();
    row.spoil(probe);
    Findings findings = judge(probe);
    findings.erase(findings.begin());  // It connects.
    EXPECT_EQ(verdicts(findings), row.verdicts) << row.why;
    EXPECT_THAT(findings.back().mend, HasSubstr(row.mend)) << row.why;
  }
}

TEST(DoctorVerdictsTest, EachStepThatFailsIsTheLastOne) {
  net::UpstreamProbe nameless;
  nameless.resolve_error = "Host not found";
  EXPECT_THAT(verdicts(judge(nameless)), ElementsAre("problem upstream.name"));

  net::UpstreamProbe dead;
  dead.addresses.push_back({"192.0.2.1", false, 3s, "no answer within 3 s"});
  EXPECT_THAT(verdicts(judge(dead)), ElementsAre("problem upstream.connect"));
  EXPECT_THAT(judge(dead)[0].mend, HasSubstr("firewall"));
  EXPECT_THAT(judge(dead, "", "http://127.0.0.1:9")[0].mend, HasSubstr("Start the program"));
  EXPECT_THAT(judge(dead, "proxy.corp:3128")[0].mend, HasSubstr("HTTPS_PROXY"));

  net::UpstreamProbe half = good_probe();
  half.addresses.push_back({"2001:db8::1", true, 3s, "no answer within 3 s"});
  EXPECT_THAT(verdicts(judge(half)),
              ElementsAre("ok upstream.connect", "warning upstream.address_dead", "ok tls.valid"));

  net::UpstreamProbe tunnel = good_probe();
  tunnel.by_proxy = true;
  tunnel.tunnel_error = "it answers 407 Proxy Authentication Required";
  EXPECT_THAT(verdicts(judge(tunnel, "proxy.corp:3128")),
              ElementsAre("ok upstream.connect", "problem upstream.tunnel"));

  net::UpstreamProbe no_tls = good_probe();
  no_tls.certificate.reset();
  no_tls.tls_error = "wrong version number";
  EXPECT_THAT(verdicts(judge(no_tls)), ElementsAre("ok upstream.connect", "problem tls.handshake"));
}

PlainAnswer answer(int status, const std::vector<Header>& fields = {}, std::string body = "") {
  PlainAnswer made;
  made.head = net::ResponseHead(status);
  for (const Header& field : fields) made.head.headers.add(field.name, field.value);
  made.body = std::move(body);
  made.took = 5ms;
  return made;
}

TEST(DoctorVerdictsTest, WhatAnAnswerMeansDependsOnWhetherAKeyWasSent) {
  const auto verdict = [](int status, const char* key, const char* body = "") {
    return verdicts({judge_answer("x", "GET /v1/models", answer(status, {}, body), key)})[0];
  };
  EXPECT_EQ(verdict(200, "", R"({"data": [{"id": "a"}]})"), "ok upstream.answers");
  EXPECT_EQ(verdict(401, ""), "ok upstream.answers");
  EXPECT_EQ(verdict(401, "OPENAI_API_KEY"), "problem keys.refused");
  EXPECT_EQ(verdict(404, ""), "warning upstream.no_models");
  EXPECT_EQ(verdict(301, ""), "warning upstream.redirects");
  EXPECT_EQ(verdict(429, "A"), "warning upstream.busy");
  EXPECT_EQ(verdict(503, ""), "warning upstream.fails");
}

TEST(DoctorVerdictsTest, TheClockIsComparedWithTheDate) {
  const auto ahead = [](const char* date) {
    return clock_ahead(answer(200, {{"Date", date}}).head, kNow, {kNow.since_epoch + 200ms});
  };
  EXPECT_EQ(ahead("Tue, 01 Dec 2026 00:00:00 GMT"), 400ms);
  EXPECT_EQ(ahead("Tue, 01 Dec 2026 01:00:00 GMT"), 3600s + 400ms);
  EXPECT_EQ(ahead("Mon, 30 Nov 2026 23:00:00 GMT"), -3600s + 400ms);
  EXPECT_EQ(ahead("soon"), std::nullopt);
  EXPECT_EQ(clock_ahead(answer(200).head, kNow, kNow), std::nullopt);
  EXPECT_EQ(judge_clock("x", 500ms).level, Level::ok);
  EXPECT_EQ(judge_clock("x", -29s).level, Level::ok);
  EXPECT_EQ(judge_clock("x", -31s).level, Level::warning);
  EXPECT_THAT(judge_clock("x", 3600s).seen, HasSubstr("60 m 00 s behind"));
}

TEST(DoctorVerdictsTest, OnlyWhatTheGateChangedIsADifference) {
  const std::vector<Header> fields = {{"Content-Type", "application/json"},
                                      {"X-Request-Id", "1"},
                                      {"Set-Cookie", "a"},
                                      {"Set-Cookie", "b"}};
  const PlainAnswer direct = answer(200, fields, "{}");
  const PlainAnswer again = answer(200,
                                   {{"Content-Type", "application/json"},
                                    {"X-Request-Id", "2"},
                                    {"Set-Cookie", "a"},
                                    {"Set-Cookie", "b"}},
                                   "{}");
  const auto compared = [&](const PlainAnswer& gated) { return differences(direct, again, gated); };
  EXPECT_THAT(compared(direct), IsEmpty());
  EXPECT_THAT(compared(answer(200,
                              {{"Content-Type", "application/json"},
                               {"X-Request-Id", "3"},
                               {"Set-Cookie", "a"},
                               {"Set-Cookie", "b"},
                               {"Connection", "keep-alive"},
                               {"X-Headgate-Note", "x"}},
                              "{}")),
              IsEmpty());
  EXPECT_THAT(compared(answer(502, fields, "{}")), ElementsAre("status 502 instead of 200"));
  EXPECT_THAT(compared(answer(200, fields, "{ }")), ElementsAre("the body: 3 bytes instead of 2"));
  EXPECT_THAT(compared(answer(200,
                              {{"content-type", "application/json"},
                               {"X-Request-Id", "1"},
                               {"Set-Cookie", "a"},
                               {"Set-Cookie", "b"}},
                              "{}")),
              ElementsAre("the case of fields' names"));
  EXPECT_THAT(compared(answer(200,
                              {{"X-Request-Id", "1"},
                               {"Content-Type", "application/json"},
                               {"Set-Cookie", "a"},
                               {"Set-Cookie", "b"}},
                              "{}")),
              ElementsAre("the order of the fields"));
  EXPECT_THAT(compared(answer(200,
                              {{"Content-Type", "text/plain"},
                               {"X-Request-Id", "1"},
                               {"Set-Cookie", "a"},
                               {"Via", "x"}},
                              "{}")),
              ElementsAre("fields that are missing: Set-Cookie", "fields that were added: Via",
                          "the value of Content-Type"));
}

TEST(DoctorVerdictsTest, CallsAreComparedByShape) {
  const PlainAnswer direct = answer(200, {{"A", "1"}}, R"({"id": "x", "usage": {}})");
  EXPECT_THAT(call_differences(direct, answer(200, {{"A", "2"}}, R"({"id": "y", "usage": {}})")),
              IsEmpty());
  EXPECT_THAT(call_differences(direct, answer(200, {{"A", "2"}}, R"({"id": "y"})")),
              ElementsAre("the keys of the body"));
  EXPECT_THAT(call_differences(direct, answer(429)), ElementsAre("status 429 instead of 200"));
}

TEST(DoctorVerdictsTest, ModelsAreReadInEveryShapeAndACheapOneIsChosen) {
  EXPECT_EQ(models_in("hello"), std::nullopt);
  EXPECT_EQ(models_in("{}"), std::nullopt);
  const std::vector<std::string> two = {"gemini-pro", "gemini-flash"};
  EXPECT_EQ(models_in(R"({"models": [{"name": "models/gemini-pro"}, {"name": "gemini-flash"}]})"),
            two);
  EXPECT_EQ(cheapest(two), "gemini-flash");
  EXPECT_EQ(models_in(R"({"data": [{"id": "a"}]})"), std::vector<std::string>{"a"});
  EXPECT_EQ(cheapest({"claude-opus-5", "claude-haiku-5"}), "claude-haiku-5");
  EXPECT_EQ(cheapest({"gpt-6", "text-embedding-3-small", "gpt-6-mini"}), "gpt-6-mini");
  EXPECT_EQ(cheapest({"llama"}), "llama");
  EXPECT_EQ(cheapest({}), "");
}

}  // namespace
}  // namespace hg::cli
