#include "cli/harness_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

namespace hg::cli {
namespace {

namespace json = boost::json;

TEST(HarnessTableTest, EveryProfileIsARowWithWhatPointsItAtTheShim) {
  const wire::Profiles& profiles = wire::Profiles::built_in();
  const std::string text = harness_table(profiles, 0);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            profiles.harnesses().size() + 1);
  EXPECT_NE(text.find("claude-code"), std::string::npos);
  EXPECT_NE(text.find("openai_base_url=\"{url}/v1\""), std::string::npos) << text;
  EXPECT_NE(text.find("a file by CLINE_PROVIDER_SETTINGS_PATH"), std::string::npos) << text;
}

TEST(HarnessTableTest, JsonHasEveryNumberInSeconds) {
  const json::array list = json::parse(harness_json(wire::Profiles::built_in())).as_array();
  bool found = false;
  for (const json::value& row : list) {
    const json::object& harness = row.as_object();
    EXPECT_FALSE(harness.at("pointed_by").as_array().empty()) << harness.at("name");
    EXPECT_GT(harness.at("hold_cap_seconds").to_number<double>(), 0) << harness.at("name");
    if (harness.at("name") != "gemini-cli") continue;
    found = true;
    EXPECT_EQ(harness.at("hold_cap_seconds").to_number<double>(), 35);
    EXPECT_EQ(harness.at("header_timeout_seconds").to_number<double>(), 60);
    EXPECT_EQ(harness.at("pointed_by").as_array().at(0).as_string(), "GOOGLE_GEMINI_BASE_URL");
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace hg::cli
