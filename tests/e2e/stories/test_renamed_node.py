# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node joins under another name while a claim has its device, on a real API server.

`-s` prints the measured seconds.
"""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.agent_lease import AgentLease
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware import agent_identity
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    counted,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
GONE = 20.0
STAGE: dict[str, t.Any] = {
    "devices": {A100: 2},
    "nodes": 2,
    "handover": "gated",
    "extra": {"gone_node_duration": GONE},
}
NEW = "renamed.example.com"


def rename(stage: Stage, old: str) -> None:
    """Delete a Node object, whose agent ends with it. Let the machine join again as NEW."""
    stage.lab.stop_agents()
    raw = stage.client.get(NODES, old)
    labels = {**raw["metadata"]["labels"], "kubernetes.io/hostname": NEW}
    stage.client.delete(NODES, old)
    stage.client.create(NODES, {"metadata": {"name": NEW, "labels": labels}, "spec": raw["spec"]})


def return_by_hand(stage: Stage, device: dict[str, t.Any]) -> None:
    """Detach a device with the CDI Manager's own interface, as an administrator does."""
    fabric = connect(EngineConfig.load(str(stage.config_path)).fabric)
    fabric.detach(device["machine"], device["uid"])
    wait_for("the device is free", lambda: not attached(stage))


def test_device_of_a_renamed_node_stays(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    # A pod has a device. Its node joins again under another name.
    controller = open_process(front_doors.controller, stage)
    stage.pod("train", A100)
    await_served(stage, timeline, "train", deployed=controller)
    old = pods.bound(stage.client.get(PODS, "train", "default")) or ""
    device, since, began = attached(stage), mark(stage), time.monotonic()
    rename(stage, old)

    # The administrator is told of a ComposableResource that names no node.
    wait_for("the orphan is counted", lambda: counted(controller, "orphans") >= 1.0)
    measured = {"until noticed": time.monotonic() - began}

    # The device outlasts gone_node_duration.
    wait_for("gone_node_duration is over", lambda: time.monotonic() - began > 2 * GONE)
    assert attached(stage) == device
    assert changes_asked(stage, since, "DELETE") == []

    # The pod ends, and the administrator detaches the device. What names the old node ends by
    # itself, as an agent lives on the node that has the machine now. Only its Lease is here.
    stage.delete_pod("train")
    AgentLease(stage.client, agent_identity.NAMESPACE, NEW).renew()
    (serial,) = device
    return_by_hand(stage, device[serial])
    since, began = mark(stage), time.monotonic()
    wait_for("the record has ended", lambda: not stage.client.list(COMPOSABLE_RESOURCES).items)
    measured["until the record has ended"] = time.monotonic() - began
    assert time.monotonic() - began >= GONE
    assert changes_asked(stage, since, "DELETE") == []
    assert "Traceback" not in controller.text()
    print({what: round(seconds, 1) for what, seconds in measured.items()})
