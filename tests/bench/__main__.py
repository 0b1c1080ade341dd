# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the measurements."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import typing as t
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from ansible_collections.composable.infra.tests.bench import agents, autoscaler, http_client, policies, soak
from ansible_collections.composable.infra.tests.bench.agreement import lab_run
from ansible_collections.composable.infra.tests.bench.figures import Figures, Scenario, quantiles
from ansible_collections.composable.infra.tests.bench.large import curves
from ansible_collections.composable.infra.tests.bench.measure import run
from ansible_collections.composable.infra.tests.bench.page import measure as page
from ansible_collections.composable.infra.tests.bench.real_nodes import handovers
from ansible_collections.composable.infra.tests.bench.render import TABLES, update_pages

# The exit status of a shell after Ctrl-C. Results and pages do not change then.
INTERRUPTED = 130
RESULTS = Path(__file__).resolve().parent / "results"
HOPS = [Scenario(f"{n} claims, F={f:g}", pods=n, nodes=n, attach=f, spread=True)
        for n in (1, 20, 200) for f in (0.0, 2.0)]
BASELINE = [
    *(Scenario(f"1 claim, F={f:g}", pods=1, nodes=1, attach=f, announce=2.0) for f in (0.0, 10.0)),
    *(Scenario(f"1 claim of 4 GPUs, F={f:g}", pods=1, nodes=1, attach=f, gpus=4, announce=2.0) for f in (0.0, 10.0)),
    *(Scenario(f"8 pods over 4 nodes, F={f:g}", pods=8, nodes=4, attach=f, announce=2.0) for f in (0.0, 10.0)),
]
# Force the pods onto 4 nodes. The default policy of the controllers would put all eight on one
# node.
GATED = [replace(s, gated=True, alone=True, twice=True, policy="differentnode") for s in BASELINE]
# The vendor's plugin has no part in this handover.
DIRECT = [replace(s, direct=True, announce=0.05) for s in BASELINE]
SCALE = [Scenario("1,000 pods on 500 nodes, F=0", pods=1000, nodes=500, attach=0.0, gated=True, alone=True,
                  spread=True)]
SETS = {"hops": HOPS, "baseline": BASELINE, "gated": GATED, "direct": DIRECT, "scale": SCALE}
# Sets that are no scenarios. Without a lab: the HTTP client of this project beside urllib3, an
# engine and the provider of Cluster Autoscaler with stand-ins. With a lab: agents, pods that come
# and go for a long time, a lab and its replay, the page, real nodes.
OTHERS: dict[str, Callable[[argparse.Namespace], list[dict[str, t.Any]]]] = {
    "client": lambda args: http_client.compare(args.runs), "large": lambda args: curves.run(args.nodes or curves.SIZES),
    "autoscaler": lambda args: autoscaler.run(args.nodes or autoscaler.SIZES),
    "agents": lambda args: agents.run(), "soak": lambda args: soak.run(args.minutes),
    "whatif": lambda args: lab_run.run(args.minutes, again=args.again),
    "page": lambda args: page.run(args.nodes or page.SIZES),
    "policies": lambda args: policies.run(),
    "real": lambda args: handovers.run(args.runs)}
NAMES = sorted([*SETS, *OTHERS])


def record(name: str, runs: list[Figures]) -> dict[str, object]:
    """Return the entry of a results file for one scenario: medians over runs, steps over all claims
    of all runs.
    """
    return {
        "name": name, "runs": len(runs), "scenario": asdict(runs[0].scenario),
        "total_seconds": {"median": statistics.median(r.total for r in runs), "min": min(r.total for r in runs),
                          "max": max(r.total for r in runs)},
        "allocation_to_asked_ms": quantiles([v for r in runs for v in r.asked]),
        "visible_to_condition_ms": quantiles([v for r in runs for v in r.conditioned]),
        "scheduler_write_ms": quantiles([v for r in runs for v in r.writes] or [0.0]),
        "scheduler_after_condition_seconds": statistics.median(v for r in runs for v in r.scheduler),
        "pods_on_their_node": f"{sum(r.at_home for r in runs)} of {sum(r.scenario.pods for r in runs)}",
        "node_found_seconds": statistics.median(r.node_found for r in runs),
        "plugin_restart_seconds": statistics.median(r.plugin_restart for r in runs),
        "overhead_seconds": statistics.median(r.overhead for r in runs),
        "first_overhead_seconds": statistics.median(r.first_overhead for r in runs),
        "loop_seconds": statistics.median(r.loop_seconds for r in runs),
        "visible_to_running_ms": quantiles([v for r in runs for v in r.ran] or [0.0]),
        "pods_per_second": statistics.median(r.rate for r in runs),
        "scheduler_alone_pods_per_second": statistics.median(r.alone for r in runs),
        "scheduler_alone_seconds": statistics.median(r.alone_total for r in runs),
        "cpu_seconds": statistics.median(r.cpu_seconds for r in runs), "rss_mib": max(r.rss_mib for r in runs),
        "others_cpu_seconds": {name: statistics.median(r.others[name] for r in runs) for name in runs[0].others},
    }


def main() -> int:
    """Run the chosen sets, and write results and page."""
    it = argparse.ArgumentParser(prog="bench", description="Measure the system on a lab (simulated hardware).")
    it.add_argument("--set", action="append", choices=NAMES, help="default: all")
    it.add_argument("--only", help="run only scenarios whose name holds this text")
    it.add_argument("--runs", type=int, default=3, help="runs of each scenario (default: %(default)s)")
    it.add_argument("--minutes", type=float, default=30.0,
                    help="how long the sets soak and whatif last (default: %(default)g)")
    it.add_argument("--again", action="store_true",
                    help="whatif: compare once more what was recorded last, without a lab")
    it.add_argument("--nodes", type=int, action="append",
                    help="sizes of the sets large (default: 50, 500, 5000), autoscaler (500, 5000), page (5000, 500)")
    it.add_argument("--dry", action="store_true", help="print, write nothing")
    args = it.parse_args()
    for chosen in args.set or NAMES:
        rows = OTHERS[chosen](args) if chosen in OTHERS else []
        if rows:
            print(json.dumps(rows), flush=True)
        if any(row.get("interrupted") for row in rows):
            print(TABLES[chosen](rows))
            return INTERRUPTED
        for scenario in [s for s in SETS.get(chosen, []) if not args.only or args.only in s.name]:
            runs = [run(scenario) for _unused in range(args.runs)]
            rows.append(record(scenario.name, runs))
            print(json.dumps(rows[-1]), flush=True)
            if args.dry:
                print(json.dumps([asdict(r) for r in runs]))
        if not args.dry and not args.only:
            (RESULTS / f"{chosen}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if not args.dry:
        update_pages(RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
