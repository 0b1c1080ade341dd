# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes Cluster Autoscaler is told are in which group: one look for a whole loop of it, and sizes that follow a
removal at once."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.controller.autoscaler.groups import NodeGroups
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup, Shape
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed
from ansible_collections.composable.infra.tests.unit.planning.builders import row, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]


def test_a_loop_judges_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cluster Autoscaler asks for the group of each node in each loop."""
    state = ClusterState(settings())
    for number in range(50):
        state.nodes.upsert(objects.node(f"node-{number}", f"machine-{number}"))
    groups = NodeGroups([NodeGroup("nodes", Shape())], state)
    judged: list[str] = []
    lacking = NodeGroups._lacking

    def counted(self: NodeGroups, name: str) -> str:
        judged.append(name)
        return lacking(self, name)

    monkeypatch.setattr(NodeGroups, "_lacking", counted)
    groups.look()
    for number in range(50):
        found = groups.of_node(f"node-{number}")
        assert found
        assert groups.size(found) == 50
    assert sorted(judged) == sorted({raw["metadata"]["name"] for raw in state.nodes.list()})


def test_node_that_comes_during_a_loop_is_told_of_in_the_next(testbed: Testbed) -> None:
    testbed.provider.refresh()
    testbed.add_node("node-2")
    testbed.sync()
    assert testbed.provider.group_of("node-2") is None
    assert testbed.provider.target_size("nodes") == 2
    testbed.provider.refresh()
    assert testbed.provider.group_of("node-2")
    assert testbed.provider.target_size("nodes") == 3


def test_node_that_is_gone_counts_neither_as_there_nor_as_leaving(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    testbed.provider.refresh()
    testbed.provider.delete("nodes", [("node-1", "")])
    assert testbed.provider.target_size("nodes") == 1, "lowered within the call"
    testbed.tick(2)
    assert machines.removed == ["node-1"]
    assert testbed.provider.target_size("nodes") == 1, "also before the next loop looks"
    testbed.provider.refresh()
    assert testbed.provider.target_size("nodes") == 1


def test_smallest_size_is_judged_by_the_nodes_that_there_are(testbed: Testbed, machines: Machines) -> None:
    """Not by those of the last look."""
    regroup(testbed, nodes={"min_size": 1}, scale_down={"policy": "power"})
    testbed.provider.refresh()
    testbed.remove_node("node-1")
    testbed.sync()
    with pytest.raises(Exception, match="its group needs at least 1 nodes"):
        testbed.provider.delete("nodes", [("node-0", "")])


def test_nodes_are_read_before_the_first_decision(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes longer than a decision, and Cluster Autoscaler waits 5 s for one."""
    read: list[str] = []
    facts = KnownNodes.facts

    def counted(self: KnownNodes, state: ClusterState,
                how: Callable[[ClusterState, Node], NodeFacts]) -> dict[str, NodeFacts]:
        def reading(state: ClusterState, node: Node) -> NodeFacts:
            read.append(node.name)
            return how(state, node)

        return facts(self, state, reading)

    monkeypatch.setattr(KnownNodes, "facts", counted)
    provider = testbed.start()
    provider.refresh()
    assert sorted(read) == ["node-0", "node-1"]
    read.clear()
    testbed.cluster.plan((), ())
    assert read == []


def test_node_is_judged_by_the_driver_that_its_label_names() -> None:
    """Nodes of a group may have moved to another driver already, and others not."""
    row_of_two = row(0, "A100 40G", "a100", **{"other-driver-names": ["own.example"]})
    state = ClusterState(Settings.from_dict({"device_info": [row_of_two]}))
    shown = {"node-0": "gpu.nvidia.com", "node-1": "own.example", "node-2": "gpu.nvidia.com"}
    for name, driver in shown.items():
        raw = objects.node(name, f"machine-{name}")
        raw["metadata"]["labels"] |= {} if name == "node-0" else {"composable.infra/dra-driver": "own.example"}
        item = objects.local_slice(f"GPU-{name}", node=name)
        item["spec"]["driver"] = driver
        state.nodes.upsert(raw)
        state.slices.upsert(item)
    groups = NodeGroups([NodeGroup("nodes", Shape())], state)
    groups.look()
    assert {name for name in shown if groups.of_node(name)} == {"node-0", "node-1"}
