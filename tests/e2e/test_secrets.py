"""Keys, prompts, answers and query strings are in no log, no error and no page of ours."""
import pathlib
import unittest

from hg import (ANTHROPIC_HEADERS, KEY, OPENAI_HEADERS, Case, anthropic_body, openai_body, request,
                wait_for)

PROMPT = "the-PROMPT-is-nobodys-business"
QUERY = "the-QUERY-is-nobodys-business"


class Secrets(Case):
    def test_nothing_that_is_written_holds_a_secret(self):
        self.provider("--fail", "429:1,500@3,quota@5,cut@6")
        url = self.serve("--log-level", "debug", "--overload-step", "20ms")
        answers = []
        for path, headers, body in (
                ("/v1/messages", ANTHROPIC_HEADERS, anthropic_body(PROMPT)),
                ("/v1/messages", ANTHROPIC_HEADERS, anthropic_body(PROMPT, stream=True)),
                ("/v1/chat/completions", OPENAI_HEADERS, openai_body(PROMPT)),
                ("/v1/chat/completions", OPENAI_HEADERS, openai_body(PROMPT, stream=True)),
                ("/pool/nope/v1/messages", ANTHROPIC_HEADERS, anthropic_body(PROMPT)),
                ("/v1/messages", ANTHROPIC_HEADERS, anthropic_body(PROMPT)[:-5]),
                ("/v1/models", OPENAI_HEADERS, None)):
            try:
                answers.append(request(f"{url}{path}?key={QUERY}", "POST" if body else "GET", body,
                                       headers))
            except OSError:
                pass  # One of them is cut on order.
        wait_for(lambda: len(self.calls()) >= 4, what="the lines")
        for path in ("pools", "totals", "version", "runs/x"):
            answers.append(request(f"{url}/_headgate/{path}"))
        told = self.headgate("pools").stdout + self.headgate("pools", "--json").stdout
        self.daemon.end()
        written = {"pools": told, "stdout": self.daemon.out, "stderr": self.daemon.err}
        for answer in answers:
            if "x-headgate-refusal" in answer.headers:
                written[f"answer {answer.status}"] = answer.body.decode()
        for path in (self.calls_path, *pathlib.Path(self.directory / "run").iterdir()):
            if path.is_file():
                written[path.name] = path.read_text(errors="replace")
        self.assertGreater(len(written), 4)
        self.assertIn("pool main", written["stderr"])
        for name, text in written.items():
            for secret in (KEY, KEY[-12:], PROMPT, QUERY):
                self.assertNotIn(secret, text, name)

    def test_two_keys_have_two_pools_and_neither_shows(self):
        self.provider()
        url = self.serve()
        for key in ("sk-one-AAAA1111", "sk-two-BBBB2222"):
            answer = request(url + "/v1/messages", "POST", anthropic_body(),
                             {**ANTHROPIC_HEADERS, "x-api-key": key})
            self.assertEqual(answer.status, 200)
        names = [pool["name"] for pool in self.pools()]
        self.assertEqual(len(set(names)), 2)
        self.assertNotIn("AAAA", str(names))

    def test_exec_writes_no_key(self):
        self.provider()
        done = self.headgate("exec", "--upstream", self.provider_url, "--call-log",
                             self.calls_path, "--log-level", "debug", "--", "sh", "-c",
                             "curl -s -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'anthropic-version: "
                             "2023-06-01' $ANTHROPIC_BASE_URL/v1/messages -d '" + anthropic_body()
                             + "'", environment={"ANTHROPIC_API_KEY": KEY})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 call", done.stderr)
        for path in (self.calls_path, *(self.directory / "run").iterdir()):
            if path.is_file():
                self.assertNotIn(KEY, path.read_text(errors="replace"))
        self.assertNotIn(KEY, done.stderr)


if __name__ == "__main__":
    unittest.main()
