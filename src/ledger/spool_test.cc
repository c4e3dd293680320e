#include "ledger/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ledger/test_ledger.h"

namespace hg::ledger {
namespace {

namespace fs = std::filesystem;

class SpoolTest : public ::testing::Test {
 protected:
  [[nodiscard]] SpoolFolder folder(const std::string& owner = "me") {
    auto made = SpoolFolder::create(root_, owner);
    EXPECT_TRUE(made.has_value());
    return std::move(*made);
  }
  [[nodiscard]] static std::vector<std::string> ids(const std::vector<CallRow>& rows) {
    std::vector<std::string> all;
    for (const CallRow& row : rows) all.push_back(row.id);
    return all;
  }
  [[nodiscard]] std::string only_segment() const { return root_ + "/me/0000000001.spool"; }

  // What a folder that nobody holds any more gives.
  [[nodiscard]] std::vector<std::string> left_behind(SpoolReader::Damage* damage = nullptr) {
    std::vector<std::string> all;
    for (SpoolFolder& left : SpoolFolder::abandoned(root_)) {
      SpoolReader reader(left);
      for (;;) {
        const auto rows = reader.next(100, SpoolReader::kEverything);
        for (const CallRow& row : rows) all.push_back(row.id);
        static_cast<void>(reader.acknowledge(SpoolReader::kEverything));
        if (rows.empty()) break;
      }
      if (damage != nullptr) *damage = reader.damaged();
      left.remove_if_empty();
    }
    return all;
  }

