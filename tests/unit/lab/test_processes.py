# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes are found, stopped and restarted by pid and start time, and never outlive their parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

import pytest

from ansible_collections.composable.infra.lab.errors import LabError, NotYet
from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.processes import pids, supervisor
from ansible_collections.composable.infra.lab.processes.supervisor import Command, Processes

SLEEP = ("sleep", "1000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done")


@pytest.fixture
def some(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.stop_all()


def wait_for(check: object, seconds: float = 10) -> None:
    assert callable(check)
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_start_time_tells_a_process_from_a_later_one_with_its_pid() -> None:
    mine = pids.start_time(os.getpid())
    assert mine is not None
    assert pids.is_same(os.getpid(), mine)
    assert not pids.is_same(os.getpid(), mine + "1")


def test_signal_is_not_sent_when_the_start_time_differs(some: Processes) -> None:
    record = some.start(Command("a", SLEEP))
    assert not pids.send_signal(record.pid, "another boot:1", signal.SIGKILL)
    assert record.alive


def test_zombie_and_absent_process_count_as_gone() -> None:
    child = subprocess.Popen(["true"])
    try:
        wait_for(lambda: pids.start_time(child.pid) is None)
    finally:
        child.wait()
    assert pids.start_time(child.pid) is None
    assert not pids.send_signal(child.pid, "x", signal.SIGTERM)
    assert pids.resident(child.pid) == 0


def test_start_time_copes_with_brackets_in_the_command_name(tmp_path: Path) -> None:
    odd = tmp_path / "a) R (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "1000"])
    try:
        wait_for(lambda: b"a) R" in Path(f"/proc/{child.pid}/cmdline").read_bytes())
        started = pids.start_time(child.pid)
        assert started is not None
        assert started.rpartition(":")[2].isdigit()
    finally:
        child.kill()
        child.wait()


def test_process_has_a_session_of_its_own_and_is_on_record(some: Processes, tmp_path: Path) -> None:
    record = some.start(Command("a", SLEEP, {"GREETING": "hello"}))
    written = json.loads((tmp_path / "processes.json").read_text())
    assert os.getsid(record.pid) == record.pid
    assert written[0]["pid"] == record.pid
    assert b"GREETING=hello" in Path(f"/proc/{record.pid}/environ").read_bytes()


def test_a_running_process_is_not_started_twice(some: Processes) -> None:
    some.start(Command("a", SLEEP))
    with pytest.raises(LabError, match="a runs already"):
        some.start(Command("a", SLEEP))


def test_program_that_does_not_exist(some: Processes) -> None:
    with pytest.raises(LabError, match="a cannot be started"):
        some.start(Command("a", ("/does/not/exist",)))


def test_stop_and_restart_with_the_same_command(some: Processes) -> None:
    first = some.start(Command("a", SLEEP, {"X": "1"}))
    some.stop("a")
    assert not first.alive
    second = some.restart("a")
    assert second.alive
    assert (second.arguments, second.environment) == (first.arguments, first.environment)


def test_a_forgotten_process_ends_and_leaves_no_record_and_no_log(some: Processes) -> None:
    record = some.start(Command("a", SLEEP))
    some.forget("a")
    assert not record.alive
    assert some.records() == []
    assert not some.log("a").exists()
    some.wait_until("anything", lambda: True, 1)


def test_unknown_name_lists_the_known_ones(some: Processes) -> None:
    some.start(Command("a", SLEEP))
    with pytest.raises(LabError, match="no process 'b' in this lab: known are a"):
        some.stop("b")


def test_stubborn_process_is_killed(some: Processes) -> None:
    record = some.start(Command("a", STUBBORN))
    some.wait_until("its trap", lambda: some.tail("a") == "deaf", 10)
    some.stop("a", seconds=0.05)
    assert not record.alive


def test_another_instance_stops_what_is_on_record(tmp_path: Path) -> None:
    record = Processes(tmp_path, foreground=False).start(Command("a", SLEEP))
    later = Processes(tmp_path, foreground=False)
    assert later.record("a") == record
    later.stop_all()
    assert not record.alive
    assert not (tmp_path / "processes.json").exists()


def test_stop_all_spares_a_process_that_only_has_the_pid(some: Processes, tmp_path: Path) -> None:
    innocent = some.start(Command("innocent", SLEEP))
    other = tmp_path / "other"
    other.mkdir()
    record = {"name": "old", "pid": innocent.pid, "started": "boot:1", "arguments": [], "environment": {}}
    (other / "processes.json").write_text(json.dumps([record]))
    Processes(other).stop_all()
    assert innocent.alive


class InterruptedSpawner:
    """Starts what it is given, but whoever waits for it is interrupted."""

    def __init__(self) -> None:
        self.real = supervisor._SPAWNER
        self.futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        future = self.real.submit(function, *arguments)
        self.futures.append(future)
        return self if arguments else future

    def result(self) -> None:
        raise KeyboardInterrupt


def test_start_that_is_interrupted_is_stopped_all_the_same(some: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted, spawn, spawner = threading.Event(), supervisor._spawn, InterruptedSpawner()

    def slow(command: Command, log: IO[bytes], foreground: bool) -> subprocess.Popen[bytes]:
        assert interrupted.wait(10)
        return spawn(command, log, foreground)

    monkeypatch.setattr(supervisor, "_spawn", slow)
    monkeypatch.setattr(supervisor, "_SPAWNER", spawner)
    with pytest.raises(KeyboardInterrupt):
        some.start(Command("a", SLEEP))
    interrupted.set()
    some.stop_all()
    assert pids.start_time(spawner.futures[0].result().pid) is None


def test_waiting_ends_with_the_log_of_a_process_that_died(some: Processes) -> None:
    some.start(Command("a", ("sh", "-c", "echo cannot bind; exit 3")))
    with pytest.raises(LabError, match=r"(?s)a ended while the lab waited for luck\. .*cannot bind"):
        some.wait_until("luck", lambda: False, 10)


def test_waiting_has_an_end(some: Processes) -> None:
    some.start(Command("a", SLEEP))
    with pytest.raises(LabError, match="waited 0 s for luck"):
        some.wait_until("luck", lambda: False, 0)


def test_waiting_ends_with_what_was_seen_last(some: Processes) -> None:
    seen = iter(("connection refused", "HTTP status 500"))

    def check() -> bool:
        raise NotYet(next(seen))

    with pytest.raises(LabError, match=r"waited 0 s for luck \(last: connection refused\)\. The logs"):
        some.wait_until("luck", check, 0)


def test_waiting_ends_at_once_when_it_cannot_help(some: Processes) -> None:
    def check() -> bool:
        raise LabError("CERTIFICATE_VERIFY_FAILED")

    with pytest.raises(LabError, match=r"^CERTIFICATE_VERIFY_FAILED$"):
        some.wait_until("luck", check, 3600)


def test_tail_gives_the_last_lines(some: Processes) -> None:
    record = some.start(Command("a", ("sh", "-c", "seq 1 50")))
    wait_for(lambda: not record.alive)
    assert some.tail("a", 2) == "49\n50"
    assert some.tail("absent") == ""


PARENT = """
import sys, threading
from pathlib import Path
from ansible_collections.composable.infra.lab.processes.supervisor import Command, Processes
def start():
    print(Processes(Path(sys.argv[1]), foreground=sys.argv[2] == "foreground").start(
        Command("a", ("sleep", "1000"))).pid, flush=True)
# Started from a thread that ends: the child must live on all the same.
thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.read()
"""


@pytest.mark.parametrize(("mode", "survives"), [("foreground", False), ("detached", True)])
def test_killed_parent_takes_its_foreground_processes_along(tmp_path: Path, mode: str, survives: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": import_path()}
    command = [sys.executable, "-c", PARENT, str(tmp_path), mode]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (record,) = Processes(tmp_path, foreground=False).records()
        alive_before = record.alive
        parent.kill()
    if not survives:
        assert pids.wait_gone(record.pid, record.started, 10)
    alive_after = record.alive
    Processes(tmp_path, foreground=False).stop_all()
    assert (alive_before, alive_after) == (True, survives)
