# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the go command and report its progress: often on a terminal, every half minute on a pipe.

`go build -v` prints each package on standard error when it compiles the package. `go list` prints
beforehand which packages must be compiled. Packages in Go's own cache are not printed.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
import typing as t
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.errors import LabError

Tell = Callable[[str], None]
_DOWNLOAD = "go: downloading "
_KEPT = 8


def silent(line: str) -> None:
    """Report nothing."""


def interval() -> float:
    """Return the seconds between two lines of progress: 5 at a terminal, 30 in a log."""
    return 5.0 if sys.stderr.isatty() else 30.0


class BuildProgress:
    """Counts the packages that go prints, and reports at most once in ``every`` seconds.

    `title` names the program at the beginning of each line. Only packages in `packages` count.
    """

    def __init__(self, title: str, tell: Tell, every: float | None = None) -> None:
        self.title, self.tell = title, tell
        self.every = interval() if every is None else every
        self.packages: Collection[str] | None = None
        self.began = self.told = time.monotonic()
        self._seen: set[str] = set()
        self._modules = 0

    def take(self, line: str) -> None:
        """Handle a line of go's standard error."""
        if line.startswith(_DOWNLOAD):
            self._modules += 1
        elif line in (self.packages or ()):
            self._seen.add(line)
        if self.remaining() == 0:
            self.say()

    def remaining(self) -> float:
        """Return the seconds until the next line is due."""
        return max(0.0, self.told + self.every - time.monotonic())

    def say(self) -> None:
        """Report the progress."""
        self.told = time.monotonic()
        self.tell(f"{self.title}: {self.state()}, {self.told - self.began:.0f} s")

    def state(self) -> str:
        """Return the number of finished packages, or of fetched modules before the packages are
        known."""
        if self.packages is None:
            return f"{self._modules} modules fetched"
        if len(self._seen) == len(self.packages):
            return f"all {len(self.packages)} packages compiled, linking"
        return f"{len(self._seen)} of {len(self.packages)} packages"


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], progress: BuildProgress) -> str:
    """Return the standard output of a go command. Raise LabError with the end of its output on
    failure."""
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = queue.Queue[str | None]()
        output: list[str | None] = []
        readers = [threading.Thread(target=_read, args=(process.stderr, lines.put)),
                   threading.Thread(target=_read, args=(process.stdout, output.append))]
        for reader in readers:
            reader.start()
        said = _follow(lines, progress)
        for reader in readers:
            reader.join()
    text = "\n".join(line for line in output if line is not None)
    if process.returncode:
        own = [line for line in said if line not in (progress.packages or ())] or text.splitlines()
        tail = "\n".join(own[-_KEPT:])
        raise LabError(f"{' '.join(command[:3])} failed with status {process.returncode}:\n{tail}")
    return text


def _read(stream: t.IO[str] | None, put: Callable[[str | None], object]) -> None:
    for line in stream or ():
        put(line.rstrip("\n"))
    put(None)


def _follow(lines: queue.Queue[str | None], progress: BuildProgress) -> list[str]:
    """Return all lines until the end. Report progress even if the command prints nothing."""
    said: list[str] = []
    while True:
        try:
            line = lines.get(timeout=progress.remaining() or 0.01)
        except queue.Empty:
            progress.say()
            continue
        if line is None:
            return said
        said.append(line)
        progress.take(line)
