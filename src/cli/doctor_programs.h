// doctor_programs.h: which agent programs are here, and in which version.
//
// run_briefly starts children and waits; the rest is pure. One thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cli/doctor_findings.h"
#include "wire/profiles.h"

namespace hg::cli {

struct BriefRun {
  std::string output;  // Of stdout and stderr together, the first 4 KiB.
  bool ended = false;  // Within its time; otherwise it was killed, with all that it had started.
};

// Runs all of these at once, each with no terminal, no input and at most `within`.
[[nodiscard]] std::vector<BriefRun> run_briefly(
    const std::vector<std::vector<std::string>>& commands, Micros within);

// The first "1.2" or "1.2.3" in a text, with what follows directly ("1.2.3-beta.1"); "" of none.
[[nodiscard]] std::string version_in(std::string_view text);

// What this version of the program means for what is known of it.
[[nodiscard]] Finding judge_version(const wire::HarnessProfile& harness, const std::string& program,
                                    const BriefRun& run);

// All of it: each harness' first program in PATH is asked for its version; the others are named.
[[nodiscard]] Findings check_programs(const wire::Profiles& profiles, Micros within);

}  // namespace hg::cli
