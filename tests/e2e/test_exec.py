"""`headgate exec`: status, signals, variables, a daemon joined or started, one line of use."""
import http.server
import json
import os
import signal
import socket
import socketserver
import threading
import unittest

from hg import BINARY, KEY, Case, anthropic_body, wait_for

CALL = ("curl -s -H 'x-api-key: k' -H 'anthropic-version: 2023-06-01' "
        "$ANTHROPIC_BASE_URL/v1/messages -d '" + anthropic_body() + "' >/dev/null")


class Exec(Case):
    def setUp(self):
        super().setUp()
        self.provider()

    def exec(self, *command, arguments=(), **options):
        return self.headgate("exec", "--upstream", self.provider_url, "--call-log", self.calls_path,
                             *arguments, "--", *command, **options)

    def test_the_status_is_the_programs_own(self):
        for status in (0, 1, 3, 125):
            self.assertEqual(self.exec("sh", "-c", f"exit {status}").returncode, status)
        self.assertEqual(self.exec("sh", "-c", "kill -9 $$").returncode, 128 + 9)
        self.assertEqual(self.exec("sh", "-c", "kill -TERM $$").returncode, 128 + 15)

    def test_input_and_output_pass_through(self):
        done = self.exec("cat", stdin="hello\n")
        self.assertEqual(done.stdout, "hello\n")

    def test_a_program_that_is_not_there_is_127(self):
        done = self.exec("no-such-agent")
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stderr, "headgate: no-such-agent: not found in PATH\n")
        self.assertEqual(self.exec("/no/such/agent").returncode, 127)

    def test_a_program_that_cannot_run_is_126(self):
        plain = self.directory / "plain"
        plain.write_text("no program")
        self.assertEqual(self.exec(plain).returncode, 126)
        plain.chmod(0o700)  # Executable, but neither a binary nor a script.
        self.assertEqual(self.exec(plain).returncode, 126)

    def test_failures_of_its_own_are_125(self):
        self.assertEqual(self.exec("true", arguments=("--harness", "nope")).returncode, 125)
        self.assertEqual(self.exec("true", arguments=("--pool", "a/b")).returncode, 125)
        done = self.headgate("exec", "--set", "pool.main.r_tok=0", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("tokens a second", done.stderr)

    def test_one_line_says_what_was_used(self):
        done = self.exec("sh", "-c", f"{CALL}; {CALL}")
        self.assertEqual(done.returncode, 0)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        given = self.provider_calls()
        self.assertEqual(len(given), 2)
        output = sum(call["output_tokens"] for call in given)
        prompt = sum(call["prompt_tokens"] for call in given)
        self.assertRegex(lines[0], rf"^headgate: custom: 2 calls, {prompt} tokens in \(0 cached\), "
                                   rf"{output} out, waited .*, 0 refusals absorbed$")
        self.assertEqual(self.exec("true", arguments=("--quiet",)).stderr, "")

    def test_variables_point_at_the_shim_and_past_proxies(self):
        done = self.exec("env", arguments=("--harness", "claude-code", "--run", "r7", "--task",
                                           "t9", "--quiet"),
                         environment={"NO_PROXY": "corp.example", "ANTHROPIC_API_KEY": KEY})
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        version = self.control("/_headgate/version").json()
        self.assertTrue(seen["ANTHROPIC_BASE_URL"].startswith(version["base_url"] + "/upstream/"))
        self.assertTrue(seen["ANTHROPIC_BASE_URL"].endswith("/harness/claude-code/run/r7/task/t9"))
        self.assertEqual(seen["HEADGATE_URL"], seen["ANTHROPIC_BASE_URL"])
        self.assertEqual(seen["NO_PROXY"], "corp.example,127.0.0.1,localhost,::1")
        self.assertEqual(seen["no_proxy"], "127.0.0.1,localhost,::1")
        self.assertEqual(seen["ANTHROPIC_API_KEY"], KEY)

    def test_the_harness_is_told_by_the_programs_name(self):
        for name, harness in (("claude", "claude-code"), ("opencode", "opencode"),
                              ("something", "custom")):
            program = self.directory / name
            program.write_text("#!/bin/sh\necho $HEADGATE_URL\n")
            program.chmod(0o700)
            self.assertIn(f"/harness/{harness}/", self.exec(program).stdout)

    def test_no_file_of_the_user_is_touched(self):
        home = self.directory / "home"
        (home / ".claude.json").write_text("mine")
        before = sorted(str(path) for path in home.rglob("*"))
        self.exec("sh", "-c", CALL, arguments=("--harness", "opencode"))
        self.assertEqual(sorted(str(path) for path in home.rglob("*")), before)
        self.assertEqual([path.name for path in (self.directory / "run").glob("run-*")], [])

    def test_signals_are_passed_on(self):
        ready = self.directory / "ready"
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            ready.unlink(missing_ok=True)
            program = self.start("signal", BINARY, "exec", "--upstream", self.provider_url,
                                 "--call-log", self.calls_path, "--", "python3", "-c",
                                 "import signal, sys, pathlib, time\n"
                                 f"signal.signal({int(how)}, lambda *_: sys.exit(40))\n"
                                 f"pathlib.Path({str(ready)!r}).touch()\n"
                                 "time.sleep(100)")
            wait_for(ready.exists, what="the program")
            self.assertEqual(program.end(how), 40)

    def test_runs_share_one_daemon_and_it_outlives_none(self):
        programs = [self.start(f"run{index}", BINARY, "exec", "--upstream", self.provider_url,
                               "--call-log", self.calls_path, "--idle-exit", "1s", "--", "sh",
                               "-c", CALL + "; sleep 2") for index in range(5)]
        wait_for(lambda: len(self.calls()) == 5, what="five calls")
        pid = self.control("/_headgate/version").json()["pid"]
        for program in programs:
            self.assertEqual(program.end(signal.SIGCONT), 0, program.err)
            self.assertIn("1 call,", program.err)
        self.assertEqual(len({call["run"] for call in self.calls()}), 5)
        # Idle for a second although programs slept for two: their runs kept it.
        wait_for(lambda: self.is_zombie(pid), what="the end of the idle daemon")

    def test_a_run_joins_a_daemon_that_was_started_by_hand(self):
        self.serve("--set", "pool.mine.r_tok=777")
        done = self.headgate("exec", "--", "sh", "-c", CALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        call = wait_for(self.calls, what="the call")[0]
        self.assertEqual((call["upstream"], call["pool"]), ("main", "mine"))

    def test_another_upstream_is_registered_with_the_daemon(self):
        self.serve()
        first = self.provider_url
        self.provider_log = self.directory / "second.jsonl"
        second = self.provider()
        self.assertNotEqual(first, second)
        done = self.headgate("exec", "--upstream", second, "--", "sh", "-c", CALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.provider_calls()), 1)

    def test_another_configuration_is_a_clear_error(self):
        self.serve("--set", "pool.mine.r_tok=777")
        done = self.headgate("exec", "--upstream", self.provider_url, "--set",
                             "pool.mine.r_tok=778", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("another configuration", done.stderr)
        self.assertIn(str(self.daemon.process.pid), done.stderr)

    def test_another_version_is_a_clear_error(self):
        class Old(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"version": "0.0.1", "pid": 1}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

            def address_string(self):
                return "unix"

        with socketserver.ThreadingUnixStreamServer(str(self.socket_path), Old) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            done = self.headgate("exec", "--", "true")
            server.shutdown()
        os.unlink(self.socket_path)
        self.assertEqual(done.returncode, 125)
        self.assertIn("is headgate 0.0.1", done.stderr)

    def test_a_daemon_that_cannot_start_says_why(self):
        profiles = self.directory / "profiles"
        profiles.mkdir()
        done = self.headgate("exec", "--upstream", self.provider_url, "--call-log",
                             "/proc/nowhere/calls", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("/proc/nowhere", done.stderr)

    def test_a_pool_is_forced_by_name_and_an_unknown_one_is_refused(self):
        arguments = ("--set", "pool.mine.r_tok=777", "--set", "pool.mine.path_only=true")
        done = self.exec("sh", "-c", CALL, arguments=(*arguments, "--pool", "mine"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.exec("sh", "-c", CALL, arguments=arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = wait_for(lambda: len(self.calls()) == 2 and self.calls(), what="two calls")
        self.assertEqual(calls[0]["pool"], "mine")
        self.assertNotEqual(calls[1]["pool"], "mine")
        done = self.exec("true", arguments=(*arguments, "--pool", "mime"))
        self.assertEqual(done.returncode, 125)
        self.assertIn("allowed are: mine", done.stderr)

    def test_dashes_may_be_left_out(self):
        done = self.headgate("exec", "--upstream", self.provider_url, "--quiet", "echo", "-n",
                             "--x")
        self.assertEqual((done.returncode, done.stdout), (0, "--x"))

    def test_a_stale_socket_is_replaced(self):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(self.socket_path))
        self.assertEqual(self.exec("true").returncode, 0)


if __name__ == "__main__":
    unittest.main()
