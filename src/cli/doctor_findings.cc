#include "cli/doctor_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "cli/terminal.h"
#include "cli/version.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kHidden = "***";
// Shorter values are words that stand in every text ("1", "none", "true").
constexpr std::size_t kSecretBytesMin = 8;
constexpr std::size_t kTextColumn = 11;  // Behind the level.

bool names_secret(std::string_view variable) {
  static constexpr std::string_view kEnds[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return variable.ends_with(end); });
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// "user:password@" of a URL; "" without one.
std::string_view userinfo_of(std::string_view url) {
  const auto scheme = url.find("://");
  const std::string_view rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
  const auto at = rest.substr(0, rest.find('/')).rfind('@');
  return at == std::string_view::npos ? "" : rest.substr(0, at);
}

// Without what a careless copy brings along: blanks, line breaks and quotation marks.
std::string_view bare(std::string_view value) {
  constexpr std::string_view kAround = " \t\r\n\"'`";
  const auto first = value.find_first_not_of(kAround);
  if (first == std::string_view::npos) return "";
  return value.substr(first, value.find_last_not_of(kAround) - first + 1);
}

Paint paint_of(Level level) {
  switch (level) {
    case Level::ok: return Paint::green;
    case Level::warning: return Paint::yellow;
    case Level::problem: return Paint::red;
  }
  return Paint::plain;
}

std::string counted(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::ok: return "ok";
    case Level::warning: return "warning";
    case Level::problem: return "problem";
  }
  return "";
}

Finding fine(std::string check, std::string about, std::string seen) {
  return {Level::ok, std::move(check), std::move(about), std::move(seen), ""};
}

Finding warning(std::string check, std::string about, std::string seen, std::string mend) {
  return {Level::warning, std::move(check), std::move(about), std::move(seen), std::move(mend)};
}

Finding problem(std::string check, std::string about, std::string seen, std::string mend) {
  return {Level::problem, std::move(check), std::move(about), std::move(seen), std::move(mend)};
}

void append(Findings& to, Findings more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Secrets::Secrets(const Environment& environment, const std::vector<std::string>& key_variables) {
  const auto add = [this](std::string_view value) {
    if (value.size() >= kSecretBytesMin) values_.emplace_back(value);
  };
  for (const auto& [name, value] : environment) {
    const bool named = std::find(key_variables.begin(), key_variables.end(), name) !=
                       key_variables.end();
    if (named || names_secret(name)) {
      add(value);
      add(bare(value));
    }
    const std::string_view userinfo = userinfo_of(value);
    if (userinfo.empty()) continue;
    add(userinfo);
    add(userinfo.substr(std::min(userinfo.find(':'), userinfo.size() - 1) + 1));
  }
  std::sort(values_.begin(), values_.end(), [](const std::string& left, const std::string& right) {
    return left.size() > right.size();
  });
}

std::string Secrets::hidden(std::string_view text) const {
  std::string shown(text);
  for (const std::string& value : values_) replace_all(shown, value, kHidden);
  // What stands before an '@' in a URL, and what follows a '?', wherever it came from.
  for (auto at = shown.find("://"); at != std::string::npos; at = shown.find("://", at + 3)) {
    const auto start = at + 3;
    const auto end = std::min(shown.find_first_of(" \t\n\"'`,;)", start), shown.size());
    const auto slash = std::min(shown.find('/', start), end);
    const auto sign = shown.substr(start, slash - start).rfind('@');
    if (sign != std::string::npos) shown.replace(start, sign, kHidden);
    const auto now_end = std::min(shown.find_first_of(" \t\n\"'`,;)", start), shown.size());
    const auto query = shown.substr(start, now_end - start).find('?');
    if (query != std::string::npos) {
      shown.replace(start + query + 1, now_end - start - query - 1, kHidden);
    }
  }
  return shown;
}

void Secrets::hide(Findings& findings) const {
  for (Finding& finding : findings) {
    finding.about = hidden(finding.about);
    finding.seen = hidden(finding.seen);
    finding.mend = hidden(finding.mend);
  }
}

std::string findings_text(const Findings& findings, std::size_t width, bool colour) {
  std::vector<std::string> heads;
  for (const Finding& finding : findings) {
    if (std::find(heads.begin(), heads.end(), finding.about) == heads.end()) {
      heads.push_back(finding.about);
    }
  }
  std::string text;
  for (const std::string& head : heads) {
    text += paint(Paint::bold, head, colour) + "\n";
    for (const Finding& finding : findings) {
      if (finding.about != head) continue;
      const std::string_view level = to_string(finding.level);
      std::string start = "  " + paint(paint_of(finding.level), level, colour) +
                          std::string(kTextColumn - 2 - level.size(), ' ');
      for (const std::string& line : wrap(escape_controls(finding.seen), width - kTextColumn)) {
        text += start + line + "\n";
        start = std::string(kTextColumn, ' ');
      }
      if (finding.mend.empty()) continue;
      start = std::string(kTextColumn, ' ') + paint(Paint::bold, "mend:", colour) + " ";
      for (const std::string& line : wrap(escape_controls(finding.mend), width - kTextColumn - 6)) {
        text += start + line + "\n";
        start = std::string(kTextColumn + 6, ' ');
      }
    }
  }
  return text;
}

std::string summary_text(const Findings& findings, Micros took) {
  return fmt::format("{}, {}, {} ok in {:.1f} s",
                     counted(count(findings, Level::problem), "problem"),
                     counted(count(findings, Level::warning), "warning"),
                     count(findings, Level::ok), to_seconds(took));
}

json::value findings_json(const Findings& findings, Micros took) {
  json::array list;
  for (const Finding& finding : findings) {
    json::object row;
    row["level"] = to_string(finding.level);
    row["check"] = finding.check;
    row["about"] = finding.about;
    row["seen"] = finding.seen;
    row["mend"] = finding.mend;
    list.push_back(std::move(row));
  }
  json::object summary;
  summary["problems"] = count(findings, Level::problem);
  summary["warnings"] = count(findings, Level::warning);
  summary["ok"] = count(findings, Level::ok);
  summary["seconds"] = static_cast<double>(took.count() / 1000) / 1e3;
  json::object whole;
  whole["version"] = kVersion;
  whole["findings"] = std::move(list);
  whole["summary"] = std::move(summary);
  return whole;
}

std::size_t count(const Findings& findings, Level level) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [level](const Finding& finding) { return finding.level == level; }));
}

}  // namespace hg::cli
