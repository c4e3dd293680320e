#include "cli/doctor_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

namespace hg::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DoctorFindingsTest, SecretsAreHiddenWhereverTheyStand) {
  const Secrets secrets({{"OPENAI_API_KEY", "sk-proj-SECRET1"},
                         {"ODD_NAME", "odd-SECRET2"},
                         {"HTTPS_PROXY", "http://me:pass-SECRET3@proxy:3128"},
                         {"QUOTED_TOKEN", " sk-SECRET4\n"},
                         {"SHORT_KEY", "true"},
                         {"HOME", "/home/somebody"}},
                        {"ODD_NAME"});
  const std::string text = secrets.hidden(
      "sk-proj-SECRET1, odd-SECRET2, pass-SECRET3, sk-SECRET4; it is true, in /home/somebody");
  EXPECT_THAT(text, Not(HasSubstr("SECRET")));
  EXPECT_THAT(text, HasSubstr("it is true, in /home/somebody"));
}

TEST(DoctorFindingsTest, WhatAUrlMayHideIsHidden) {
  const Secrets secrets({}, {});
  EXPECT_EQ(secrets.hidden("at https://me:SECRET@host/v1 and https://host/v1?key=SECRET, both"),
            "at https://***@host/v1 and https://host/v1?***, both");
  EXPECT_EQ(secrets.hidden("http://127.0.0.1:4290/v1"), "http://127.0.0.1:4290/v1");
}

TEST(DoctorFindingsTest, TheReportFitsItsWidthAndGroupsByHead) {
  const Findings findings = {
      fine("a", "keys", "one"),
      problem("b", "upstream x", std::string(100, 'x') + " " + std::string(40, 'y'),
              "Do this, and then that, and then, if nothing of it helps, go to bed."),
      warning("c", "keys", "two", "Mend it.")};
  const std::string text = findings_text(findings, 60, false);
  EXPECT_THAT(text, HasSubstr("keys\n  ok       one\n  warning  two\n           mend: Mend it.\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("xxxx") != std::string::npos) continue;
    EXPECT_LE(line.size(), 60U) << line;
  }
  EXPECT_EQ(summary_text(findings, 1'234ms), "1 problem, 1 warning, 1 ok in 1.2 s");
  const auto json = findings_json(findings, 1'234ms);
  EXPECT_EQ(json.at("summary").at("problems").as_uint64(), 1U);
  EXPECT_EQ(json.at("findings").as_array().size(), 3U);
  EXPECT_EQ(json.at("findings").as_array()[2].at("mend").as_string(), "Mend it.");
}

}  // namespace
}  // namespace hg::cli
