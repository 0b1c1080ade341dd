# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker of pytest that crashes or hangs ends the run at once, and the run names the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests import conftest

SETTINGS = conftest.TESTS.parent / "pyproject.toml"
CRASH = "import os, signal\n\ndef test_it():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = "import threading\n\ndef test_it():\n    threading.Event().wait(60)\n"
QUICK = "def test_it():\n    pass\n"


SEGMENTATION_FAULT = "Fatal Python error: Segmentation fault"
SOON = ("-o", "faulthandler_timeout=0.5")


@pytest.mark.parametrize(("text", "options", "trace"), [
    (CRASH, (), SEGMENTATION_FAULT), (HANG, SOON, "Timeout")], ids=["crash", "hang"])
def test_crash_of_a_worker_ends_the_run(
        tmp_path: Path, text: str, options: tuple[str, ...], trace: str) -> None:
    for name, content in (("a", text), ("b", QUICK), ("c", QUICK), ("d", QUICK)):
        (tmp_path / f"test_{name}.py").write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), "--rootdir", str(tmp_path),
               "-n", "2", "--dist", "loadfile", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100,
                          check=False)
    assert done.returncode == 1
    assert trace in done.stderr
    assert "crashed while running 'test_a.py::test_it'" in done.stdout
    assert "FAILED test_a.py::test_it" in done.stdout


def test_tests_that_import_grpc_run_apart() -> None:
    """Each file that opens gRPC sockets has the marker. So a crash there stops no other test."""
    importing = [path for path in (conftest.TESTS / "unit").rglob("*.py")
                 if "\nimport grpc\n" in path.read_text(encoding="utf-8")]
    assert len(importing) > 3
    assert [path for path in importing if not any(map(path.is_relative_to, conftest.GRPC))] == []
    assert [place for place in conftest.GRPC if not place.exists()] == []
