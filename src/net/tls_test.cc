// The client's TLS against servers whose certificate the test makes for itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "net/client.h"
#include "net/server.h"
#include "net/stream_over.h"
#include "net/test_identity.h"
#include "net/test_loop.h"
#include "net/test_peer.h"

namespace hg::net {
namespace {

using asio::ip::tcp;
using Tls = asio::ssl::stream<tcp::socket>;

Task<void> answer_hello(ServerExchange& exchange) {
  const auto body = co_await exchange.read_body(1'000'000);
  ResponseHead head(200);
  const std::string text = body ? "hello " + std::to_string(body->size()) : "no body";
  co_await exchange.reply(std::move(head), text);
}

class TlsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hg_tls_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    loop_.run(server_.stop(0s));
    loop_.run_dry();
    std::filesystem::remove_all(folder_);
  }

  void serve(const Identity& identity) {
    context_.use_certificate_chain(asio::buffer(identity.certificate));
    context_.use_private_key(asio::buffer(identity.key), asio::ssl::context::pem);
    tasks_.spawn("accept", accept(this));
  }

  // What a server says that is none of ours: `text` right after the handshake.
  void say(const Identity& identity, std::string text, bool close_notify) {
    context_.use_certificate_chain(asio::buffer(identity.certificate));
    context_.use_private_key(asio::buffer(identity.key), asio::ssl::context::pem);
    tasks_.spawn("say", say_and_close(this, std::move(text), close_notify));
  }

  static Task<void> accept(TlsTest* test) {
    for (;;) {
      tcp::socket socket(test->loop_.executor());
      const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
      if (ec) co_return;
      Tls tls(std::move(socket), test->context_);
      const auto [tls_ec] = co_await tls.async_handshake(asio::ssl::stream_base::server, as_result);
      if (!tls_ec) test->note(tls);
      if (!tls_ec) test->server_.adopt(std::make_unique<StreamOver<Tls>>(std::move(tls)));
    }
  }

  static Task<void> say_and_close(TlsTest* test, std::string text, bool close_notify) {
    tcp::socket socket(test->loop_.executor());
    const auto [ec] = co_await test->acceptor_.async_accept(socket, as_result);
    if (ec) co_return;
    Tls tls(std::move(socket), test->context_);
    const auto [tls_ec] = co_await tls.async_handshake(asio::ssl::stream_base::server, as_result);
    if (tls_ec) co_return;
    char request[1000];
    const auto [read_ec, read] = co_await tls.async_read_some(asio::buffer(request), as_result);
    const auto [write_ec, written] = co_await asio::async_write(tls, asio::buffer(text), as_result);
    if (read_ec || write_ec) co_return;
    if (close_notify) {
      // Only our half: the client answers by closing its socket.
      co_await tls.async_shutdown(as_result);
    }
    tls.next_layer().close();
  }

  void note(Tls& tls) {
    const char* name = SSL_get_servername(tls.native_handle(), TLSEXT_NAMETYPE_host_name);
    server_name_ = name != nullptr ? name : "";
  }

  Url url(const std::string& host) {
    return *parse_url("https://" + host + ":" + std::to_string(acceptor_.local_endpoint().port()));
  }

  std::string trust(const Identity& identity) {
    const std::string path = folder_ + "/ca.pem";
    std::ofstream(path) << identity.certificate;
    return path;
  }

  Result<FetchedResponse> fetch(Client& client, const Url& url, std::string_view body = "") {
    const RequestHead head("POST", "/");
    return loop_.run(client.fetch(url, head, body, 5s, 1'000'000));
  }

