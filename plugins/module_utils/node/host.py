# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands of a node, and undo steps on a node.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import left_behind
from .evidence import COMMAND_FAILED, NodeTrouble
from .probe import SIMULATED

_NOT_STARTED = (126, 127)


@dataclass(frozen=True)
class Output:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """The last line of output, for people."""
        return ((self.err.strip() or self.out.strip()).splitlines() or ["it said nothing"])[-1]


class NotEnded(NodeTrouble):
    """A command did not end in time."""


class Host:
    """A node. ``root`` is the path of its ``/``. Tests give ``run`` to replace commands."""

    def __init__(self, root: Path, run: Callable[[Sequence[str], float], Output] | None = None) -> None:
        self.root = root
        self._run = run

    def run(self, argv: Sequence[str], timeout: float, noted: bool = False) -> Output:
        """Run a command of the node without a shell. The caller judges its exit code.

        Raise NodeTrouble(CommandFailed) if the node has no such command, and NotEnded if it does
        not end within ``timeout`` seconds. Then kill it. If it hangs in the kernel, leave it, and
        refuse to run the command again until it has ended. With ``noted``, record the process at
        once, for later programs too.
        """
        return self._run(argv, timeout) if self._run else self._start(argv, timeout, noted)

    def must(self, argv: Sequence[str], timeout: float) -> str:
        """Return the output of the command.

        Raise NodeTrouble(CommandFailed), also for any exit code except 0.
        """
        done = self.run(argv, timeout)
        if done.code:
            raise NodeTrouble(COMMAND_FAILED, f"{' '.join(argv)} ended with {done.code}: {done.said}")
        return done.out

    def _start(self, argv: Sequence[str], timeout: float, noted: bool) -> Output:
        work = " ".join(argv)
        earlier = left_behind.running(self.root, work)
        if earlier:
            raise NotEnded(COMMAND_FAILED, f"{work} began earlier and hangs in the kernel, as process {earlier}. "
                                           "Reboot the node if it does not end")
        command, environment = self.command(argv)
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=environment, start_new_session=True)
        except OSError as error:
            raise NodeTrouble(COMMAND_FAILED, f"the node cannot run {argv[0]}: {error.strerror}") from None
        if noted:
            self._note(work, process.pid)
        done = _finish(process, timeout)
        if done is None:
            self._note(work, process.pid)
            raise NotEnded(COMMAND_FAILED, f"{work} has not ended within {timeout:g} s")
        if done.code in _NOT_STARTED and command[0] == "chroot":
            raise NodeTrouble(COMMAND_FAILED, f"the node cannot run {argv[0]}: {done.said}")
        return done

    def _note(self, work: str, pid: int) -> None:
        """Record the process. Raise NotEnded if that fails, as its end cannot be known then."""
        try:
            left_behind.note(self.root, work, pid)
        except OSError as error:
            raise NotEnded(COMMAND_FAILED, f"{work} began as process {pid}, which cannot be noted: {error}") from None

    def command(self, argv: Sequence[str]) -> tuple[list[str], dict[str, str] | None]:
        """Return the command as it is started here, and its environment, or None for our own."""
        if str(self.root) == "/":
            return list(argv), None
        if (self.root / SIMULATED).exists():
            return [str(self.root / "usr/bin" / argv[0]), *argv[1:]], dict(os.environ, NODE_ROOT=str(self.root))
        return ["chroot", str(self.root), *argv], None


def _finish(process: subprocess.Popen[bytes], timeout: float) -> Output | None:
    """Return the output of the command, or None if it did not end in time."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        # The process may hang in the kernel, where no signal reaches it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        return None
    return Output(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


class Undo:
    """Actions that undo the completed steps, the last step first."""

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []

    def later(self, back: Callable[[], object]) -> None:
        """Add an action. If it raises, the others still run."""
        self._back.append(back)

    def all(self) -> list[str]:
        """Undo everything. Return a sentence for each action that failed."""
        said = []
        while self._back:
            said += _failure(self._back.pop())
        return said


def _failure(back: Callable[[], object]) -> list[str]:
    try:
        back()
    except NodeTrouble as trouble:
        return [trouble.message]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return []
