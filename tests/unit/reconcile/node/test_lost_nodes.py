# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are gone, out of service, or not who they say; and what an administrator deletes."""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Machine
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Detach
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.claim_check import ClaimCheck
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import answered_by_a_proxy
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.node.lost_nodes_support import (
    gone,
    reconcile,
)

OUT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture
def agent() -> t.Iterator[Bench]:
    """A node whose agent does not live and whose machine is off, with a device that nobody uses."""
    made = Bench(hands="agent")
    made.fabric.power = "Off"
    made.build()
    made.put(objects.node(), objects.request(size=1))
    made.fabric.attached["d1"] = device("d1")
    made.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online", created=9000))
    made.look()
    yield made
    made.close()


def test_device_of_a_node_that_is_gone_is_returned(agent: Bench) -> None:
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == [("machine-0", "d1")]
    assert agent.api.of(COMPOSABLE_RESOURCES) == []
    assert agent.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"] == 0


def test_404_of_a_load_balancer_does_not_prove_that_a_node_is_gone(agent: Bench) -> None:
    gone(agent, 301)
    agent.api.fail("get", NODES, answered_by_a_proxy())
    reconcile(agent)
    assert agent.fabric.detaches == []


def test_device_of_a_node_that_just_went_stays_and_is_looked_at_again(agent: Bench) -> None:
    gone(agent, 0)
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert any(key == NodeKey("node-0") and when > time.time() + 290 for key, when in agent.later)


def test_device_of_a_lost_node_stays_while_a_claim_has_it(agent: Bench) -> None:
    """Its pod was not collected yet: the slices went with the node."""
    gone(agent, 301)
    agent.put(objects.claim("train", objects.local_result("gpu-0")))
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert "claim default/train uses a device of node node-0" in agent.status()["error"]
    agent.drop(objects.claim("train"))
    agent.detaches.detach(Detach("node-0", "lost", "gpu-a", "machine-0", "d1", lost=True))
    agent.idle()
    assert agent.fabric.detaches == [("machine-0", "d1")]


def test_node_that_is_back_keeps_its_device(agent: Bench) -> None:
    gone(agent, 301)
    agent.api.put(NODES, objects.node())
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert agent.status()["error"] == "not detached: node node-0 exists again"


def test_node_whose_agent_lives_is_not_lost(agent: Bench) -> None:
    agent.state.agents.lease_changed("node-0", {"metadata": {"name": "node-agent-node-0"}, "spec": {
        "holderIdentity": "node-0", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 90}})
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert not node_snapshot(agent.state, "node-0").lost


def test_device_of_a_node_that_an_administrator_put_out_of_service_is_returned_at_once(agent: Bench) -> None:
    raw = objects.node()
    agent.put({**raw, "spec": {**raw["spec"], "taints": [OUT]}})
    reconcile(agent)
    assert agent.fabric.detaches == [("machine-0", "d1")]


def test_dead_node_alone_gives_nothing_up(agent: Bench) -> None:
    """NotReady may be the network: its pods may go on computing."""
    raw = objects.node()
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    agent.put({**raw, "spec": {**raw["spec"], "taints": [taint]}})
    reconcile(agent)
    assert agent.fabric.detaches == []


def test_of_two_nodes_with_one_provider_id_none_is_believed(bench: Bench) -> None:
    bench.put(objects.node("node-1", "machine-0"), objects.request(size=1))
    for name, other in (("node-0", "node-1"), ("node-1", "node-0")):
        found = node_snapshot(bench.state, name)
        assert (found.machine, found.fabric, found.attached) == (None, None, None)
        assert found.problem.startswith(f"nodes {name} and {other} have the same providerID (machine machine-0)")
    reconcile(bench)
    assert bench.fabric.attaches == []
    assert any("have the same providerID" in e["message"] for e in bench.reporter.history)
    bench.drop(objects.node("node-1", "machine-0"))
    assert node_snapshot(bench.state, "node-0").machine == "machine-0"


