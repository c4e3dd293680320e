#include "cli/terminal.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace hg::cli {
namespace {

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int character = std::fgetc(file); character != EOF; character = std::fgetc(file)) {
    text.push_back(static_cast<char>(character));
  }
  return text;
}

TEST(TerminalTest, ColumnsLineUpAndNothingTrails) {
  EXPECT_EQ(table({{"pool", "tokens", "note"}, {"a", "12", ""}, {"long-name", "7", "x"}}, 1),
            "pool       tokens  note\n"
            "a              12\n"
            "long-name       7     x\n");
}

TEST(TerminalTest, ATableThatIsTooWideBecomesLinesUnderTheFirstCell) {
  const std::vector<std::vector<std::string>> rows = {{"pool", "tokens", "limits from"},
                                                      {"main", "3 / 10", "operator, 2 s ago"}};
  EXPECT_EQ(fitted_table(rows, 1, 0), table(rows, 1));
  EXPECT_EQ(fitted_table(rows, 1, 33), table(rows, 1));
  EXPECT_EQ(fitted_table(rows, 1, 30),
            "main\n"
            "  tokens 3 / 10, limits from\n"
            "  operator, 2 s ago\n");
}

TEST(TerminalTest, WidthIsCountedInCharacters) {
  EXPECT_EQ(table({{"\xc3\xbc", "x"}, {"ab", "y"}}, 2), "\xc3\xbc   x\nab  y\n");
}

TEST(TerminalTest, CountsAndDurationsAreShort) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(12'345), "12.3k");
  EXPECT_EQ(short_count(123'456), "123k");
  EXPECT_EQ(short_count(2'345'678), "2.35M");
  EXPECT_EQ(short_count(-1'500), "-1.5k");
  EXPECT_EQ(short_duration(1'234ms), "1.2 s");
  EXPECT_EQ(short_duration(75s), "75 s");
  EXPECT_EQ(short_duration(185s), "3 m 05 s");
  EXPECT_EQ(short_duration(2h + 10min), "2 h 10 m");
}

TEST(TerminalTest, TextWrapsAtBlanksAndLongWordsStayWhole) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("a\nb", 7), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(wrap("unbreakable", 4), (std::vector<std::string>{"unbreakable"}));
  EXPECT_EQ(wrap("", 4), (std::vector<std::string>{""}));
}

TEST(TerminalTest, ColourIsOffWhereItIsNotWanted) {
  EXPECT_EQ(paint(Paint::red, "x", false), "x");
  EXPECT_EQ(paint(Paint::red, "x", true), "\x1b[31mx\x1b[0m");
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(wants_colour(file));
  std::fclose(file);
}

TEST(TerminalTest, APipeGetsALineEveryFiveSeconds) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ManualClock clock;
  {
    LiveLine line(file, clock);
    for (int step = 0; step < 12; ++step) {
      line.show("step " + std::to_string(step));
      clock.advance(1s);
    }
  }
  EXPECT_EQ(read_all(file), "step 0\nstep 5\nstep 10\n");
  std::fclose(file);
}

}  // namespace
}  // namespace hg::cli
