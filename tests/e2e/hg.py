"""What the end-to-end tests share: programs that are started and ended, questions over HTTP.

Every port is the kernel's choice, every directory a temporary one; what a test starts is ended by
its process id. Tests wait for a condition, never for a time.
"""
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("HEADGATE_BIN", str(ROOT / "build" / "headgate"))
KEY = "sk-ant-e2e-SECRET-0123456789"


def wait_for(condition, seconds=20, what="the condition"):
    """Waits until condition() is true and answers its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(0.02)


def free_environment(directory):
    """An environment in which nothing of the machine's user shows."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory / "home"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "HEADGATE_RUNTIME_DIR": str(directory / "run"),
    }


def read_lines(path):
    """The JSON lines of a file; none if it is not there yet."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines() if line.strip()]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request(url, method="GET", body=None, headers=None, timeout=60):
    """One request on a connection of its own. `url` may be unix:PATH:/target."""
    if url.startswith("unix:"):
        path, _, target = url[5:].partition(":")
        connection = http.client.HTTPConnection("localhost", timeout=timeout)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(timeout)
        connection.sock.connect(path)
    else:
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
    with contextlib.closing(connection):
        connection.request(method, target or "/", body, headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def anthropic_body(text="hello", stream=False, model="claude-opus-5-5", max_tokens=64):
    return json.dumps({
        "model": model, "max_tokens": max_tokens, "stream": stream,
        "messages": [{"role": "user", "content": text}]})


def openai_body(text="hello", stream=False, model="gpt-6"):
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}
    if stream:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body)


ANTHROPIC_HEADERS = {"content-type": "application/json", "x-api-key": KEY,
                     "anthropic-version": "2023-06-01"}
OPENAI_HEADERS = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}


class Program:
    """A program that runs until it is ended; stdout and stderr go to files."""

    def __init__(self, name, arguments, directory, environment, cwd=None):
        self.out_path = directory / f"{name}.out"
        self.err_path = directory / f"{name}.err"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment,
                cwd=cwd)

    @property
    def out(self):
        return self.out_path.read_text(encoding="utf-8")

    @property
    def err(self):
        return self.err_path.read_text(encoding="utf-8")

    def first_line(self):
        """The first whole line of stdout, once it is there."""
        def line():
            if self.process.poll() is not None and "\n" not in self.out:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.err}")
            return "\n" in self.out and self.out.splitlines()[0]
        return wait_for(line, what="the first line")

    def end(self, how=signal.SIGTERM, seconds=20):
        """Ends it and answers its status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Case(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="hg-e2e-"))
        (self.directory / "home").mkdir()
        (self.directory / "run").mkdir(mode=0o700)
        self.environment = free_environment(self.directory)
        self.calls_path = self.directory / "calls.jsonl"
        self.provider_log = self.directory / "provider.jsonl"
        self.addCleanup(self.clean)

    def clean(self):
        self.stop_daemon()
        failed = any(error for _, error in getattr(self._outcome, "errors", []))
        result = getattr(self._outcome, "result", None)
        broken = getattr(result, "failures", []) + getattr(result, "errors", [])
        failed = failed or any(test is self for test, _ in broken)
        if failed:
            print(f"  left for you: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ---- Programs ----------------------------------------------------------------------------

    def start(self, name, *arguments, environment=None, cwd=None):
        program = Program(name, [str(argument) for argument in arguments], self.directory,
                          {**self.environment, **(environment or {})},
                          cwd or self.directory / "home")
        self.addCleanup(program.end)
        return program

    def headgate(self, *arguments, environment=None, cwd=None, timeout=60, stdin=None):
        """Runs to the end; answers the completed process with texts."""
        return subprocess.run(
            [BINARY, *[str(argument) for argument in arguments]], capture_output=True, text=True,
            env={**self.environment, **(environment or {})}, cwd=cwd or self.directory / "home",
            timeout=timeout, input=stdin, check=False)

    def on_a_terminal(self, *arguments, columns=80, environment=None, timeout=60):
        """Runs to the end on a terminal of so many columns; what the terminal got, without colours
        and with the last state of lines that were rewritten."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [BINARY, *[str(argument) for argument in arguments]], stdin=side, stdout=side,
            stderr=side, cwd=self.directory / "home", start_new_session=True,
            env={**self.environment, "TERM": "xterm", **(environment or {})})
        os.close(side)
        got = bytearray()
        deadline = time.monotonic() + timeout
        try:
            while time.monotonic() < deadline:
                if select.select([main], [], [], 0.1)[0]:
                    try:
                        got += os.read(main, 65536)
                    except OSError:  # The other side is closed: it has ended.
                        break
            self.status = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
            os.close(main)
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", got.decode()).replace("\r\n", "\n")
        return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))

    def provider(self, *arguments):
        """An emulated provider without latency; its base URL."""
        program = self.start("provider", BINARY, "provider", "--json", "--log", self.provider_log,
                             *(() if "--pace" in arguments else ("--pace", "0.02")), *arguments)
        self.provider_program = program
        self.provider_url = json.loads(program.first_line())["base_url"]
        return self.provider_url

    def serve(self, *arguments, environment=None):
        """A daemon in front of the provider; its base URL."""
        upstream = () if "--upstream" in arguments else ("--upstream", self.provider_url)
        self.daemon = self.start("serve", BINARY, "serve", "--json", "--listen", "127.0.0.1:0",
                                 "--call-log", self.calls_path, *upstream, *arguments,
                                 environment=environment)
        self.version = json.loads(self.daemon.first_line())
        self.url = self.version["base_url"]
        return self.url

    @property
    def socket_path(self):
        return self.directory / "run" / "headgate.sock"

    def control(self, path, method="GET", body=None):
        return request(f"unix:{self.socket_path}:{path}", method, body)

    def stop_daemon(self):
        """Ends a daemon that exec started in this test's directory, if there is one."""
        try:
            pid = self.control("/_headgate/version").json()["pid"]
            self.control("/_headgate/stop", "POST")
        except OSError:
            return
        wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists() or self.is_zombie(pid),
                 what="the end of the daemon")

    @staticmethod
    def is_zombie(pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state == "Z"
        except OSError:
            return True

    # ---- What there is to see ----------------------------------------------------------------

    def calls(self):
        return read_lines(self.calls_path)

    def provider_calls(self):
        return read_lines(self.provider_log)

    def account(self):
        return request(self.provider_url + "/_emulated/stats").json()

    def pools(self):
        return request(self.url + "/_headgate/pools").json()["pools"]

    def assert_idle(self):
        """No lease and no waiter is left in any pool."""
        wait_for(lambda: all(not pool["leases"] and not pool["waiters"] and pool["inflight"] == 0
                             for pool in self.pools()), what="a pool without leases and waiters")
