"""`headgate doctor` against what can be wrong: it is found, named, and met with its own mend, in
time, and no key is shown.
"""
import contextlib
import datetime
import http.server
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest

from hg import BINARY, ROOT, Case

# Planted wherever a key can stand; none of it may ever be printed.
SECRET = "SECRETxPLANTED"
CODES = 1  # The exit status when there is a problem.


class Web:
    """A server on a port of its own that answers a list of models; `date_off` seconds are added to
    its Date, `tls` is a pair of files."""

    def __init__(self, date_off=0, tls=None, status=200, silent=False):
        outer = self
        self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def date_time_string(self, timestamp=None):
                return super().date_time_string(time.time() + date_off)

            def do_GET(self):
                outer.heard.append((self.command, self.path, dict(self.headers)))
                body = json.dumps({"data": [{"id": "model-mini"}]}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, tls))
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Doctor(Case):
    def setUp(self):
        super().setUp()
        # Only what a test puts there is found.
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self.environment["PATH"] = f"{self.bin}:/usr/bin:/bin"
        self.environment["HEADGATE_LISTEN"] = "127.0.0.1:0"

    def web(self, **how):
        server = Web(**how)
        self.addCleanup(server.close)
        return server

    def doctor(self, *arguments, environment=None, status=None, timeout=30):
        """The report; everything that was said is free of planted keys."""
        began = time.monotonic()
        done = self.headgate("doctor", "--json", *arguments, environment=environment,
                             timeout=timeout)
        self.took = time.monotonic() - began
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        report = json.loads(done.stdout)
        problems = [one for one in report["findings"] if one["level"] == "problem"]
        self.assertEqual(done.returncode, CODES if problems else 0)
        self.assertEqual(report["summary"]["problems"], len(problems))
        if status is not None:
            self.assertEqual(done.returncode, status, problems)
        for one in report["findings"]:
            self.assertEqual(one["mend"] == "", one["level"] == "ok", one)
        self.findings = report["findings"]
        return self.findings

    def the(self, check):
        found = [one for one in self.findings if one["check"] == check]
        self.assertEqual(len(found), 1, f"{check}: {self.findings}")
        return found[0]

    def checks(self, level):
        return sorted(one["check"] for one in self.findings if one["level"] == level)

    # ---- A sound machine ---------------------------------------------------------------------

    def test_a_sound_setup_has_no_problem_and_no_warning(self):
        self.provider()
        self.doctor("--upstream", self.provider_url, status=0)
        self.assertEqual(self.checks("warning"), [])
        for check in ("config.read", "upstream.connect", "upstream.answers", "clock.wall",
                      "gate.same", "addresses.unset", "machine.runtime_dir", "machine.daemon",
                      "machine.files", "machine.call_log", "clock.monotonic", "programs.missing"):
            self.assertEqual(self.the(check)["level"], "ok")
        self.assertEqual(self.provider_calls(), [], "nothing that costs was asked for")
        self.assertEqual(self.account()["calls"], 0)
        self.assertFalse((self.directory / "home" / ".local").exists(), "nothing was made")

    def test_calls_are_made_only_when_asked_for(self):
        self.provider()
        self.doctor("--upstream", self.provider_url, "--set", "upstream.main.profile=emulated",
                    "--call", status=0)
        same = [one for one in self.findings if one["check"] == "call.same"]
        self.assertEqual(len(same), 4, self.findings)
        self.assertEqual(self.account()["accepted"], 8)
        self.assertTrue(all(call["output_tokens"] <= 16 for call in self.provider_calls()))

    def test_people_get_a_report_that_fits_and_has_no_colours_in_a_pipe(self):
        self.provider()
        environment = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com/v1/"}
        done = self.headgate("doctor", "--upstream", self.provider_url, environment=environment)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])
        self.assertIn("  warning  ANTHROPIC_BASE_URL", done.stdout)
        self.assertIn("mend: ", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^0 problems, 2 warnings, \d+ ok in ")
        screen = self.on_a_terminal("doctor", "--upstream", self.provider_url, columns=60)
        # Only what cannot be broken is longer.
        self.assertEqual([line for line in screen.splitlines()
                          if len(line) > 60 and " " in line.strip()], [])
        self.assertNotIn("waiting for", screen, "the line of progress is erased")

    def test_every_finding_stands_in_the_documentation(self):
        known = (ROOT / "docs" / "doctor.md").read_text()
        found = set()
        for source in (ROOT / "src" / "cli").glob("doctor*.cc"):
            if not source.name.endswith("_test.cc"):
                found |= set(re.findall(
                    r'(?:fine|warning|problem)\(\s*"([a-z]+\.[a-z_0-9]+)"', source.read_text()))
        self.assertGreater(len(found), 50)
        self.assertEqual([check for check in sorted(found) if f"`{check}`" not in known], [])

    # ---- Configuration -----------------------------------------------------------------------

    def test_a_broken_configuration_is_said_as_serve_says_it_and_the_rest_goes_on(self):
        path = self.directory / "headgate.toml"
        path.write_text("[pool.main]\nr_tokk = 5\n")
        self.doctor("--config", path, status=CODES)
        seen = self.the("config.invalid")["seen"]
        served = self.headgate("serve", "--config", path).stderr
        self.assertEqual(f"headgate: {seen}\n", served)
        self.the("machine.runtime_dir")

    def test_an_unknown_variable_and_a_file_of_another_user_are_notes(self):
        self.doctor("--offline", environment={"HEADGATE_HOLD_CAPP": "5s"}, status=0)
        self.assertIn("HEADGATE_HOLD_CAPP", self.the("config.note")["seen"])

    def test_an_open_listener_is_warned_of_at_its_place(self):
        self.doctor("--offline", "--listen", "0.0.0.0:0", status=0)
        self.assertIn("--listen", self.the("config.open_listener")["seen"])

    # ---- Upstreams ---------------------------------------------------------------------------

    def certificate(self, name, *arguments, authority=None):
        """Made by openssl: key and certificate, by itself or by an authority of ours."""
        key, pem = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", pem, "-subj",
                   f"/CN={name}", *arguments]
        if authority:
            command += ["-CA", authority[0], "-CAkey", authority[1]]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        return pem, key

    def tls(self, certificate, *arguments, environment=None):
        server = self.web(tls=certificate)
        self.doctor("--upstream", f"https://localhost:{server.port}", *arguments,
                    environment=environment)
        return server

    def test_a_certificate_that_signs_itself_is_met_with_ca_file(self):
        pair = self.certificate("localhost", "-addext", "subjectAltName=DNS:localhost")
        self.tls(pair)
        self.assertEqual(self.checks("problem"), ["tls.unknown_authority"])
        self.assertIn("ca_file", self.the("tls.unknown_authority")["mend"])
        # And its mend mends it.
        self.tls(pair, "--ca-file", pair[0])
        self.assertEqual(self.checks("problem"), [])
        self.assertIn("issued by localhost", self.the("tls.valid")["seen"])
        self.the("gate.same")

    def test_a_private_authority_and_a_wrong_name_are_two_things(self):
        authority = self.certificate("Private CA")
        pair = self.certificate("other.example", "-addext", "subjectAltName=DNS:other.example",
                                authority=authority)
        self.tls(pair)
        self.assertEqual(self.checks("problem"), ["tls.unknown_authority", "tls.wrong_name"])
        self.assertIn("issued by Private CA", self.the("tls.unknown_authority")["seen"])
        self.assertIn("other.example", self.the("tls.wrong_name")["seen"])
        self.tls(pair, "--ca-file", authority[0])
        self.assertEqual(self.checks("problem"), ["tls.wrong_name"])

    def test_an_expired_certificate_is_told_with_its_day(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        past = now - datetime.timedelta(days=30, hours=1)
        pair = self.certificate("localhost")
        # Only `openssl ca` takes an end in the past.
        folder = self.directory / "ca"
        folder.mkdir()
        (folder / "index").touch()
        (folder / "serial").write_text("01\n")
        (folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca = a\n[a]\ndatabase = {folder}/index\nserial = {folder}/serial\n"
            f"new_certs_dir = {folder}\ndefault_md = sha256\npolicy = p\nx509_extensions = x\n"
            "[p]\ncommonName = supplied\n[x]\nsubjectAltName = DNS:localhost\n")
        request, expired = folder / "localhost.csr", folder / "expired.pem"
        for command in (["req", "-new", "-key", pair[1], "-subj", "/CN=localhost", "-out", request],
                        ["ca", "-batch", "-selfsign", "-config", folder / "ca.cnf", "-keyfile",
                         pair[1], "-in", request, "-out", expired, "-startdate",
                         "20200101000000Z", "-enddate", past.strftime("%Y%m%d%H%M%SZ")]):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        self.tls((expired, pair[1]), "--ca-file", expired)
        self.assertEqual(self.checks("problem"), ["tls.expired"])
        self.assertIn(past.strftime("%Y-%m-%d"), self.the("tls.expired")["seen"])
        self.assertIn("30 days ago", self.the("tls.expired")["seen"])

    def test_a_certificate_that_ends_soon_is_a_warning(self):
        pair = self.certificate("localhost", "-addext", "subjectAltName=DNS:localhost", "-days",
                                "5")
        self.tls(pair, "--ca-file", pair[0])
        self.assertEqual(self.checks("problem"), [])
        self.assertEqual(self.the("tls.ends_soon")["level"], "warning")

    def test_a_ca_file_that_is_none_is_named(self):
        pair = self.certificate("localhost")
        self.tls(pair, "--ca-file", pair[1])
        self.assertIn("localhost.key", self.the("tls.ca_file")["seen"])

    def test_a_server_without_tls_and_a_socket_that_never_answers(self):
        plain = self.web()
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        path = self.directory / "headgate.toml"
        path.write_text(
            f'[upstream.plain]\nurl = "https://127.0.0.1:{plain.port}"\n'
            f'[upstream.silent]\nurl = "http://127.0.0.1:{silent.getsockname()[1]}"\n'
            f'[upstream.silent-tls]\nurl = "https://127.0.0.1:{silent.getsockname()[1]}"\n'
            '[upstream.gone]\nurl = "http://127.0.0.1:1"\n'
            '[upstream.nameless]\nurl = "http://nobody.invalid"\n')
        self.doctor("--config", path, "--timeout", "0.5", status=CODES)
        problems = {(one["about"].split()[1], one["check"]) for one in self.findings
                    if one["level"] == "problem"}
        self.assertEqual(problems, {("plain", "tls.handshake"), ("silent", "upstream.silent"),
                                    ("silent-tls", "tls.handshake"), ("gone", "upstream.connect"),
                                    ("nameless", "upstream.name")})
        self.assertLess(self.took, 10, "they are looked at side by side")

    def test_the_whole_ends_in_time_whatever_hangs(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        port = silent.getsockname()[1]
        path = self.directory / "headgate.toml"
        path.write_text("".join(f'[upstream.u{n}]\nurl = "http://127.0.0.1:{port}"\n'
                                for n in range(8)))
        agent = self.bin / "claude"
        agent.write_text("#!/bin/sh\nexec sleep 600\n")
        agent.chmod(0o755)
        self.doctor("--config", path, "--timeout", "10", status=CODES,
                    environment={"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"})
        self.assertLess(self.took, 13)
        self.the("programs.silent")

    def test_a_date_that_is_an_hour_off_is_warned_of(self):
        for off, words in ((3600, "m .* behind its Date"), (-3600, "m .* ahead of its Date")):
            server = self.web(date_off=off)
            self.doctor("--upstream", f"http://127.0.0.1:{server.port}", status=0)
            self.assertEqual(self.the("clock.wall")["level"], "warning")
            self.assertRegex(self.the("clock.wall")["seen"], f"(59|60) {words}")

    def test_statuses_mean_what_they_mean(self):
        for status, check, level in ((404, "upstream.no_models", "warning"),
                                     (503, "upstream.fails", "warning"),
                                     (429, "upstream.busy", "warning"),
                                     (401, "upstream.answers", "ok")):
            server = self.web(status=status)
            self.doctor("--upstream", f"http://127.0.0.1:{server.port}", status=0)
            self.assertEqual(self.the(check)["level"], level)

    def test_a_gate_as_its_own_upstream_is_told(self):
        self.provider()
        self.serve()
        self.doctor("--upstream", self.url)
        self.assertEqual(self.the("upstream.is_gate")["level"], "warning")

    def test_a_proxy_that_is_down_or_refuses_is_not_the_upstream(self):
        refusing = self.web(status=403)
        for port, check in ((1, "upstream.connect"), (refusing.port, "upstream.tunnel")):
            self.doctor("--upstream", "https://api.example.com", status=CODES, environment={
                "HTTPS_PROXY": f"http://me:{SECRET}@127.0.0.1:{port}", "NO_PROXY": "localhost"})
            self.assertIn("proxy", self.the(check)["seen"])
            self.assertIn("127.0.0.1", self.the("addresses.proxy_takes_loopback")["seen"])

    # ---- Keys --------------------------------------------------------------------------------

    def test_a_key_goes_to_its_own_provider_and_nowhere_else(self):
        server = self.web()
        url = f"http://127.0.0.1:{server.port}"
        key = f"sk-ant-{SECRET}"
        environment = {"ANTHROPIC_API_KEY": key, "OPENAI_API_KEY": f"sk-proj-{SECRET}"}
        self.doctor("--upstream", url, environment=environment)
        self.assertTrue(server.heard)
        self.assertNotIn(SECRET, str(server.heard), "nobody knows whose this upstream is")
        server.heard.clear()
        self.doctor("--upstream", url, "--set", "upstream.main.profile=anthropic",
                    environment=environment, status=0)
        self.assertEqual({fields.get("x-api-key") for _, path, fields in server.heard
                          if path == "/v1/models"}, {key})
        self.assertNotIn("sk-proj", str(server.heard))
        self.assertIn("ANTHROPIC_API_KEY", self.the("keys.present")["seen"])

    def test_a_key_that_is_refused_is_named_by_its_variable(self):
        server = self.web(status=401)
        self.doctor("--upstream", f"http://127.0.0.1:{server.port}", "--set",
                    "upstream.main.profile=anthropic", status=CODES,
                    environment={"ANTHROPIC_AUTH_TOKEN": f"sk-ant-{SECRET}"})
        self.assertIn("ANTHROPIC_AUTH_TOKEN", self.the("keys.refused")["seen"])
        self.assertIn("authorization", {name.lower() for _, _, fields in server.heard
                                        for name in fields})

    def test_mistakes_of_keys_are_found_and_no_key_is_shown(self):
        rows = {"quoted": (f'"sk-ant-{SECRET}"', "keys.malformed"),
                "line break": (f"sk-ant-{SECRET}\n", "keys.malformed"),
                "blank": (f" sk-ant-{SECRET}", "keys.malformed"),
                "another's": (f"sk-proj-{SECRET}", "keys.of_another"),
                "empty": ("", "keys.empty"),
                "placeholder": ("sk-ant-...", "keys.malformed")}
        for why, (key, check) in rows.items():
            with self.subTest(why):
                self.doctor("--offline", environment={"ANTHROPIC_API_KEY": key})
                self.assertIn("ANTHROPIC_API_KEY", self.the(check)["seen"])
        self.doctor("--offline", environment={"ANTHROPIC_API_KEY": f"sk-ant-{SECRET}1",
                                              "ANTHROPIC_AUTH_TOKEN": f"sk-ant-{SECRET}2"})
        self.the("keys.contradict")

    def test_keys_in_every_wrong_place_are_never_shown(self):
        path = self.directory / "home" / "headgate.toml"
        path.write_text(f'[upstream.x]\nurl = "https://me:{SECRET}@host"\n')
        settings = self.directory / "home" / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps(
            {"env": {"ANTHROPIC_BASE_URL": f"https://host.example/?key={SECRET}"}}))
        environment = {"ANTHROPIC_BASE_URL": f"sk-ant-{SECRET}",
                       "OPENAI_BASE_URL": f"https://me:{SECRET}@host.example/v1",
                       "OPENAI_API_BASE": f"https://host.example/v1?key={SECRET}",
                       "HTTPS_PROXY": f"socks5://me:{SECRET}@127.0.0.1:1",
                       "OPENAI_API_KEY": f"'sk-{SECRET}'", "GROQ_API_KEY": f"gsk_{SECRET} ",
                       "HEADGATE_UPSTREAM_Y_URL": f"ftp://{SECRET}"}
        self.doctor("--offline", environment=environment, status=CODES)
        self.doctor("--offline", "--upstream", f"https://127.0.0.1:1/{SECRET}?x={SECRET}",
                    environment={})
        done = self.headgate("doctor", environment=environment)
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        screen = self.on_a_terminal("doctor", environment=environment)
        self.assertNotIn(SECRET, screen)

    # ---- Addresses ---------------------------------------------------------------------------

    def test_base_urls_are_followed_to_whoever_answers(self):
        self.provider()
        self.serve()
        other = self.web()
        rows = ((f"{self.url}/v1", "addresses.gate", "ok"),
                (f"http://127.0.0.1:{other.port}/v1", "addresses.elsewhere", "warning"),
                ("http://127.0.0.1:1/v1", "addresses.nobody", "problem"),
                (f"{self.url}/v1/v1", "addresses.double_v1", "problem"),
                ("https://api.openai.com/v1", "addresses.direct", "warning"))
        for url, check, level in rows:
            with self.subTest(url):
                self.doctor("--offline", environment={"OPENAI_BASE_URL": url})
                self.assertEqual(self.the(check)["level"], level)
        self.assertIn(f"export OPENAI_BASE_URL={self.url}/v1",
                      self.the("addresses.direct")["mend"])

    def test_settings_files_that_beat_the_environment_are_found(self):
        home = self.directory / "home"
        (home / ".claude").mkdir()
        (home / ".claude" / "settings.json").write_text(
            '{"env": {"ANTHROPIC_BASE_URL": "https://llm.example.com"}}')
        # The home is where this runs: the same file by two names is one.
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(
            '[model_providers.mine]\nbase_url = "https://llm.example.com/v1"\n')
        self.doctor("--offline", status=0)
        seen = " ".join(one["seen"] for one in self.findings
                        if one["check"] == "addresses.settings_override")
        self.assertEqual(seen.count("env.ANTHROPIC_BASE_URL in"), 1)
        self.assertIn("model_providers.mine.base_url in", seen)

    # ---- Programs ----------------------------------------------------------------------------

    def test_programs_are_asked_for_their_versions_side_by_side(self):
        for name, says in (("claude", "echo '2.1.332 (Claude Code)'"), ("codex", "echo codex 9.0"),
                           ("opencode", "exec sleep 600"), ("gemini", "sleep 600 & echo 0.61.1")):
            program = self.bin / name
            program.write_text(f"#!/bin/sh\n{says}\n")
            program.chmod(0o755)
        self.doctor("--offline", "--timeout", "1", status=0)
        self.assertLess(self.took, 5)
        seen = {one["seen"].split()[0]: one for one in self.findings
                if one["check"].startswith("programs.")}
        self.assertIn("with which its numbers were measured", seen["claude-code"]["seen"])
        self.assertEqual(seen["codex"]["level"], "warning")
        self.assertEqual(seen["opencode"]["check"], "programs.silent")
        self.assertEqual(seen["gemini-cli"]["level"], "ok")
        self.assertIn("aider", self.the("programs.missing")["seen"])

    # ---- The machine -------------------------------------------------------------------------

    def test_the_daemon_of_this_user_is_recognised(self):
        self.provider()
        self.serve()
        self.doctor("--upstream", self.provider_url, status=0)
        self.assertIn(str(self.version["pid"]), self.the("machine.daemon")["seen"])

    def test_a_port_that_is_taken_is_told_with_its_owner(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]
            self.doctor("--offline", "--listen", f"127.0.0.1:{port}", "--timeout", "0.3",
                        status=CODES)
            self.assertRegex(self.the("machine.port_taken")["seen"], r"process \d+ \(python")
        self.doctor("--offline", "--listen", f"127.0.0.1:{port}", status=0)
        self.assertIn("is free", self.the("machine.port")["seen"])

    def test_another_gate_on_the_port_is_told_with_its_version(self):
        self.provider()
        self.serve()
        elsewhere = self.directory / "elsewhere"
        self.doctor("--offline", "--listen", f"127.0.0.1:{self.version['port']}", "--runtime-dir",
                    elsewhere, status=CODES)
        self.assertIn(f"headgate {self.version['version']}", self.the("machine.port_taken")["seen"])
        self.assertFalse(elsewhere.exists(), "nothing was made")

    def test_a_runtime_directory_that_is_open_or_a_file_is_a_problem(self):
        run = self.directory / "run"
        run.chmod(0o755)
        self.doctor("--offline", status=CODES)
        self.assertEqual(self.the("machine.runtime_dir")["mend"], f"chmod 700 {run}")
        run.chmod(0o700)
        shutil.rmtree(run)
        pathlib.Path(run).write_text("")
        self.doctor("--offline", status=CODES)
        self.assertIn("no directory", self.the("machine.runtime_dir")["seen"])

    def test_a_socket_without_a_daemon_and_one_that_is_silent(self):
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(self.socket_path))
        left.close()
        self.doctor("--offline", status=0)
        self.assertEqual(self.the("machine.stale_socket")["level"], "warning")
        self.socket_path.unlink()
        silent = socket.socket(socket.AF_UNIX)
        silent.bind(str(self.socket_path))
        silent.listen()
        self.doctor("--offline", "--timeout", "0.3", status=CODES)
        self.the("machine.daemon_silent")
        silent.close()
        self.socket_path.unlink()

    def test_few_files_are_warned_of_and_a_daemon_takes_what_it_may(self):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -n 2000; exec "$@"', "-", BINARY, "doctor", "--offline",
             "--json"], capture_output=True, text=True, env=self.environment, check=False,
            cwd=self.directory / "home")
        self.findings = json.loads(done.stdout)["findings"]
        self.assertEqual(self.the("machine.files")["level"], "warning")
        self.provider()
        self.start("serve", "bash", "-c", 'ulimit -Sn 500; ulimit -Hn 3000; exec "$@"', "-",
                   BINARY, "serve", "--json", "--upstream", self.provider_url).first_line()
        pid = self.control("/_headgate/version").json()["pid"]
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        self.assertRegex(limits, r"Max open files\s+3000\s+3000")

    def test_a_call_log_that_cannot_be_is_a_problem(self):
        self.doctor("--offline", "--call-log", self.directory, status=CODES)
        self.the("machine.call_log")


if __name__ == "__main__":
    unittest.main()