  TestFolder temporary_;
  std::string root_ = temporary_.path() + "/spool";
};

using Ids = std::vector<std::string>;

TEST_F(SpoolTest, RowsComeOutInTheirOrderOnceTheyAreWhole) {
  const SpoolFolder mine = folder();
  SpoolWriter writer(mine, SpoolLimits());
  SpoolReader reader(mine);
  EXPECT_TRUE(reader.next(10, writer.mark()).empty());
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(writer.append(test_row(id)));
  EXPECT_EQ(ids(reader.next(2, writer.mark())), (Ids{"a", "b"}));
  static_cast<void>(reader.acknowledge(writer.mark()));
  EXPECT_EQ(ids(reader.next(2, writer.mark())), (Ids{"c"}));
  reader.rewind();
  EXPECT_EQ(ids(reader.next(2, writer.mark())), (Ids{"c"})) << "the database did not take it";
  static_cast<void>(reader.acknowledge(writer.mark()));
  EXPECT_TRUE(reader.next(2, writer.mark()).empty());
  EXPECT_EQ(spooled_rows(root_), 0U);
}

TEST_F(SpoolTest, OnlyItsUserCanReadIt) {
  const SpoolFolder mine = folder();
  SpoolWriter writer(mine, SpoolLimits());
  ASSERT_TRUE(writer.append(test_row("a")));
  struct stat facts{};
  ASSERT_EQ(::stat(only_segment().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(root_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
}

TEST_F(SpoolTest, SegmentsEndWhenTheyAreLongAndGoWhenTheyAreDone) {
  const SpoolFolder mine = folder();
  SpoolWriter writer(mine, SpoolLimits{.segment_bytes = 500});
  SpoolReader reader(mine);
  Ids all;
  for (int i = 0; i < 20; ++i) {
    all.push_back("call." + std::to_string(i));
    ASSERT_TRUE(writer.append(test_row(all.back())));
  }
  EXPECT_GT(mine.segments().size(), 3U);
  EXPECT_EQ(spooled_rows(root_), 20U);
  Ids read;
  for (;;) {
    const auto rows = reader.next(100, writer.mark());
    for (const CallRow& row : rows) read.push_back(row.id);
    writer.freed(reader.acknowledge(writer.mark()));
    if (rows.empty()) break;
  }
  EXPECT_EQ(read, all);
  EXPECT_EQ(mine.segments().size(), 1U) << "the present one stays";
}

TEST_F(SpoolTest, AFullSpoolRefusesUntilThereIsRoomAgain) {
  const SpoolFolder mine = folder();
  SpoolWriter writer(mine, SpoolLimits{.segment_bytes = 300, .total_bytes = 1000});
  SpoolReader reader(mine);
  int kept = 0;
  Result<void> appended;
  while ((appended = writer.append(test_row("call." + std::to_string(kept))))) ++kept;
  EXPECT_EQ(appended.error().code, Errc::too_large);
  EXPECT_GT(kept, 3);
  int read = 0;
  while (const std::size_t rows = reader.next(100, writer.mark()).size()) {
    read += static_cast<int>(rows);
    writer.freed(reader.acknowledge(writer.mark()));
  }
  EXPECT_EQ(read, kept);
  EXPECT_TRUE(writer.append(test_row("again")).has_value());
}

TEST_F(SpoolTest, WhatAKilledProcessLeftIsTakenOverByOneOther) {
  {
    const SpoolFolder mine = folder();
    SpoolWriter writer(mine, SpoolLimits());
    ASSERT_TRUE(writer.append(test_row("a")));
    EXPECT_TRUE(SpoolFolder::abandoned(root_).empty()) << "it lives";
  }
  {
    const auto first = SpoolFolder::abandoned(root_);
    EXPECT_EQ(first.size(), 1U);
    EXPECT_TRUE(SpoolFolder::abandoned(root_).empty()) << "the first has it";
  }
  EXPECT_EQ(left_behind(), Ids{"a"});
  EXPECT_FALSE(fs::exists(root_ + "/me"));
}

TEST_F(SpoolTest, WhatTheDatabaseHasIsNotReadAgain) {
  {
    const SpoolFolder mine = folder();
    SpoolWriter writer(mine, SpoolLimits());
    SpoolReader reader(mine);
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(writer.append(test_row(id)));
    EXPECT_EQ(reader.next(2, writer.mark()).size(), 2U);
    static_cast<void>(reader.acknowledge(writer.mark()));
  }
  EXPECT_EQ(left_behind(), Ids{"c"});
}

// A file cut at every length: as many whole rows as there are, never a wrong one.
TEST_F(SpoolTest, ATornTailIsCutAtEveryLength) {
  std::string whole;
  {
    const SpoolFolder mine = folder();
    SpoolWriter writer(mine, SpoolLimits());
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(writer.append(test_row(id)));
    std::ifstream file(only_segment(), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_GT(whole.size(), 300U);
  const std::size_t record = (whole.size() - 16) / 3;
  const Ids all = {"a", "b", "c"};
  static_cast<void>(left_behind());
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    fs::create_directories(root_ + "/me");
    std::ofstream(only_segment(), std::ios::binary) << whole.substr(0, size);
    const std::size_t rows = size < 16 ? 0 : (size - 16) / record;
    const bool torn = size > 16 && (size - 16) % record != 0;
    SpoolReader::Damage damage;
    EXPECT_EQ(left_behind(&damage), Ids(all.begin(), all.begin() + static_cast<long>(rows)));
    EXPECT_EQ(damage.places, torn ? 1U : 0U) << size;
    EXPECT_FALSE(fs::exists(root_ + "/me")) << size;
  }
}

TEST_F(SpoolTest, ADamagedRecordCostsItselfAndNoOther) {
  {
    const SpoolFolder mine = folder();
    SpoolWriter writer(mine, SpoolLimits());
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(writer.append(test_row(id)));
  }
  const auto size = fs::file_size(only_segment());
  {
    std::fstream file(only_segment(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << "X";
  }
  SpoolReader::Damage damage;
  EXPECT_EQ(left_behind(&damage), (Ids{"a", "c"}));
  EXPECT_EQ(damage.places, 1U);
}

}  // namespace
}  // namespace hg::ledger
