# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event costs the same in a large cluster as in a small one: as many objects are looked at for it."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import BaseStore
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.value_store import ValueStore
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.snapshot import scheduling_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import IdleMinimumsKey, NodeKey, PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Quiet = tuple[ControllerManager, Bench]
SMALL, LARGE = 3, 24


class Looks:
    """Counts the objects that stores give out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for store, name in ((BaseStore, "stored"), (BaseStore, "at"), (BaseStore, "list"), (ValueStore, "each_value")):
            monkeypatch.setattr(store, name, self._counting(getattr(store, name)))

    def _counting(self, method: Callable[..., t.Any]) -> Callable[..., t.Any]:
        @functools.wraps(method)
        def counted(*args: t.Any, **kwargs: t.Any) -> t.Any:
            found = method(*args, **kwargs)
            self.count += len(found) if isinstance(found, list) else 1
            return found
        return counted

    def during(self, work: Callable[[], object]) -> int:
        """How many objects are looked at meanwhile."""
        before = self.count
        work()
        return self.count - before


def shown(node: str) -> dict[str, t.Any]:
    """The slice of a node with two GPUs, at the addresses where all nodes have them."""
    raw = objects.local_slice(f"GPU-{node}-0", f"GPU-{node}-1", node=node)
    for number, entry in enumerate(raw["spec"]["devices"]):
        entry["attributes"]["resource.kubernetes.io/pciBusID"] = {"string": f"0000:1{number}:00.0"}
    return raw


def found(node: str, number: int) -> str:
    """What the node's agent wrote about one of them."""
    return Evidence(evidence.READY, f"d-{node}-{number}", uuid=f"GPU-{node}-{number}",
                    address=f"0000:1{number}:00.0").to_json()


def cluster(bench: Bench, nodes: int) -> None:
    """Nodes with two devices each, one of them used."""
    for node in (f"node-{i}" for i in range(nodes)):
        bench.put(gated_pods.node(node, node.replace("node", "machine")), shown(node),
                  objects.request(node, 2, node=node),
                  objects.claim(f"claim-{node}", objects.local_result("gpu-0", node), node=node),
                  *(objects.resource(f"gpu-{node}-{i}", device=f"d-{node}-{i}", serial=f"GPU-{node}-{i}", node=node,
                                     asked=10_000.0, state="Online", request=node, NODE=found(node, i))
                    for i in range(2)))
    bench.fabric.others = tuple(f"machine-{i}" for i in range(nodes))
    bench.look()


EVENTS: dict[str, tuple[ApiResource, str, str]] = {
    "node": (NODES, "node-1", ""), "claim": (CLAIMS, "claim-node-1", "default"),
    "slice": (SLICES, "slice-node-1", ""), "device": (COMPOSABLE_RESOURCES, "gpu-node-1-0", "")}


def looks_for_event(quiet: Quiet, looks: Looks, event: str) -> int:
    """Objects that are looked at for an event, and for the reconciles that it calls for."""
    engine, bench = quiet
    kind, name, namespace = EVENTS[event]
    kept = bench.seen(bench.api.one(kind, name, namespace))

    def work() -> None:
        engine.dispatch.watched("MODIFIED", kind, kept, kept)
        concerned = engine.dispatch.concerned(Change("MODIFIED", kind, kept, kept))
        keys = [NodeKey("node-1"), *(key for key in concerned if key != IdleMinimumsKey())]  # floors gather
        for key in dict.fromkeys(keys):
            engine.workers.reconcile(key)

    return looks.during(work)


@pytest.mark.parametrize("more", [{}, {"prewarm": [{"model": A100, "idle": 30}]}], ids=["plain", "prewarm"])
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_costs_the_same_in_a_large_cluster(quiet: Quiet, monkeypatch: pytest.MonkeyPatch, event: str,
                                                    more: dict[str, t.Any]) -> None:
    looks = Looks(monkeypatch)
    quiet[0].state.settings = settings(**more)
    cluster(quiet[1], SMALL)
    quiet[0].workers.reconcile(IdleMinimumsKey())
    looks_for_event(quiet, looks, event)  # what is read once is read now
    small = looks_for_event(quiet, looks, event)
    cluster(quiet[1], LARGE)
    quiet[0].workers.reconcile(IdleMinimumsKey())
    looks_for_event(quiet, looks, event)
    assert looks_for_event(quiet, looks, event) == small > 0


def test_a_quota_costs_the_same_in_a_large_cluster(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a claim waits for devices of a pool the devices of all namespaces have to be known."""
    bench, looks, counts = quiet[1], Looks(monkeypatch), []
    bench.state.settings = settings(namespace_quotas={"*": {A100: SMALL}})
    for nodes in (SMALL, LARGE):
        cluster(bench, nodes)
        bench.put(objects.claim("waits", objects.pool_result("a100-0"), node="node-1"))
        assert "uid-waits" in node_snapshot(bench.state, "node-1").over_quota
        counts.append(looks.during(lambda: node_snapshot(bench.state, "node-1")))
    assert counts[0] == counts[1]


def test_a_pool_costs_the_same_in_a_large_cluster(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet
    looks, counts = Looks(monkeypatch), []
    for nodes in (SMALL, LARGE):
        cluster(bench, nodes)
        engine.workers.reconcile(PoolKey(A100, 1))
        counts.append(looks.during(lambda: engine.workers.reconcile(PoolKey(A100, 1))))
    assert counts[0] == counts[1]


def test_what_is_on_its_way_is_found_without_reading_what_is_not(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan of held pods only the look at each node grows, by the same for each."""
    bench, looks, counts = quiet[1], Looks(monkeypatch), []
    for nodes in (SMALL, LARGE, 2 * LARGE - SMALL):
        cluster(bench, nodes)
        scheduling_snapshot(bench.state, ())  # what has changed is read once
        counts.append(looks.during(lambda: scheduling_snapshot(bench.state, ())))
    assert counts[2] - counts[1] == counts[1] - counts[0]
    assert looks.during(bench.state.nodes_with_holds) == 0
