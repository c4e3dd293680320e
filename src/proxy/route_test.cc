#include "proxy/route.h"

#include <gtest/gtest.h>

#include <string>

namespace hg::proxy {
namespace {

TEST(RouteTest, ReadsPrefixesInAnyOrderAndLeavesTheRestUntouched) {
  struct Row {
    const char* why;
    const char* target;
    Attribution want;
    const char* rest;
  };
  const Row rows[] = {
      {"no prefix", "/v1/messages?beta=true", {}, "/v1/messages?beta=true"},
      {"all, one order",
       "/pool/p1/harness/claude-code/run/r.1/task/t:2/v1/messages",
       {"p1", "claude-code", "r.1", "t:2", ""},
       "/v1/messages"},
      {"all, another order",
       "/task/t/upstream/u/run/r/harness/h/pool/p/v1/messages",
       {"p", "h", "r", "t", "u"},
       "/v1/messages"},
      {"a prefix and nothing else", "/run/r", {"", "", "r", "", ""}, "/"},
      {"a prefix and a slash", "/run/r/", {"", "", "r", "", ""}, "/"},
      {"a prefix and a query", "/run/r?x=1", {"", "", "r", "", ""}, "/?x=1"},
      {"the provider's own words later in the path are its own",
       "/v1/pool/p/run/r",
       {},
       "/v1/pool/p/run/r"},
      {"percent signs and empty segments stay",
       "/run/r/v1/a%2Fb//c?q=%20&&x",
       {"", "", "r", "", ""},
       "/v1/a%2Fb//c?q=%20&&x"},
      {"a doubled slash behind the prefix stays for the join",
       "/run/r//v1/messages",
       {"", "", "r", "", ""},
       "//v1/messages"},
      {"a word that only begins like a prefix", "/runs/r", {}, "/runs/r"},
  };
  for (const Row& row : rows) {
    const Result<Route> route = parse_route(row.target);
    ASSERT_TRUE(route) << row.why << ": " << route.error().detail;
    EXPECT_EQ(route->attribution.pool, row.want.pool) << row.why;
    EXPECT_EQ(route->attribution.harness, row.want.harness) << row.why;
    EXPECT_EQ(route->attribution.run, row.want.run) << row.why;
    EXPECT_EQ(route->attribution.task, row.want.task) << row.why;
    EXPECT_EQ(route->attribution.upstream, row.want.upstream) << row.why;
    EXPECT_EQ(route->target, row.rest) << row.why;
  }
}

TEST(RouteTest, RefusesWhatCouldMisroute) {
  const std::string too_long = "/run/" + std::string(kMaxAttributionChars + 1, 'x') + "/v1";
  const std::string longest = "/run/" + std::string(kMaxAttributionChars, 'x') + "/v1";
  EXPECT_TRUE(parse_route(longest));
  const char* const bad[] = {
      "",
      "http://evil.example/v1/messages",  // Absolute form: an open proxy.
      "evil.example:443",                 // CONNECT.
      "*",
      "/pool",
      "/pool/",
      "/pool//v1/messages",
      "/pool/a%2Fb/v1",
      "/pool/a@b/v1",
      "/pool/../v1",
      "/pool/p/pool/q/v1",
      "/run/a b/v1",
      "/v1/messages#fragment",
      "/v1\\messages",
      too_long.c_str(),
  };
  for (const char* target : bad) {
    const Result<Route> route = parse_route(target);
    ASSERT_FALSE(route) << target;
    EXPECT_EQ(route.error().code, Errc::invalid) << target;
    EXPECT_EQ(route.error().detail.find("a%2Fb"), std::string::npos) << "repeats a value";
  }
}

TEST(RouteTest, JoinsWithTheBasePathWithoutDoublingAnything) {
  struct Row {
    const char* base;
    const char* target;
    const char* want;
  };
  const Row rows[] = {
      {"", "/v1/messages?beta=true", "/v1/messages?beta=true"},
      {"/", "/v1/messages", "/v1/messages"},
      {"/v1", "/v1/chat/completions", "/v1/chat/completions"},
      {"/v1/", "/v1/chat/completions", "/v1/chat/completions"},
      {"/v1", "/chat/completions", "/v1/chat/completions"},
      {"/api/v1", "/v1/chat/completions", "/api/v1/chat/completions"},
      {"/api/v1", "/chat/completions", "/api/v1/chat/completions"},
      {"/v1beta", "/v1beta/models/m:generateContent", "/v1beta/models/m:generateContent"},
      {"/v1", "/v2/thing", "/v1/v2/thing"},
      {"", "/v1/v1/messages", "/v1/messages"},
      {"/v1", "/v1/v1/messages", "/v1/messages"},
      {"", "//v1/messages", "/v1/messages"},
      {"/", "/", "/"},
      {"", "/", "/"},
      {"/v1", "/v1", "/v1"},
      {"/v1", "/v1?x=1", "/v1?x=1"},
      {"", "/v1/a%2Fb//c?u=http://x//y", "/v1/a%2Fb//c?u=http://x//y"},
      {"/base", "/", "/base/"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(upstream_target(row.base, row.target), row.want) << row.base << " + " << row.target;
  }
}

TEST(RouteTest, PathStopsAtTheQuery) {
  EXPECT_EQ(path_of("/v1/messages?beta=true"), "/v1/messages");
  EXPECT_EQ(path_of("/v1/messages"), "/v1/messages");
}

}  // namespace
}  // namespace hg::proxy
