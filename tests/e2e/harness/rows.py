"""The agent programs and SDKs of the matrix: how each is started, as its users start it.

A row says what the user has set up (files in HOME, variables, a login) and the command line.
Through Headgate, `headgate exec` adds what its profile says; `direct` is what a user without
Headgate would set to reach the provider, for the run that shows what a program does by itself.
"""
import base64
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
BIN = HERE / "node_modules" / ".bin"
PYTHONS = HERE / "venv"
LAB = ROOT / "src" / "lab" / "testdata"

KEY = "sk-ant-e2e-SECRET-0123456789"
TASK = "Change the colour red to green in notes.txt."
MODEL = "emulated-1"


@dataclasses.dataclass
class Place:
    """Where a run happens: its own HOME, work directory and environment."""
    directory: pathlib.Path
    environment: dict

    @property
    def home(self):
        return self.directory / "home"

    @property
    def work(self):
        return self.directory / "work"

    def write(self, path, text, mode=0o600):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def run(self, *command, text_in=None):
        subprocess.run(command, cwd=self.work, env=self.environment, input=text_in, text=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       timeout=120)


@dataclasses.dataclass
class Row:
    key: str
    title: str
    program: pathlib.Path                     # Without it the row is n/a.
    command: typing.Callable                  # Place -> the words behind --.
    prepare: typing.Callable = lambda place: None
    harness: str = ""                         # --harness; "": told by the program's name.
    direct: typing.Callable = lambda url: {}  # Variables that point it at a URL.
    direct_words: typing.Callable = lambda url, words: words
    limits: dict = dataclasses.field(default_factory=dict)  # Column -> what it cannot do by itself.
    quick: str = ""                           # The column that `make test` plays; "": none.
    needs: str = ""                           # What its installation asks of the machine.

    def missing(self):
        if self.program.exists():
            return ""
        return f"not installed: tools/setup test installs it{self.needs and ' ' + self.needs}"


def openai_variables(url):
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1"}


def anthropic_variables(url):
    return {"ANTHROPIC_BASE_URL": url}


def ai_sdk_variables(url):
    return {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": f"{url}/v1"}


# ---- Claude Code, OpenCode ---------------------------------------------------------------------

def opencode_config(place):
    """A provider of the user's own over Chat Completions, where HEADGATE_URL says."""
    place.write(place.home / ".config" / "opencode" / "opencode.json", json.dumps({"provider": {
        "mine": {"npm": "@ai-sdk/openai-compatible", "name": "mine",
                 "options": {"baseURL": "{env:HEADGATE_URL}/v1", "apiKey": "{env:OPENAI_API_KEY}"},
                 "models": {MODEL: {"name": MODEL}}}}}))


def opencode_direct(url):
    options = {"options": {"baseURL": f"{url}/v1"}}
    return {"HEADGATE_URL": url,
            "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"anthropic": options}})}


def opencode_words(model):
    # A title keeps it from asking for one.
    return lambda place: ["opencode", "run", "--title", "x", "-m", model, TASK]


# ---- Codex -------------------------------------------------------------------------------------

CODEX = ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]


def codex_words(place):
    return [*CODEX, TASK]


def codex_key(place):
    place.run("codex", "login", "--with-api-key", text_in=KEY + "\n")


def codex_login(place):
    """A ChatGPT login, as `codex login` leaves it: a token that nobody signed."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"email": "a@example.com", "exp": int(time.time()) + 86400 * 30,
              "iat": int(time.time()),
              "https://api.openai.com/auth": {"chatgpt_plan_type": "pro",
                                              "chatgpt_account_id": "account",
                                              "chatgpt_user_id": "user"}}
    token = ".".join([part({"alg": "none", "typ": "JWT"}), part(claims), "c2ln"])
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    place.write(place.home / ".codex" / "auth.json", json.dumps({
        "auth_mode": "chatgpt", "OPENAI_API_KEY": None, "last_refresh": now,
        "tokens": {"id_token": token, "access_token": token, "refresh_token": "r",
                   "account_id": "account"}}))
    # The service that goes with the login is emulated too; without it each start waits long for it.
    codex_wrapper(place, '-c chatgpt_base_url="\\"$HEADGATE_URL/backend-api\\""')


def codex_own_provider(place):
    provider = "model_providers.mine"
    codex_wrapper(place, f'-c model_provider=mine -c {provider}.name=mine '
                         f'-c {provider}.base_url="\\"$HEADGATE_URL/v1\\"" '
                         f'-c {provider}.env_key=OPENAI_API_KEY -c {provider}.wire_api=responses')


def codex_wrapper(place, options):
    """Words that name HEADGATE_URL, in a program of that name: Codex' file reads no variable."""
    place.write(place.directory / "bin" / "codex",
                f"#!/bin/sh\nexec '{BIN / 'codex'}' {options} \"$@\"\n", 0o755)
    place.environment["PATH"] = f"{place.directory / 'bin'}:{place.environment['PATH']}"


def codex_direct_words(url, words):
    return [words[0], "-c", f'openai_base_url="{url}/v1"', *words[1:]]


# ---- Gemini CLI, Qwen Code, Cline --------------------------------------------------------------

def gemini_settings(place):
    place.write(place.home / ".gemini" / "settings.json",
                json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))


