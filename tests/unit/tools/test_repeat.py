# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make repeat` stops at the first failure, keeps its output, and leaves no busy process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import repeat
from ansible_collections.composable.infra.tools.stage import TIMED_OUT

# A stand-in for pytest. It counts its rounds in a file.
ROUNDS = """
import pathlib, sys, time
rounds = pathlib.Path("rounds")
count = len(rounds.read_text()) + 1 if rounds.exists() else 1
rounds.write_text("x" * count)
print("arguments", *sys.argv[1:])
if count == 2:
    {second}
print("1 passed in 0.1s")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with room for the log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(repeat, "LOG", tmp_path / "cache" / "repeat.log")
    return tmp_path


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str, second: str = "pass") -> int:
    """Return the exit status with a stand-in whose second round does what `second` says."""
    monkeypatch.setattr(repeat, "PYTEST", (sys.executable, "-c", ROUNDS.format(second=second)))
    monkeypatch.setattr(signal, "signal", lambda *_unused: None)
    monkeypatch.setattr(sys, "argv", ["repeat", "--load", "0", *arguments])
    return repeat.main()


def test_each_round_is_a_run_of_pytest(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                       capfd: pytest.CaptureFixture[str]) -> None:
    assert called(monkeypatch, "--times", "3", "--", "tests/unit", "-k", "claims") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["1/3:", "2/3:", "3/3:", "3"]
    assert lines[0].endswith("s: 1 passed in 0.1s")
    assert lines[-1].startswith("3 runs, 0 failures, seconds: min ")
    assert "arguments tests/unit -k claims" in repeat.LOG.read_text()


def test_the_first_failure_ends_the_run_and_its_output_is_kept(
        folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("--times", "9", "--", "t")
    assert called(monkeypatch, *arguments, second="print('it broke'); sys.exit(7)") == 7
    out = capfd.readouterr().out
    assert f"round 2 failed with status 7: {repeat.LOG}" in out
    assert "2 runs, 1 failures" in out
    assert "it broke" in out
    assert "it broke" in repeat.LOG.read_text()


def test_a_round_that_hangs_is_stopped_and_fails(
        folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("--times", "9", "--deadline", "2", "--", "t")
    assert called(monkeypatch, *arguments, second="time.sleep(60)") == TIMED_OUT
    assert "round 2 failed with status 124 (not done after 2 s)" in capfd.readouterr().out


def test_busy_processes_end_with_the_run() -> None:
    found: list[int] = []

    def interrupted() -> None:
        with repeat.load(2):
            found.extend(children())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(found) == 2
    assert [pid for pid in found if command(pid)] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_busy_processes_end_when_the_run_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    """Also when the run cannot end them itself."""
    code = ("from ansible_collections.composable.infra.tools import repeat\n"
            "from pathlib import Path\n"
            "import sys\n"
            f"repeat.LOG = Path({str(tmp_path / 'log')!r})\n"
            "repeat.PYTEST = (sys.executable, '-c', 'import time; time.sleep(3)')\n"
            "sys.argv = ['repeat', '--load', '2', '--', 'x']\n"
            "sys.exit(repeat.main())\n")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(children(process.pid)) == 3)
        busy = [pid for pid in children(process.pid) if "getppid" in command(pid)]
        process.send_signal(number)
        assert process.wait(60) != 0
        wait_for(lambda: not any("getppid" in command(pid) for pid in busy))
    finally:
        process.kill()
        process.wait()
    assert len(busy) == 2


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait at most 30 s."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(parent: int = 0) -> list[int]:
    """Return the busy processes and rounds that a process (this one) started."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent or os.getpid())],
                           capture_output=True, text=True, check=False).stdout.splitlines()
    return [int(line.split()[0]) for line in found if sys.executable in line]


def command(pid: int) -> str:
    """Return the command line of a process, empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
