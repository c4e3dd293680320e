"""Real agent programs complete a real task through `headgate exec`: they read a file, edit it, and
finish, while the provider refuses some calls, while a tight pool holds their calls for tens of
seconds, and while the hold cap sends them away to come back.

They run where there is loopback only, with a home of their own and a key that is none.
"""
import datetime
import json
import os
import unittest

from hg import KEY, ROOT, Case

NAMESPACE = True
BIN = ROOT / "tests" / "e2e" / "harness" / "node_modules" / ".bin"
SCRIPT = ROOT / "tests" / "e2e" / "edit_file.toml"
TASK = "Change the colour red to green in notes.txt."


def moment(call):
    return datetime.datetime.fromisoformat(call["time"].replace("Z", "+00:00")).timestamp()


class Harness(Case):
    """What every program has to do; the classes below say which program it is."""

    name = ""
    program = ""
    harness = ""

    @classmethod
    def setUpClass(cls):
        if not cls.program:
            raise unittest.SkipTest("not a program")
        if not (BIN / cls.program).exists():
            raise unittest.SkipTest(f"{cls.program} is not installed: tools/setup test installs it")

    def setUp(self):
        super().setUp()
        self.work = self.directory / "work"
        self.work.mkdir()
        self.notes = self.work / "notes.txt"
        self.notes.write_text("name = canal\ncolour = red\n")
        self.environment.update({
            "PATH": f"{BIN}:{os.environ['PATH']}", "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY, "HEADGATE_CALL_LOG": str(self.calls_path)})

    def command(self):
        raise NotImplementedError

    def run_task(self, *arguments, timeout=240):
        """The whole task through exec; what it said."""
        done = self.headgate("exec", "--upstream", self.provider_url, *arguments, "--",
                             *self.command(), cwd=self.work, timeout=timeout)
        said = f"{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(self.notes.read_text(), "name = canal\ncolour = green\n", said)
        self.assertNotIn(KEY, done.stderr)
        self.used = done.stderr.strip().splitlines()[-1]
        self.assertTrue(self.used.startswith(f"headgate: {self.harness}: "), said)
        return done

    def check_books(self):
        """Every call is in the log, with the usage that the provider's own log has."""
        answered = [call for call in self.calls() if call["outcome"] == "ok"]
        given = [call for call in self.provider_calls() if call["outcome"] == "accepted"]
        self.assertEqual(len(answered), len(given))
        self.assertEqual(len(answered), 3)
        for call, account in zip(answered, given):
            self.assertEqual(call["settled_by"], "usage")
            self.assertEqual(call["harness"], self.harness)
            self.assertEqual(call["model"], account["model"])
            usage = call["usage"]
            self.assertEqual(usage["uncached"] + usage["cached"], account["prompt_tokens"])
            self.assertEqual(usage["cached"], account["cached_tokens"])
            self.assertEqual(usage["output"], account["output_tokens"])
        self.assertEqual(len({call["session"] for call in answered}), 1)
        self.assertTrue(answered[0]["session"])
        self.assertEqual(self.account()["script_mismatches"], 0)
        pools = json.loads(self.headgate("pools", "--json").stdout)["pools"]
        self.assertTrue(pools)
        for pool in pools:
            self.assertEqual((pool["leases"], pool["waiters"], pool["inflight"]), ([], [], 0))
        for path in (self.calls_path, self.directory / "run" / "serve.log"):
            self.assertNotIn(KEY, path.read_text())

    def tight(self, tokens_per_second):
        """A pool that one call of this program nearly empties."""
        return ("--set", "pool.tight.c_burst=12000", "--set",
                f"pool.tight.r_tok={tokens_per_second}", "--set", "pool.tight.c_req=10",
                "--set", "pool.tight.r_qps=5")

    def test_calls_refused_for_load_are_absorbed(self):
        self.provider("--script", SCRIPT, "--fail", "429:1,529:1,stream@4,503@6,drop@8")
        done = self.run_task("--overload-step", "500ms")
        self.assertEqual([call["status"] for call in self.calls()], [200, 200, 200], self.calls())
        self.assertGreaterEqual(self.account()["refused_total"], 4)
        self.assertIn("refusals absorbed", self.used)
        self.assertNotIn("overloaded", done.stdout.lower())
        self.check_books()

    def test_calls_are_held_for_tens_of_seconds(self):
        self.provider("--script", SCRIPT)
        self.run_task(*self.tight(self.held_rate))
        calls = self.calls()
        self.assertEqual([call["status"] for call in calls], [200, 200, 200])
        self.assertGreater(max(call["waited_ms"] for call in calls), 15_000)
        self.assertEqual(self.account()["refused_total"], 0)
        self.check_books()

    def test_the_hold_cap_answers_and_the_program_comes_back_as_told(self):
        self.provider("--script", SCRIPT)
        self.run_task("--hold-cap-max", "3s", *self.tight(self.cap_rate))
        calls = self.calls()
        refused = [call for call in calls if call["outcome"] == "refused_by_us"]
        self.assertTrue(refused)
        for call in refused:
            self.assertEqual(call["status"], 429)
            later = [other for other in calls if moment(other) > moment(call)]
            self.assertTrue(later, "it did not come back")
            # Told to come back after 30 s, which counts from the answer.
            answered_at = moment(call) + call["total_ms"] / 1000
            self.assertGreaterEqual(moment(later[0]), answered_at + 29.5)
        self.assertEqual(self.account()["refused_total"], 0)
        self.assertIn("told to come back", self.used)
        self.check_books()


class ClaudeCode(Harness):
    program = "claude"
    harness = "claude-code"
    held_rate = 450  # Prompts of 11,000 tokens: some 22 s apart.
    cap_rate = 330   # Some 30 s: one refusal each.

    def command(self):
        return ("claude", "-p", TASK, "--dangerously-skip-permissions")


class OpenCode(Harness):
    program = "opencode"
    harness = "opencode"
    held_rate = 160  # Prompts of 7,000 tokens, against what is left of 12,000.
    cap_rate = 150

    def command(self):
        # A title keeps it from asking for one.
        return ("opencode", "run", "--title", "x", "-m", "anthropic/claude-haiku-4-5", TASK)


class OpenCodeChat(OpenCode):
    """The same over Chat Completions, by a provider of the user's own that reads HEADGATE_URL."""

    def setUp(self):
        super().setUp()
        config = self.directory / "home" / ".config" / "opencode" / "opencode.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"provider": {"mine": {
            "npm": "@ai-sdk/openai-compatible", "name": "mine",
            "options": {"baseURL": "{env:HEADGATE_URL}/v1", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"emulated-1": {"name": "emulated-1"}}}}}))

    def command(self):
        return ("opencode", "run", "--title", "x", "-m", "mine/emulated-1", TASK)

    test_calls_are_held_for_tens_of_seconds = None
    test_the_hold_cap_answers_and_the_program_comes_back_as_told = None


if __name__ == "__main__":
    unittest.main()