def cline_login(place, url):
    place.run("cline", "auth", "-p", "openai-compatible", "-k", KEY, "-m", MODEL, "-b", f"{url}/v1")


# ---- Goose --------------------------------------------------------------------------------------

def goose_words(place):
    return ["goose", "run", "--no-session", "--no-profile", "--with-builtin", "developer", "-t",
            TASK]


def goose_variables(place):
    # Names of sessions are asked for by a call of their own, beside the first one.
    place.environment.update({"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": MODEL,
                              "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "true",
                              "GOOSE_DISABLE_SESSION_NAMING": "true"})


# ---- Python agents -----------------------------------------------------------------------------

def mini_words(*options):
    return lambda place: ["mini", *options, "-y", "--exit-immediately", "-m", f"openai/{MODEL}",
                          "-o", str(place.home / "trajectory.json"), "-t", TASK]


def mini_variables(place):
    place.environment.update({
        "PATH": f"{PYTHONS / 'mini' / 'bin'}:{place.environment['PATH']}",
        "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(place.home / ".mswea"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True"})


def aider_repository(place):
    place.environment["PATH"] = f"{PYTHONS / 'aider' / 'bin'}:{place.environment['PATH']}"
    place.environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    place.run("git", "init", "-q")
    place.run("git", "add", "notes.txt")
    place.run("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a")


def aider_words(place):
    # The task does not name the file, so that Aider is told to add it: two calls.
    return ["aider", "--model", f"openai/{MODEL}", "--edit-format", "diff", "--yes-always",
            "--no-auto-commits", "--no-dirty-commits", "--no-check-update",
            "--no-show-model-warnings", "--no-show-release-notes", "--analytics-disable",
            "--map-tokens", "0", "--no-detect-urls", "--no-gitignore", "--message",
            "Change the colour red to green in the notes."]


def openhands_variables(place):
    place.environment.update({
        "PATH": f"{PYTHONS / 'openhands' / 'bin'}:{place.environment['PATH']}",
        "LLM_API_KEY": KEY, "LLM_MODEL": f"openai/{MODEL}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True"})


def openhands_words(place):
    return ["openhands", "--headless", "--override-with-envs", "-t", TASK]


# ---- SDKs --------------------------------------------------------------------------------------

def sdk_python(kind, *options):
    return lambda place: [str(PYTHONS / "sdk" / "bin" / "python"), str(LAB / "sdk_agent.py"), kind,
                          *options, TASK]


def sdk_node(kind, *options):
    return lambda place: ["node", str(LAB / "sdk_agent.mjs"), kind, *options, TASK]


def sdk_root(place):
    place.environment["SDK_ROOT"] = str(HERE)


# An SDK retries until it has the headers; Python's reads a whole answer within that, Node's later.
CUT_STREAM = {"cut": "an SDK tells its caller of a stream that broke, who may have used half of it"}
CUT_WHOLE = {"cut": "the SDK for Node reads the body after its retries"}


def sdk_rows():
    python, node = PYTHONS / "sdk" / "bin" / "python", HERE / "node_modules" / "openai"
    for kind, title, harnesses, variables in (
            ("anthropic", "Anthropic SDK", ("anthropic-sdk", "anthropic-sdk"), anthropic_variables),
            ("openai", "OpenAI SDK", ("openai-python", "openai-node"), openai_variables),
            ("openai-responses", "OpenAI SDK, Responses", ("openai-python", "openai-node"),
             openai_variables)):
        for stream in (False, True):
            options = ("--stream",) if stream else ()
            named = f"{title}{', stream' if stream else ''}"
            suffix = f"{kind}{'-stream' if stream else ''}"
            limits = CUT_STREAM if stream else {}
            quick = "" if kind == "openai-responses" else "stream" if stream else "drop"
            yield Row(f"python-{suffix}", f"{named} (Python)", python, sdk_python(kind, *options),
                      harness=harnesses[0], direct=variables, limits=limits, quick=quick)
            yield Row(f"node-{suffix}", f"{named} (Node)", node, sdk_node(kind, *options),
                      prepare=sdk_root, harness=harnesses[1], direct=variables,
                      limits=limits or CUT_WHOLE, quick=quick)
    for kind, title in (("ai-anthropic", "Vercel AI SDK 7, Anthropic"),
                        ("ai-openai", "Vercel AI SDK 7, Responses")):
        for stream in (False, True):
            yield Row(f"node-{kind}{'-stream' if stream else ''}",
                      f"{title}{', stream' if stream else ''}", HERE / "node_modules" / "ai",
                      sdk_node(kind, *(("--stream",) if stream else ())), prepare=sdk_root,
                      harness="ai-sdk", direct=ai_sdk_variables,
                      limits=CUT_STREAM if stream else {},
                      quick="529" if stream and kind == "ai-anthropic" else "")


