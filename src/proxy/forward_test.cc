#include "proxy/forward.h"

#include <gtest/gtest.h>

namespace hg::proxy {
namespace {

Headers fields(std::initializer_list<Header> list) {
  Headers out;
  for (const Header& field : list) out.add(field.name, field.value);
  return out;
}

TEST(ForwardTest, KeepsOrderDuplicatesAndCase) {
  const Headers in = fields({{"X-Api-Key", "k"},
                             {"HOST", "127.0.0.1:9"},
                             {"anthropic-beta", "a"},
                             {"Anthropic-Beta", "b"},
                             {"Content-Length", "3"},
                             {"accept-encoding", "gzip, br"}});
  EXPECT_EQ(for_upstream(in).all(), in.all());
  EXPECT_EQ(for_downstream(in).all(), in.all());
}

TEST(ForwardTest, StripsHopByHopFieldsOnBothLegs) {
  const Headers in = fields({{"Connection", "close, X-Secret-Hop"},
                             {"x-secret-hop", "1"},
                             {"Keep-Alive", "timeout=5"},
                             {"Proxy-Authorization", "p"},
                             {"TE", "trailers"},
                             {"Trailer", "X"},
                             {"Transfer-Encoding", "chunked"},
                             {"Upgrade", "websocket"},
                             {"Proxy-Connection", "keep-alive"},
                             {"X-End-To-End", "stays"}});
  EXPECT_EQ(for_downstream(in).all(), fields({{"X-End-To-End", "stays"}}).all());
  EXPECT_EQ(for_upstream(in).all(), fields({{"X-End-To-End", "stays"}}).all());
}

TEST(ForwardTest, StripsFieldsOfOurOwnOnTheWayUp) {
  const Headers in = fields({{"X-Headgate-Anything", "1"}, {"A", "b"}});
  EXPECT_EQ(for_upstream(in).all(), fields({{"A", "b"}}).all());
}

TEST(ForwardTest, TellsAForeignPageByHostAndOrigin) {
  const std::vector<std::string> own = {"gate.internal"};
  struct Row {
    const char* host;
    const char* origin;  // Null: none.
    bool foreign;
  };
  const Row rows[] = {
      {"127.0.0.1:8080", nullptr, false},
      {"localhost", nullptr, false},
      {"LOCALHOST:1", nullptr, false},
      {"[::1]:8080", nullptr, false},
      {"127.3.4.5", nullptr, false},
      {"gate.internal:80", nullptr, false},
      {"", nullptr, false},
      {"evil.example", nullptr, true},
      {"127.0.0.1.evil.example", nullptr, true},
      {"127.evil.a.b", nullptr, true},
      {"localhost.evil.example", nullptr, true},
      {"169.254.169.254", nullptr, true},
      {"[::1", nullptr, true},
      {"127.0.0.1:8080", "http://127.0.0.1:8080", false},
      {"127.0.0.1:8080", "http://127.0.0.1:3000", true},
      {"127.0.0.1:8080", "https://evil.example", true},
      {"127.0.0.1:8080", "null", true},
  };
  for (const Row& row : rows) {
    Headers in = fields({{"Host", row.host}});
    if (row.origin != nullptr) in.add("Origin", row.origin);
    EXPECT_EQ(!foreign_sign(in, own).empty(), row.foreign)
        << row.host << " " << (row.origin == nullptr ? "" : row.origin);
  }
  EXPECT_EQ(foreign_sign(Headers(), own), "") << "HTTP/1.0 sends no Host";
}

}  // namespace
}  // namespace hg::proxy