  TestLoop loop_;
  std::string folder_;
  asio::ssl::context context_{asio::ssl::context::tls_server};
  tcp::acceptor acceptor_{loop_.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  TaskGroup tasks_{loop_.executor()};
  Server server_{loop_.executor(), ServerConfig(), answer_hello};
  std::string server_name_;
};

TEST_F(TlsTest, TrustsTheConfiguredCertificateForItsOwnName) {
  const Identity identity = make_identity("localhost", 3600);
  serve(identity);
  ClientConfig config;
  config.ca_file = trust(identity);
  Client client(loop_.executor(), loop_.clock, config);
  const std::string body(300'000, 'x');
  for (int i = 0; i < 3; ++i) {
    const auto response = fetch(client, url("localhost"), body);
    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(response->body, "hello 300000");
  }
  EXPECT_EQ(server_name_, "localhost");
  EXPECT_EQ(client.stats().connects, 1u);
  EXPECT_EQ(client.stats().reuses, 2u);
  client.close_idle();
}

TEST_F(TlsTest, RefusesWhatItMustNotTrust) {
  struct Row {
    const char* why;
    const char* certified;
    const char* host;
    long valid_seconds;
    bool trusted;
    const char* detail;
  };
  const Row rows[] = {
      {"nobody vouches for it", "localhost", "localhost", 3600, false, "self-signed"},
      {"another host's", "other.example", "localhost", 3600, true, "hostname mismatch"},
      {"a name is no address", "localhost", "127.0.0.1", 3600, true, "IP address mismatch"},
      {"expired", "localhost", "localhost", -60, true, "expired"},
  };
  for (const Row& row : rows) {
    const Identity identity = make_identity(row.certified, row.valid_seconds);
    serve(identity);
    ClientConfig config;
    if (row.trusted) config.ca_file = trust(identity);
    Client client(loop_.executor(), loop_.clock, config);
    const auto response = fetch(client, url(row.host));
    ASSERT_FALSE(response) << row.why;
    EXPECT_EQ(response.error().code, Errc::misconfigured) << row.why;
    EXPECT_NE(response.error().detail.find(row.detail), std::string::npos)
        << row.why << ": " << response.error().detail;
    EXPECT_EQ(server_.stats().requests, 0u) << row.why;
  }
}

TEST_F(TlsTest, ReadsTheStoreThatSslCertFileNames) {
  const Identity identity = make_identity("localhost", 3600);
  serve(identity);
  const std::string path = trust(identity);
  ::setenv("SSL_CERT_FILE", path.c_str(), 1);
  Client client(loop_.executor(), loop_.clock, ClientConfig());
  const auto response = fetch(client, url("localhost"));
  ::unsetenv("SSL_CERT_FILE");
  ASSERT_TRUE(response) << response.error().detail;
  client.close_idle();
}

TEST_F(TlsTest, SaysThatACaFileCannotBeRead) {
  ClientConfig config;
  config.ca_file = folder_ + "/missing.pem";
  Client client(loop_.executor(), loop_.clock, config);
  const auto response = fetch(client, url("localhost"));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::misconfigured);
  EXPECT_NE(response.error().detail.find("missing.pem"), std::string::npos);
}

TEST_F(TlsTest, AnEndWithoutCloseNotifyIsACut) {
  const Identity identity = make_identity("localhost", 3600);
  ClientConfig config;
  config.ca_file = trust(identity);
  for (const bool close_notify : {true, false}) {
    Client client(loop_.executor(), loop_.clock, config);
    say(identity, "HTTP/1.1 200 OK\r\n\r\nuntil the end", close_notify);
    const auto response = fetch(client, url("localhost"));
    EXPECT_EQ(response.has_value(), close_notify);
    if (response) {
      EXPECT_EQ(response->body, "until the end");
    } else {
      EXPECT_EQ(response.error().code, Errc::closed);
    }
  }
}

TEST_F(TlsTest, SaysThatTheOtherSideSpeaksNoTls) {
  const auto port = server_.listen_loopback(0);
  ASSERT_TRUE(port);
  Client client(loop_.executor(), loop_.clock, ClientConfig());
  const auto response = fetch(client, *parse_url("https://127.0.0.1:" + std::to_string(*port)));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::misconfigured);
  EXPECT_NE(response.error().detail.find("TLS with 127.0.0.1"), std::string::npos)
      << response.error().detail;
}

