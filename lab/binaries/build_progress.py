# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the go command and tells a waiting person how far it is: on a terminal often, on a pipe every half minute.

`go build -v` names each package on its standard error when it compiles it. `go list` says beforehand which packages
must be compiled; those that Go's own cache holds are not named.
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
    """Tells nobody."""


def interval() -> float:
    """Seconds between two lines for a person: 5 at a terminal, 30 in a log."""
    return 5.0 if sys.stderr.isatty() else 30.0


class BuildProgress:
    """Counts what go names, and tells where it stands at most once in ``every`` seconds.

    `title`: what is built, at the beginning of each line. Packages that are not in `packages` do not count.
    """

    def __init__(self, title: str, tell: Tell, every: float | None = None) -> None:
        self.title, self.tell = title, tell
        self.every = interval() if every is None else every
        self.packages: Collection[str] | None = None
        self.began = self.told = time.monotonic()
        self._seen: set[str] = set()
        self._modules = 0

    def take(self, line: str) -> None:
        """One line of go's standard error."""
        if line.startswith(_DOWNLOAD):
            self._modules += 1
        elif line in (self.packages or ()):
            self._seen.add(line)
        if self.remaining() == 0:
            self.say()

    def remaining(self) -> float:
        """Seconds until the next line is due."""
        return max(0.0, self.told + self.every - time.monotonic())

    def say(self) -> None:
        """Tell where it stands."""
        self.told = time.monotonic()
        self.tell(f"{self.title}: {self.state()}, {self.told - self.began:.0f} s")

    def state(self) -> str:
        """Packages that are done of all; before they are known, the modules that were fetched."""
        if self.packages is None:
            return f"{self._modules} modules fetched"
        if len(self._seen) == len(self.packages):
            return f"all {len(self.packages)} packages compiled, linking"
        return f"{len(self._seen)} of {len(self.packages)} packages"


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], progress: BuildProgress) -> str:
    """Standard output of a go command. LabError with the end of what it says when it fails."""
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
    """All lines until the end; a silent command is told of, too."""
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
