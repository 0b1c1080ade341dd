# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's plugin that has devices open, or knows a sick one, by an agent on a made-up node."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import RELEASE
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    NOT_ANNOUNCED,
    OPEN_ON_NODE,
    READY,
    REMOVED,
    WITHDRAWN,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import (
    PLUGIN,
    Node,
    resource,
    running,
    until,
)

XID = "gpu.nvidia.com/xid"
ASKED = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with two devices that its plugin has announced."""
    with running(announce_seconds=3.0) as it:
        for n in (1, 2):
            add(it, n)
        it.boot()
        until("both are announced", lambda: all(ANNOUNCED in it.steps(f"gpu-{n}") for n in (1, 2)))
        it.api.calls.clear()
        yield it


def add(node: Node, number: int) -> None:
    """The fabric attaches one more device."""
    node.operations.bus[f"dev-{number}"] = f"GPU-{number}"
    node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{number}", f"dev-{number}", f"GPU-{number}"))


def fall_sick(node: Node, uuid: str) -> None:
    """The health check of the plugin taints a device, and the agent has seen it."""
    node.sick[uuid] = XID
    node.publish()
    agent = node.agent
    assert agent is not None
    until("the agent sees it", lambda: agent.state.sick(PLUGIN.driver))


def ask_release(node: Node, name: str) -> None:
    node.change(COMPOSABLE_RESOURCES, name, {"metadata": {"annotations": {RELEASE: ASKED}}})


def message(node: Node, name: str) -> str:
    found = node.evidence(name)
    return found.trouble.message if found and found.trouble else ""


def test_plugin_that_holds_the_device_is_restarted_once(node: Node) -> None:
    node.operations.held_by_plugin = True
    ask_release(node, "gpu-1")
    until("it is withdrawn", lambda: WITHDRAWN in node.steps("gpu-1"))
    assert len(node.deleted_pods()) == 1


def test_sick_device_keeps_its_taint_when_another_is_attached(node: Node) -> None:
    fall_sick(node, "GPU-1")
    add(node, 3)
    until("it is said", lambda: node.trouble("gpu-3") == NOT_ANNOUNCED)
    assert message(node, "gpu-3").startswith(
        "the plugin of the DRA driver gpu.nvidia.com is not restarted, because device gpu-0 has the taint "
        "gpu.nvidia.com/xid=48:NoSchedule")
    assert node.phase("gpu-3") == READY
    assert node.deleted_pods() == []
    node.sick.clear()
    node.publish()
    until("it is announced", lambda: ANNOUNCED in node.steps("gpu-3"))
    assert node.trouble("gpu-3") == ""


def test_sick_device_leaves_though_the_plugin_holds_it(node: Node) -> None:
    node.operations.held_by_plugin = True
    fall_sick(node, "GPU-1")
    ask_release(node, "gpu-1")
    until("it is off the bus", lambda: node.phase("gpu-1") == REMOVED)
    assert node.operations.bus == {"dev-2": "GPU-2"}


def test_device_beside_a_sick_one_stays_where_the_plugin_holds_it(node: Node) -> None:
    node.operations.held_by_plugin = True
    fall_sick(node, "GPU-1")
    ask_release(node, "gpu-2")
    until("it is said", lambda: node.trouble("gpu-2") == OPEN_ON_NODE)
    assert "device gpu-0 has the taint" in message(node, "gpu-2")
    assert node.deleted_pods() == []


def test_device_that_the_plugin_shows_no_more_is_told_again(node: Node) -> None:
    """Another plugin looked while the device was drained; then its release was taken back."""
    uuid = node.operations.bus.pop("dev-1")
    node.start_plugin(began=time.time() + 1.0)
    node.operations.bus = {"dev-1": uuid, **node.operations.bus}
    assert uuid not in str(node.api.of(SLICES))
    until("it is shown again", lambda: uuid in str(node.api.of(SLICES)))
    until("it is announced again", lambda: ANNOUNCED in node.steps("gpu-1"))
    assert len(node.deleted_pods()) == 1


def test_sick_device_keeps_its_taint_when_the_plugin_has_to_look_twice(node: Node) -> None:
    """Another device fell sick between the first restart and the second."""
    node.operations.draining.add("GPU-3")  # what a plugin that begins now does not show, as one that looked too early
    before = node.plugin_pods
    add(node, 3)
    until("the plugin was restarted", lambda: node.plugin_pods > before)
    fall_sick(node, "GPU-1")
    until("it is said", lambda: "is not restarted, because device gpu-0 has the taint" in message(node, "gpu-3"))
    assert node.trouble("gpu-3") == NOT_ANNOUNCED
    assert len(node.deleted_pods()) == 1
    node.operations.draining.clear()
    node.sick.clear()
    node.publish()
    until("it is announced", lambda: ANNOUNCED in node.steps("gpu-3"))
    assert node.trouble("gpu-3") == ""
