# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the end-to-end tests, and each failed test once more, on a new lab and beside no other test.

A test may need what those before it in its file have left, so these run again, too. A test that
passes the second time is flaky. The run reports the test and the folder with the
evidence of its failure, and passes. Two flaky tests fail the run. Each flaky test is a defect of
the product, of a stand-in or of the test. Add it to the table of CONTRIBUTING.md with its cause.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# tests/e2e/evidence.py writes the evidence.
EVIDENCE = ROOT / ".cache" / "evidence"
CACHE = ROOT / ".cache" / "pytest-e2e"
FAILED_TESTS = 1
# More failures than this are not by chance.
MOST_TRIED_AGAIN = 4


def main(arguments: list[str]) -> int:
    """Run pytest with the arguments. Return its exit status, or 0 if one test failed that passes the second time."""
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    status = pytest(*arguments, "--cache-clear")
    failed = failed_tests()
    if status != FAILED_TESTS or not failed:
        return status
    if len(failed) > MOST_TRIED_AGAIN:
        print(f"{len(failed)} tests failed, evidence in {EVIDENCE}")
        return status
    flaky = [test for test in failed if pytest(*up_to(test), "-n", "0") == 0]
    for test in flaky:
        print(f"flaky: {test}, evidence in {EVIDENCE / folder_name(test)}")
    return 0 if len(flaky) == len(failed) == 1 else FAILED_TESTS


def pytest(*arguments: str) -> int:
    """Run pytest, pass its output through, and return its exit status."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def up_to(test: str) -> list[str]:
    """Return the node IDs of a test and of those before it in its file, without the slow ones."""
    file = test.partition("::")[0]
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "--collect-only", "-q", "-n", "0",
               "-m", "not slow", file]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout.splitlines()
    return listed[:listed.index(test) + 1] if test in listed else [test]


def failed_tests() -> list[str]:
    """Return the node IDs of the tests that failed in the last run, from pytest's cache."""
    path = CACHE / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def folder_name(test: str) -> str:
    """Return the name of the folder with the evidence of a test (a node ID)."""
    kept = test.removeprefix("tests/e2e/")
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
