#include "proxy/call_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <string>

namespace hg::proxy {
namespace {

CallEntry entry_of(const char* run, Tokens uncached) {
  CallEntry entry;
  entry.id = "s-1.1";
  entry.pool = "p";
  entry.harness = "claude-code";
  entry.run = run;
  entry.dialect = "anthropic_messages";
  entry.uncached = uncached;
  entry.output = 7;
  entry.settled_by = "usage";
  entry.outcome = "ok";
  entry.status = 200;
  entry.waited = Micros(1'500'000);
  return entry;
}

TEST(CallLogTest, ALineSaysWhatIsKnownAndTellsAbsentFromZero) {
  CallEntry entry = entry_of("r", 0);
  const boost::json::object line = boost::json::parse(to_json_line(entry)).as_object();
  EXPECT_EQ(line.at("usage").at("uncached").as_int64(), 0);
  EXPECT_TRUE(line.at("usage").at("cached").is_null());
  EXPECT_EQ(line.at("usage").at("output").as_int64(), 7);
  EXPECT_EQ(line.at("waited_ms").as_int64(), 1500);
  EXPECT_FALSE(line.at("usage").as_object().contains("cache_write"));
  EXPECT_FALSE(line.at("usage").as_object().contains("reasoning"));
  EXPECT_FALSE(line.contains("unreachable"));
  EXPECT_FALSE(line.contains("task"));
  EXPECT_FALSE(line.contains("first_byte_ms"));
  EXPECT_EQ(to_json_line(entry).find('\n'), std::string::npos);
}

TEST(CallLogTest, ALineSaysWhatWasWrittenToTheCacheThoughtAndOutOfReach) {
  CallEntry entry = entry_of("r", 12);
  entry.cache_write = 0;
  entry.reasoning = 5;
  entry.unreachable = 2;
  const boost::json::object line = boost::json::parse(to_json_line(entry)).as_object();
  EXPECT_EQ(line.at("usage").at("cache_write").as_int64(), 0);
  EXPECT_EQ(line.at("usage").at("reasoning").as_int64(), 5);
  EXPECT_EQ(line.at("unreachable").as_int64(), 2);
}

TEST(CallLogTest, AppendsOneLineACallToAFileForThisUserAlone) {
  const std::string path = testing::TempDir() + "headgate-call-log-test.jsonl";
  std::remove(path.c_str());
  {
    Result<CallLog> log = CallLog::open(path);
    ASSERT_TRUE(log);
    log->record(entry_of("r", 1));
    log->record(entry_of("r", 2));
  }
  Result<CallLog> again = CallLog::open(path);
  ASSERT_TRUE(again);
  again->record(entry_of("q", 3));
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_TRUE(boost::json::parse(line).is_object());
  }
  EXPECT_EQ(lines, 3);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  std::remove(path.c_str());
}

TEST(CallLogTest, CannotOpenIsAnError) {
  const Result<CallLog> log = CallLog::open("/nonexistent/dir/file");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, Errc::unavailable);
}

TEST(CallLogTest, TotalsAreKeptByRunAndBounded) {
  CallLog log;
  for (int i = 0; i < 3; ++i) log.record(entry_of("r", 10));
  CallEntry refused = entry_of("r", 0);
  refused.uncached.reset();
  refused.output.reset();
  refused.status = 429;
  refused.own_answer = true;
  log.record(refused);
  EXPECT_EQ(log.totals("r").calls, 4);
  EXPECT_EQ(log.totals("r").failed, 1);
  EXPECT_EQ(log.totals("r").refused_by_us, 1);
  EXPECT_EQ(log.totals("r").uncached, 30);
  EXPECT_EQ(log.totals("r").output, 21);
  EXPECT_EQ(log.totals("unknown").calls, 0);
  for (int i = 0; i < 5000; ++i) log.record(entry_of(std::to_string(i).c_str(), 1));
  EXPECT_EQ(log.totals("r").calls, 0) << "the run that was quiet for longest is forgotten";
  EXPECT_EQ(log.totals("4999").calls, 1);
  EXPECT_EQ(log.totals().calls, 5004);
}

}  // namespace
}  // namespace hg::proxy
