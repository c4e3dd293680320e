#include "ledger/call_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

namespace hg::ledger {
namespace {

CallRow some_row() {
  CallRow row;
  row.id = "shim.1";
  row.model = "claude-opus-4-5";
  row.status = 200;
  row.cached_tokens = 0;
  row.own_us = -3;
  row.total_us = std::numeric_limits<std::int64_t>::max();
  row.held_us = std::numeric_limits<std::int64_t>::min();
  return row;
}

std::string payload(const CallRow& row) {
  std::string bytes;
  append_payload(row, bytes);
  return bytes;
}

TEST(CallRowTest, ColumnsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const CallColumn& column : call_columns()) names.insert(column.name);
  EXPECT_EQ(names.size(), kCallColumns);
}

TEST(CallRowTest, APayloadIsReadAsItWasWritten) {
  EXPECT_EQ(parse_payload(payload(some_row())), some_row());
}

TEST(CallRowTest, WhatALaterReleaseAddsIsSteppedOver) {
  std::string bytes = payload(some_row());
  bytes += "\xfe\x0f\x05";                       // Tag 1023, a number.
  bytes += std::string("\xff\x0f\x03") + "abc";  // Tag 1023, a text.
  EXPECT_EQ(parse_payload(bytes), some_row());
}

TEST(CallRowTest, EveryTruncationIsAnErrorOrAShorterRow) {
  const std::string bytes = payload(some_row());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto row = parse_payload(std::string_view(bytes).substr(0, size));
    if (row) {
      EXPECT_EQ(row->id, "shim.1") << size;
    }
  }
  EXPECT_FALSE(parse_payload("").has_value()) << "a row without an id is none";
}

TEST(CallRowTest, TextsBecomeWhatEveryDatabaseTakes) {
  CallRow row = some_row();
  row.model = "gr\xc3\xbc\xc3\x9f \xff\n" + std::string("\0x", 2);
  row.provider_request_id = std::string(1000, 'x');
  const auto read = parse_payload(payload(row));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->model, "gr???? ???x");
  EXPECT_EQ(read->provider_request_id.size(), kMaxTextBytes);
}

TEST(CallRowTest, JsonHasWhatIsThereAndNothingElse) {
  CallRow row;
  row.id = "a\"b\\c";
  row.cached_tokens = 0;
  EXPECT_EQ(to_json(row), R"({"id":"a\"b\\c","cached_tokens":0})");
}

TEST(CallRowTest, CsvQuotesWhatNeedsIt) {
  CallRow row;
  row.id = "a,\"b\"";
  row.upstream = "=1+1";
  row.provider = "plain";
  const std::string head = csv_head();
  EXPECT_TRUE(head.starts_with("id,upstream,provider,"));
  EXPECT_TRUE(to_csv(row).starts_with("\"a,\"\"b\"\"\",\"'=1+1\",plain,,")) << to_csv(row);
  EXPECT_EQ(std::ranges::count(head, ','), static_cast<long>(kCallColumns) - 1);
}

}  // namespace
}  // namespace hg::ledger
