#include "net/url.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::net {
namespace {

TEST(UrlTest, ReadsWhatAnOperatorWrites) {
  struct Row {
    const char* text;
    Scheme scheme;
    const char* host;
    int port;
    const char* path;
    const char* authority;
  };
  const Row rows[] = {
      {"https://api.example.com", Scheme::https, "api.example.com", 443, "", "api.example.com"},
      {"https://api.example.com/", Scheme::https, "api.example.com", 443, "", "api.example.com"},
      {"HTTPS://API.Example.com:8443/v1/", Scheme::https, "api.example.com", 8443, "/v1",
       "api.example.com:8443"},
      {"http://127.0.0.1:8080/a/b", Scheme::http, "127.0.0.1", 8080, "/a/b", "127.0.0.1:8080"},
      {"http://[::1]:8080", Scheme::http, "::1", 8080, "", "[::1]:8080"},
      {"http://[::1]", Scheme::http, "::1", 80, "", "[::1]"},
      {"http://localhost:80", Scheme::http, "localhost", 80, "", "localhost"},
      {"http://under_score-1:1", Scheme::http, "under_score-1", 1, "", "under_score-1:1"},
  };
  for (const Row& row : rows) {
    const auto url = parse_url(row.text);
    ASSERT_TRUE(url) << row.text << ": " << url.error().detail;
    EXPECT_EQ(url->scheme, row.scheme) << row.text;
    EXPECT_EQ(url->host, row.host) << row.text;
    EXPECT_EQ(url->port, row.port) << row.text;
    EXPECT_EQ(url->path, row.path) << row.text;
    EXPECT_EQ(url->authority(), row.authority) << row.text;
    const auto again = parse_url(url->text());
    ASSERT_TRUE(again) << row.text;
    EXPECT_EQ(*again, *url) << row.text;
  }
}

TEST(UrlTest, ReadsUnixSockets) {
  const auto url = parse_url("unix:///run/user/1000/headgate.sock");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->socket_path, "/run/user/1000/headgate.sock");
  EXPECT_EQ(url->authority(), "localhost");
  EXPECT_EQ(url->origin(), "unix:///run/user/1000/headgate.sock");
}

TEST(UrlTest, RefusesWhatCouldNameAnotherHost) {
  const std::string rows[] = {
      "",
      "api.example.com",
      "ftp://api.example.com",
      "https://",
      "https:///v1",
      "https://:443",
      "https://a:b@c",
      "https://user@169.254.169.254/",
      "https://a%23.169.254.169.254/",
      "https://a#b",
      "https://a?b",
      "https://a\\b",
      "https://a b",
      "https://a\r\nHost: b",
      std::string("https://a\0b", 11),
      "https://a:0",
      "https://a:65536",
      "https://a:8o",
      "https://a:",
      "https://a:+80",
      "https://[::1",
      "https://[::1]x",
      "https://[localhost]",
      "https://[1]",
      "https://::1",
      "https://caf\xc3\xa9",
      "unix://relative",
      "unix:///",
      "unix:///" + std::string(120, 'x'),
  };
  for (const std::string& text : rows) {
    const auto url = parse_url(text);
    EXPECT_FALSE(url) << text;
    if (!url) {
      EXPECT_EQ(url.error().code, Errc::invalid) << text;
    }
  }
}

TEST(UrlTest, DoesNotRepeatAPasswordInItsError) {
  const auto url = parse_url("https://me:secret@host");
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().detail.find("secret"), std::string::npos);
}

TEST(JoinTargetTest, SaysNoSegmentTwiceAndKeepsTheRestAsItIs) {
  struct Row {
    const char* base;
    const char* target;
    const char* joined;
  };
  const Row rows[] = {
      {"", "/v1/messages?beta=true", "/v1/messages?beta=true"},
      {"/", "/v1/messages", "/v1/messages"},
      {"/api", "/v1/messages", "/api/v1/messages"},
      {"/api/", "/v1/messages", "/api/v1/messages"},
      {"/v1", "/v1/messages", "/v1/messages"},
      {"/api/v1", "/v1/chat/completions", "/api/v1/chat/completions"},
      {"/api/v1", "/chat/completions", "/api/v1/chat/completions"},
      {"/api/v1", "/v1", "/api/v1"},
      {"/api/v1", "/v1?x", "/api/v1?x"},
      {"/api/v1", "/v10/chat", "/api/v1/v10/chat"},
      {"/api/v1", "/api/v1/chat", "/api/v1/chat"},
      {"/v1", "/x?y=/v1/", "/v1/x?y=/v1/"},
      {"/api/paas/v4", "/v1/chat/completions", "/api/paas/v4/chat/completions"},
      {"/api/paas/v4", "/v1?x", "/api/paas/v4?x"},
      {"/api/paas/v4", "/v1beta/models", "/api/paas/v4/v1beta/models"},
      {"/v", "/v1/chat", "/v/v1/chat"},
      {"", "/a%2Fb//c/../d", "/a%2Fb//c/../d"},
      {"", "*", "/*"},
      {"/x", "", "/x/"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(join_target(row.base, row.target), row.joined) << row.base << " " << row.target;
  }
}

}  // namespace
}  // namespace hg::net
