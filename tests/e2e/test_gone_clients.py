"""Clients that go away at any moment leave no lease and no waiter; the provider is told first."""
import contextlib
import os
import signal
import socket
import struct
import time
import unittest
import urllib.parse

from hg import ANTHROPIC_HEADERS, BINARY, Case, anthropic_body, request, wait_for


class GoneClients(Case):
    def call(self, body, path="/v1/messages"):
        """Sends a request and does not read; the socket."""
        parts = urllib.parse.urlsplit(self.url)
        connection = socket.create_connection((parts.hostname, parts.port))
        fields = "".join(f"{name}: {value}\r\n" for name, value in ANTHROPIC_HEADERS.items())
        connection.sendall((f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}"
                            f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        self.addCleanup(connection.close)
        return connection

    def tight(self, *arguments):
        self.provider("--pace", "1", *arguments)
        self.serve("--set", "pool.main.c_burst=1000", "--set", "pool.main.r_tok=1")

    def pool(self):
        return self.pools()[0]

    def test_one_that_waits_leaves_the_queue_at_once(self):
        self.tight()
        request(self.url + "/v1/messages", "POST", anthropic_body("x" * 4000), ANTHROPIC_HEADERS)
        first = self.call(anthropic_body("y" * 4000))
        second = self.call(anthropic_body("z" * 4000))
        wait_for(lambda: len(self.pool()["waiters"]) == 2, what="two waiters")
        calls = len(self.provider_calls())
        first.close()
        wait_for(lambda: len(self.pool()["waiters"]) == 1, seconds=3, what="one waiter")
        # Reset instead of closed.
        second.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        second.close()
        wait_for(lambda: not self.pool()["waiters"], seconds=3, what="an empty queue")
        self.assert_idle()
        self.assertEqual(len(self.provider_calls()), calls)
        gone = wait_for(lambda: len(self.calls()) == 3 and self.calls(), what="three lines")
        self.assertEqual([call["outcome"] for call in gone], ["ok", "client_gone", "client_gone"])

    def test_one_that_leaves_amid_the_stream_closes_the_provider_first(self):
        self.provider("--pace", "1")
        self.serve()
        connection = self.call(anthropic_body("hello", stream=True, max_tokens=4000))
        received = b""
        while b"content_block_delta" not in received:
            received += connection.recv(65536)
        self.assertEqual(len(self.pool()["leases"]), 1)
        connection.close()
        self.assert_idle()
        wait_for(lambda: self.account()["client_closed"] == 1, what="the provider's notice")
        call = wait_for(self.calls, what="the line")[0]
        self.assertEqual(call["outcome"], "client_gone")
        self.assertGreater(call["usage"]["uncached"] + call["usage"]["cached"], 0)

    def test_one_that_leaves_before_the_first_byte(self):
        self.provider("--fail", "silence:1")
        self.serve()
        connection = self.call(anthropic_body())
        wait_for(lambda: self.pools() and self.pool()["leases"], what="the lease")
        connection.close()
        self.assert_idle()
        wait_for(lambda: self.account()["client_closed"] == 1, what="the provider's notice")

    def test_one_that_leaves_while_an_overload_is_waited_out(self):
        self.provider("--fail", "529:100")
        self.serve("--overload-step", "20s")
        connection = self.call(anthropic_body())
        wait_for(lambda: self.provider_calls(), what="the refusal")
        connection.close()
        call = wait_for(self.calls, seconds=5, what="the line")[0]
        self.assertEqual(call["outcome"], "client_gone")
        self.assert_idle()

    def test_many_at_every_moment(self):
        self.provider("--pace", "0.3", "--fail", "529~0.2,cut~0.1,drop~0.1")
        self.serve("--overload-step", "50ms", "--set", "pool.main.c_burst=300", "--set",
                   "pool.main.r_tok=200")
        connections = [self.call(anthropic_body("x" * 200, stream=index % 2 == 0))
                       for index in range(40)]
        for index, connection in enumerate(connections):
            time.sleep(0.02)  # The moments are to differ; nothing is waited for.
            if index % 3 == 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        wait_for(lambda: len(self.calls()) == 40, what="forty lines")
        self.assert_idle()

    def test_a_killed_exec_takes_its_program_along(self):
        self.provider()
        ticks = self.directory / "pid"
        program = self.start("exec", BINARY, "exec", "--upstream", self.provider_url, "--",
                             "sh", "-c", f"echo $$ > {ticks}; exec sleep 1000")
        wait_for(lambda: ticks.exists() and ticks.read_text().strip(), what="the program")
        pid = int(ticks.read_text())
        program.end(signal.SIGKILL)
        wait_for(lambda: self.is_zombie(pid), what="the end of the program")

    def test_a_killed_daemon_is_noticed_and_the_next_exec_starts_another(self):
        self.provider()
        done = self.headgate("exec", "--upstream", self.provider_url, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        pid = self.control("/_headgate/version").json()["pid"]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.is_zombie(pid), what="the end of the daemon")
        done = self.headgate("exec", "--upstream", self.provider_url, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.control("/_headgate/version").json()["pid"], pid)


if __name__ == "__main__":
    unittest.main()
