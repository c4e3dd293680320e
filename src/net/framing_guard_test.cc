#include "net/framing_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>

namespace hg::net {
namespace {

constexpr std::string_view kStart = "POST /v1/messages HTTP/1.1\r\nHost: a\r\n";

// The whole guard: end of head, then its fields.
Result<GuardedRequest> request_of(const std::string& bytes) {
  std::size_t scanned = 0;
  const auto end = find_head_end(bytes, scanned);
  if (!end) return std::unexpected(end.error());
  if (!*end) return fail(Errc::invalid, "incomplete");
  return guard_request(std::string_view(bytes).substr(0, **end));
}

Result<GuardedResponse> response_of(const std::string& bytes, std::string_view method = "POST") {
  std::size_t scanned = 0;
  const auto end = find_head_end(bytes, scanned);
  if (!end) return std::unexpected(end.error());
  if (!*end) return fail(Errc::invalid, "incomplete");
  return guard_response(std::string_view(bytes).substr(0, **end), method);
}

struct Refused {
  const char* why;
  std::string bytes;
  Errc code = Errc::protocol;
};

TEST(FramingGuardTest, RefusesRequestsThatTwoProgramsCouldReadDifferently) {
  const std::string start(kStart);
  const std::string nul(1, '\0');
  const Refused rows[] = {
      {"gzip says nothing about an end", start + "Transfer-Encoding: gzip\r\n\r\n"},
      {"a coding before chunked", start + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {"identity beside a length",
       start + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n"},
      {"chunked did not exist in HTTP/1.0",
       "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"chunked twice in one field", start + "Transfer-Encoding: chunked, chunked\r\n\r\n"},
      {"chunked twice in two fields",
       start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"a disguised chunked", start + "Transfer-Encoding: xchunked\r\n\r\n"},
      {"an empty coding", start + "Transfer-Encoding:\r\n\r\n"},
      {"a vertical tab before chunked", start + "Transfer-Encoding: \x0b" + "chunked\r\n\r\n"},
      {"a folded line", start + "X-A: b\r\n c\r\n\r\n"},
      {"a folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
      {"equal lengths in two fields", start + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"},
      {"different lengths", start + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"},
      {"equal lengths in one field", start + "Content-Length: 5, 5\r\n\r\n"},
      {"a length with a sign", start + "Content-Length: +5\r\n\r\n"},
      {"a negative length", start + "Content-Length: -5\r\n\r\n"},
      {"a hexadecimal length", start + "Content-Length: 0x5\r\n\r\n"},
      {"an empty length", start + "Content-Length:\r\n\r\n"},
      {"a length that overflows", start + "Content-Length: 18446744073709551621\r\n\r\n"},
      {"length and chunked", start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"chunked and length", start + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"},
      {"a bare LF", start + "X-A: b\nX-B: c\r\n\r\n"},
      {"bare LFs throughout", "GET / HTTP/1.1\nHost: a\n\n"},
      {"a bare CR", start + "X-A: b\rX-B: c\r\n\r\n"},
      {"a NUL in a value", start + "X-A: b" + nul + "\r\n\r\n"},
      {"a NUL in a name", start + "X" + nul + "-A: b\r\n\r\n"},
      {"another control character", start + "X-A: b\x01\r\n\r\n"},
      {"a blank before the colon", start + "Content-Length : 5\r\n\r\n"},
      {"a tab before the colon", start + "Transfer-Encoding\t: chunked\r\n\r\n"},
      {"a line without a colon", start + "nonsense\r\n\r\n"},
      {"an empty name", start + ": b\r\n\r\n"},
      {"no Host", "GET / HTTP/1.1\r\n\r\n"},
      {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
      {"no version", "GET /\r\nHost: a\r\n\r\n"},
      {"HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
      {"a lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n"},
      {"a blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"nothing at all", "\r\n\r\n"},
      {"a head of 64 KiB and more", start + "X-A: " + std::string(kHeadBytesMax, 'x') + "\r\n\r\n",
       Errc::too_large},
  };
  for (const Refused& row : rows) {
    const auto request = request_of(row.bytes);
    ASSERT_FALSE(request) << row.why;
    EXPECT_EQ(request.error().code, row.code) << row.why << ": " << request.error().detail;
  }
}

TEST(FramingGuardTest, RefusesMoreFieldsThanAnybodySends) {
  std::string bytes(kStart);
  for (int i = 0; i < 300; ++i) bytes += "A: b\r\n";
  const auto request = request_of(bytes + "\r\n");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, Errc::too_large);
}

TEST(FramingGuardTest, FramesTheBodyOfARequest) {
  struct Row {
    const char* why;
    std::string bytes;
    BodyFraming body;
    bool keep_alive;
  };
  const std::string start(kStart);
  const Row rows[] = {
      {"neither field: no body", start + "\r\n", BodyFraming::none(), true},
      {"a length", start + "Content-Length: 5\r\n\r\n", BodyFraming::of_length(5), true},
      {"a length of 0 is no body", start + "Content-Length: 0\r\n\r\n", BodyFraming::none(), true},
      {"white space around a value", start + "content-length: \t 5 \r\n\r\n",
       BodyFraming::of_length(5), true},
      {"chunked", start + "Transfer-Encoding: chunked\r\n\r\n", BodyFraming::chunked(), true},
      {"the case of chunked means nothing", start + "transfer-encoding: Chunked\r\n\r\n",
       BodyFraming::chunked(), true},
      {"the client closes", start + "Connection: close\r\n\r\n", BodyFraming::none(), false},
      {"close among others", start + "Connection: x, Close\r\n\r\n", BodyFraming::none(), false},
      {"HTTP/1.0 closes", "GET / HTTP/1.0\r\n\r\n", BodyFraming::none(), false},
      {"unless it says otherwise", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
       BodyFraming::none(), true},
  };
  for (const Row& row : rows) {
    const auto request = request_of(row.bytes);
    ASSERT_TRUE(request) << row.why << ": " << request.error().detail;
    EXPECT_EQ(request->body, row.body) << row.why;
    EXPECT_EQ(request->keep_alive, row.keep_alive) << row.why;
  }
}

TEST(FramingGuardTest, KeepsOrderDuplicatesAndCaseOfFields) {
  const auto request = request_of(
      "PoST /a%2Fb?x=1&y HTTP/1.1\r\nhOST: a\r\nX-b: 1\r\nx-B:2\r\nX-Empty:\r\nX-b:  two words \r\n"
      "\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->head.method, "PoST");
  EXPECT_EQ(request->head.target, "/a%2Fb?x=1&y");
  EXPECT_EQ(to_bytes(request->head),
            "PoST /a%2Fb?x=1&y HTTP/1.1\r\nhOST: a\r\nX-b: 1\r\nx-B: 2\r\nX-Empty: \r\n"
            "X-b: two words\r\n\r\n");
}

TEST(FramingGuardTest, KnowsWhenAClientWaitsForAWord) {
  const std::string start(kStart);
  const auto waits = request_of(start + "Content-Length: 5\r\nExpect: 100-Continue\r\n\r\n");
  ASSERT_TRUE(waits);
  EXPECT_TRUE(waits->expects_continue);
  const auto old = request_of(
      "POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(old);
  EXPECT_FALSE(old->expects_continue);
}

TEST(FramingGuardTest, FindsTheEndOfAHeadAtAnyCutPoint) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  const std::string bytes = head + "\r\n\r\nGET";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::size_t scanned = 0;
    const auto first = find_head_end(std::string_view(bytes).substr(0, cut), scanned);
    ASSERT_TRUE(first) << cut;
    EXPECT_EQ(first->has_value(), cut >= head.size()) << cut;
    if (*first) continue;
    const auto second = find_head_end(bytes, scanned);
    ASSERT_TRUE(second) << cut;
    EXPECT_EQ(*second, head.size()) << cut;
  }
}

TEST(FramingGuardTest, FindsTheEndOfAHeadThatComesByteByByte) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  std::size_t scanned = 0;
  for (std::size_t size = 0; size < head.size(); ++size) {
    const auto end = find_head_end(std::string_view(head).substr(0, size), scanned);
    ASSERT_TRUE(end) << size;
    EXPECT_FALSE(*end) << size;
  }
  const auto end = find_head_end(head, scanned);
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, head.size());
}

TEST(FramingGuardTest, FramesTheBodyOfAnAnswer) {
  struct Row {
    const char* why;
    std::string bytes;
    const char* method;
    BodyFraming body;
    bool keep_alive;
  };
  const Row rows[] = {
      {"a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "POST",
       BodyFraming::of_length(5), true},
      {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "POST",
       BodyFraming::chunked(), true},
      {"neither: until the end of the connection", "HTTP/1.1 200 OK\r\n\r\n", "POST",
       BodyFraming::until_close(), false},
      {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "POST",
       BodyFraming::of_length(5), false},
      {"an answer to HEAD has none", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD",
       BodyFraming::none(), true},
      {"204 has none", "HTTP/1.1 204 No Content\r\n\r\n", "POST", BodyFraming::none(), true},
      {"304 has none", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET",
       BodyFraming::none(), true},
      {"an empty reason", "HTTP/1.1 429 \r\nContent-Length: 0\r\n\r\n", "POST",
       BodyFraming::of_length(0), true},
      {"no blank before an empty reason", "HTTP/1.1 529\r\nContent-Length: 0\r\n\r\n", "POST",
       BodyFraming::of_length(0), true},
      {"the server closes", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
       "POST", BodyFraming::of_length(5), false},
  };
  for (const Row& row : rows) {
    const auto response = response_of(row.bytes, row.method);
    ASSERT_TRUE(response) << row.why << ": " << response.error().detail;
    EXPECT_EQ(response->body, row.body) << row.why;
    EXPECT_EQ(response->keep_alive, row.keep_alive) << row.why;
  }
}

TEST(FramingGuardTest, RefusesAnswersThatTwoProgramsCouldReadDifferently) {
  const std::string start = "HTTP/1.1 200 OK\r\n";
  const Refused rows[] = {
      {"length and chunked", start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"equal lengths twice", start + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"},
      {"chunked twice", start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"gzip as transfer coding", start + "Transfer-Encoding: gzip\r\n\r\n"},
      {"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"a folded line", start + "X: a\r\n b\r\n\r\n"},
      {"a bare LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\n"},
      {"a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
      {"a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
      {"a status that is no number", "HTTP/1.1 2x0 OK\r\n\r\n"},
      {"HTTP/2", "HTTP/2 200\r\n\r\n"},
      {"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
  };
  for (const Refused& row : rows) {
    const auto response = response_of(row.bytes);
    ASSERT_FALSE(response) << row.why;
    EXPECT_EQ(response.error().code, row.code) << row.why;
  }
}

}  // namespace
}  // namespace hg::net
