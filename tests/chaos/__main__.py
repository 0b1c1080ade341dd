# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make chaos``: random workloads under random faults. Print what was violated, made small, and
how to repeat it.

Exit status: 0 no violation, 1 a violation, 2 invalid arguments, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.tests.chaos.invariants import kinds
from ansible_collections.composable.infra.tests.chaos.on_lab import page, record
from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome
from ansible_collections.composable.infra.tests.chaos.on_lab.side_by_side import side_by_side
from ansible_collections.composable.infra.tests.chaos.runs import Outcome, queue_scenario, run, scenario
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario
from ansible_collections.composable.infra.tests.chaos.shrinking import shrink

# The order of sets of texts depends on it, and so does the order of the work.
HASH_SEED = "0"
INTERRUPTED = 130


@dataclass
class Total:
    """The sums of many runs."""

    runs: int = 0
    attaches: int = 0
    virtual: float = 0.0
    failed: int = 0

    def add(self, outcome: Outcome) -> None:
        """Add one run."""
        self.runs += 1
        self.attaches += outcome.attaches
        self.virtual += outcome.lasted
        self.failed += bool(outcome.violations)


def parser() -> argparse.ArgumentParser:
    """Return the command line parser."""
    it = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    it.add_argument("--runs", type=_number, default=200, help="how many runs (default: %(default)s)")
    it.add_argument("--seed", type=_number, help="of the first run; each next one has the next (default: a random one)")
    it.add_argument("--parallel", type=_number, default=2, help="processes that share the runs, or labs "
                                                                "(default: %(default)s)")
    it.add_argument("--scenario", help="repeat one run: a file with the JSON that a failing run prints")
    it.add_argument("--log", action="store_true", help="with --scenario: print all that happened")
    it.add_argument("--queue", action="store_true", help="a queue of Jobs with ProvisioningRequests beside other pods")
    it.add_argument("--lab", action="store_true", help="real processes on labs instead of the simulation, about "
                                                       "half a minute for a run")
    it.add_argument("--record", action="store_true", help=f"with --lab: write what came of each run to {record.PATH}, "
                                                          "and their sums into docs/contributors/reliability.md")
    it.add_argument("--keep", metavar="FOLDER", help="with --lab: copy the logs of runs that fail into this folder")
    return it


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 up, is {text!r}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the results, and return the exit status."""
    args = parser().parse_args(argv)
    if args.scenario:
        return _repeat(args.scenario, args.log)
    seed = random.SystemRandom().randrange(10**9) if args.seed is None else args.seed
    print(f"chaos: {args.runs} runs, again with SEED={seed} RUNS={args.runs}", flush=True)
    if args.lab:
        return _on_lab(range(seed, seed + args.runs), max(1, args.parallel), args.record, args.keep)
    began, total = time.monotonic(), Total()
    for outcome in outcomes(range(seed, seed + args.runs), max(1, args.parallel), of_queue if args.queue else of_seed):
        total.add(outcome)
        if outcome.violations:
            print(report(outcome), flush=True)
    print(f"chaos: {total.runs - total.failed} passed, {total.failed} failed in {time.monotonic() - began:.1f} s; "
          f"{total.attaches} devices attached in {total.virtual / 3600:.1f} simulated hours")
    return 1 if total.failed else 0


def _on_lab(seeds: range, labs: int, recorded: bool, keep: str | None) -> int:
    """Run on labs. A failing run is not shrunk, since no two runs are the same. Ctrl-C stops the
    labs.
    """
    found: list[LabOutcome] = []
    status = 0
    try:
        with contextlib.closing(side_by_side(seeds, labs, Path(keep) if keep else None)) as told:
            for outcome in told:
                found.append(outcome)
                print(f"lab: run {outcome.seed}, {outcome.attaches} devices, {outcome.seconds:.1f} s: "
                      f"{'; '.join(outcome.violations) or 'passed'}", flush=True)
                if recorded:
                    record.write(outcome)
                    page.update()
    except KeyboardInterrupt:
        print(f"chaos on the lab: interrupted, {len(seeds) - len(found)} runs are missing; its labs are stopped")
        status = INTERRUPTED
    print(f"chaos on the lab: {record.sums(found)}")
    return status or (1 if record.sums(found).failed else 0)


def outcomes(seeds: Sequence[int], parallel: int, one: Callable[[int], Outcome]) -> Iterator[Outcome]:
    """Yield the outcome of ``one`` for each seed, in order."""
    if parallel == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(parallel) as pool:
        yield from pool.map(one, seeds, chunksize=max(1, min(10, len(seeds) // (2 * parallel))))


def of_seed(seed: int) -> Outcome:
    """Run one seed."""
    return run(scenario(seed))


def of_queue(seed: int) -> Outcome:
    """Run one seed with a queue of Jobs."""
    return run(queue_scenario(seed))


def report(outcome: Outcome) -> str:
    """Return the violations of a failing run, and the smallest scenario that shows them."""
    wanted = kinds(outcome.violations)

    def fails(smaller: Scenario) -> bool:
        return bool(kinds(run(smaller).violations) & wanted)

    small = shrink(outcome.scenario, fails)
    last = run(small)
    lines = [f"run {outcome.scenario.seed} failed; again with: make chaos RUNS=1 SEED={outcome.scenario.seed}",
             *(f"  {said}" for said in outcome.violations),
             f"  {len(small.steps)} of its {len(outcome.scenario.steps)} steps are enough for:",
             *(f"    {said}" for said in last.violations), *(f"    {step}" for step in small.steps),
             f"  as JSON: {small.to_json()}"]
    return "\n".join(lines)


def _repeat(path: str, log: bool) -> int:
    with open(path, encoding="utf-8") as file:
        outcome = run(Scenario.from_json(file.read()))
    for line in (*(outcome.log if log else ()), *outcome.violations):
        print(line)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "ansible_collections.composable.infra.tests.chaos",
                                  *sys.argv[1:]])
    sys.exit(main())
