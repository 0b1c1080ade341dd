# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one stage of the Makefile under a deadline and records what it cost. Prints the table of a
run.

`make -j -O` runs several stages at a time and keeps the output of each in one piece. This module
does what make cannot. It ends a stage that hangs. At the end it prints how long each stage took,
its counts, and the last lines of a failed stage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

RECORDS = Path(__file__).resolve().parents[1] / ".cache" / "stages"
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
SUMMARY = re.compile(r"^(=+ )?(\d+ \w+, )*\d+ \w+ in [\d.]+s")
FLAKY = "flaky: "
TAIL_LINES = 60
PATIENCE = 20.0
TIMED_OUT = 124


@dataclass(frozen=True)
class Record:
    """One stage that ended: exit status, seconds, processor seconds (user and system), pytest's
    counts.

    ``flaky`` has lines about tests that passed only when run again. ``tail`` has the last lines of
    the output.
    """

    stage: str
    status: int
    seconds: float
    processor: float
    counts: dict[str, int] = field(default_factory=dict)
    flaky: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


def run(stage: str, deadline: float) -> Record:
    """Run `make STAGE` and print its output. After ``deadline`` seconds, end it with all its
    processes."""
    began, timed_out = time.monotonic(), threading.Event()
    # A stage does not use the jobserver of the calling make, because it has its own workers.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    process = subprocess.Popen(["make", "--no-print-directory", stage], env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)

    def end() -> None:
        timed_out.set()
        stop(process)

    timer = threading.Timer(deadline, end)
    timer.start()
    print(f"\n=== {stage}", flush=True)
    tail = deque[str](maxlen=TAIL_LINES)
    counts: dict[str, int] = {}
    flaky: list[str] = []
    try:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            tail.append(line.rstrip("\n"))
            # A stage may run pytest more than once.
            for word, number in counts_in(line).items():
                counts[word] = counts.get(word, 0) + number
            if line.startswith(FLAKY):
                flaky.append(line.rstrip("\n"))
        status = process.wait()
    finally:
        timer.cancel()
        stop(process)
    if timed_out.is_set():
        status = TIMED_OUT
        tail.append(f"{stage} did not end within {deadline:g} s and was stopped")
        print(tail[-1], flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Record(stage, status, time.monotonic() - began, used.ru_utime + used.ru_stime, counts, flaky, list(tail))


def stop(process: subprocess.Popen[str]) -> None:
    """End a process group as Ctrl-C would, then kill the rest, because background jobs of shells
    ignore SIGINT."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def counts_in(line: str) -> dict[str, int]:
    """Return the counts in pytest's last line (`3 passed, 1 skipped in 0.12s`), or nothing for
    other lines."""
    if not SUMMARY.match(line):
        return {}
    found = COUNT.findall(line)
    return {word.rstrip("s") if word == "errors" else word: int(number) for number, word in found}


def table(stages: list[str], seconds: float) -> Iterator[str]:
    """Yield lines about the stages of a run that took ``seconds``. The last line sums in pytest's
    own words."""
    records = {name: record for name in stages if (record := read(name))}
    yield f"\n{'stage':<24} {'seconds':>8} {'processor':>10}  result"
    total: dict[str, int] = {}
    for name in stages:
        if name not in records:
            yield f"{name:<24} {'-':>8} {'-':>10}  not run"
            continue
        record = records[name]
        verdict = f"failed ({record.status})" if record.status else "passed"
        words = [verdict, *(f"{number} {word}" for word, number in record.counts.items())]
        yield f"{name:<24} {record.seconds:8.1f} {record.processor:10.1f}  {', '.join(words)}"
        for word, number in record.counts.items():
            total[word] = total.get(word, 0) + number
    yield f"{'together':<24} {seconds:8.1f} {sum(r.processor for r in records.values()):10.1f}"
    for record in records.values():
        if record.status:
            yield f"\n=== {record.stage} failed. Its last lines:"
            yield from record.tail
        yield from record.flaky
    summary = ", ".join(f"{number} {word}" for word, number in total.items()) or "no tests"
    yield f"\n===== {summary} in {seconds:.2f}s ====="


def read(stage: str) -> Record | None:
    """Return the record of a stage of this run, or None if the stage has not ended."""
    path = RECORDS / f"{stage}.json"
    return Record(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def main() -> int:
    """Return the exit status of the stage, or 0 for `begin` and `table`."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("begin", help="forget the records of the last run")
    one = commands.add_parser("run", help="run one stage")
    one.add_argument("stage", help="name of the stage")
    one.add_argument("--deadline", type=float, default=600.0, metavar="SECONDS")
    commands.add_parser("table", help="print the table").add_argument("stages", nargs="+")
    options = parser.parse_args()
    RECORDS.mkdir(parents=True, exist_ok=True)
    clock = RECORDS / "began"
    if options.command == "begin":
        for path in RECORDS.iterdir():
            path.unlink()
        clock.touch()
        return 0
    if options.command == "table":
        print("\n".join(table(options.stages, time.time() - clock.stat().st_mtime)), flush=True)
        return 0
    record = run(options.stage, options.deadline)
    text = json.dumps(asdict(record))
    (RECORDS / f"{record.stage}.json").write_text(text, encoding="utf-8")
    return record.status


if __name__ == "__main__":
    sys.exit(main())
