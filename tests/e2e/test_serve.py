"""`headgate serve`: what it listens on, what it says, what passes through it, how it ends."""
import json
import os
import signal
import stat
import unittest

from hg import (ANTHROPIC_HEADERS, BINARY, OPENAI_HEADERS, Case, anthropic_body, openai_body,
                request, wait_for)


class Serve(Case):
    def test_the_banner_says_what_to_export_and_where_limits_come_from(self):
        daemon = self.start("serve", BINARY, "serve", "--listen", "127.0.0.1:0", "--upstream",
                            "http://127.0.0.1:9", "--set", "pool.main.r_tok=1234")
        wait_for(lambda: "NO_PROXY" in daemon.out, what="the banner")
        url = daemon.out.split(" listens on ")[1].split()[0]
        self.assertIn(f"export ANTHROPIC_BASE_URL={url}\n", daemon.out)
        self.assertIn(f"export OPENAI_BASE_URL={url}/v1\n", daemon.out)
        self.assertIn("1,234 tokens/s", daemon.out)
        self.assertIn("limits from: operator", daemon.out)
        self.assertNotIn("\x1b", daemon.out)

    def test_without_configuration_the_cautious_limits_are_stated(self):
        daemon = self.start("serve", BINARY, "serve", "--listen", "127.0.0.1:0")
        wait_for(lambda: "NO_PROXY" in daemon.out, what="the banner")
        self.assertIn("https://api.anthropic.com", daemon.out)
        self.assertIn("https://api.openai.com", daemon.out)
        self.assertIn("cautious limits", daemon.out)

    def test_only_loopback_unless_told_otherwise(self):
        self.provider()
        self.serve()
        self.assertTrue(self.url.startswith("http://127.0.0.1:"))
        self.assertNotIn("WARNING", self.daemon.err)
        self.daemon.end()
        loud = self.start("loud", BINARY, "serve", "--json", "--listen", "0.0.0.0:0", "--upstream",
                          self.provider_url)
        loud.first_line()
        self.assertIn("WARNING: listening on 0.0.0.0", loud.err)

    def test_the_unix_socket_is_private(self):
        self.provider()
        self.serve()
        self.assertEqual(stat.S_IMODE(os.stat(self.socket_path).st_mode) & 0o077, 0)
        self.assertEqual(stat.S_IMODE(os.stat(self.calls_path).st_mode), 0o600)

    def test_the_listener_only_reads(self):
        self.provider()
        url = self.serve()
        self.assertEqual(request(url + "/_headgate/health").json(), {"status": "ok"})
        self.assertEqual(request(url + "/_headgate/version").json()["pid"],
                         self.daemon.process.pid)
        self.assertEqual(request(url + "/_headgate/totals").json()["calls"], 0)
        for path in ("/_headgate/stop", "/_headgate/upstreams"):
            answer = request(url + path, "POST", '{"url":"http://127.0.0.1:1"}')
            self.assertEqual(answer.status, 404)
            self.assertIn("headgate", answer.json()["error"])
        self.assertEqual(request(url + "/_headgate/nope").status, 404)
        self.assertIsNone(self.daemon.process.poll())

    def test_web_pages_are_refused(self):
        self.provider()
        url = self.serve()
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            for path, method, body in (("/_headgate/pools", "GET", None),
                                       ("/v1/messages", "POST", anthropic_body())):
                answer = request(url + path, method, body, {**ANTHROPIC_HEADERS, **headers})
                self.assertEqual(answer.status, 403, (headers, path))
        self.assertEqual(self.provider_calls(), [])

    def test_both_dialects_pass_streaming_and_not_and_their_usage_is_logged(self):
        self.provider()
        url = self.serve()
        for stream in (False, True):
            answer = request(url + "/harness/claude-code/run/r1/task/t1/v1/messages?beta=true",
                             "POST", anthropic_body(stream=stream), ANTHROPIC_HEADERS)
            self.assertEqual(answer.status, 200, answer)
            self.assertIn(b"message_stop" if stream else b'"usage"', answer.body)
            answer = request(url + "/run/r1/v1/chat/completions", "POST",
                             openai_body(stream=stream), OPENAI_HEADERS)
            self.assertEqual(answer.status, 200, answer)
            self.assertIn(b"[DONE]" if stream else b'"usage"', answer.body)
        calls = wait_for(lambda: len(self.calls()) == 4 and self.calls(), what="four lines")
        given = wait_for(lambda: len(self.provider_calls()) == 4 and self.provider_calls(),
                         what="the provider's four lines")
        for call, account in zip(calls, given):
            self.assertEqual(call["outcome"], "ok")
            self.assertEqual(call["settled_by"], "usage")
            usage = call["usage"]
            self.assertEqual(usage["uncached"] + usage["cached"], account["prompt_tokens"])
            self.assertEqual(usage["cached"], account["cached_tokens"])
            self.assertEqual(usage["output"], account["output_tokens"])
            self.assertEqual(call["run"], "r1")
        totals = request(url + "/_headgate/runs/r1").json()
        self.assertEqual(totals["calls"], 4)
        self.assertEqual(totals["output"], sum(call["output_tokens"] for call in given))
        self.assertEqual(request(url + "/_headgate/runs/other").json()["calls"], 0)
        self.assert_idle()

    def test_what_does_not_generate_passes_free(self):
        self.provider()
        url = self.serve()
        self.assertEqual(request(url + "/v1/models", headers=OPENAI_HEADERS).status, 200)
        counted = request(url + "/v1/messages/count_tokens", "POST", anthropic_body(),
                          ANTHROPIC_HEADERS)
        self.assertEqual(counted.status, 200)
        self.assertIn("input_tokens", counted.json())
        self.assertEqual(self.pools(), [])

    def test_overloads_are_absorbed(self):
        self.provider("--fail", "429:1,529:1,503:1,stream:1")
        url = self.serve("--overload-step", "50ms")
        answer = request(url + "/v1/messages", "POST", anthropic_body(stream=True),
                         ANTHROPIC_HEADERS)
        self.assertEqual(answer.status, 200)
        self.assertIn(b"message_stop", answer.body)
        self.assertNotIn(b"overloaded", answer.body)
        call = wait_for(self.calls, what="the line")[0]
        self.assertEqual((call["outcome"], call["tries"], call["overloads"]), ("ok", 5, 4))
        self.assertEqual(self.account()["refused_total"], 4)
        self.assert_idle()

    def test_an_exhausted_quota_is_passed_on_and_pauses_visibly(self):
        self.provider("--fail", "quota:1")
        url = self.serve()
        answer = request(url + "/v1/chat/completions", "POST", openai_body(), OPENAI_HEADERS)
        self.assertEqual(answer.status, 429)
        self.assertIn("insufficient_quota", answer.body.decode())
        self.assertNotIn("x-headgate-refusal", answer.headers)
        pool = self.pools()[0]
        self.assertGreater(pool["paused_seconds"], 60)
        self.assertIn("paused", self.headgate("pools").stdout)

    def test_an_upstream_that_is_not_there_is_a_clear_502(self):
        self.provider_url = "http://127.0.0.1:9"
        url = self.serve()
        answer = request(url + "/v1/messages", "POST", anthropic_body(), ANTHROPIC_HEADERS)
        self.assertIn(answer.status, (502, 503), answer)
        self.assertIn("Headgate", answer.json()["error"]["message"])
        self.assertEqual(answer.json()["type"], "error")
        self.assert_idle()
        pool = self.pools()[0]
        self.assertGreaterEqual(pool["tokens"], pool["limits"]["c_burst"] - 5)

    def test_a_second_daemon_is_a_clear_error(self):
        self.provider()
        self.serve()
        done = self.headgate("serve", "--listen", "127.0.0.1:0", "--upstream", self.provider_url)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("running already", done.stderr)
        self.assertEqual(request(self.url + "/_headgate/health").status, 200)

    def test_a_taken_port_is_a_clear_error(self):
        self.provider()
        self.serve()
        done = self.headgate("serve", "--listen", f"127.0.0.1:{self.version['port']}",
                             "--upstream", self.provider_url, "--runtime-dir",
                             self.directory / "other")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"127.0.0.1:{self.version['port']}", done.stderr)

    def test_signals_end_it_in_order(self):
        self.provider()
        for how in (signal.SIGTERM, signal.SIGINT):
            self.serve()
            self.assertEqual(self.daemon.end(how), 0)
            self.assertFalse(self.socket_path.exists())

    def test_calls_under_way_end_before_it_does(self):
        self.provider("--pace", "1")
        url = self.serve()
        caller = self.start("caller", "curl", "-sS", "-N", url + "/v1/messages", "-d",
                            anthropic_body(stream=True), "-H", "anthropic-version: 2023-06-01")
        wait_for(lambda: self.pools() and self.pools()[0]["leases"], what="the call under way")
        self.assertEqual(self.daemon.end(), 0)
        self.assertEqual(caller.end(signal.SIGCONT), 0)
        self.assertIn("message_stop", caller.out)

    def test_it_ends_when_idle(self):
        self.provider()
        self.serve("--idle-exit", "600ms")
        self.assertEqual(self.daemon.process.wait(20), 0)
        self.assertFalse(self.socket_path.exists())

    def test_json_of_the_start_is_one_line(self):
        self.provider()
        self.serve()
        self.assertEqual(len(self.daemon.out.splitlines()), 1)
        self.assertEqual(json.loads(self.daemon.out)["upstreams"][0]["url"], self.provider_url)


if __name__ == "__main__":
    unittest.main()
