#!/usr/bin/env python3
"""Runs test modules of this folder and ends with one line: N passed, N failed.

  tests/e2e/run.py test_serve            one file
  tests/e2e/run.py test_serve.Serve.test_idle_exit
  tests/e2e/run.py                       all of them

HEADGATE_BIN names the program; build/headgate by default. Exits 77 when everything was skipped.
A module with NAMESPACE = True runs in a network namespace of its own that has loopback only, so
that nothing which an agent program starts can reach the world.
"""
import importlib
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
INSIDE = "HEADGATE_E2E_NAMESPACE"


def enter_namespace():
    """Starts this program again where there is only loopback; answers its status, None if that
    is not possible here."""
    for flags in ("-rn", "-n"):  # The second for root where user namespaces are not allowed.
        probe = subprocess.run(["unshare", flags, "true"], capture_output=True, check=False)
        if probe.returncode == 0:
            command = ["unshare", flags, sys.executable, str(HERE / "run.py"), *sys.argv[1:]]
            return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    return None


def main():
    sys.path.insert(0, str(HERE))
    os.chdir(HERE.parent.parent)
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("test_*.py"))
    modules = [importlib.import_module(name.split(".")[0]) for name in names]
    if any(getattr(module, "NAMESPACE", False) for module in modules):
        if os.environ.get(INSIDE) != "1":
            status = enter_namespace()
            if status is None:
                print("skipped: no network namespace can be made here (unshare -n)")
                return 77
            return status
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    if not suite.countTestCases():
        print("no tests of that name")
        return 1
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = result.testsRun - failed - len(result.skipped)
    for _, why in result.skipped:
        print(f"skipped: {why}")
    if not passed and not failed:
        return 77
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
