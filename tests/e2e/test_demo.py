"""`headgate demo`: the promises of the main job, in a third of a minute."""
import json
import signal
import unittest

from hg import BINARY, Case, wait_for

FIELDS = {"calls", "tasks_done", "tasks_lost", "refused_by_provider", "refused_seen_by_agents",
          "refused_by_us", "limit_used"}


class Demo(Case):
    def test_promises_hold_and_the_summary_is_written(self):
        out = self.directory / "build" / "summary.json"
        done = self.headgate("demo", "--seconds", "20", "--out", out, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("told, at 95 %", done.stdout)
        self.assertIn("with gate", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertNotIn("\r", done.stdout)
        summary = json.loads(out.read_text())
        with_gate, without = summary["with_gate"], summary["without_gate"]
        self.assertLessEqual(FIELDS, set(with_gate))
        self.assertLessEqual(FIELDS, set(without))
        self.assertEqual(with_gate["tasks_lost"], 0)
        self.assertEqual(with_gate["refused_seen_by_agents"], 0)
        self.assertEqual(with_gate["tasks_done"], 50)
        self.assertGreaterEqual(with_gate["limit_used"], 0.85)
        self.assertGreater(without["refused_seen_by_agents"], 10)

    def test_ctrl_c_ends_it(self):
        demo = self.start("demo", BINARY, "demo", "--seconds", "60", "--out",
                          self.directory / "summary.json")
        wait_for(lambda: " s  gate:" in demo.out, what="the first line of progress")
        self.assertEqual(demo.end(signal.SIGINT), 128 + signal.SIGINT)
        self.assertIn("interrupted", demo.err)


if __name__ == "__main__":
    unittest.main()
