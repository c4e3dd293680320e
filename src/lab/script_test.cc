#include "lab/script.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

namespace hg::lab {
namespace {

std::string example() {
  std::ifstream file(std::string(HG_SOURCE_DIR) + "/src/lab/testdata/edit_file.toml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

RequestView claude_code(int turn) {
  RequestView view;
  view.dialect = wire::Dialect::anthropic_messages;
  view.model = "claude-opus-5-5";
  view.tools = {{"Bash", {"command", "description"}, {"command"}},
                {"Read", {"file_path", "limit"}, {"file_path"}},
                {"Edit", {"file_path", "old_string", "new_string"}, {"file_path"}}};
  view.assistant_turns = turn;
  view.tool_results = turn;
  view.working_directory = "/tmp/job";
  view.last_tool_result = turn == 0 ? "" : "1\tthe sky is red";
  return view;
}

RequestView opencode(int turn) {
  RequestView view = claude_code(turn);
  view.dialect = wire::Dialect::openai_chat;
  view.tools = {{"bash", {"command", "description"}, {"command", "description"}},
                {"read", {"filePath"}, {"filePath"}},
                {"edit", {"filePath", "oldString", "newString"}, {"filePath"}}};
  return view;
}

boost::json::value json(const std::string& text) { return boost::json::parse(text); }

TEST(ScriptTest, CallsTheOfferedToolByItsOwnNameAndInputs) {
  const Result<Script> script = parse_script(example(), "edit_file.toml");
  ASSERT_TRUE(script) << script.error().detail;

  const Answer claude = answer_for(*script, claude_code(0), TokenRule(), 100);
  ASSERT_EQ(claude.calls.size(), 1U);
  EXPECT_EQ(claude.stop, StopReason::tool_use);
  EXPECT_EQ(claude.calls[0].name, "Read");
  EXPECT_EQ(json(claude.calls[0].input_json), json(R"({"file_path":"/tmp/job/notes.txt"})"));

  const Answer open = answer_for(*script, opencode(1), TokenRule(), 100);
  ASSERT_EQ(open.calls.size(), 1U);
  EXPECT_EQ(open.calls[0].name, "edit");
  EXPECT_EQ(json(open.calls[0].input_json),
            json(R"({"filePath":"/tmp/job/notes.txt","oldString":"red","newString":"green"})"));
}

TEST(ScriptTest, EndsAfterTheLastTurnAndStaysThere) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  for (const int turn : {2, 3, 9}) {
    const Answer answer = answer_for(script, claude_code(turn), TokenRule(), 100);
    EXPECT_EQ(answer.text, "Done: red is green now.");
    EXPECT_EQ(answer.stop, StopReason::end_turn);
    EXPECT_TRUE(answer.calls.empty());
  }
}

TEST(ScriptTest, ACutAnswerThatTheHarnessKeptIsNoTurn) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView view = claude_code(1);
  view.assistant_turns = 2;  // The read, and the kept half of the answer that was to edit.
  const Answer answer = answer_for(script, view, TokenRule(), 100);
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].name, "Edit");
}

TEST(ScriptTest, TurnsWithoutCallsAreCountedByMessages) {
  const Script script = parse_script(R"(
    [[conversation]]
    [[conversation.turn]]
    text = "first"
    [[conversation.turn]]
    text = "second"
  )",
                                     "s.toml")
                            .value();
  RequestView view = claude_code(0);
  EXPECT_EQ(answer_for(script, view, TokenRule(), 1).text, "first");
  view.assistant_turns = 1;
  EXPECT_EQ(answer_for(script, view, TokenRule(), 1).text, "second");
}

TEST(ScriptTest, AToolResultThatIsNotTheExpectedOneEndsTheConversation) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView view = claude_code(1);
  view.last_tool_result = "File does not exist.";
  const Answer answer = answer_for(script, view, TokenRule(), 100);
  EXPECT_TRUE(answer.mismatch);
  EXPECT_TRUE(answer.calls.empty());
  EXPECT_TRUE(answer.text.contains("File does not exist.")) << answer.text;
}