// ---- Through a site's proxy

// Until one side ends; then both are ended.
Task<void> copy_bytes(tcp::socket* from, tcp::socket* to) {
  std::array<char, 4096> chunk;
  for (;;) {
    const auto [ec, count] = co_await from->async_read_some(asio::buffer(chunk), as_result);
    if (ec) break;
    const auto [write_ec, written] = co_await asio::async_write(
        *to, asio::buffer(chunk.data(), count), as_result);
    if (write_ec) break;
  }
  boost::system::error_code ignored;
  from->close(ignored);
  to->close(ignored);
}

// Answers the first CONNECT with `answer` and, where that is a yes, ties it to the TLS server.
Task<void> play_proxy(tcp::acceptor* acceptor, std::uint16_t upstream_port, std::string answer,
                      std::string* heard) {
  TestPeer::Socket socket(acceptor->get_executor());
  const auto [ec] = co_await acceptor->async_accept(socket, as_result);
  if (ec) co_return;
  TestPeer client(std::move(socket));
  *heard = co_await client.hear("\r\n\r\n");
  co_await client.send(answer);
  if (answer.find(" 200 ") == std::string::npos) co_return;
  TestPeer upstream(acceptor->get_executor());
  co_await upstream.connect(upstream_port);
  TaskGroup tied(acceptor->get_executor());
  tied.spawn("up", copy_bytes(&client.socket(), &upstream.socket()));
  tied.spawn("down", copy_bytes(&upstream.socket(), &client.socket()));
  co_await tied.join(5s);
}

TEST_F(TlsTest, GoesThroughAProxyThatSeesNoRequest) {
  const Identity identity = make_identity("api.test", 3600);
  serve(identity);
  tcp::acceptor proxy(loop_.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  std::string heard;
  const std::uint16_t upstream_port = acceptor_.local_endpoint().port();
  tasks_.spawn("proxy", play_proxy(&proxy, upstream_port,
                                   "HTTP/1.1 200 Connection established\r\n\r\n", &heard));
  ClientConfig config;
  config.ca_file = trust(identity);
  config.proxy = *parse_proxy(
      "http://me:pass@127.0.0.1:" + std::to_string(proxy.local_endpoint().port()), "");
  Client client(loop_.executor(), loop_.clock, config);
  const auto response = fetch(client, *parse_url("https://api.test"), "abc");
  ASSERT_TRUE(response) << response.error().detail;
  EXPECT_EQ(response->body, "hello 3");
  EXPECT_TRUE(heard.starts_with("CONNECT api.test:443 HTTP/1.1\r\n")) << heard;
  EXPECT_NE(heard.find("Proxy-Authorization: Basic "), std::string::npos);
  client.close_idle();
}

TEST_F(TlsTest, SaysThatAProxyRefuses) {
  struct Row {
    const char* answer;
    const char* detail;
    Errc code;
  };
  const Row rows[] = {
      {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
       "refuses a tunnel to api.test: 407 Proxy Authentication Required", Errc::misconfigured},
      {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "503 Busy", Errc::unavailable},
      {"SSH-2.0\r\n\r\n", "the proxy speaks no HTTP", Errc::misconfigured},
  };
  for (const Row& row : rows) {
    tcp::acceptor proxy(loop_.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    std::string heard;
    tasks_.spawn("proxy", play_proxy(&proxy, 0, row.answer, &heard));
    ClientConfig config;
    config.proxy = *parse_proxy("127.0.0.1:" + std::to_string(proxy.local_endpoint().port()), "");
    Client client(loop_.executor(), loop_.clock, config);
    const auto response = fetch(client, *parse_url("https://api.test"));
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, row.code) << row.detail;
    EXPECT_NE(response.error().detail.find(row.detail), std::string::npos)
        << response.error().detail;
  }
}

}  // namespace
}  // namespace hg::net
