# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs stages of the Makefile one after the other and ends with what each took and how many tests it ran.

The first stage that fails ends the run: the stages are named in the order of how soon they can tell. One whose name
ends in & runs beside those that follow; it is meant for what keeps one processor busy and leaves the others idle.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
PATIENCE = 60.0
SUMMARY = re.compile(r"^(=+ )?(\d+ \w+, )*\d+ \w+ in [\d.]+s")


@dataclass(slots=True)
class Result:
    """One stage: its exit status, seconds, and pytest's counts if it ran pytest."""

    stage: str
    status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


class Stage:
    """`make STAGE`; ``say`` is given its output line by line."""

    def __init__(self, name: str, say: Callable[[str], object]) -> None:
        self.name, self._say, self._began = name, say, time.monotonic()
        self._process = subprocess.Popen(["make", "--no-print-directory", name], stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)

    def wait(self) -> Result:
        """Pass its output on until it ends."""
        counts: dict[str, int] = {}
        for line in self._process.stdout or ():
            self._say(line)
            counts = counts_in(line) or counts
        status = self._process.wait()
        return Result(self.name, status, time.monotonic() - self._began, counts)

    def stop(self) -> None:
        """End it with everything it started, as Ctrl-C would."""
        if self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Beside:
    """A stage that runs while others do; what it prints comes when it is waited for."""

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self.results: list[Result] = []
        self.stage = Stage(name, self.lines.append)
        self._thread = threading.Thread(target=lambda: self.results.append(self.stage.wait()), daemon=True)
        self._thread.start()

    def wait(self) -> Result:
        """Its output, and how it ended."""
        self._thread.join()
        print(f"\n=== {self.stage.name}\n{''.join(self.lines)}", flush=True)
        return self.results[0]


def main() -> int:
    """Run the stages named on the command line; status of the first that failed, else 0."""
    began, names, beside, results = time.monotonic(), sys.argv[1:], list[Beside](), list[Result]()
    running: list[Stage] = []
    try:
        while names and not any(r.status for r in results):
            name = names.pop(0)
            if name.endswith("&"):
                beside.append(Beside(name.removesuffix("&")))
                continue
            print(f"\n=== {name}", flush=True)
            running.append(Stage(name, lambda line: print(line, end="", flush=True)))
            results.append(running[-1].wait())
        while beside and not any(r.status for r in results):
            results.append(beside.pop(0).wait())
    finally:
        for stage in (*running, *(b.stage for b in beside)):
            stage.stop()
    left = [*(b.stage.name for b in beside), *(name.removesuffix("&") for name in names)]
    print("\n".join(report(results, left, time.monotonic() - began)), flush=True)
    return next((r.status for r in results if r.status), 0)


def counts_in(line: str) -> dict[str, int]:
    """The counts in pytest's last line (`3 passed, 1 skipped in 0.12s`), empty for any other line."""
    if not SUMMARY.match(line):
        return {}
    return {word.rstrip("s") if word == "errors" else word: int(number) for number, word in COUNT.findall(line)}


def report(results: list[Result], left: list[str], seconds: float) -> list[str]:
    """A table of the stages, and the sum in pytest's own words as the last line; ``seconds``: of all together."""
    lines = ["", "stage                  seconds  result"]
    for result in results:
        verdict = f"failed ({result.status})" if result.status else "passed"
        lines.append(f"{result.stage:<22} {result.seconds:7.1f}  {', '.join([verdict, *words(result.counts)])}")
    lines += [f"{stage:<22}       -  not run" for stage in left]
    total: dict[str, int] = {}
    for result in results:
        for word, number in result.counts.items():
            total[word] = total.get(word, 0) + number
    summary = ", ".join(words(total)) or "no tests"
    return [*lines, "", f"===== {summary} in {seconds:.2f}s ====="]


def words(counts: dict[str, int]) -> list[str]:
    """`["3 passed", "1 skipped"]`."""
    return [f"{number} {word}" for word, number in counts.items()]


if __name__ == "__main__":
    sys.exit(main())
