# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the end-to-end tests, and each test that failed once more, alone and on a fresh lab.

A test that passes the second time is flaky: the run says so, says where the evidence of its failure is, and passes.
Two flaky tests fail the run. Each flaky test is a defect of the product, of a stand-in or of the test, and belongs into
the table of CONTRIBUTING.md with its cause.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The evidence is written by tests/e2e/evidence.py.
EVIDENCE = ROOT / ".cache" / "evidence"
CACHE = ROOT / ".cache" / "pytest-e2e"
FAILED_TESTS = 1
# More failures than this are no accident.
MOST_TRIED_AGAIN = 4


def main(arguments: list[str]) -> int:
    """Run pytest with the arguments. Return its exit status, or 0 if one test failed that passes alone."""
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    status = pytest(*arguments, "--cache-clear")
    failed = failed_tests()
    if status != FAILED_TESTS or not failed:
        return status
    if len(failed) > MOST_TRIED_AGAIN:
        print(f"{len(failed)} tests failed, evidence in {EVIDENCE}")
        return status
    flaky = [test for test in failed if pytest(test, "-n", "0") == 0]
    for test in flaky:
        print(f"flaky: {test}, evidence in {EVIDENCE / folder_name(test)}")
    return 0 if len(flaky) == len(failed) == 1 else FAILED_TESTS


def pytest(*arguments: str) -> int:
    """Exit status of one run, whose output is passed through."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def failed_tests() -> list[str]:
    """Node ids of the tests that failed in the last run, as pytest's cache has them."""
    path = CACHE / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def folder_name(test: str) -> str:
    """Name of the folder with the evidence of a test (a node id)."""
    kept = test.removeprefix("tests/e2e/")
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
