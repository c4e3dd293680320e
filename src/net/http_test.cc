#include "net/http.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::net {
namespace {

TEST(HttpTest, WritesHeadsAsGiven) {
  RequestHead head("POST", "/v1/messages");
  head.headers.add("hOST", "a");
  head.headers.add("X", "1");
  head.headers.add("X", "2");
  EXPECT_EQ(to_bytes(head), "POST /v1/messages HTTP/1.1\r\nhOST: a\r\nX: 1\r\nX: 2\r\n\r\n");
  ResponseHead response(529);
  EXPECT_EQ(to_bytes(response), "HTTP/1.1 529 Overloaded\r\n\r\n");
}

TEST(HttpTest, AValueCannotStartAFieldOfItsOwn) {
  RequestHead head("GET", "/\r\nEvil: 1");
  head.headers.add("X", std::string("a\r\nEvil: 1\n\0", 12));
  EXPECT_EQ(to_bytes(head), "GET /  Evil: 1 HTTP/1.1\r\nX: a  Evil: 1  \r\n\r\n");
}

TEST(HttpTest, RemovesWhatConcernsOneConnection) {
  Headers headers;
  headers.add("Host", "a");
  headers.add("connection", "keep-alive, X-Mine, Content-Length, Host");
  headers.add("X-Mine", "1");
  headers.add("Keep-Alive", "timeout=5");
  headers.add("TE", "trailers");
  headers.add("Transfer-Encoding", "chunked");
  headers.add("Upgrade", "websocket");
  headers.add("Proxy-Authorization", "secret");
  headers.add("Authorization", "kept");
  headers.add("Content-Length", "5");
  remove_hop_by_hop(headers);
  ASSERT_EQ(headers.all().size(), 3u);
  EXPECT_EQ(headers.all()[0].name, "Host");
  EXPECT_EQ(headers.all()[1].name, "Authorization");
  EXPECT_EQ(headers.all()[2].name, "Content-Length");
}

}  // namespace
}  // namespace hg::net
