# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of nodes between two plans is what would be read anew, and only what changed is read anew."""

from __future__ import annotations

import json
import random
import time
import typing as t
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine, Size
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts, Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.snapshot import _facts
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import (
    AGENT,
    PLACES,
    NodeAgents,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, H100, pod
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

NUMBERS = range(4)
STEPS = 120
# Nodes are seldom at rest in some histories: so many more things happen until one was.
MOST_STEPS = 2000


def name_of(number: int) -> str:
    return f"node-{number}"


class History:
    """A cluster to which things happen at random."""

    def __init__(self, bench: Bench, rng: random.Random) -> None:
        self.bench, self.rng, self.state = bench, rng, bench.state
        self.time = time.time()
        self.state.clock = lambda: self.time
        self.state.agents = NodeAgents(rng.choice([AGENT, self.state.agents.kind]), lambda: self.time)
        self.steps: list[Callable[[str], object]] = [
            self.node, self.no_node, self.slice, self.resource, self.resource, self.no_resource, self.claim,
            self.no_claim, self.request, self.nodeless, self.pod, self.no_pod, self.hold, self.operation, self.taint,
            self.block, self.reserve, self.unreserve, self.look, self.share, self.leave, self.wait, self.agent]

    def step(self) -> str:
        """Something happens; its name."""
        chosen, node = self.rng.choice(self.steps), name_of(self.rng.choice(NUMBERS))
        chosen(node)
        return f"{chosen.__name__} {node}"

    def _any(self, *names: str) -> str:
        return self.rng.choice(names)

    def node(self, node: str) -> None:
        raw = gated_pods.node(node, self._any("machine-0", node.replace("node", "machine")))
        raw["metadata"]["labels"] = {"cohdi.io/a100-size-max": str(self.rng.randrange(5))}
        raw["spec"] |= {"unschedulable": self.rng.random() < 0.2}
        self.bench.put(raw)

    def no_node(self, node: str) -> None:
        if found := self.state.nodes.value(node):
            self.bench.drop(found.as_object())

    def slice(self, node: str) -> None:
        uuids = self.rng.sample([f"GPU-{node}-{i}" for i in range(3)], self.rng.randrange(4))
        self.bench.put(objects.local_slice(*uuids, node=node))

    def resource(self, node: str) -> None:
        number = self.rng.randrange(3)
        self.bench.put(objects.resource(
            f"gpu-{node}-{number}", device=self._any("", f"d-{node}-{number}"), node=node,
            serial=f"GPU-{node}-{number}", asked=self.rng.choice([None, 1.0, 10_000.0, self.time]),
            state=self._any("Online", "Online", "Attaching", "Detaching"), model=self._any(A100, H100),
            deleted=self.rng.random() < 0.1))

    def no_resource(self, node: str) -> None:
        for found in self.state.resources.values("node", node)[:1]:
            self.bench.drop(found.as_object())
            self.state.forget(found.name)

    def claim(self, node: str) -> None:
        result = objects.local_result(f"gpu-{self.rng.randrange(3)}", node)
        results = self.rng.choice([(), (result,), (objects.pool_result(),)])
        self.bench.put(objects.claim(f"claim-{node}", *results, node=self.rng.choice([None, node])))

    def no_claim(self, node: str) -> None:
        if claim := self.state.claims.value(f"claim-{node}", "default"):
            self.bench.drop(claim.as_object())

    def request(self, node: str) -> None:
        self.bench.put(objects.request(f"request-{node}", self.rng.randrange(3), node=node))

    def nodeless(self, node: str) -> None:
        self.bench.put(objects.request("nodeless", self.rng.randrange(3), node=""))

    def pod(self, node: str) -> None:
        raw = gated_pods.pod(f"pod-{node}", *self.rng.choice([(), ("other",)]))
        raw |= self.rng.choice([{"spec": {**raw["spec"], "nodeName": node}}, {"status": {"nominatedNodeName": node}}])
        self.bench.put(raw)

    def leave(self, node: str) -> None:
        if found := self.state.pods.value(f"pod-{node}", "default"):
            raw = found.as_object()
            end = format_time(self.time + self.rng.choice([5.0, 60.0]))
            self.bench.put({**raw, "metadata": {**raw["metadata"], "deletionTimestamp": end}})

    def wait(self, node: str) -> None:
        self.time += self.rng.choice([1.0, 20.0, 200.0])

    def no_pod(self, node: str) -> None:
        if found := self.state.pods.value(f"pod-{node}", "default"):
            self.bench.drop(found.as_object())

    def hold(self, node: str) -> None:
        claims = [f"uid-claim-{name_of(number)}" for number in NUMBERS]
        self.state.holds.keep(f"gpu-{node}-0", self._any(*claims, "")) if self.rng.random() < 0.7 else (
            self.state.holds.end(f"gpu-{node}-0"))

    def operation(self, node: str) -> None:
        if not self.state.operations.begin(f"gpu-{node}-1"):
            self.state.operations.end(f"gpu-{node}-1")

    def taint(self, node: str) -> None:
        name = f"gpu-{node}-1"
        if not self.state.tainted.pop(name, None):
            self.state.note_taints(name, [(DRIVER, node, "gpu-0"), (DRIVER, node, "gpu-1")])

    def block(self, node: str) -> None:
        self.state.blocks.block(node, A100, self.rng.choice([-1.0, 60.0]), "refused")

    def reserve(self, node: str) -> None:
        ref, needs = replace(pod(f"pod-{node}"), uid=f"pod-pod-{node}"), {f"uid-claim-{node}": {A100: 1}}
        placement = Placement(ref, node, needs, 1.0, gated_pods.pod(f"pod-{node}"))
        self.state.reservations.add([placement])

    def unreserve(self, node: str) -> None:
        self.state.reservations.drop(f"pod-pod-{node}")

    def look(self, node: str) -> None:
        machines = {f"machine-{i}": Machine(f"machine-{i}", name_of(i), self.rng.choice([1, 2, None]), tuple(
            device(f"d{i}") for _unused in range(self.rng.randrange(2)))) for i in NUMBERS if self.rng.random() < 0.9}
        shared = {f"d-{name_of(i)}-0": ("machine-8", "machine-9") for i in NUMBERS if self.rng.random() < 0.1}
        self.state.snapshot = self.rng.choice([None, *[FabricSnapshot(machines, {(A100, 1): 3}, 1.0,
                                                                      shared=shared)] * 4])

    def agent(self, node: str) -> None:
        if self.rng.random() < 0.2:
            self.state.agents.lease_gone(node)
        else:
            places = {"version": 1, "numaNode": self.rng.randrange(2)}
            self.state.agents.lease_changed(node, {
                "metadata": {"annotations": {PLACES: json.dumps(places)}},
                "spec": {"holderIdentity": node, "renewTime": str(self.time), "leaseDurationSeconds": 40}})

    def share(self, node: str) -> None:
        self.state.shares.set("nodeless", {node: self.rng.randrange(3)})


def rebuilt(state: ClusterState) -> dict[str, NodeFacts]:
    return {node.name: _facts(state, node) for node in state.nodes.each_value()}


def test_what_is_kept_is_what_would_be_read_anew(bench: Bench, rng: random.Random) -> None:
    history, known, reads = History(bench, rng), KnownNodes(), []

    def read(state: ClusterState, node: Node) -> NodeFacts:
        reads.append(node.name)
        return _facts(state, node)

    done, nodes, ahead = [], 0, known.ahead(history.state, _facts)
    for number in range(MOST_STEPS):
        if number >= STEPS and len(reads) < nodes:
            break
        done.append(history.step())
        if rng.random() < 0.5 and next(ahead, None) is None:
            ahead = known.ahead(history.state, _facts)
        assert known.facts(history.state, read) == rebuilt(history.state), done
        nodes += len(bench.state.nodes)
    assert len(reads) < nodes, "nothing was ever kept"


@pytest.fixture
def resting(bench: Bench) -> Bench:
    """Four nodes with a device each that nobody waits for."""
    for number in NUMBERS:
        node = name_of(number)
        bench.put(gated_pods.node(node, f"machine-{number}"), objects.local_slice(f"GPU-{node}-0", node=node),
                  objects.resource(f"gpu-{node}-0", device=f"d-{node}-0", serial=f"GPU-{node}-0", node=node, asked=10.0,
                                   state="Online"))
    bench.fabric.others = tuple(f"machine-{number}" for number in NUMBERS)
    bench.look()
    return bench


def read_anew(bench: Bench, known: KnownNodes) -> list[str]:
    """Names of the nodes that are read for a plan."""
    names: list[str] = []

    def read(state: ClusterState, node: Node) -> NodeFacts:
        names.append(node.name)
        return _facts(state, node)

    known.facts(bench.state, read)
    return sorted(names)


def test_without_a_change_nothing_is_read(resting: Bench) -> None:
    known = KnownNodes()
    assert read_anew(resting, known) == [name_of(number) for number in NUMBERS]
    assert read_anew(resting, known) == []
    resting.look()
    assert read_anew(resting, known) == [], "a look that shows the same is no change"


def test_what_was_read_ahead_is_not_read_for_a_plan(resting: Bench) -> None:
    known = KnownNodes()
    assert [facts.name for facts in known.ahead(resting.state, _facts)] == [name_of(number) for number in NUMBERS]
    assert read_anew(resting, known) == []


def test_plan_amid_reading_ahead_reads_the_rest(resting: Bench) -> None:
    known = KnownNodes()
    steps = known.ahead(resting.state, _facts)
    first = next(steps).name
    assert read_anew(resting, known) == sorted({name_of(number) for number in NUMBERS} - {first})
    resting.drop(gated_pods.node("node-3", "machine-3"))
    assert [facts.name for facts in steps] == ["node-1", "node-2"], "a node that went meanwhile is left out"


def test_node_that_was_disturbed_while_it_was_read_is_read_again(resting: Bench) -> None:
    known = KnownNodes()

    def read(state: ClusterState, node: Node) -> NodeFacts:
        if node.name == "node-1":
            state.operations.begin("gpu-node-1-0")
        return _facts(state, node)

    assert len([*known.ahead(resting.state, read)]) == len(NUMBERS)
    resting.state.operations.end("gpu-node-1-0")
    assert read_anew(resting, known) == ["node-1"]


def changed_node(bench: Bench) -> None:
    bench.put({**bench.api.one(NODES, "node-1"), "spec": {"unschedulable": True}})


CHANGES: dict[str, Callable[[Bench], object]] = {
    "node": changed_node,
    "slice": lambda bench: bench.put(objects.local_slice("GPU-new", node="node-1")),
    "resource": lambda bench: bench.put(objects.resource("gpu-node-1-1", node="node-1")),
    "claim": lambda bench: bench.put(objects.claim("c", objects.local_result("gpu-0", "node-1"), node="node-1")),
    "claim that names no node": lambda bench: bench.put(
        objects.claim("c", objects.local_result("gpu-0", "node-1"), node=None)),
    "request": lambda bench: bench.put(objects.request(node="node-1")),
    "pod": lambda bench: bench.put({**objects.pod(), "spec": {"nodeName": "node-1"}}),
    "hold": lambda bench: bench.state.holds.keep("gpu-node-1-0", "uid"),
    "operation": lambda bench: bench.state.operations.begin("gpu-node-1-0"),
    "taint": lambda bench: bench.state.note_taints("gpu-node-1-0", [(DRIVER, "node-1", "gpu-0")]),
    "block": lambda bench: bench.state.blocks.block("node-1", A100, 60.0, "refused"),
    "other fabric": lambda bench: inventory(bench, machines={"machine-1": Machine("machine-1", "node-1", 2)}),
    "other limits": lambda bench: inventory(bench, sizes={"machine-1": {A100: Size(0, 2)}}),
    "device of two machines": lambda bench: inventory(bench, shared={"d-node-1-0": ("machine-1", "machine-9")}),
    "agent": lambda bench: agent_renews(bench, "node-1"),
}


def inventory(bench: Bench, **parts: t.Any) -> None:
    """The next poll shows these parts otherwise."""
    seen = bench.state.snapshot
    assert seen is not None
    more: dict[str, t.Any] = {name: {**getattr(seen, name), **part} for name, part in parts.items()}
    bench.state.snapshot = replace(seen, **more)


def agent_renews(bench: Bench, node: str) -> None:
    spec = {"holderIdentity": node, "renewTime": "a", "leaseDurationSeconds": 40}
    bench.state.agents.lease_changed(node, {"spec": spec})


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_node_has_that_node_read(resting: Bench, change: str) -> None:
    known = KnownNodes()
    read_anew(resting, known)
    CHANGES[change](resting)
    assert read_anew(resting, known) == ["node-1"]


def test_a_node_with_the_same_machine_changes_the_other_one(resting: Bench) -> None:
    known = KnownNodes()
    read_anew(resting, known)
    resting.put(gated_pods.node("node-9", "machine-1"))
    assert read_anew(resting, known) == ["node-1", "node-9"]
    resting.drop(gated_pods.node("node-9", "machine-1"))
    assert read_anew(resting, known) == ["node-1"]


def test_what_an_inventory_no_longer_shows_is_read_again(resting: Bench) -> None:
    known, before = KnownNodes(), resting.state.snapshot
    inventory(resting, shared={"d-node-1-0": ("machine-1", "machine-9")})
    read_anew(resting, known)
    resting.state.snapshot = before
    assert read_anew(resting, known) == ["node-1"]


def test_an_agent_that_falls_silent_has_its_node_read(resting: Bench) -> None:
    known, now = KnownNodes(), 100.0
    resting.state.agents = NodeAgents(AGENT, lambda: now)
    for number in NUMBERS:
        agent_renews(resting, name_of(number))
    read_anew(resting, known)
    now += 39.0
    assert read_anew(resting, known) == []
    agent_renews(resting, "node-0")  # the same renewal again
    now += 2.0
    assert read_anew(resting, known) == [name_of(number) for number in NUMBERS]
    assert read_anew(resting, known) == []


def test_the_end_of_an_operation_has_the_node_read(resting: Bench) -> None:
    known = KnownNodes()
    resting.state.operations.begin("gpu-node-1-0")
    read_anew(resting, known)
    resting.state.operations.end("gpu-node-1-0")
    assert read_anew(resting, known) == ["node-1"]
    assert read_anew(resting, known) == []


def test_the_share_of_a_request_that_names_no_node_has_the_node_read(resting: Bench) -> None:
    known = KnownNodes()
    resting.put(objects.request("nodeless", 2, node=""))
    read_anew(resting, known)
    resting.state.shares.set("nodeless", {"node-1": 1})
    assert read_anew(resting, known) == ["node-1"]


def test_a_device_that_comes_is_looked_at_until_it_is_overdue(resting: Bench) -> None:
    known, now = KnownNodes(), time.time()
    resting.state.clock = lambda: now
    resting.put(objects.resource("gpu-node-1-1", device="d1", node="node-1", asked=1.0, state="Online"))
    read_anew(resting, known)
    coming = known.facts(resting.state, _facts)["node-1"].stock[A100].coming
    now += resting.state.settings.placement_timeout + 1.0
    assert (coming, read_anew(resting, known)) == (1, ["node-1"])
    assert known.facts(resting.state, _facts)["node-1"].stock[A100].coming == 0