def test_resource_that_an_administrator_deletes_gives_its_device_back_and_no_other_comes(bench: Bench) -> None:
    bench.fabric.attached["d1"] = device("d1")
    bench.put(objects.local_slice("GPU-d1"), objects.request(size=1),
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online"))
    bench.writer.resources.delete("gpu-a")
    bench.run(5)
    assert (bench.fabric.attaches, bench.fabric.detaches) == ([], [("machine-0", "d1")])
    assert bench.api.of(COMPOSABLE_RESOURCES) == []
    assert bench.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"] == 0


def test_resource_in_use_that_an_administrator_deletes_leaves_when_its_claim_ends(bench: Bench) -> None:
    bench.fabric.attached["d1"] = device("d1")
    used = objects.claim("train", objects.local_result("gpu-0"))
    bench.put(objects.local_slice("GPU-d1"), objects.request(size=1), used,
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online"))
    bench.writer.resources.delete("gpu-a")
    bench.run(4)
    assert (bench.fabric.attaches, bench.fabric.detaches) == ([], [])
    assert bench.status()["error"] == "not detached: claim default/train uses the device"
    bench.drop(used)
    bench.run(5)
    assert (bench.fabric.attaches, bench.fabric.detaches) == ([], [("machine-0", "d1")])


def test_force_that_is_set_later_reaches_the_device(bench: Bench) -> None:
    bench.fabric.attached["d1"] = device("d1")
    bench.put(objects.local_slice("GPU-d1"), objects.request(size=0), objects.claim("train", objects.local_result()),
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online", deleted=True))
    bench.run(2)
    assert bench.fabric.detaches == []
    bench.put(objects.request(size=0, force_detach=True))
    bench.run(2)
    assert bench.fabric.detaches == [("machine-0", "d1")]


@pytest.mark.parametrize(("power", "why"), [
    ("On", "the CDI Manager reports machine machine-0 as On"),
    ("PoweringOff", "the CDI Manager reports machine machine-0 as PoweringOff"),
    (None, "the CDI Manager does not report whether machine machine-0 is off")])
def test_machine_that_is_not_reported_as_off_keeps_its_device(agent: Bench, power: str | None, why: str) -> None:
    """The node is gone. The machine may have joined another cluster, where its pods go on computing."""
    agent.fabric.power = power
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert agent.status()["error"].startswith(f"not detached: node node-0 has been gone for 300 s, but {why}")
    assert "force_detach" in agent.status()["error"], "it says what the administrator can do"


def test_machine_that_the_manager_does_not_show_keeps_its_device(agent: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.fabric, "machines", tuple[Machine, ...])
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert not node_snapshot(agent.state, "node-0").lost


@pytest.mark.parametrize(("power", "detaches"), [(None, [("machine-0", "d1")]), ("On", [])])
def test_administrator_says_that_machines_of_gone_nodes_are_off(
    power: str | None, detaches: list[tuple[str, str]], agent: Bench
) -> None:
    """That is for a CDI Manager that reports no power. It does not overrule one that does."""
    agent.state.settings = replace(agent.settings, gone_node_power="assume_off")
    agent.fabric.power = power
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == detaches


@pytest.mark.parametrize("of", ["resource", "request"])
def test_force_returns_the_device_of_a_gone_node(agent: Bench, of: str) -> None:
    agent.fabric.power = "On"
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == []
    if of == "request":
        agent.put(objects.request(size=0, force_detach=True))
    else:
        raw = agent.api.one(COMPOSABLE_RESOURCES, "gpu-a")
        agent.put({**raw, "spec": {**raw["spec"], "force_detach": True}})
    reconcile(agent)
    assert agent.fabric.detaches == [("machine-0", "d1")]


def test_machine_that_was_switched_on_since_the_inventory_keeps_its_device(
    agent: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = agent.fabric.machine
    monkeypatch.setattr(agent.fabric, "machine", lambda uid: replace(read(uid), power="On"))
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == []
    assert agent.status()["error"] == "not detached: the CDI Manager reports machine machine-0 as On"


class TestRenamedNode:
    """The machine has joined under another name, and its device is in use."""

    NEW = "node-0.example.com"

    def rename(self, bench: Bench, machine: str | None = "machine-0") -> None:
        gone(bench, 301)
        bench.put(objects.node(self.NEW, machine), objects.local_slice("GPU-d1", node=self.NEW),
                  objects.claim("train", {**objects.local_result("gpu-0", pool=self.NEW)}, node=self.NEW))

    @pytest.mark.parametrize("lives", [True, False])
    def test_its_device_stays(self, agent: Bench, lives: bool) -> None:
        self.rename(agent)
        if lives:
            agent.state.agents.lease_changed(self.NEW, {"metadata": {"name": f"node-agent-{self.NEW}"}, "spec": {
                "holderIdentity": self.NEW, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 90}})
        reconcile(agent)
        assert agent.fabric.detaches == []
        assert not node_snapshot(agent.state, "node-0").lost

    def test_node_that_the_watch_has_not_shown_yet_is_found_by_the_proof(self, agent: Bench) -> None:
        gone(agent, 301)
        agent.api.put(NODES, objects.node(self.NEW, "machine-0"))
        reconcile(agent)
        assert agent.fabric.detaches == []
        assert "has machine machine-0, which node node-0 had" in agent.status()["error"]

    def test_node_without_a_machine_that_shows_the_device_keeps_it(self, agent: Bench) -> None:
        self.rename(agent, machine=None)
        reconcile(agent)
        assert agent.fabric.detaches == []
        assert f"node {self.NEW} shows the device" in agent.status()["error"]

    def test_claim_on_any_node_keeps_the_device(self, agent: Bench) -> None:
        self.rename(agent, machine=None)
        check = ClaimCheck(agent.api.client, agent.state, agent.writer.resources.taints)
        assert check.claimed("gpu-a", "node-0") == "claim default/train uses the device"
