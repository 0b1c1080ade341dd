# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a further node of a group could serve a pod."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.new_node import why_no_new_node
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    device_class,
    gated,
    node,
    raw_pod,
)

GPU = "nvidia.com/gpu"
CLASSES = {"gpu": device_class(name="gpu", extendedResourceName=GPU)}
GROUP_TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def why(*nodes: t.Any, most: int = 8, **spec: t.Any) -> str:
    """Why none of the group could serve a pod with such a spec."""
    raw = dict(gated("p", schedulingGates=[], **spec).raw)
    return why_no_new_node(raw, [each.node for each in nodes], CLASSES, most)


def requests(*counts: int) -> list[dict[str, t.Any]]:
    """Containers that request so many devices."""
    return [{"name": f"c{i}", "resources": {"requests": {GPU: str(n)}}} for i, n in enumerate(counts)]


@pytest.mark.parametrize("there", [
    node("a", raw_pod("busy", cpu="8")), node("a", unschedulable=True),
    node("a", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])],
    ids=["full", "cordoned", "not there"])
def test_what_passes_is_not_of_a_new_node(there: t.Any) -> None:
    assert why(there, cpu="4") == ""


def test_group_without_nodes_may_have_any() -> None:
    assert why(cpu="4000") == ""


@pytest.mark.parametrize(("there", "spec", "said"), [
    (node("a"), {"cpu": "9"}, "Insufficient cpu"),
    (node("a", taints=[GROUP_TAINT]), {}, "untolerated taint"),
    (node("a"), {"nodeSelector": {"kubernetes.io/hostname": "a"}}, "node affinity"),
    (node("a"), {"containers": requests(5, 4)},
     "the pod requests 9 devices of DeviceClass gpu, and a node can have 8 at most")],
    ids=["room", "taint", "the name of a node", "devices"])
def test_what_every_node_of_the_group_lacks_a_new_one_lacks(there: t.Any, spec: dict[str, t.Any], said: str) -> None:
    assert said in why(there, **spec)


def test_one_node_that_suits_is_enough() -> None:
    assert why(node("a", taints=[GROUP_TAINT]), node("b")) == ""


def test_as_many_devices_as_a_node_can_have_are_not_too_many() -> None:
    assert why(node("a"), containers=requests(4, 4)) == ""
