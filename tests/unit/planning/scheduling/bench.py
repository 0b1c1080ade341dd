# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that a plan takes: ``python -m ansible_collections.composable.infra.tests.unit.planning.scheduling.bench``.

500 nodes of 10 devices each and 20 pods each; 1,000 waiting pods. Prints milliseconds of CPU; asserts nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    NodeFacts,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    RULES,
    WAIT,
    Rules,
    exactly,
    gated,
    idle,
    make_snapshot,
    node,
    raw_pod,
)

NODES, PODS = 500, 1000
ZONE = "topology.kubernetes.io/zone"
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
           "labelSelector": {"matchLabels": {"app": "a"}}}]


def nodes(devices: int, bound: int = 0) -> list[NodeFacts]:
    """Nodes in ten zones, with running pods, idle devices and devices in use."""
    return [node(f"node-{i}", *(raw_pod(f"old-{i}-{j}", cpu="10m") for j in range(20)),
                 labels={ZONE: f"zone-{i % 10}"}, allocatable={"cpu": "64"},
                 stock={A100: Stock(idle(devices, node=f"n{i}"), bound=bound, limit=10)}) for i in range(NODES)]


def equal_pods() -> list[GatedPod]:
    return [gated(f"p{i}", age=PODS - i) for i in range(PODS)]


def different_pods() -> list[GatedPod]:
    """Every pod asks for another amount of cpu and one of four counts of devices."""
    return [gated(f"p{i}", exactly(A100, 1 + i % 4), age=PODS - i, labels={"pod": str(i)}, cpu=f"{100 + i}m")
            for i in range(PODS)]


def spread_pods() -> list[GatedPod]:
    return [gated(f"p{i}", age=PODS - i, labels={"app": "a"}, topologySpreadConstraints=SPREAD) for i in range(PODS)]


def lonely_pods() -> list[GatedPod]:
    """No two of them on one node: half find none."""
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}
    return [gated(f"p{i}", age=PODS - i, labels={"app": "a"}, affinity=apart) for i in range(PODS)]


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of CPU, the best of three."""
    best = float("inf")
    for _unused in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1000


def show(name: str, snapshot: SchedulingSnapshot, rules: Rules = RULES) -> None:
    """First plan, a plan with a cache and nothing new, and one in which all pods that were served are placed."""
    cache = ParseCache()
    found = plan_placements(snapshot, rules, cache)
    later = replace(snapshot, placements=found.placements)
    first = timed(lambda: plan_placements(snapshot, rules))
    again = timed(lambda: plan_placements(snapshot, rules, cache))
    placed = timed(lambda: plan_placements(later, rules, cache))
    print(f"{name:42} first {first:7.1f}   again {again:7.1f}   once placed {placed:7.1f}   "
          f"{len(found.placements)} placed, {len(found.releases)} let go, {len(found.wait_reasons)} wait reasons")


def main() -> None:
    """Print the table."""
    show("equal pods, devices to be attached", make_snapshot(*nodes(0), *equal_pods(), free=5000))
    show("equal pods, 10 idle devices a node", make_snapshot(*nodes(10), *equal_pods()))
    show("1,000 kinds of pods, 2 idle a node", make_snapshot(*nodes(2), *different_pods(), free=4000))
    show("spread over 10 zones", make_snapshot(*nodes(0), *spread_pods(), free=5000))
    show("not two on a node, half are let go", make_snapshot(*nodes(0), *lonely_pods(), free=5000))
    show("no device free, let go", make_snapshot(*nodes(0, bound=10), *equal_pods()))
    show("no device free, they wait", make_snapshot(*nodes(0, bound=9), *equal_pods()), WAIT)
    show("half can be served, the others wait", make_snapshot(*nodes(0), *different_pods(), free=1250), WAIT)


if __name__ == "__main__":
    main()
