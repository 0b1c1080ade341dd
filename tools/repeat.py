# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs tests many times in a row beside busy processes, to show that no test fails by chance.

Each round is a process of its own, as in `make test`. So a round also shows a test that crashes
its process. The first round that fails ends the run, and the log keeps its output.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .stage import TIMED_OUT, stop

LOG = Path(__file__).resolve().parents[1] / ".cache" / "repeat.log"
PYTEST = (sys.executable, "-m", "pytest")
BUSY = "import os\nwhile os.getppid() == {}:\n    sum(range(100_000))\n"


@contextmanager
def load(count: int) -> Iterator[None]:
    """Keep `count` processes busy. They end also when a signal kills this process."""
    with ExitStack() as ends:
        for _number in range(count):
            process = subprocess.Popen([sys.executable, "-c", BUSY.format(os.getpid())])
            ends.callback(process.wait)
            ends.callback(process.kill)
        yield


def run_round(command: Sequence[str], deadline: float) -> int:
    """Write the output of `command` to the log. Return its status, `TIMED_OUT` after `deadline`."""
    with LOG.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        try:
            return process.wait(deadline)
        except subprocess.TimeoutExpired:
            return TIMED_OUT
        finally:
            stop(process)


def repeat(command: Sequence[str], times: int, deadline: float) -> int:
    """Run up to `times` rounds. Return the exit status of the round that failed, else 0."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    seconds: list[float] = []
    for number in range(1, max(times, 1) + 1):
        began = time.monotonic()
        status = run_round(command, deadline)
        seconds.append(time.monotonic() - began)
        output = LOG.read_text(encoding="utf-8", errors="replace").strip()
        last = output.rpartition("\n")[2]
        print(f"{number}/{times}: {seconds[-1]:.1f} s: {last}", flush=True)
        if status:
            break
    if status:
        late = f" (not done after {deadline:g} s)" if status == TIMED_OUT else ""
        print(f"{output}\nround {number} failed with status {status}{late}: {LOG}")
    spread = [f(seconds) for f in (min, statistics.median, max)]
    print(f"{number} runs, {int(bool(status))} failures, seconds: "
          "min {:.1f}, median {:.1f}, max {:.1f}".format(*spread), flush=True)
    return status


def main() -> int:
    """Return the exit status of the round that failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=30, help="number of rounds (default: %(default)s)")
    parser.add_argument("--load", type=int, default=4, help="number of busy processes (default: %(default)s)")
    parser.add_argument("--deadline", type=float, default=600.0, help="seconds for a round (default: %(default)g)")
    parser.add_argument("tests", nargs="+", help="arguments for pytest, after --")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_unused: sys.exit(128 + signal.SIGTERM))
    with load(options.load):
        return repeat([*PYTEST, *options.tests], options.times, options.deadline)


if __name__ == "__main__":
    sys.exit(main())
