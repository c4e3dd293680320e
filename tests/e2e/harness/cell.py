#!/usr/bin/env python3
"""Plays one cell of the matrix: one agent program, one way of the provider to fail it.

  cell.py ROW COLUMN DIRECTORY [--direct] [--quick]

Runs inside a network namespace that has loopback only (matrix.py makes it, with a process
namespace that ends whatever a program leaves behind). Writes DIRECTORY/cell.json: status, whether
the task was done, seconds, calls, what the agent saw, and why it failed if it did. --direct:
without Headgate. --quick: with short pauses between Headgate's own attempts.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

import columns  # noqa: E402
import hg  # noqa: E402
import rows  # noqa: E402

BEFORE = "name = canal\ncolour = red\n"
AFTER = "name = canal\ncolour = green\n"
SCRIPT = rows.LAB / "edit_file.toml"
TIMEOUT_SECONDS = 420


def last_words(path):
    """The end of what a program said, as one line."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-6:])[-600:]


def play(row, column, directory, direct, quick):
    place = rows.Place(directory, rows.base_environment(directory))
    for name in ("home", "work", "run", "tmp"):
        (directory / name).mkdir(mode=0o700)
    place.environment["TMPDIR"] = str(directory / "tmp")
    notes = place.work / "notes.txt"
    notes.write_text(BEFORE, encoding="utf-8")
    row.prepare(place)
    provider = hg.Program(
        "provider", [hg.BINARY, "provider", "--json", "--pace", "0.02", "--script", str(SCRIPT),
                     "--log", str(directory / "provider.jsonl"), "--fail", column.plan],
        directory, place.environment, place.work)
    url = json.loads(provider.first_line())["base_url"]
    words = row.command(place)
    if direct:
        if row.key == "gemini":
            rows.gemini_settings(place)
        if row.key == "cline":
            rows.cline_login(place, url)
        place.environment.update(row.direct(url))
        command = row.direct_words(url, words)
    else:
        named = ["--harness", row.harness] if row.harness else []
        paced = ["--overload-step", "500ms"] if quick else []
        command = [hg.BINARY, "exec", "--upstream", url, *paced, *named, "--", *words]
    began = time.monotonic()
    with open(directory / "out", "wb") as out, open(directory / "err", "wb") as err:
        try:
            status = subprocess.run(command, cwd=place.work, env=place.environment,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    timeout=TIMEOUT_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            status = "no end"
    seconds = time.monotonic() - began
    account = hg.request(url + "/_emulated/stats").json()
    calls = hg.read_lines(directory / "calls.jsonl")
    edited = notes.read_text(encoding="utf-8") == AFTER
    return {
        "status": status, "edited": edited, "done": status == 0 and edited,
        "seconds": round(seconds, 1), "account": account,
        "calls": len(calls) if not direct else len(hg.read_lines(directory / "provider.jsonl")),
        "seen": [call["status"] for call in calls if call["status"] >= 400],
        "used": (directory / "err").read_text(errors="replace").strip().rpartition("\n")[2]
                if not direct else "",
        "said": "" if status == 0 and edited else
                f"{last_words(directory / 'out')} || {last_words(directory / 'err')}",
    }


def main():
    os.umask(0o077)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    row = next(row for row in rows.ROWS if row.key == sys.argv[1])
    column = next(column for column in columns.COLUMNS if column.key == sys.argv[2])
    directory = pathlib.Path(sys.argv[3])
    result = play(row, column, directory, "--direct" in sys.argv[4:], "--quick" in sys.argv[4:])
    (directory / "cell.json").write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
