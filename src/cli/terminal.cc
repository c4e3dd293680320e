#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace hg::cli {

namespace {

constexpr Micros kPipedEvery = 5s;

constexpr std::size_t kUsualColumns = 80;  // Of a terminal that does not say.

// Code points: every byte that does not continue one.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::size_t columns_of(std::FILE* stream) {
  if (!is_terminal(stream)) return 0;
  struct winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return kUsualColumns;
}

bool wants_colour(std::FILE* stream) {
  const char* none = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  const char* term = std::getenv("TERM");      // NOLINT(concurrency-mt-unsafe)
  if (none != nullptr && *none != '\0') return false;
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return is_terminal(stream);
}

std::string paint(Paint paint, std::string_view text, bool colour) {
  std::string_view code;
  switch (paint) {
    case Paint::plain: break;
    case Paint::bold: code = "1"; break;
    case Paint::dim: code = "2"; break;
    case Paint::red: code = "31"; break;
    case Paint::green: code = "32"; break;
    case Paint::yellow: code = "33"; break;
  }
  if (!colour || code.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width_of(row[column]), ' ');
      if (column > 0) line += "  ";
      line += column < left_columns ? row[column] + padding : padding + row[column];
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string fitted_table(const std::vector<std::vector<std::string>>& rows,
                         std::size_t left_columns, std::size_t width) {
  std::string whole = table(rows, left_columns);
  std::size_t widest = 0;
  for (const std::string& line : wrap(whole, whole.size())) {
    widest = std::max(widest, width_of(line));
  }
  if (width == 0 || widest <= width || rows.size() < 2) return whole;
  std::string text;
  for (std::size_t index = 1; index < rows.size(); ++index) {
    const auto& row = rows[index];
    text += row.front() + "\n";
    std::string cells;
    for (std::size_t column = 1; column < row.size(); ++column) {
      cells += fmt::format("{}{} {}", column > 1 ? ", " : "", rows.front()[column], row[column]);
    }
    for (const std::string& line : wrap(cells, width - 2)) text += "  " + line + "\n";
  }
  return text;
}

std::string short_count(std::int64_t number) {
  const double value = static_cast<double>(number);
  if (number < 0) return "-" + short_count(-number);
  if (number < 1'000) return fmt::format("{}", number);
  if (number < 100'000) return fmt::format("{:.1f}k", value / 1e3);
  if (number < 1'000'000) return fmt::format("{:.0f}k", value / 1e3);
  if (number < 100'000'000) return fmt::format("{:.2f}M", value / 1e6);
  return fmt::format("{:.0f}M", value / 1e6);
}

std::string short_duration(Micros duration) {
  const std::int64_t seconds = duration.count() / 1'000'000;
  if (duration < 10s) return fmt::format("{:.1f} s", to_seconds(duration));
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} m", seconds / 3600, seconds / 60 % 60);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (true) {
    const auto line_break = text.find('\n');
    std::string_view paragraph = text.substr(0, line_break);
    while (width_of(paragraph) > width) {
      auto blank = paragraph.rfind(' ', width);
      if (blank == std::string_view::npos || blank == 0) blank = paragraph.find(' ', 1);
      if (blank == std::string_view::npos) break;
      lines.emplace_back(paragraph.substr(0, blank));
      paragraph.remove_prefix(blank + 1);
    }
    lines.emplace_back(paragraph);
    if (line_break == std::string_view::npos) return lines;
    text.remove_prefix(line_break + 1);
  }
}

LiveLine::LiveLine(std::FILE* stream, const Clock& clock)
    : stream_(stream), clock_(clock), rewrites_(is_terminal(stream)), next_(clock.now()) {}

LiveLine::~LiveLine() { end(); }

void LiveLine::show(std::string_view text) {
  if (rewrites_) {
    // Wider than the terminal, the line would wrap and pile up.
    std::string line(text);
    const std::size_t width = columns_of(stream_) - 1;
    while (width_of(line) > width) line.pop_back();
    fmt::print(stream_, "\r\x1b[K{}", line);
    std::fflush(stream_);
    open_ = true;
    return;
  }
  if (clock_.now() < next_) return;
  next_ = clock_.now() + kPipedEvery;
  fmt::print(stream_, "{}\n", text);
  std::fflush(stream_);
}

void LiveLine::erase() {
  if (!open_) return;
  fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
  open_ = false;
}

void LiveLine::end() {
  if (!open_) return;
  fmt::print(stream_, "\n");
  std::fflush(stream_);
  open_ = false;
}

}  // namespace hg::cli
