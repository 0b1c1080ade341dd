# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ComposableResources of a node that is gone end when their device has left the node's machine.

The device of a renamed node is never detached here. Once somebody else has returned it, only its
record is left, and nobody is there who could prove anything about it. Nothing is requested for it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    NodeKey,
    NodeRecordsKey,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.inventory_polls import OTHERS
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import (
    FakeFabric,
    device,
)

NEW = "node-0.example.com"
GONE = 300.0
BEGAN = 1_790_000_000.0
Json = dict[str, t.Any]


class Story:
    """A node that is gone for long, whose machine is on, and its ComposableResource."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.now = bench, BEGAN
        self.complete = True
        bench.state.clock = lambda: self.now

    def poll(self) -> None:
        """Take an inventory, and plan and act by it."""
        self.bench.look()
        if self.bench.state.snapshot and not self.complete:
            self.bench.state.snapshot = replace(self.bench.state.snapshot, unconfirmed=OTHERS)
        self.bench.state.note_departures()
        self.reconcile()

    def reconcile(self) -> None:
        """Plan and act on the node that is gone, by the last inventory."""
        for _unused in range(4):
            self.bench.reconcile(NodeKey("node-0"))
            self.bench.reconcile(NodeRecordsKey("node-0"))
            self.bench.idle()

    def let_pass(self, seconds: float) -> None:
        """Poll now, and again after so many seconds."""
        self.poll()
        self.now += seconds
        self.poll()

    @property
    def left(self) -> list[str]:
        """ComposableResources that have not ended."""
        return [raw["metadata"]["name"] for raw in self.bench.api.of(COMPOSABLE_RESOURCES)]

    def agent_lives(self, node: str) -> None:
        """The agent of a node renews its Lease."""
        spec = {
            "holderIdentity": node,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseDurationSeconds": 90,
        }
        lease = {"metadata": {"name": f"node-agent-{node}"}, "spec": spec}
        self.bench.state.agents.lease_changed(node, lease)


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Story]:
    """Node-0 is gone and its machine is on, so that nothing of it is detached."""
    made = Bench(hands="agent")
    made.build()
    monkeypatch.setattr(
        made.fabric,
        "machines",
        lambda: tuple(replace(each, power="On") for each in FakeFabric.machines(made.fabric)),
    )
    made.put(objects.node(), objects.request(size=1))
    made.fabric.attached["d1"] = device("d1")
    made.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online", created=9000))
    found = Story(made)
    found.poll()
    made.drop(objects.node())
    found.let_pass(2 * GONE)
    yield found
    made.close()


def returned(story: Story) -> None:
    """Somebody detached the device."""
    del story.bench.fabric.attached["d1"]


def test_device_that_is_on_the_machine_keeps_its_record(story: Story) -> None:
    story.let_pass(10 * GONE)
    assert story.left == ["gpu-a"]
    assert story.bench.fabric.detaches == []


def test_record_ends_after_the_device_has_been_away_for_gone_node_duration(story: Story) -> None:
    returned(story)
    story.let_pass(GONE - 1)
    assert story.left == ["gpu-a"]
    story.let_pass(1)
    assert story.left == []
    assert story.bench.fabric.detaches == [], "nothing was requested"
    (said,) = story.bench.told("DeviceLeft")
    assert said.startswith("device d1 has not been on machine machine-0 for 300 s")


def test_device_on_another_machine_has_left_a_machine_that_is_not_shown(story: Story) -> None:
    story.bench.fabric.others = ("machine-1",)
    story.bench.fabric.attached["d1"] = device("d1", machine="machine-1")
    story.let_pass(GONE)
    assert story.left == []
    assert story.bench.fabric.detaches == []


def test_device_by_another_uid_has_not_left(story: Story) -> None:
    """Another CDI Manager took the place of the old one, and has uids of its own."""
    returned(story)
    story.bench.fabric.attached["new"] = device("new", serial="GPU-d1")
    story.let_pass(2 * GONE)
    assert story.left == ["gpu-a"]


def without(uid: str, monkeypatch: pytest.MonkeyPatch, fabric: FakeFabric) -> None:
    machines = fabric.machines
    monkeypatch.setattr(fabric, "machines", lambda: tuple(each for each in machines() if each.uid != uid))


def test_machine_that_is_not_shown_proves_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    returned(story)
    without("machine-0", monkeypatch, story.bench.fabric)
    story.let_pass(2 * GONE)
    assert story.left == ["gpu-a"]


def test_inventory_that_may_be_incomplete_proves_nothing(story: Story) -> None:
    returned(story)
    story.complete = False
    story.let_pass(2 * GONE)
    assert story.left == ["gpu-a"]
    story.complete = True
    story.let_pass(GONE)
    assert story.left == []


def test_device_that_was_back_for_one_inventory_begins_again(story: Story) -> None:
    returned(story)
    story.let_pass(GONE - 1)
    story.bench.fabric.attached["d1"] = device("d1")
    story.poll()
    returned(story)
    story.let_pass(GONE - 1)
    assert story.left == ["gpu-a"]


def test_device_that_is_back_at_the_last_look_stays(story: Story) -> None:
    """The inventory is older than what the machine says now."""
    returned(story)
    story.let_pass(GONE - 1)
    story.now += 1
    story.bench.fabric.attached["d1"] = device("d1")
    story.reconcile()
    assert story.left == ["gpu-a"]
    assert story.bench.status()["error"] == "not detached: machine machine-0 has device d1 again"


def node_is_back(story: Story) -> Json:
    return objects.node()


def machine_is_a_nodes(story: Story) -> Json:
    return objects.node(NEW, "machine-0")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (node_is_back, "node node-0 exists again"),
        (machine_is_a_nodes, f"node {NEW} has machine machine-0, which node node-0 had"),
    ],
)
def test_node_that_the_watch_has_not_shown_yet_is_found_by_the_proof(
    story: Story, other: Callable[[Story], Json], why: str
) -> None:
    returned(story)
    story.poll()
    story.bench.api.put(NODES, other(story))
    story.let_pass(GONE)
    assert story.left == ["gpu-a"]
    assert why in story.bench.status()["error"]


def test_claim_keeps_the_record(story: Story) -> None:
    returned(story)
    story.poll()
    claim = objects.claim("train", objects.local_result("gpu-0"))
    story.bench.api.put(CLAIMS, claim)
    story.let_pass(GONE)
    assert story.left == ["gpu-a"]
    assert "claim default/train uses a device of node node-0" in story.bench.status()["error"]


class TestRenamed:
    """The machine is another Node's: its agent lives and its slices do not show the device."""

    def test_record_ends_while_the_agent_of_the_new_node_lives(self, story: Story) -> None:
        story.bench.put(objects.node(NEW, "machine-0"))
        story.agent_lives(NEW)
        returned(story)
        story.let_pass(GONE)
        assert story.left == []
        assert story.bench.fabric.detaches == []

    def test_nobody_vouches_for_the_machine_without_an_agent(self, story: Story) -> None:
        story.bench.put(objects.node(NEW, "machine-0"))
        returned(story)
        story.let_pass(2 * GONE)
        assert story.left == ["gpu-a"]
        assert f"node {NEW} has machine machine-0" in story.bench.status()["error"]

    def test_slice_of_the_new_node_contradicts_the_manager(self, story: Story) -> None:
        """A CDI Manager that lost its memory says so of a device that is in use."""
        story.bench.put(objects.node(NEW, "machine-0"), objects.local_slice("GPU-d1", node=NEW))
        story.agent_lives(NEW)
        returned(story)
        story.let_pass(2 * GONE)
        assert story.left == ["gpu-a"]
        assert f"node {NEW} shows the device" in story.bench.status()["error"]
