"""`headgate pools`: limits, levels and the queue, for people and for programs."""
import json
import threading
import unittest

from hg import ANTHROPIC_HEADERS, Case, anthropic_body, request, wait_for


class Pools(Case):
    def test_no_daemon_is_a_clear_error(self):
        done = self.headgate("pools")
        self.assertEqual(done.returncode, 1)
        self.assertIn("headgate serve starts one", done.stderr)

    def test_no_pools_yet(self):
        self.provider()
        self.serve()
        done = self.headgate("pools")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no pools yet", done.stdout)
        self.assertEqual(json.loads(self.headgate("pools", "--json").stdout), {"pools": []})

    def test_waiters_show_with_place_size_and_wait(self):
        self.provider()
        self.serve("--set", "pool.main.c_burst=1000", "--set", "pool.main.r_tok=300", "--set",
                   "pool.main.k_inflight=50000")
        def call(size):
            request(self.url + "/harness/claude-code/v1/messages", "POST",
                    anthropic_body("x" * size), ANTHROPIC_HEADERS)
        call(4890)
        threads = [threading.Thread(target=call, args=(4890 + index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(self.pools()[0]["waiters"]) >= 2, what="two waiters")
        done = self.headgate("pools")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("waiting in main:", done.stdout)
        self.assertIn("operator", done.stdout)
        self.assertIn("claude-code", done.stdout)
        pool = json.loads(self.headgate("pools", "--json").stdout)["pools"][0]
        self.assertEqual(pool["limits"]["r_tok"], 300)
        self.assertEqual([waiter["place"] for waiter in pool["waiters"]],
                         list(range(len(pool["waiters"]))))
        for waiter in pool["waiters"]:
            self.assertGreater(waiter["charge"], 500)
            self.assertGreater(waiter["predicted_seconds"], 0)
        for question in ("pools", "totals"):
            body = self.control(f"/_headgate/{question}").body.decode()
            self.assertNotRegex(body, r"[0-9]E[-+]?[0-9]")
        screen = self.on_a_terminal("pools", columns=80)
        self.assertIn("main", screen)
        self.assertEqual([line for line in screen.splitlines() if len(line) > 80], [])
        for thread in threads:
            thread.join()
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
