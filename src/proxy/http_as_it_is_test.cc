// HTTP as agents and providers really speak it: each row of what goes wrong in proxies, seen from
// both ends of the shim.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/raw_provider.h"
#include "wire/errors.h"

namespace hg::proxy {
namespace {

using HttpAsItIsTest = RawBench;

constexpr std::string_view
    kOk = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
constexpr std::string_view kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\none\r\n3;x=y\r\ntwo\r\n0\r\nTrailer: t\r\n\r\n";

std::string get(std::string_view target, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}Connection: close\r\n\r\n", target,
                     more);
}

std::string first_line(const std::string& head) { return head.substr(0, head.find('\r')); }

TEST_F(HttpAsItIsTest, AnyMethodPassesAndHeadHasTheFieldsOfGet) {
  start_raw();
  raw_->answer = "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 17\r\n\r\n";
  EXPECT_EQ(say("HEAD /api/hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
                "HEAD /api/hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 17\r\n\r\n"
            "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 17\r\nConnection: close\r\n\r\n[end]");
  EXPECT_EQ(raw_->connections, 1) << "neither connection was ended by a body that never comes";
  raw_->answer = kOk;
  for (const char* method : {"OPTIONS", "DELETE", "PATCH", "PROPFIND", "get"}) {
    const std::string heard = say(fmt::format(
        "{} /v1/files/f HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method));
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 200 ")) << method << heard;
    EXPECT_EQ(first_line(raw_->asked.back().head), fmt::format("{} /v1/files/f HTTP/1.1", method));
  }
  for (const char* line : {"OPTIONS * HTTP/1.1", "CONNECT a.example:443 HTTP/1.1"}) {
    const std::string heard = say(
        fmt::format("{}\r\nHost: localhost\r\nConnection: close\r\n\r\n", line));
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 400 ")) << line << heard;
  }
  EXPECT_EQ(raw_->asked.size(), 7U);
}

TEST_F(HttpAsItIsTest, TargetsKeepEveryByteButDoubledSegments) {
  struct Row {
    const char* why;
    const char* asked;
    const char* want;
  };
  const Row rows[] = {
      {"a query", "/v1/models?beta=true&x=%2F&&y", "/base/v1/models?beta=true&x=%2F&&y"},
      {"percent signs", "/v1/models/a%2Fb%3A0%20c", "/base/v1/models/a%2Fb%3A0%20c"},
      {"a trailing slash", "/v1/models/", "/base/v1/models/"},
      {"a base URL that ends with a slash", "//v1/models", "/base/v1/models"},
      {"a base URL that ends with /v1", "/v1/v1/models", "/base/v1/models"},
      {"what the upstream's own path ends with", "/base/v1/models", "/base/v1/models"},
      {"a model with a version and an @", "/v1/p/claude-3@2024:rawPredict",
       "/base/v1/p/claude-3@2024:rawPredict"},
      {"a key in the query", "/v1/models?key=sk-1", "/base/v1/models?key=sk-1"},
      {"our own prefix", "/pool/p/run/r/v1/models", "/base/v1/models"},
  };
  base_path_ = "/base";
  start_raw();
  raw_->answer = kOk;
  for (const Row& row : rows) {
    EXPECT_TRUE(say(get(row.asked)).starts_with("HTTP/1.1 200 ")) << row.why;
    EXPECT_EQ(first_line(raw_->asked.back().head), fmt::format("GET {} HTTP/1.1", row.want))
        << row.why;
  }
}

TEST_F(HttpAsItIsTest, AChunkedRequestGoesUpWithItsLength) {
  start_raw();
  raw_->answer = kOk;
  const std::string heard = say(
      "POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: "
      "close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_TRUE(heard.starts_with("HTTP/1.1 200 ")) << heard;
  EXPECT_EQ(raw_->asked.at(0).body, "abcde");
  EXPECT_EQ(raw_->asked.at(0).head,
            fmt::format("POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: "
                        "5\r\n\r\n",
                        raw_->port()));
}

TEST_F(HttpAsItIsTest, ExpectIsAnsweredHereAndNotSentOn) {
  start_raw();
  raw_->answer = kOk;
  const std::string head =
      "POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nExpect: "
      "100-continue\r\nConnection: close\r\n\r\n";
  auto talk = [&]() -> net::Task<std::string> {
    net::TestPeer peer(loop_.executor());
    co_await peer.connect(shim_port_);
    co_await peer.send(head);
    std::string heard = co_await peer.hear("\r\n\r\n");
    co_await peer.send("abc");
    heard += co_await peer.hear_all();
    co_return heard;
  };
  const std::string heard = loop_.run(talk());
  EXPECT_TRUE(heard.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")) << heard;
  EXPECT_EQ(raw_->asked.at(0).head.find("Expect"), std::string::npos);
  EXPECT_EQ(raw_->asked.at(0).body, "abc");
}

TEST_F(HttpAsItIsTest, EveryFramingOfAnAnswerReachesEveryAgent) {
  start_raw();
  raw_->answer = kChunked;
  EXPECT_EQ(say("GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nonetwo[end]");
  const std::string chunks = say(get("/v1/models"));
  EXPECT_EQ(unchunked(chunks.substr(chunks.find("\r\n\r\n") + 4)), "onetwo[end]");
  raw_->answer = "HTTP/1.0 200 Fine\r\nX: y\r\n\r\nuntil the end";
  raw_->closes = true;
  const std::string until_close = say(get("/v1/models"));
  EXPECT_TRUE(until_close.starts_with("HTTP/1.1 200 Fine\r\nX: y\r\n")) << until_close;
  EXPECT_EQ(unchunked(until_close.substr(until_close.find("\r\n\r\n") + 4)), "until the end[end]");
  raw_->closes = false;
  raw_->answer =
      "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n";
  EXPECT_EQ(say(get("/v1/models")),
            "HTTP/1.1 204 No Content\r\nX: y\r\nConnection: close\r\n\r\n[end]");
  raw_->answer = "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nEtag: \"e\"\r\n\r\n";
  EXPECT_EQ(say(get("/v1/models")),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nEtag: \"e\"\r\nConnection: "
            "close\r\n\r\n[end]");
}

TEST_F(HttpAsItIsTest, AnAnswerThatTwoProgramsCouldReadDifferentlyIsA502) {
  start_raw();
  config_.outage_max = 0s;
  const std::string coding = "Transfer-Encoding: chunked\r\n";
  const std::string twice = "HTTP/1.1 200 OK\r\n" + coding + coding + "\r\n0\r\n\r\n";
  const char* const bad[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      twice.c_str(),
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
      "ICY 200 OK\r\n\r\n",
  };
  raw_->closes = true;
  for (const char* answer : bad) {
    raw_->answer = answer;
    const std::string heard = say(get("/v1/models"));
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 502 ")) << answer << "\n" << heard;
    EXPECT_NE(heard.find("Headgate"), std::string::npos) << heard;
  }
}

TEST_F(HttpAsItIsTest, RefusesWhatWouldMakeItAnOpenProxyOrSmuggle) {
  start_raw();
  raw_->answer = kOk;
  struct Row {
    const char* why;
    std::string bytes;
    const char* status;
  };
  const std::string host = "Host: 127.0.0.1\r\n";
  const std::string end = "Connection: close\r\n\r\n";
  const Row rows[] = {
      {"absolute form", "GET http://evil.example/ HTTP/1.1\r\n" + host + end, "400"},
      {"absolute form that names us", "GET http://127.0.0.1/v1/models HTTP/1.1\r\n" + host + end,
       "400"},
      {"a tunnel", "CONNECT evil.example:443 HTTP/1.1\r\n" + host + end, "400"},
      {"another host", "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n" + end, "403"},
      {"a host that ends like ours", "GET /v1/models HTTP/1.1\r\nHost: a.localhost\r\n" + end,
       "403"},
      {"a user before the host", "GET /v1/models HTTP/1.1\r\nHost: localhost@evil\r\n" + end,
       "403"},
      {"a page elsewhere",
       "GET /v1/models HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\n" + end, "403"},
      {"a page without an origin", "GET /v1/models HTTP/1.1\r\n" + host + "Origin: null\r\n" + end,
       "403"},
      {"length and chunked",
       "POST /v1/files HTTP/1.1\r\n" + host +
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n",
       "400"},
      {"two lengths",
       "POST /v1/files HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n" + end +
           "abc",
       "400"},
      {"a line break in a pool", "GET /pool/a%0d%0aX:y/v1 HTTP/1.1\r\n" + host + end, "400"},
      {"a bare line break in a target", "GET /run/a\nX: y HTTP/1.1\r\n" + host + end, "400"},
      {"a host in a routing part", "GET /upstream/evil.example%23/v1 HTTP/1.1\r\n" + host + end,
       "400"},
      {"a user in a routing part", "GET /upstream/a@evil.example/v1 HTTP/1.1\r\n" + host + end,
       "400"},
      {"a fragment", "GET /v1/models#x HTTP/1.1\r\n" + host + end, "400"},
      {"a backslash", "GET /v1\\models HTTP/1.1\r\n" + host + end, "400"},
      {"a WebSocket",
       "GET /v1/responses HTTP/1.1\r\n" + host +
           "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
       "426"},
  };
  for (const Row& row : rows) {
    std::string heard;
    {
      net::TestPeer peer(loop_.executor());
      loop_.run(peer.connect(shim_port_));
      loop_.run(peer.send(row.bytes));
      peer.socket().shutdown(asio::socket_base::shutdown_send);
      heard = loop_.run(peer.hear_all());
    }
    EXPECT_TRUE(heard.starts_with(fmt::format("HTTP/1.1 {} ", row.status)))
        << row.why << ": " << heard;
  }
  EXPECT_TRUE(raw_->asked.empty());
}

TEST_F(HttpAsItIsTest, AStaleConnectionIsReplacedUnseen) {
  start_raw();
  raw_->answer = kOk;
  raw_->closes = true;  // As an edge does that keeps no connection.
  const std::string body = anthropic_body(false);
  for (int i = 0; i < 5; ++i) {
    const std::string heard = say(
        fmt::format("POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: "
                    "close\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body));
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 200 ")) << heard;
  }
  EXPECT_EQ(raw_->asked.size(), 5U) << "none was sent twice";
}

TEST_F(HttpAsItIsTest, AConnectionServesManyRequestsOnBothSides) {
  start_raw();
  raw_->answer = kOk;
  std::string bytes;
  for (int i = 0; i < 9; ++i) bytes += "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const std::string heard = say(bytes + get("/v1/models"));
  std::size_t answers = 0;
  for (std::size_t at = heard.find("200 OK"); at != heard.npos; at = heard.find("200 OK", at + 1))
    ++answers;
  EXPECT_EQ(answers, 10U);
  EXPECT_EQ(raw_->connections, 1);
}

TEST_F(HttpAsItIsTest, TheWaitsForFirstByteAndForSilenceAreTheirOwn) {
  config_.first_byte_within = 30ms;
  start_raw();
  raw_->answer = "";
  const std::string none = say(get("/v1/models"));
  EXPECT_TRUE(none.starts_with("HTTP/1.1 502 ")) << none;
  // A call that hangs gives everything back, and the next one works.
  const std::string body = anthropic_body(false);
  const std::string call = fmt::format(
      "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: "
      "{}\r\n\r\n{}",
      body.size(), body);
  const std::string hung = say(call);
  EXPECT_TRUE(hung.starts_with("HTTP/1.1 502 ")) << hung;
  EXPECT_EQ(view().inflight, 0);
  EXPECT_EQ(drawn(), 0);
  raw_->answer = kOk;
  EXPECT_TRUE(say(call).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpAsItIsTest, AnAnswerThatFallsSilentIsCut) {
  config_.silence = 30ms;
  start_raw();
  raw_->answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
  const std::string cut = say(get("/v1/models"));
  EXPECT_TRUE(cut.starts_with("HTTP/1.1 200 ")) << cut;
  EXPECT_TRUE(cut.ends_with("[reset]")) << cut;
}

}  // namespace
}  // namespace hg::proxy
