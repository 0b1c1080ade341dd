# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI Manager that hangs for some machines: workers go on, other nodes and all gates are served meanwhile."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import machine_reader
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.machine_reader import MachineReader
from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Threads
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric

HANGING = 4


def ask_at(bench: Bench, number: int) -> None:
    """A held pod that only one node suits."""
    pod = gated_pods.pod(f"p{number}")
    pod["spec"]["nodeSelector"] = {"number": str(number)}
    bench.put(gated_pods.claim(f"p{number}"), pod)


def test_other_nodes_and_gates_are_served_meanwhile(quiet: tuple[ControllerManager, Bench]) -> None:
    """There are two workers and four machines that hang."""
    engine, bench = quiet
    bench.fabric.others = tuple(f"machine-{number}" for number in range(1, HANGING + 1))
    go = threading.Event()
    bench.fabric.hangs = {f"machine-{number}": go for number in range(HANGING)}
    bench.put({"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
              {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER), "spec": {}})
    for number in range(HANGING + 1):
        node = gated_pods.node(f"node-{number}", f"machine-{number}")
        node["metadata"]["labels"] = {"number": str(number)}
        bench.put(node)
        ask_at(bench, number)
    bench.fabric.free_count = 99
    bench.look()
    engine.work()
    engine.queue.add(GatesKey())
    try:
        bench.wait(lambda: bench.fabric.attaches, "an attach at the node whose machine answers")
        assert {machine for machine, _model in bench.fabric.attaches} == {f"machine-{HANGING}"}
        stranger = gated_pods.claim("nic")
        stranger["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "rdma.example.com"
        bench.put(stranger, gated_pods.pod("nic"))
        engine.queue.add(GatesKey())
        bench.wait(lambda: not gated_pods.gate_names(bench, "nic"), "the gate of the released pod")
        bench.wait(lambda: len(engine.reader) == HANGING, "all readings that hang are under way")
    finally:
        go.set()
    bench.wait(lambda: len(bench.fabric.attaches) == HANGING + 1, "the attaches at the others, once they answer")


def test_attaches_that_hang_on_one_fabric_leave_the_others_theirs(bench: Bench) -> None:
    """More of them than may be under way at the same time."""
    go = threading.Event()
    bench.build(frozenset({"operator"}))
    bench.fabric.others, bench.fabric.fabrics = ("machine-1",), {"machine-1": 2}
    bench.fabric.stuck, bench.fabric.free_count = {"machine-0": go}, 99
    bench.put(objects.node("node-1", "machine-1"), objects.request("stuck", size=bench.PARALLEL + 1),
              objects.request("quick", node="node-1"))
    bench.look()
    try:
        bench.reconcile(NodeKey("node-0"))
        bench.wait(lambda: len(bench.fabric.attaches) == bench.PARALLEL, "as many as may hang")
        bench.reconcile(NodeKey("node-1"))
        bench.wait(lambda: bench.finished == ["node-1"], "the attach on the other fabric")
        assert [d.machine for d in bench.fabric.devices()] == ["machine-1"]
        assert len(bench.fabric.attaches) == bench.PARALLEL + 1, "the bound of the fabric that hangs is kept"
    finally:
        go.set()
    bench.idle()
    assert len(bench.fabric.attaches) == bench.PARALLEL + 2


class Reads:
    """A reader, the nodes that it told of, and the manager behind it."""

    def __init__(self) -> None:
        self.fabric, self.threads, self.told = FakeFabric(), Threads(), list[str]()
        self.reader = MachineReader(self.fabric, self.threads, self.told.append)

    def read(self, uid: str = "machine-0") -> t.Any:
        """A reading for the node of the same number."""
        return self.reader.read(uid.replace("machine", "node"), uid, 1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Reads]:
    """Nobody waits long."""
    monkeypatch.setattr(machine_reader, "PATIENCE", 0.2)
    made = Reads()
    yield made
    for event in made.fabric.hangs.values():
        event.set()
    made.threads.stop(5.0)


def test_quick_answer_is_waited_for_and_each_is_a_new_one(reads: Reads) -> None:
    assert isinstance(reads.read(), Machine)
    assert isinstance(reads.read(), Machine)
    assert (reads.fabric.reads, reads.told) == (2, [])


def test_error_is_the_answer(reads: Reads) -> None:
    reads.fabric.machine_error = Unavailable("it does not answer")
    assert str(reads.read()) == "it does not answer"
    reads.fabric.machine_error = ZeroDivisionError("a bug")
    assert str(reads.read()) == "ZeroDivisionError: a bug"


def test_slow_answer_comes_with_the_next_turn(reads: Reads) -> None:
    reads.fabric.hangs["machine-0"] = threading.Event()
    assert reads.read() is None
    assert reads.read() is None
    assert (reads.fabric.reads, len(reads.reader)) == (1, 1)
    reads.fabric.hangs["machine-0"].set()
    deadline = threading.Event()
    while not reads.told:
        assert not deadline.wait(0.005)
    assert isinstance(reads.read(), Machine)
    assert (reads.fabric.reads, reads.told) == (1, ["node-0"])


def test_old_answer_is_not_used(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    reads.fabric.hangs["machine-0"] = threading.Event()
    assert reads.read() is None
    reads.fabric.hangs.pop("machine-0").set()
    pause = threading.Event()
    while len(reads.reader):
        pause.wait(0.005)
    monkeypatch.setattr(machine_reader, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(machine_reader, "SLOW_SECONDS", 0.0)
    reads.read()
    while reads.fabric.reads < 2:
        pause.wait(0.005)
    assert reads.fabric.reads == 2


def test_after_the_end_nothing_is_read(reads: Reads) -> None:
    reads.read()
    reads.threads.stop(5.0)
    assert isinstance(reads.read(), Unavailable)
