# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node goes: when all of a call may go, and when nothing runs there any more."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Refused
from ansible_collections.composable.infra.controller.autoscaler.requests import SCALE_DOWN, SCALE_DOWN_DISABLED
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed

Json = dict[str, t.Any]


def note(testbed: Testbed, node: str, name: str) -> str | None:
    """An annotation of a node."""
    found: Json = testbed.api.one(NODES, node)["metadata"].get("annotations") or {}
    return found.get(name)


def runs(testbed: Testbed, name: str, node: str, **meta: t.Any) -> None:
    """A pod without devices that is bound to a node."""
    testbed.pod(name, 0)
    raw = testbed.api.one(PODS, name, "default")
    raw["metadata"] |= meta
    testbed.api.put(PODS, {**raw, "spec": {**raw["spec"], "nodeName": node}, "status": {"phase": "Running"}})
    testbed.sync()


def test_where_one_of_a_call_stays_none_goes(testbed: Testbed, machines: Machines) -> None:
    """Cluster Autoscaler takes the taint from all of a call that was refused: pods land on them again."""
    regroup(testbed, nodes={"min_size": 1}, scale_down={"policy": "power"})
    with pytest.raises(Refused, match="its group keeps 1 nodes"):
        testbed.provider.delete("nodes", [("node-0", ""), ("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    assert testbed.provider.target_size("nodes") == 2
    assert note(testbed, "node-0", SCALE_DOWN) is None, "the one that could go may be asked for again"
    assert note(testbed, "node-1", SCALE_DOWN_DISABLED) == "true"


def test_where_a_node_cannot_be_marked_none_goes(testbed: Testbed, machines: Machines) -> None:
    """A restart would not know of it; and Cluster Autoscaler is told that nothing goes."""
    regroup(testbed, scale_down={"policy": "power"})
    testbed.api.fail("merge_patch", NODES, ApiError(500, "InternalError", "etcd"), name="node-1", times=1)
    with pytest.raises(ApiError):
        testbed.provider.delete("nodes", [("node-0", ""), ("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    assert note(testbed, "node-0", SCALE_DOWN) is None
    assert testbed.provider.target_size("nodes") == 2


@pytest.mark.parametrize("meta", [{}, {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}]}])
def test_node_waits_for_the_pods_that_still_run_there(testbed: Testbed, machines: Machines, meta: Json) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    runs(testbed, "late", "node-1", **meta)
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    testbed.end("late")
    testbed.tick(1)
    assert machines.removed == ["node-1"]


@pytest.mark.parametrize("meta", [
    {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]},
    {"annotations": {"kubernetes.io/config.mirror": "x"}}], ids=["DaemonSet", "static pod"])
def test_pods_that_belong_to_the_node_go_with_it(testbed: Testbed, machines: Machines, meta: Json) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    runs(testbed, "plugin", "node-1", **meta)
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(2)
    assert machines.removed == ["node-1"]


def test_node_stays_for_now_when_its_pods_cannot_be_read(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.api.fail("list", PODS, ApiError(500, "InternalError", "etcd"), times=1)
    with pytest.raises(ApiError):
        testbed.provider.serve_nodes()
    assert machines.removed == []
    testbed.tick(1)
    assert machines.removed == ["node-1"]
