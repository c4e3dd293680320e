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
  view.api = Api::anthropic_messages;
  view.model = "claude-opus-5-5";
  view.tools = {{"Bash", {"command", "description"}, {"command"}},
                {"Read", {"file_path", "limit"}, {"file_path"}},
                {"Edit", {"file_path", "old_string", "new_string"}, {"file_path"}}};
  view.assistant_turns = turn;
  view.tool_results = turn;
  view.working_directory = "/tmp/job";
  view.last_tool_result = turn == 0 ? "" : "1\tname = canal\n2\tcolour = red";
  return view;
}

RequestView opencode(int turn) {
  RequestView view = claude_code(turn);
  view.api = Api::openai_chat;
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
  EXPECT_EQ(
      json(open.calls[0].input_json),
      json(
          R"({"filePath":"/tmp/job/notes.txt","oldString":"colour = red","newString":"colour = green"})"));
}

TEST(ScriptTest, EndsAfterTheLastTurnAndStaysThere) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  for (const int turn : {2, 3, 9}) {
    const Answer answer = answer_for(script, claude_code(turn), TokenRule(), 100);
    EXPECT_EQ(answer.text, "Done: colour = red is colour = green now.");
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
  view.tools = {view.tools[2]};
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

// What each agent offers, as its requests list it (shortened), and what the steps become there.
TEST(ScriptTest, TheSameTaskIsPlayedWithWhateverIsOffered) {
  struct Row {
    const char* agent;
    OfferedTool first;
    OfferedTool second;
    const char* read;
    const char* edit;
  };
  OfferedTool exec = {"exec", {}, {}};
  exec.freeform = true;
  exec.space = "functions";
  OfferedTool cline_read = {"read_files", {"files"}, {"files"}};
  cline_read.lists = {{"files", {"path", "start_line", "end_line"}}};
  OfferedTool cline_run = {"run_commands", {"commands"}, {"commands"}};
  cline_run.lists = {{"commands", {}}};
  OfferedTool old_codex = {"shell", {"command", "workdir"}, {"command"}};
  old_codex.lists = {{"command", {}}};
  OfferedTool openhands = {"file_editor",
                           {"command", "path", "old_str", "new_str", "security_risk"},
                           {"command", "path", "security_risk"}};
  openhands.choices = {{"command", "view"}, {"security_risk", "LOW"}};
  const OfferedTool none = {"other", {}, {}};
  const Row rows[] = {
      {"Gemini CLI",
       {"read_file", {"file_path"}, {"file_path"}},
       {"replace", {"file_path", "instruction", "old_string", "new_string"}, {"instruction"}},
       R"({"file_path":"/job/notes.txt"})",
       R"({"file_path":"/job/notes.txt","old_string":"colour = red","new_string":"colour = green",)"
       R"("instruction":"A scripted step"})"},
      {"Cline",
       cline_read,
       {"editor", {"path", "old_text", "new_text"}, {"path"}},
       R"({"files":[{"path":"/job/notes.txt"}]})",
       R"({"path":"/job/notes.txt","old_text":"colour = red","new_text":"colour = green"})"},
      {"OpenHands", openhands, none,
       R"({"command":"view","path":"/job/notes.txt","security_risk":"LOW"})",
       R"({"command":"str_replace","path":"/job/notes.txt","old_str":"colour = red",)"
       R"("new_str":"colour = green","security_risk":"LOW"})"},
      {"Goose",
       {"shell", {"command", "timeout_secs"}, {"command"}},
       {"edit", {"path", "before", "after"}, {"path", "before", "after"}},
       R"({"command":"cat '/job/notes.txt'"})",
       R"({"path":"/job/notes.txt","before":"colour = red","after":"colour = green"})"},
      {"Codex with a plain shell",
       {"exec_command", {"cmd", "workdir"}, {"cmd"}},
       none,
       R"({"cmd":"cat '/job/notes.txt'"})",
       R"({"cmd":"sed -i 's/colour = red/colour = green/' '/job/notes.txt'"})"},
      {"Codex with an argv", old_codex, none,
       R"({"command":["bash","-lc","cat '/job/notes.txt'"]})",
       R"({"command":["bash","-lc","sed -i 's/colour = red/colour = green/' '/job/notes.txt'"]})"},
      {"a list of commands", cline_run, none, R"({"commands":["cat '/job/notes.txt'"]})",
       R"({"commands":["sed -i 's/colour = red/colour = green/' '/job/notes.txt'"]})"},
      {"Codex with JavaScript", exec, none,
       "const done = await tools.exec_command({cmd: \"cat '/job/notes.txt'\"});\n"
       "text(done.output);\n",
       "const done = await tools.exec_command({cmd: \"sed -i 's/colour = red/colour = green/' "
       "'/job/notes.txt'\"});\ntext(done.output);\n"},
  };
  const Script script = parse_script(example(), "edit_file.toml").value();
  for (const Row& row : rows) {
    RequestView view = claude_code(0);
    view.working_directory = "/job";
    view.tools = {row.first, row.second};
    const Answer read = answer_for(script, view, TokenRule(), 100);
    view.tool_results = 1;
    view.last_tool_result = "colour = red";
    const Answer edit = answer_for(script, view, TokenRule(), 100);
    ASSERT_EQ(read.calls.size(), 1U) << row.agent << ": " << read.text;
    ASSERT_EQ(edit.calls.size(), 1U) << row.agent << ": " << edit.text;
    EXPECT_EQ(read.calls[0].space, row.first.space);
    if (row.first.freeform) {
      EXPECT_EQ(read.calls[0].text, row.read);
      EXPECT_EQ(edit.calls[0].text, row.edit);
    } else {
      EXPECT_EQ(json(read.calls[0].input_json), json(row.read)) << row.agent;
      EXPECT_EQ(json(edit.calls[0].input_json), json(row.edit)) << row.agent;
    }
  }
}

TEST(ScriptTest, ATaskEndsAsTheAgentWantsIt) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView view = claude_code(2);
  EXPECT_TRUE(answer_for(script, view, TokenRule(), 1).calls.empty());
  view.tools.push_back({"attempt_completion", {"result"}, {"result"}});
  const Answer finish = answer_for(script, view, TokenRule(), 1);
  ASSERT_EQ(finish.calls.size(), 1U);
  EXPECT_EQ(finish.calls[0].name, "attempt_completion");
  // mini-swe-agent waits for a word in the output of a command.
  view.tools = {{"bash", {"command"}, {"command"}}};
  view.all_text = "issue `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT` to finish";
  const Answer mini = answer_for(script, view, TokenRule(), 1);
  ASSERT_EQ(mini.calls.size(), 1U);
  EXPECT_EQ(json(mini.calls[0].input_json),
            json(R"({"command":"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})"));
}

