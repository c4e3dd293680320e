// doctor_findings.h: what `headgate doctor` says: findings, how they look, and what they never
// show.
//
// Pure; values.
#pragma once
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cli/config.h"

namespace hg::cli {

enum class Level : std::uint8_t { ok, warning, problem };

[[nodiscard]] std::string_view to_string(Level level);

struct Finding {
  Level level = Level::ok;
  std::string check;  // What was looked at, for programs: "tls.expired". docs/doctor.md lists all.
  std::string about;  // Under which head people see it: "upstream anthropic", "keys".
  std::string seen;   // What was seen.
  std::string mend;   // What to do, one sentence; "" for Level::ok.
};
using Findings = std::vector<Finding>;

[[nodiscard]] Finding fine(std::string check, std::string about, std::string seen);
[[nodiscard]] Finding warning(std::string check, std::string about, std::string seen,
                              std::string mend);
[[nodiscard]] Finding problem(std::string check, std::string about, std::string seen,
                              std::string mend);

void append(Findings& to, Findings more);

// The secrets of an environment: values of variables that hold keys, and passwords inside URLs.
// Last in line before anything is printed, whatever the text was made of.
class Secrets {
 public:
  // `key_variables`: names that count beside those that look like it (..._KEY, ..._TOKEN, ...).
  Secrets(const Environment& environment, const std::vector<std::string>& key_variables);
  // The text with each secret, and each part of a URL that may be one, as "***".
  [[nodiscard]] std::string hidden(std::string_view text) const;
  void hide(Findings& findings) const;

 private:
  std::vector<std::string> values_;  // The longest first.
};

// Grouped by head, in the order in which heads first come; at most `width` columns.
[[nodiscard]] std::string findings_text(const Findings& findings, std::size_t width, bool colour);

// "2 problems, 1 warning, 14 ok in 1.2 s".
[[nodiscard]] std::string summary_text(const Findings& findings, Micros took);

// {"version", "findings": [...], "summary": {...}}.
[[nodiscard]] boost::json::value findings_json(const Findings& findings, Micros took);

[[nodiscard]] std::size_t count(const Findings& findings, Level level);

}  // namespace hg::cli
