#!/usr/bin/env python3
"""Real agent programs × the ways a provider fails: does each finish its task through Headgate?

  tests/e2e/matrix.py                        the whole matrix (make harness)
  tests/e2e/matrix.py --quick                one column for each program that is fast (make test)
  tests/e2e/matrix.py --rows codex --columns cut,stall

Each cell runs in a network namespace that has loopback only and a process namespace of its own,
with an empty HOME, against `headgate provider`, which plays the model by a script and fails on
order. A task that is not finished is played again without Headgate: when that fails too, and
rows.py says why, it is the program's own limit, else the task was lost and the matrix fails.
Where rows.py knows of a limit, it is played a few times until it fails.
Prints one table and writes build/harness/table.json, and table.md for docs/harness-matrix.md.
HEADGATE_BIN names the program;
build/headgate by default.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "harness"))
sys.path.insert(0, str(HERE))

import columns  # noqa: E402
import rows  # noqa: E402

# A known limit may be a race (did the program see the first bytes before the reset?), which it
# can win without Headgate as well: that often it is given the occasion to lose.
DIRECT_RUNS = 5
CELL_SECONDS = 560  # Of a cell as a whole; the program itself has less.
# Cells that mostly sleep overlap as far as memory goes; the others share the processors.
SLEEPERS = 16
WORKERS = 3

progress_lock = threading.Lock()


def namespace_command():
    """What makes a namespace here: as a user, or as root where user namespaces are not allowed."""
    for flags in (["-rn"], ["-n"]):
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", *flags, "--pid", "--fork",
                   "--kill-child", "--mount-proc"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return None


class Matrix:
    def __init__(self, namespace, directory, options):
        self.namespace, self.directory = namespace, directory
        self.keep, self.quick = options.keep, options.quick
        self.finished = 0
        self.total = 0

    def run_cell(self, row, column, direct=0):
        """One run of one program; what cell.py wrote. `direct`: its number without Headgate."""
        place = self.directory / f"{row.key}.{column.key}{f'.direct{direct}' if direct else ''}"
        place.mkdir()
        command = [*self.namespace, sys.executable, str(HERE / "harness" / "cell.py"), row.key,
                   column.key, str(place), *(["--direct"] if direct else []),
                   *(["--quick"] if self.quick else [])]
        with open(place / "cell.log", "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                process.wait(CELL_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()  # The whole process namespace goes with it.
                process.wait()
        try:
            result = json.loads((place / "cell.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            text = (place / "cell.log").read_text(encoding="utf-8", errors="replace")
            result = {"done": False, "status": "set-up", "edited": False, "seconds": CELL_SECONDS,
                      "said": text.strip()[-600:], "seen": [], "calls": 0, "account": {}}
        if result["done"] and not self.keep:
            shutil.rmtree(place, ignore_errors=True)
        return result

    def judge(self, row, column):
        """The cell: ok, own limit (the same without Headgate) or lost."""
        result = self.run_cell(row, column)
        met = result["account"].get("injected", 0)
        cell = {"row": row.key, "column": column.key, "seconds": result["seconds"],
                "calls": result["calls"], "faults_met": met, "refusals_seen": result["seen"],
                "used": result.get("used", ""), "reason": ""}
        if result["done"] and met == 0:
            cell.update(outcome="lost", reason="the program ended before the provider failed it")
        elif result["done"]:
            cell["outcome"] = "ok"
            if not result["calls"]:
                cell.update(outcome="lost", reason="its calls did not pass through Headgate")
        else:
            known = row.limits.get(column.key, "")
            for run in range(1, DIRECT_RUNS + 1 if known else 2):
                alone = self.run_cell(row, column, direct=run)
                if not alone["done"]:
                    break
            cell["status"], cell["said"] = result["status"], result["said"]
            cell["direct_runs"] = run
            cell["without_headgate"] = {key: alone[key] for key in
                                        ("done", "status", "edited", "seconds", "said")}
            if alone["done"]:
                cell.update(outcome="lost", reason=f"status {result['status']}, but it finishes "
                                                   f"without Headgate: {result['said'][-200:]}")
            else:
                cell.update(outcome="own limit" if known else "lost",
                            reason=known or "not finished, and neither without Headgate: "
                                            f"{result['said'][-200:]}")
        with progress_lock:
            self.finished += 1
            print(f"[{self.finished}/{self.total}] {row.title}: {column.title}: {cell['outcome']}, "
                  f"{cell['seconds']:.0f} s{': ' if cell['reason'] else ''}{cell['reason']}",
                  flush=True)
        return cell

    def play(self, pairs):
        self.total = len(pairs)
        with concurrent.futures.ThreadPoolExecutor(SLEEPERS) as sleepers, \
                concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
            # Quick cells pause for half a second: nothing of them sleeps.
            futures = [(sleepers if column.slow and not self.quick else workers)
                       .submit(self.judge, row, column) for row, column in pairs]
            return [future.result() for future in futures]


def table_text(chosen_rows, chosen_columns, cells, absent):
    """One table, and below it why a cell is not plainly ok."""
    by_place = {(cell["row"], cell["column"]): cell for cell in cells}
    notes, lines = [], []
    width = max([len(row.title) for row in chosen_rows] + [len(title) for title, _ in absent])
    lines.append(" " * width + "".join(f"  {column.title:>18}" for column in chosen_columns))
    for row in chosen_rows:
        text = f"{row.title:<{width}}"
        for column in chosen_columns:
            cell = by_place.get((row.key, column.key))
            if cell is None:
                text += f"  {'-':>18}"
                continue
            mark = ""
            if cell["outcome"] != "ok":
                notes.append(f"[{len(notes) + 1}] {row.title}, {column.title}: "
                             f"{cell['outcome']}: {cell['reason']}")
                mark = f" [{len(notes)}]"
            elif cell["refusals_seen"]:
                mark = " saw " + ",".join(str(status) for status in cell["refusals_seen"])
            text += "  " + f"{cell['outcome']} {cell['seconds']:.0f} s{mark}".rjust(18)
        lines.append(text)
    for title, why in absent:
        lines.append(f"{title:<{width}}  n/a: {why}")
    return "\n".join(lines + notes)


def markdown_text(chosen_rows, chosen_columns, cells, absent):
    """The table as docs/harness-matrix.md has it: seconds of what is ok, a note for the others."""
    by_place = {(cell["row"], cell["column"]): cell for cell in cells}
    notes = []
    lines = ["| | " + " | ".join(column.title for column in chosen_columns) + " |",
             "|---|" + "---|" * len(chosen_columns)]
    for row in chosen_rows:
        texts = []
        for column in chosen_columns:
            cell = by_place[(row.key, column.key)]
            text = f"{cell['seconds']:.0f} s"
            if cell["outcome"] != "ok":
                if cell["reason"] not in notes:
                    notes.append(cell["reason"])
                text = f"{cell['outcome']} [{notes.index(cell['reason']) + 1}]"
            elif cell["refusals_seen"]:
                text += f" ({', '.join(str(status) for status in cell['refusals_seen'])})"
            texts.append(text)
        lines.append(f"| {row.title} | " + " | ".join(texts) + " |")
    lines += [f"| {title} | n/a: {why}" + " |" * len(chosen_columns) for title, why in absent]
    return "\n".join(lines + [""] + [f"{at}. {note}" for at, note in enumerate(notes, 1)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="keys, or beginnings of keys, with commas")
    parser.add_argument("--columns", default="", help="keys, with commas")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave every cell's directory")
    parser.add_argument("--json", default=str(rows.ROOT / "build" / "harness" / "table.json"))
    options = parser.parse_args()

    namespace = namespace_command()
    if namespace is None:
        print("skipped: no namespaces can be made here (unshare)")
        return 77
    wanted = [key for key in options.rows.split(",") if key]
    chosen = [row for row in rows.ROWS
              if (not wanted or any(row.key.startswith(key) for key in wanted))
              and (row.quick or not options.quick)]
    keys = [key for key in options.columns.split(",") if key]
    chosen_columns = [column for column in columns.COLUMNS if not keys or column.key in keys]
    absent = [(row.title, row.missing()) for row in chosen if row.missing()]
    if not options.quick:
        absent += [why for key, why in rows.NOT_HERE.items()
                   if not wanted or any(key.startswith(one) for one in wanted)]
    chosen = [row for row in chosen if not row.missing()]
    if not chosen:
        print("skipped: none of these programs is installed")
        return 77
    pairs = [(row, column) for row in chosen for column in chosen_columns
             if not options.quick or column.key == row.quick]

    began = time.monotonic()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="hg-matrix-"))
    cells = Matrix(namespace, directory, options).play(pairs)
    if options.quick:
        chosen_columns = [column for column in chosen_columns
                          if any(cell["column"] == column.key for cell in cells)]
    print()
    print(table_text(chosen, chosen_columns, cells, absent))
    lost = [cell for cell in cells if cell["outcome"] == "lost"]
    limits = sum(cell["outcome"] == "own limit" for cell in cells)
    print(f"{len(cells)} cells in {time.monotonic() - began:.0f} s: "
          f"{len(cells) - len(lost) - limits} ok, {limits} the program's own limit (the same "
          f"without Headgate), {len(lost)} lost")
    if lost or options.keep:
        print(f"what they left: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    if not options.quick:
        path = pathlib.Path(options.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({
            "columns": [{"key": column.key, "title": column.title, "plan": column.plan}
                        for column in chosen_columns],
            "rows": [{"key": row.key, "title": row.title} for row in chosen],
            "absent": [{"title": title, "reason": why} for title, why in absent],
            "cells": cells}, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(markdown_text(chosen, chosen_columns, cells, absent),
                                           encoding="utf-8")
    print(f"{len(cells) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
