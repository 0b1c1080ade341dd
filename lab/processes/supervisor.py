# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, watch and stop the lab's processes by PID, so that no process of a lab remains.

Every process has its own session, so that Ctrl-C in the terminal does not reach it before an
orderly stop. In the foreground the kernel kills it when this process dies (PR_SET_PDEATHSIG).
Otherwise its PID and start time are recorded for a later `lab down`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from ansible_collections.composable.infra.lab.errors import LabError, NotYet
from ansible_collections.composable.infra.lab.processes import pids

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
# The death signal is bound to the thread that forks, so this thread must live as long as the
# process.
_SPAWNER = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab-spawner")


@dataclass(frozen=True, slots=True)
class Command:
    """A named command. `environment` is added to ours. A process that `outlives` the lab ends by
    itself."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A started process. `started` distinguishes it from a later process with the same PID."""

    name: str
    pid: int
    started: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def alive(self) -> bool:
        """Return whether this process still runs."""
        return pids.is_same(self.pid, self.started)


class Processes:
    """The processes of one lab, recorded in `<state_dir>/processes.json`, with logs in
    `<state_dir>/logs/`."""

    def __init__(self, state_dir: Path, *, foreground: bool = True) -> None:
        self._file = state_dir / "processes.json"
        self._logs = state_dir / "logs"
        self._foreground = foreground
        self._lock = threading.RLock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._records: dict[str, Record] = {}
        if self._file.exists():
            for entry in json.loads(self._file.read_text(encoding="utf-8")):
                record = Record(**{**entry, "arguments": tuple(entry["arguments"])})
                self._records[record.name] = record

    def start(self, command: Command) -> Record:
        """Start `command`. Raise LabError if it runs already or cannot be executed."""
        with self._lock:
            if command.name in self._records and self._records[command.name].alive:
                raise LabError(f"{command.name} runs already, with pid {self._records[command.name].pid}")
            return _SPAWNER.submit(self._start, command).result()

    def restart(self, name: str) -> Record:
        """Start `name` again with the same command."""
        record = self.record(name)
        return self.start(Command(name, record.arguments, record.environment))

    def record(self, name: str) -> Record:
        """Return the record of `name`. Raise LabError with the known names if there is none."""
        with self._lock:
            if name not in self._records:
                known = ", ".join(self._records) or "none"
                raise LabError(f"there is no process {name!r} in this lab: known are {known}")
            return self._records[name]

    def records(self) -> list[Record]:
        """Return all records in the order of their starts."""
        with self._lock:
            return list(self._records.values())

    def stop(self, name: str, seconds: float = 3.0, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop one process and wait for its end. Kill it after `seconds`. Keep its record for a
        restart."""
        self._stop([self.record(name)], seconds, number)

    def forget(self, name: str) -> None:
        """Stop one process and remove its record and its log."""
        with self._lock:
            self.stop(name)
            del self._records[name]
            self._save()
            self.log(name).unlink(missing_ok=True)

    def stop_all(self, seconds: float = 0.7) -> None:
        """Stop all processes at the same time, kill the rest after `seconds`, and forget them."""
        # First complete an interrupted start, so that it is recorded.
        with contextlib.suppress(RuntimeError):
            _SPAWNER.submit(int).result()
        with self._lock:
            self._stop(self.records()[::-1], seconds, signal.SIGTERM)
            self._records.clear()
            self._file.unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """Return the path of the log of `name`."""
        return self._logs / f"{name}.log"

    def tail(self, name: str, lines: int = 10) -> str:
        """Return the last lines of the log of `name`."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log(name).read_text("utf-8", "replace").splitlines()[-lines:])
        return ""

    def wait_until(self, what: str, check: Callable[[], bool], seconds: float, interval: float = 0.03) -> None:
        """Poll `check` until it returns True. `check` may raise NotYet with the current state.

        Raise LabError if a process dies, with the end of its log, or after `seconds`, with the last
        state. Any other error of `check` ends the wait at once.
        """
        deadline, last = time.monotonic() + seconds, ""
        while True:
            began = time.monotonic()
            try:
                if check():
                    return
            except NotYet as seen:
                last = f" (last: {seen})"
            self._complain_about_the_dead(what)
            if time.monotonic() > deadline:
                raise LabError(f"waited {seconds:g} s for {what}{last}. The logs are in {self._logs}")
            # Pause as long as the check took, so that checks do not slow down the start.
            time.sleep(max(interval, time.monotonic() - began))

    def _complain_about_the_dead(self, what: str) -> None:
        for record in self.records():
            if not record.alive:
                end = self.tail(record.name)
                raise LabError(f"{record.name} ended while the lab waited for {what}. The end of its log:\n{end}")

    def _start(self, command: Command) -> Record:
        # Do all of this in the spawner, so that an interrupt cannot separate a start from its
        # record.
        self._logs.mkdir(parents=True, exist_ok=True)
        with open(self.log(command.name), "ab") as log:
            child = _spawn(command, log, self._foreground)
        started = pids.start_time(child.pid) or "gone"
        record = Record(command.name, child.pid, started, command.arguments, dict(command.environment))
        self._children[command.name], self._records[command.name] = child, record
        self._save()
        return record

    def _stop(self, records: list[Record], seconds: float, number: signal.Signals) -> None:
        for record in records:
            pids.send_signal(record.pid, record.started, number)
        deadline = time.monotonic() + seconds
        for record in records:
            if not pids.wait_gone(record.pid, record.started, max(0.0, deadline - time.monotonic())):
                pids.send_signal(record.pid, record.started, signal.SIGKILL)
                pids.wait_gone(record.pid, record.started, 10)
            child = self._children.pop(record.name, None)
            if child is not None:
                child.wait()

    def _save(self) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps([asdict(record) for record in self._records.values()]), encoding="utf-8")
        temporary.replace(self._file)


def _spawn(command: Command, log: IO[bytes], foreground: bool) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def die_with_parent() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **command.environment},
            preexec_fn=die_with_parent if foreground and not command.outlives else None,
        )
    except OSError as error:
        raise LabError(f"{command.name} cannot be started: {error}") from error