TEST(ScriptTest, AToolThatIsNotOfferedEndsTheConversation) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView view = claude_code(0);
  view.tools.erase(view.tools.begin() + 1);
  EXPECT_TRUE(answer_for(script, view, TokenRule(), 100).mismatch);
}

TEST(ScriptTest, ASideCallWithoutToolsGetsAShortText) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView title = claude_code(0);
  title.tools.clear();
  const Answer answer = answer_for(script, title, TokenRule(), 100);
  EXPECT_TRUE(answer.calls.empty());
  EXPECT_FALSE(answer.mismatch);
  EXPECT_LT(answer.text.size(), 40U);
}

TEST(ScriptTest, WithoutAScriptTheAnswerIsFillerOfTheAskedSize) {
  const TokenRule rule;
  const Answer answer = answer_for(Script(), claude_code(0), rule, 500);
  EXPECT_NEAR(static_cast<double>(count_tokens(answer.text, rule)), 500.0, 30.0);
}

TEST(ScriptTest, ChoosesTheFirstConversationThatMatches) {
  const Script script = parse_script(R"(
    [[conversation]]
    model = "gpt-*"
    [[conversation.turn]]
    text = "gpt"
    [[conversation]]
    prompt = "colour"
    [[conversation.turn]]
    text = "colour"
    [[conversation]]
    [[conversation.turn]]
    text = "any"
    [[conversation.turn.call]]
    name = ["Glob", "Bash"]
    input = { command = "ls {cwd}", n = 3 }
  )",
                                     "s.toml")
                            .value();
  RequestView view = claude_code(0);
  const Answer any = answer_for(script, view, TokenRule(), 1);
  ASSERT_EQ(any.calls.size(), 1U);
  EXPECT_EQ(any.calls[0].name, "Bash");
  EXPECT_EQ(json(any.calls[0].input_json), json(R"({"command":"ls /tmp/job","n":3})"));
  view.first_user_text = "change the colour";
  EXPECT_EQ(answer_for(script, view, TokenRule(), 1).text, "colour");
  view.model = "gpt-6";
  EXPECT_EQ(answer_for(script, view, TokenRule(), 1).text, "gpt");
}

TEST(ScriptTest, ABadScriptIsToldWithFileLineAndWhatIsAllowed) {
  struct Row {
    const char* why;
    const char* text;
    const char* says;
  };
  const Row rows[] = {
      {"no TOML", "[[conversation]\n", "s.toml:1:"},
      {"unknown key", "[[conversation]]\nmodle = \"x\"\n",
       "s.toml:2: unknown key 'modle' (allowed:"},
      {"no turn", "[[conversation]]\nmodel = \"x\"\n", "needs at least one"},
      {"unknown kind",
       "[[conversation]]\n[[conversation.turn]]\n[[conversation.turn.call]]\nuse = 'go'\n",
       "s.toml:4: use must be"},
      {"unknown input",
       "[[conversation]]\n[[conversation.turn]]\n[[conversation.turn.call]]\nuse = 'read'\nfile = "
       "'x'\n",
       "s.toml:5: an input is one of"},
  };
  for (const Row& row : rows) {
    const Result<Script> script = parse_script(row.text, "s.toml");
    ASSERT_FALSE(script) << row.why;
    EXPECT_EQ(script.error().code, Errc::invalid) << row.why;
    EXPECT_TRUE(script.error().detail.contains(row.says))
        << row.why << ": " << script.error().detail;
  }
}

TEST(ScriptTest, GlobsStandForAnyRun) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("claude-*", "claude-opus-5-5"));
  EXPECT_TRUE(glob_matches("*-5*", "claude-opus-5-5"));
  EXPECT_FALSE(glob_matches("claude-*", "gpt-6"));
  EXPECT_FALSE(glob_matches("gpt", "gpt-6"));
}

}  // namespace
}  // namespace hg::lab
