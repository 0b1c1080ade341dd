# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that Cluster Autoscaler does not need leaves: its device first, in the safe order, then the machine.

Control plane, provider and emulator are real; hardware and node agents are simulated, and so are Cluster Autoscaler
(the stand-in) and the management controllers of the machines.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.composable.infra.lab.autoscaling import processes
from ansible_collections.composable.infra.lab.autoscaling.asking import Asking
from ansible_collections.composable.infra.lab.autoscaling.machines import Machines
from ansible_collections.composable.infra.lab.autoscaling.stand_in import Times
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.autoscale import body
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, changes_asked, mark, states, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
# The device takes longer to leave than Cluster Autoscaler waits: so it asks while the device is on its way.
STAGE: Json = {"nodes": 2, "devices": {A100: 1}, "handover": "reschedule", "hold": 600.0, "detach": 4.0}
SECONDS = 120.0


@dataclass
class Leaving:
    """``left``: by machine that was shut down, the states of all devices and its ComposableResources right then."""

    stage: Stage
    left: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)

    def shut_down(self, name: str) -> None:
        """As a cluster loses the Node of a machine that is gone."""
        items = self.stage.client.list(COMPOSABLE_RESOURCES).items
        self.left[name] = (states(self.stage), [raw["metadata"]["name"] for raw in items
                                                if raw["spec"].get("target_node") == name])
        self.stage.client.delete(NODES, name)

    def is_there(self, name: str) -> bool:
        """Whether a node is in the cluster."""
        try:
            self.stage.client.get(NODES, name)
        except NotFound:
            return False
        return True


@pytest.fixture
def leaving(stage: Stage) -> Iterator[tuple[Leaving, Machines, Process]]:
    """All that is needed, with the policy power; Cluster Autoscaler waits for a second before it takes a node."""
    if not stage.policed:
        pytest.skip("the scheduler serves extended resources by devices from 1.36 on")
    stage.client.merge_patch(DEVICE_CLASSES, stage.driver, {"spec": {"extendedResourceName": processes.RESOURCE}})
    OPENED.add(front_doors.controller(stage, "--only", "scaler", "--only", "operator"))
    certificates = processes.Certificates(stage.folder / "autoscaler-pki")
    story = Leaving(stage)
    machines = Machines(stage.lab.nodes, certificates, story.shut_down)
    group = {"id": "nodes", "provider": {"kind": "static", "machines": machines.config(certificates.ca, stage.folder)}}
    provider, port = processes.provider(
        stage, processes.groups(nodes=[group], scale_down={"policy": "power"}), certificates)
    OPENED.add(provider)
    asking = Asking(stage.client, port, certificates, Times(scale_down_unneeded_time=1.0))
    yield story, machines, provider
    asking.stop()
    machines.stop()
    OPENED.stop_all()


def keep(stage: Stage, name: str) -> None:
    """A pod on a node, so that Cluster Autoscaler needs it."""
    raw = body(f"keeps-{name}", 1)
    raw["spec"]["containers"][0]["resources"] = {}
    stage.client.create(PODS, {**raw, "spec": {**raw["spec"], "nodeSelector": {"kubernetes.io/hostname": name}}})


def test_device_goes_first_and_then_the_node(stage: Stage, leaving: tuple[Leaving, Machines, Process]) -> None:
    story, machines, provider = leaving
    for name in stage.lab.nodes:
        keep(stage, name)
    stage.client.create(PODS, body("train", 1))
    wait_for("the pod runs", lambda: pods.phase(stage.client.get(PODS, "train", "default")) == "Running", SECONDS)
    node = pods.bound(stage.client.get(PODS, "train", "default"))
    (other,) = set(stage.lab.nodes) - {node}
    since = mark(stage)
    for name in ("train", f"keeps-{node}"):
        stage.client.delete(PODS, name, namespace="default")

    wait_for("the machine is shut down", lambda: machines.power[node] == "Off", SECONDS)
    assert story.left[node] == (["free"], []), "when it was shut down, its device was in the fabric again"
    assert [(name, kind) for _moment, name, kind in machines.resets] == [(node, "GracefulShutdown")]
    (asked,) = changes_asked(stage, since)
    assert asked["time_received"] < machines.resets[0][0]
    assert "Xid" not in by_hand.kernel_log(stage.lab.node_folder(node)), "the node had let go of the device"
    told = provider.text()
    order = [told.index(text) for text in (
        f"ScaleDownDecided node {node}", f"NodeWaits node {node}: its devices are not returned to the fabric yet")]
    assert order == sorted(order)
    wait_for("it is told", lambda: f"NodeRemoved node {node}" in provider.text(), SECONDS)
    assert not story.is_there(node)
    assert story.is_there(other), "a pod runs there"
    assert f"ScaleDownDecided node {other}" not in provider.text()
