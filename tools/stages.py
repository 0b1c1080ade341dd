# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs stages of the Makefile one after the other and ends with what each took and how many tests it ran.

The first stage that fails ends the run: the stages are named in the order of how soon they can tell.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
SUMMARY = re.compile(r"^(=+ )?(\d+ \w+, )*\d+ \w+ in [\d.]+s")


@dataclass(slots=True)
class Result:
    """One stage: its exit status, seconds, and pytest's counts if it ran pytest."""

    stage: str
    status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


def main() -> int:
    """Run the stages named on the command line; status of the first that failed, else 0."""
    results: list[Result] = []
    for stage in sys.argv[1:]:
        print(f"\n=== {stage}", flush=True)
        results.append(run(stage))
        if results[-1].status:
            break
    print("\n".join(report(results, left=sys.argv[1 + len(results):])), flush=True)
    return results[-1].status if results else 0


def run(stage: str) -> Result:
    """Run `make STAGE`, its output passed on line by line."""
    started = time.monotonic()
    counts: dict[str, int] = {}
    with subprocess.Popen(["make", "--no-print-directory", stage], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            counts = counts_in(line) or counts
    return Result(stage, process.returncode, time.monotonic() - started, counts)


def counts_in(line: str) -> dict[str, int]:
    """The counts in pytest's last line (`3 passed, 1 skipped in 0.12s`), empty for any other line."""
    if not SUMMARY.match(line):
        return {}
    return {word.rstrip("s") if word == "errors" else word: int(number) for number, word in COUNT.findall(line)}


def report(results: list[Result], left: list[str]) -> list[str]:
    """A table of the stages, and the sum in pytest's own words as the last line."""
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
    return [*lines, "", f"===== {summary} in {sum(r.seconds for r in results):.2f}s ====="]


def words(counts: dict[str, int]) -> list[str]:
    """`["3 passed", "1 skipped"]`."""
    return [f"{number} {word}" for word, number in counts.items()]


if __name__ == "__main__":
    sys.exit(main())
