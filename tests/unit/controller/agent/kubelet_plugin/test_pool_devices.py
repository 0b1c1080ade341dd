# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pool devices of the fabric: one claim has the node's device under that name, and no slice of the node shows it."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import RELEASING
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import (
    DRIVER,
    PluginNode,
)

POOL, DEVICE = "h100-fabric1", "h100-3"
NAME = f"{POOL}/{DEVICE}"
READY: dict[str, t.Any] = {"pool": POOL, "bindingConditions": ["FabricDeviceReady"]}
SPEC = f"{DRIVER}-claim_uid-c.json"


def test_claim_gets_the_device_that_its_pool_device_is(node: PluginNode) -> None:
    node.plug("a", "b")
    node.keep("b", NAME)
    node.claim(DEVICE, **READY)
    mine = node.preparation()
    (device,) = mine.prepare("default", "c", "uid-c").devices
    assert (device.pool, device.device, device.uuid) == (POOL, DEVICE, "GPU-b")
    (entry,) = json.loads((node.cdi / SPEC).read_text())["devices"]
    assert mine.cdi_id("uid-c", DEVICE) == f"{DRIVER}/claim={entry['name']}"
    assert entry["containerEdits"]["env"] == ["GPU_DEVICE_1=GPU-b"]
    mine.unprepare("uid-c")
    assert node.specs() == []


@pytest.mark.parametrize(("kept", "said"), [
    ({}, f"the device {NAME} cannot be used on node node-0. Allowed are gpu-a"),
    ({NAME: None}, f"the device {NAME} cannot be used on node node-0. Allowed are gpu-a"),
])
def test_pool_device_that_has_not_come_is_refused(node: PluginNode, kept: dict[str, t.Any], said: str) -> None:
    node.kept = kept
    node.claim(DEVICE, **READY)
    with pytest.raises(Refused, match=said):
        node.preparation().prepare("default", "c", "uid-c")


def test_pool_device_that_is_being_released_is_refused(node: PluginNode) -> None:
    node.keep("a", NAME, phase=RELEASING)
    node.claim(DEVICE, **READY)
    with pytest.raises(Refused, match=f"the device {NAME} cannot be used: it is being released"):
        node.preparation().prepare("default", "c", "uid-c")


def test_pool_without_binding_conditions_is_another_node(node: PluginNode) -> None:
    node.keep("a", NAME)
    node.claim(DEVICE, pool=POOL)
    with pytest.raises(Refused, match=r"Allowed are pool node-0 and pools of the fabric"):
        node.preparation().prepare("default", "c", "uid-c")


def test_device_is_for_one_claim_under_whatever_name(node: PluginNode) -> None:
    node.keep("a", NAME)
    node.claim("gpu-a", name="other")
    mine = node.preparation()
    mine.prepare("default", "other", "uid-other")
    node.claim(DEVICE, **READY)
    with pytest.raises(Refused, match="the device gpu-a is still prepared for the claim default/other"):
        mine.prepare("default", "c", "uid-c")
    node.api.remove(CLAIMS, "other", "default")
    assert mine.prepare("default", "c", "uid-c").devices[0].uuid == "GPU-a"


def test_what_the_slices_of_the_node_leave_out(node: PluginNode) -> None:
    node.plug("a", "b")
    view = node.view()
    first, second = view.look()
    assert [view.reason_to_hide(each, ()) for each in (first, second)] == ["", ""]
    node.keep("b", NAME)
    assert [view.reason_to_hide(each, ()) for each in (first, second)] == ["", f"a claim has it as pool device {NAME}"]
    node.kept["h100-fabric1/h100-4"] = None
    assert view.reason_to_hide(first, ()) == "it may be the pool device for which a claim waits"
    assert view.reason_to_hide(first, [first.name]) == ""