ROWS = [
    Row("claude", "Claude Code 2.1.332", BIN / "claude",
        lambda place: ["claude", "-p", TASK, "--dangerously-skip-permissions"],
        direct=anthropic_variables),
    Row("codex-key", "Codex 0.171.0, API key", BIN / "codex", codex_words, codex_key,
        direct_words=codex_direct_words, quick="stream"),
    Row("codex-own", "Codex, own provider", BIN / "codex", codex_words, codex_own_provider,
        direct=lambda url: {"HEADGATE_URL": url}, quick="429-bare"),
    Row("codex-login", "Codex, ChatGPT login (zstd)", BIN / "codex", codex_words, codex_login,
        direct=lambda url: {"HEADGATE_URL": url}, direct_words=codex_direct_words, quick="529"),
    Row("opencode", "OpenCode 1.18.33", BIN / "opencode",
        opencode_words("anthropic/claude-haiku-4-5"), direct=opencode_direct),
    Row("opencode-chat", "OpenCode, Chat Completions", BIN / "opencode",
        opencode_words(f"mine/{MODEL}"), opencode_config, direct=opencode_direct),
    Row("gemini", "Gemini CLI 0.61.0", BIN / "gemini",
        lambda place: ["gemini", "-y", "-m", "gemini-3-flash", "-p", TASK],
        direct=lambda url: {"GOOGLE_GEMINI_BASE_URL": url}, quick="503",
        limits={"cut": "it ends with an error when a stream breaks, without a retry"}),
    Row("qwen", "Qwen Code 0.24.4", BIN / "qwen",
        lambda place: ["qwen", "-y", "-p", TASK],
        direct=openai_variables, quick="529",
        direct_words=lambda url, words: [words[0], "--auth-type", "openai", *words[1:]]),
    Row("cline", "Cline 3.0.65", BIN / "cline",
        lambda place: ["cline", "-P", "openai-compatible", "-m", MODEL, TASK],
        direct=openai_variables, quick="429-bare",
        limits={"cut": "it gives up when a stream breaks once it has seen its first bytes"}),
    Row("goose", "Goose 1.37.0", BIN / "goose", goose_words, goose_variables,
        direct=lambda url: {"OPENAI_HOST": url}, quick="stream",
        limits={"cut": "it ends its turn when a stream breaks, without a retry"}),
    Row("mini", "mini-swe-agent 2.4.6", PYTHONS / "mini" / "bin" / "mini", mini_words(),
        mini_variables, direct=openai_variables, quick="503"),
    Row("mini-text", "mini-swe-agent, text mode", PYTHONS / "mini" / "bin" / "mini",
        mini_words("-c", "mini_textbased.yaml", "--model-class", "litellm_textbased"),
        mini_variables, direct=openai_variables),
    Row("aider", "Aider 0.86.2", PYTHONS / "aider" / "bin" / "aider", aider_words,
        aider_repository, direct=openai_variables, quick="stream"),
    Row("openhands", "OpenHands 1.16.0", PYTHONS / "openhands" / "bin" / "openhands",
        openhands_words, openhands_variables, direct=openai_variables, quick="429-bare",
        needs="where there is a Python 3.12, on PATH or among pyenv's"),
    *sdk_rows(),
]

# Programs that Headgate has a profile of and no registry has.
NOT_HERE = {
    "swe-agent": ("SWE-agent", "in no registry: PyPI has its first upload of 2024, which has no "
                               "program to start; the npm registry has none"),
    "crush": ("Crush", "its npm package holds no program and downloads one at installation"),
}


def base_environment(directory):
    """What every program of the matrix sees; nothing of the machine's user."""
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(directory / "home"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "HEADGATE_RUNTIME_DIR": str(directory / "run"),
        "HEADGATE_CALL_LOG": str(directory / "calls.jsonl"),
        "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": KEY,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": MODEL,
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


if __name__ == "__main__":
    for row in ROWS:
        sys.stdout.write(f"{row.key:28} {row.missing() or 'installed'}\n")
