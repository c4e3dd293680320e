// terminal.h: how things look: tables, numbers, a line that rewrites itself, colours or none.
//
// Colours only on a terminal, and not with NO_COLOR or TERM=dumb. Pure but for LiveLine and the
// questions about a descriptor. One thread.
#pragma once
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace hg::cli {

[[nodiscard]] bool is_terminal(std::FILE* stream);
[[nodiscard]] bool wants_colour(std::FILE* stream);

enum class Paint : unsigned char { plain, bold, dim, red, green, yellow };

// `text` in that colour if `colour` is true.
[[nodiscard]] std::string paint(Paint paint, std::string_view text, bool colour);

// Columns as wide as their widest cell, two blanks apart. The first `left_columns` are flush left,
// the rest flush right. No trailing blanks; each line ends with a line break.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows,
                                std::size_t left_columns);

// The same in at most `width` columns (0: any number): rows that are too wide become a line of
// their first cell and lines of the others below it, each cell behind its head ("tokens 3 / 10").
[[nodiscard]] std::string fitted_table(const std::vector<std::vector<std::string>>& rows,
                                       std::size_t left_columns, std::size_t width);

// Of the terminal that the stream is; 0 when it is none, so that a pipe gets whole tables.
[[nodiscard]] std::size_t columns_of(std::FILE* stream);

// 950 -> "950", 12'345 -> "12.3k", 2'345'678 -> "2.35M".
[[nodiscard]] std::string short_count(std::int64_t number);

// "0.4 s", "12 s", "3 m 05 s", "2 h 10 m".
[[nodiscard]] std::string short_duration(Micros duration);

// Lines of at most `width`, broken at blanks; words longer than that stay whole. Line breaks in
// the text are kept.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);

// A line of progress: on a terminal the one line is rewritten, otherwise a new line is written at
// most every five seconds.
class LiveLine {
 public:
  LiveLine(std::FILE* stream, const Clock& clock);
  ~LiveLine();  // Leaves the last text standing.
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void show(std::string_view text);
  void end();    // Ends the line; the next show begins another.
  void erase();  // Leaves nothing of it on a terminal.

 private:
  std::FILE* stream_;
  const Clock& clock_;
  bool rewrites_;
  bool open_ = false;
  Instant next_;
};

}  // namespace hg::cli
