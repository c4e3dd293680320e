#include "net/probe.h"

#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>

#include "net/test_identity.h"
#include "net/test_loop.h"

namespace hg::net {
namespace {

using asio::ip::tcp;
using Tls = asio::ssl::stream<tcp::socket>;

class ProbeTest : public testing::Test {
 protected:
  void TearDown() override {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    loop_.run_dry();
    if (!ca_file_.empty()) std::filesystem::remove(ca_file_);
  }

  // Shakes hands with whoever comes.
  void serve(const Identity& identity) {
    context_.use_certificate_chain(asio::buffer(identity.certificate));
    context_.use_private_key(asio::buffer(identity.key), asio::ssl::context::pem);
    tasks_.spawn("accept", accept(this));
  }

  static Task<void> accept(ProbeTest* test) {
    for (;;) {
      tcp::socket socket(test->loop_.executor());
      const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
      if (ec) co_return;
      Tls tls(std::move(socket), test->context_);
      co_await tls.async_handshake(asio::ssl::stream_base::server, as_result);
    }
  }

  // Takes connections and says nothing.
  static Task<void> be_silent(ProbeTest* test) {
    std::vector<tcp::socket> held;
    for (;;) {
      tcp::socket socket(test->loop_.executor());
      const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
      if (ec) co_return;
      held.push_back(std::move(socket));
    }
  }

  // Answers whoever comes with `text`, once it has said something.
  static Task<void> answer(ProbeTest* test, std::string text) {
    tcp::socket socket(test->loop_.executor());
    const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
    if (ec) co_return;
    char heard[1000];
    const auto [read_ec, count] = co_await socket.async_read_some(asio::buffer(heard), as_result);
    if (read_ec) co_return;
    co_await asio::async_write(socket, asio::buffer(text), as_result);
  }

  void trust(const Identity& identity) {
    ca_file_ = testing::TempDir() + "hg_probe_" + std::to_string(::getpid()) + ".pem";
    std::ofstream(ca_file_) << identity.certificate;
  }

  Url url(const std::string& scheme, const std::string& host) {
    const auto port = acceptor_.local_endpoint().port();
    return *parse_url(scheme + "://" + host + ":" + std::to_string(port));
  }

  UpstreamProbe probe(const Url& url, const OutboundProxy* proxy = nullptr, Micros within = 5s) {
    return loop_.run(probe_upstream(loop_.executor(), loop_.clock, url, proxy, ca_file_, within));
  }

  TestLoop loop_;
  std::string ca_file_;
  asio::ssl::context context_{asio::ssl::context::tls_server};
  tcp::acceptor acceptor_{loop_.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  TaskGroup tasks_{loop_.executor()};
};

TEST_F(ProbeTest, SaysWhatIsWrongWithACertificateAndStillReadsIt) {
  struct Row {
    const char* why;
    const char* certified;
    const char* host;
    long valid_seconds;
    bool trusted;
    int verdict;
    bool fits_host;
  };
  const Row rows[] = {
      {"good", "localhost", "localhost", 3600, true, X509_V_OK, true},
      {"nobody vouches", "localhost", "localhost", 3600, false,
       X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, true},
      {"another's", "other.example", "localhost", 3600, true, X509_V_ERR_HOSTNAME_MISMATCH, false},
      {"expired", "localhost", "localhost", -60, true, X509_V_ERR_CERT_HAS_EXPIRED, true},
      {"no address", "localhost", "127.0.0.1", 3600, true, X509_V_ERR_IP_ADDRESS_MISMATCH, false},
  };
  for (const Row& row : rows) {
    const Identity identity = make_identity(row.certified, row.valid_seconds);
    serve(identity);
    ca_file_.clear();
    if (row.trusted) trust(identity);
    const UpstreamProbe report = probe(url("https", row.host));
    EXPECT_TRUE(report.connected()) << row.why;
    EXPECT_EQ(report.verdict, row.verdict) << row.why << ": " << report.verdict_text;
    ASSERT_TRUE(report.certificate) << row.why << ": " << report.tls_error;
    EXPECT_EQ(report.certificate->fits_host, row.fits_host) << row.why;
    EXPECT_EQ(report.certificate->names, std::vector<std::string>{row.certified}) << row.why;
    EXPECT_EQ(report.certificate->issuer, "Headgate test");
    EXPECT_TRUE(report.certificate->self_signed);
    const Micros left = report.certificate->valid_until.since_epoch -
                        loop_.clock.wall().since_epoch;
    EXPECT_NEAR(to_seconds(left), static_cast<double>(row.valid_seconds), 30) << row.why;
    EXPECT_TRUE(report.tls_version.starts_with("TLSv1.")) << report.tls_version;
  }
}

TEST_F(ProbeTest, ASocketThatNeverAnswersIsGivenUp) {
  tasks_.spawn("silent", be_silent(this));
  const UpstreamProbe report = probe(url("https", "127.0.0.1"), nullptr, 30ms);
  EXPECT_TRUE(report.connected());
  EXPECT_EQ(report.tls_error, "no answer within 0.03 s");
  EXPECT_FALSE(report.certificate);
}

TEST_F(ProbeTest, NobodyThereIsSaidForEachAddress) {
  const Url gone = url("http", "127.0.0.1");
  acceptor_.close();
  const UpstreamProbe report = probe(gone);
  EXPECT_FALSE(report.connected());
  ASSERT_EQ(report.addresses.size(), 1U);
  EXPECT_EQ(report.addresses[0].address, "127.0.0.1");
  EXPECT_EQ(report.addresses[0].error, "Connection refused");
}

TEST_F(ProbeTest, ANameThatNobodyKnowsHasNoAddress) {
  const UpstreamProbe report = probe(url("http", "nobody.invalid"));
  EXPECT_FALSE(report.resolve_error.empty());
  EXPECT_TRUE(report.addresses.empty());
}

TEST_F(ProbeTest, AProxyThatRefusesIsNotTheUpstream) {
  tasks_.spawn("proxy", answer(this, "HTTP/1.1 403 Forbidden\r\n\r\n"));
  const auto proxy = parse_proxy(url("http", "127.0.0.1").text(), "");
  ASSERT_TRUE(proxy);
  const UpstreamProbe report = probe(*parse_url("https://api.example.com"), &*proxy);
  EXPECT_TRUE(report.by_proxy);
  EXPECT_TRUE(report.connected());
  EXPECT_EQ(report.tunnel_error, "it answers 403 Forbidden");
}

TEST_F(ProbeTest, WhoSpeaksNoTlsIsTold) {
  tasks_.spawn("plain", answer(this, "HTTP/1.1 400 Bad Request\r\n\r\n"));
  const UpstreamProbe report = probe(url("https", "127.0.0.1"));
  EXPECT_FALSE(report.tls_error.empty());
  EXPECT_FALSE(report.certificate);
}

}  // namespace
}  // namespace hg::net
