"""Bad input gets a clear error that names Headgate, in the caller's dialect, and costs nothing."""
import json
import socket
import unittest
import urllib.parse

from hg import (ANTHROPIC_HEADERS, KEY, OPENAI_HEADERS, Case, anthropic_body, openai_body, request,
                wait_for)


def raw(url, data, shut=False):
    """Sends bytes as they are; answers what comes back until the end."""
    parts = urllib.parse.urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        connection.sendall(data)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            try:
                chunk = connection.recv(65536)
            except ConnectionResetError:
                return answer
            if not chunk:
                return answer
            answer += chunk


class BadInput(Case):
    def setUp(self):
        super().setUp()
        self.provider()
        self.serve("--body-limit", "64KiB", "--set", "pool.main.c_burst=1000", "--set",
                   "pool.main.r_tok=1")
        self.before = self.pools()[0]

    def costs_nothing(self):
        self.assert_idle()
        pool = self.pools()[0]
        self.assertEqual(pool["tokens"], pool["limits"]["c_burst"])
        self.assertEqual(pool["requests"], pool["limits"]["c_req"])
        self.assertEqual(self.provider_calls(), [])
        self.assertEqual(self.account()["bad_requests"], 0)

    def check(self, answer, status, code, dialect):
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["x-headgate-refusal"], code)
        error = answer.json()["error"]
        self.assertIn("Headgate", error["message"])
        self.assertNotIn(KEY, answer.body.decode())
        if dialect == "anthropic":
            self.assertEqual(answer.json()["type"], "error")
            self.assertIn("type", error)
        else:
            self.assertIn("code", error)

    def test_the_matrix(self):
        long_text = "x" * 70_000
        rows = (
            ("malformed", "{\"model\": \"m\", ", 400, "bad-request"),
            ("not an object", "[1, 2]", 400, "bad-request"),
            ("not JSON at all", "hello", 400, "bad-request"),
            ("no bytes", "", 400, "bad-request"),
            ("no messages", "{\"model\": \"m\"}", 400, "bad-request"),
            ("messages of a wrong type", "{\"model\": \"m\", \"messages\": 3}", 400, "bad-request"),
            ("deep nesting", "[" * 20_000, 400, "bad-request"),
            ("over the limit", None, 413, "too-large"),
        )
        for dialect, path, headers, make in (
                ("anthropic", "/v1/messages", ANTHROPIC_HEADERS, anthropic_body),
                ("openai", "/v1/chat/completions", OPENAI_HEADERS, openai_body)):
            for why, body, status, code in rows:
                with self.subTest(dialect=dialect, why=why):
                    text = make(long_text) if body is None else body
                    answer = request(self.url + path, "POST", text, headers)
                    self.check(answer, status, code, dialect)
        self.costs_nothing()

    def test_names_that_nobody_knows(self):
        for prefix, code in (("/pool/nope", "unknown-pool"), ("/harness/nope", "unknown-harness"),
                             ("/upstream/nope", "unknown-upstream")):
            for dialect, path, headers, body in (
                    ("anthropic", "/v1/messages", ANTHROPIC_HEADERS, anthropic_body()),
                    ("openai", "/v1/chat/completions", OPENAI_HEADERS, openai_body())):
                with self.subTest(prefix=prefix, dialect=dialect):
                    answer = request(self.url + prefix + path, "POST", body, headers)
                    self.check(answer, 404, code, dialect)
        self.costs_nothing()

    def test_it_is_no_open_proxy(self):
        answer = raw(self.url, b"POST http://example.com/v1/messages HTTP/1.1\r\nHost: example.com"
                     b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        self.assertIn(b" 40", answer[:16])
        answer = raw(self.url, b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
                     shut=True)
        self.assertNotIn(b" 200 ", answer[:16])
        self.costs_nothing()

    def test_a_websocket_is_answered_426_at_once(self):
        answer = request(self.url + "/v1/responses", headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"})
        self.assertEqual(answer.status, 426)
        self.costs_nothing()

    def test_a_truncated_body_is_answered_and_leaves_nothing_behind(self):
        body = anthropic_body("x" * 1000).encode()
        head = (f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        answers = [raw(self.url, head + body[:500], shut=True)]
        chunked = (f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n400\r\n").encode()
        answers.append(raw(self.url, chunked + body[:100], shut=True))
        for answer in answers:
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer[:80])
            self.assertIn(b'"type":"error"', answer)
            self.assertIn(b"Headgate", answer)
        self.costs_nothing()

    def test_framing_tricks_are_refused(self):
        rows = (
            (b"Content-Length: 2\r\nTransfer-Encoding: chunked", "both framings"),
            (b"Content-Length: 2\r\nContent-Length: 3", "two lengths"),
            (b"Content-Length: +2", "a sign"),
            (b"Content-Length: 2x", "letters"),
            (b"Transfer-Encoding: gzip", "a coding without an end"),
            (b"Transfer-Encoding: chunked, chunked", "chunked twice"),
            (b"X-A: b\r\n c: d\r\nContent-Length: 2", "a folded field"),
            (b"Bad Name: x\r\nContent-Length: 2", "a blank in a name"),
        )
        for field, why in rows:
            with self.subTest(why=why):
                answer = raw(self.url, b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" +
                             field + b"\r\n\r\n{}")
                refused = b" 400 " in answer[:16] or b" 501 " in answer[:16]
                self.assertTrue(answer == b"" or refused, answer[:80])
        self.costs_nothing()

    def test_a_call_that_can_never_fit_goes_alone_and_is_paid_for(self):
        # 40,000 characters against a bucket of 1,000 tokens: the oversize rule, not an error.
        answer = request(self.url + "/v1/messages", "POST", anthropic_body("x" * 40_000),
                         ANTHROPIC_HEADERS)
        self.assertEqual(answer.status, 200, answer)
        self.assert_idle()
        self.assertLess(self.pools()[0]["tokens"], 0)

    def test_the_providers_own_refusals_of_a_request_are_passed_on(self):
        answer = request(self.url + "/v1/messages", "POST",
                         json.dumps({"model": "m", "max_tokens": 5,
                                     "messages": [{"role": "user", "content": [{"type": "odd"}]}]}),
                         ANTHROPIC_HEADERS)
        self.assertIn(answer.status, (200, 400))
        self.assertNotIn("x-headgate-refusal", answer.headers)
        wait_for(self.calls, what="the line")
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
