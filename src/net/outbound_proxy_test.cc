#include "net/outbound_proxy.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::net {
namespace {

TEST(OutboundProxyTest, ReadsWhatTheVariablesHold) {
  struct Row {
    const char* text;
    const char* authority;
    const char* credentials;
  };
  const Row rows[] = {
      {"http://proxy.corp:3128", "proxy.corp:3128", ""},
      {"http://proxy.corp:3128/", "proxy.corp:3128", ""},
      {"proxy.corp:3128", "proxy.corp:3128", ""},
      {"http://me:pass@proxy.corp:3128", "proxy.corp:3128", "me:pass"},
      {"http://me:p%40ss@proxy.corp", "proxy.corp", "me:p@ss"},
      {"http://[::1]:3128", "[::1]:3128", ""},
  };
  for (const Row& row : rows) {
    const auto proxy = parse_proxy(row.text, "");
    ASSERT_TRUE(proxy) << row.text << ": " << proxy.error().detail;
    EXPECT_EQ(proxy->url.authority(), row.authority) << row.text;
    EXPECT_EQ(proxy->credentials, row.credentials) << row.text;
  }
}

TEST(OutboundProxyTest, RefusesWhatItDoesNotSpeakAndKeepsThePasswordToItself) {
  for (const char* text : {"https://me:secret@proxy.corp", "socks5://me:secret@proxy.corp",
                           "socks5h://secret:1", "http://me:secret@"}) {
    const auto proxy = parse_proxy(text, "");
    ASSERT_FALSE(proxy) << text;
    EXPECT_EQ(proxy.error().code, Errc::invalid) << text;
    EXPECT_EQ(proxy.error().detail.find("secret"), std::string::npos) << text;
  }
}

TEST(OutboundProxyTest, LeavesSomeHostsAlone) {
  struct Row {
    const char* no_proxy;
    const char* upstream;
    bool through;
  };
  const Row rows[] = {
      {"", "https://api.example.com", true},
      {"", "http://api.example.com", false},
      {"", "unix:///run/x", false},
      {"", "https://localhost:8443", false},
      {"", "https://127.0.0.1", false},
      {"example.com", "https://api.example.com", false},
      {".example.com", "https://api.example.com", false},
      {"*.example.com,x", "https://api.example.com", false},
      {"Example.com", "https://example.com", false},
      {"example.com", "https://badexample.com", true},
      {"other.com, example.com:8443", "https://example.com:8443", false},
      {"example.com:8443", "https://example.com", true},
      {"*", "https://api.example.com", false},
  };
  for (const Row& row : rows) {
    const auto proxy = parse_proxy("http://proxy.corp:3128", row.no_proxy);
    ASSERT_TRUE(proxy);
    const auto upstream = parse_url(row.upstream);
    ASSERT_TRUE(upstream);
    EXPECT_EQ(goes_through(*proxy, *upstream), row.through) << row.no_proxy << " " << row.upstream;
  }
}

TEST(OutboundProxyTest, AsksForATunnel) {
  const auto proxy = parse_proxy("http://me:pass@proxy.corp:3128", "");
  ASSERT_TRUE(proxy);
  EXPECT_EQ(connect_request(*proxy, *parse_url("https://api.example.com/base")),
            "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n"
            "Proxy-Authorization: Basic bWU6cGFzcw==\r\n\r\n");
}

}  // namespace
}  // namespace hg::net
