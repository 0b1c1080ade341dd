# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs stages of the Makefile, some at a time, and ends with a table: seconds, processor seconds and tests of each.

Most stages wait for something half of the time, so several at a time keep the processors busy. Stages start in the
order in which they are named, as soon as one ends. The first one that fails ends the run, unless it is to go on. The
output of the stage that began first is printed as it comes, that of the others in its turn, so the output of each stage
stays in one piece. What a failed stage said last stands once more below the table; those that were stopped because of
it say no more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
PATIENCE = 60.0
TAIL_LINES = 60
SUMMARY = re.compile(r"^(=+ )?(\d+ \w+, )*\d+ \w+ in [\d.]+s")


@dataclass(slots=True)
class Result:
    """One stage: exit status, seconds, processor seconds, pytest's counts if it ran pytest, its last lines."""

    stage: str
    status: int
    seconds: float
    processor: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    tail: list[str] = field(default_factory=list)


class Printer:
    """Prints the lines of many stages, one stage after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, list[str]] = {}
        self._ended: set[str] = set()

    def begin(self, stage: str) -> None:
        """Give a stage its place behind those that began before it."""
        with self._lock:
            self._held[stage] = []
        self.line(stage, f"\n=== {stage}\n")

    def line(self, stage: str, line: str) -> None:
        """Print a line if it is the stage's turn, else hold it back."""
        with self._lock:
            if stage not in self._ended:
                self._held[stage].append(line)
                self._print()

    def end(self, stage: str) -> None:
        """Let the next stage have its turn."""
        with self._lock:
            self._ended.add(stage)
            self._print()

    def stop(self, stages: Iterable[str]) -> None:
        """Forget what was held back of stages that are about to be stopped, and print nothing more of them."""
        with self._lock:
            for stage in self._held.keys() & set(stages) - self._ended:
                self._held[stage] = [f"\n=== {stage}: stopped\n"]
                self._ended.add(stage)
            self._print()

    def _print(self) -> None:
        while self._held:
            stage, lines = next(iter(self._held.items()))
            print("".join(lines), end="", flush=True)
            lines.clear()
            if stage not in self._ended:
                return
            del self._held[stage]


class Stage:
    """`make STAGE` and a thread that reads its output; ``ended`` is called with the result."""

    def __init__(self, name: str, printer: Printer, ended: Callable[[Result], object]) -> None:
        self.name, self._printer, self._ended, self._began = name, printer, ended, time.monotonic()
        printer.begin(name)
        self._process = subprocess.Popen(["make", "--no-print-directory", name], stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        counts: dict[str, int] = {}
        tail = deque[str](maxlen=TAIL_LINES)
        for line in self._process.stdout or ():
            self._printer.line(self.name, line)
            tail.append(line.rstrip("\n"))
            counts = counts_in(line) or counts
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        processor = processor_seconds(self._process.pid)
        status = self._process.wait()
        self._printer.end(self.name)
        self._ended(Result(self.name, status, time.monotonic() - self._began, processor, counts, list(tail)))

    def stop(self) -> None:
        """End it with everything it started, as Ctrl-C would."""
        for number, patience in ((signal.SIGINT, PATIENCE), (signal.SIGKILL, None)):
            if self._thread.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                self._thread.join(patience)


def main() -> int:
    """Run the stages named on the command line; status of the first that failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="how many stages run at a time")
    parser.add_argument("--keep-going", action="store_true", help="run the others, too, when a stage has failed")
    parser.add_argument("stages", nargs="+")
    options = parser.parse_args()
    began = time.monotonic()
    results = run(options.stages, options.at_once, options.keep_going)
    ended = {result.stage for result in results}
    left = [name for name in options.stages if name not in ended]
    print("\n".join(report(results, left, time.monotonic() - began)), flush=True)
    return next((r.status for r in results if r.status), 0)


def run(names: list[str], at_once: int, keep_going: bool = False) -> list[Result]:
    """Results of the stages that ended by themselves, in that order; one that fails is the last, unless the others
    are to ``keep_going``."""
    printer, ended, results = Printer(), queue.Queue[Result](), list[Result]()
    waiting, running = list(dict.fromkeys(names)), dict[str, Stage]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                running[name] = Stage(name, printer, ended.put)
            results.append(ended.get())
            del running[results[-1].stage]
            if results[-1].status and not keep_going:
                break
    finally:
        printer.stop(running)
        for stage in running.values():
            stage.stop()
    return results


def processor_seconds(pid: int) -> float:
    """User and system time of an ended process that nobody has waited for, and of all that it has waited for itself."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def counts_in(line: str) -> dict[str, int]:
    """The counts in pytest's last line (`3 passed, 1 skipped in 0.12s`), empty for any other line."""
    if not SUMMARY.match(line):
        return {}
    return {word.rstrip("s") if word == "errors" else word: int(number) for number, word in COUNT.findall(line)}


def report(results: list[Result], left: list[str], seconds: float) -> list[str]:
    """A table of the stages, and the sum in pytest's own words as the last line; ``seconds``: of all together."""
    lines = ["", f"{'stage':<22} {'seconds':>8} {'processor':>10}  result"]
    for result in results:
        verdict = f"failed ({result.status})" if result.status else "passed"
        lines.append(f"{result.stage:<22} {result.seconds:8.1f} {result.processor:10.1f}  "
                     f"{', '.join([verdict, *words(result.counts)])}")
    lines += [f"{stage:<22} {'-':>8} {'-':>10}  not run" for stage in left]
    lines.append(f"{'together':<22} {seconds:8.1f} {sum(result.processor for result in results):10.1f}")
    total: dict[str, int] = {}
    for result in results:
        for word, number in result.counts.items():
            total[word] = total.get(word, 0) + number
    summary = ", ".join(words(total)) or "no tests"
    for result in results:
        if result.status:
            lines += ["", f"=== {result.stage} failed; it said last:", *result.tail]
    return [*lines, "", f"===== {summary} in {seconds:.2f}s ====="]


def words(counts: dict[str, int]) -> list[str]:
    """`["3 passed", "1 skipped"]`."""
    return [f"{number} {word}" for word, number in counts.items()]


if __name__ == "__main__":
    sys.exit(main())