TEST(ScriptTest, AgentsWithoutToolsGetTheTaskAsText) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView aider;
  aider.assistant_turns = 4;  // Examples, as it sends them with every prompt.
  aider.all_text = "Answer with SEARCH/REPLACE blocks.";
  EXPECT_TRUE(answer_for(script, aider, TokenRule(), 1).text.contains("add notes.txt"));
  aider.all_text += "\nnotes.txt\ncolour = red\n";
  EXPECT_TRUE(answer_for(script, aider, TokenRule(), 1)
                  .text.contains("<<<<<<< SEARCH\ncolour = red\n=======\ncolour = green\n"));

  RequestView mini;
  mini.all_text = "```mswea_bash_command ... COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
  EXPECT_TRUE(answer_for(script, mini, TokenRule(), 1).text.contains("cat './notes.txt'"));
  mini.assistant_turns = 1;
  mini.last_tool_result = "colour = red";
  EXPECT_TRUE(answer_for(script, mini, TokenRule(), 1).text.contains("sed -i"));
  mini.assistant_turns = 2;
  EXPECT_TRUE(answer_for(script, mini, TokenRule(), 1).text.contains("echo COMPLETE_TASK"));
}

TEST(ScriptTest, AnAnswerFollowsTheSchemaThatItMust) {
  const Script script = parse_script(example(), "edit_file.toml").value();
  RequestView router;
  router.answer_schema =
      R"({"type":"OBJECT","properties":{"why":{"type":"STRING"},"score":{"type":"INTEGER"},)"
      R"("kind":{"enum":["a","b"]},"parts":{"type":"array"},"deep":{"type":"object","properties":)"
      R"({"yes":{"type":"boolean"}}}}})";
  EXPECT_EQ(
      json(answer_for(script, router, TokenRule(), 1).text),
      json(R"({"why":"A short title","score":10,"kind":"a","parts":[],"deep":{"yes":true}})"));
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
