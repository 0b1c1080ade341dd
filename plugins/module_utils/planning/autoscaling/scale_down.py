# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a node that Cluster Autoscaler deletes is removed, or only its idle devices are
returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

POWER, RESERVE = "power", "reserve"
POLICIES = (RESERVE, POWER)


@dataclass(frozen=True, slots=True)
class ScaleDownPolicy:
    """Rules of a scale-down.

    ``policy``: ``reserve`` keeps ``reserve_nodes`` nodes without their own pods ready for devices
    before any node is removed. ``power`` removes each node that its group can spare. ``node_watts``
    and ``device_watts``: power in watts of an idle node, and of an idle device by model.
    """

    policy: str = RESERVE
    reserve_nodes: int = 1
    node_watts: float = 0.0
    device_watts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpareNode:
    """A node that is to be deleted.

    ``size``: nodes of its group, including this one. ``least``: minimum number of nodes of the
    group. ``spare``: nodes of the group that are kept ready without pods. ``idle``: its idle
    devices by model. ``in_use``: number of its other devices. ``not_removable``: why its provider
    cannot remove it, empty if it can. ``watts``: power of the node without its devices. None stands
    for the value of the policy.
    """

    name: str
    size: int
    least: int
    spare: int = 0
    idle: Mapping[str, int] = field(default_factory=dict)
    in_use: int = 0
    not_removable: str = ""
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class ScaleDownDecision:
    """``remove``: whether the node is removed after its devices. If not, only idle devices are
    returned.

    ``watts``: power that is saved, by the figures of the policy.
    """

    remove: bool
    reason: str
    watts: float = 0.0


def decide_scale_down(node: SpareNode, policy: ScaleDownPolicy) -> ScaleDownDecision:
    """Decide for one node. Pure: the same node and policy always give the same decision."""
    devices = sum(policy.device_watts.get(model, 0.0) * n for model, n in Counter(node.idle).items())
    if reason := _stays(node, policy):
        return ScaleDownDecision(False, f"node {node.name} stays: {reason}", devices)
    draws = policy.node_watts if node.watts is None else node.watts
    return ScaleDownDecision(True, f"node {node.name} can be removed. Its devices are returned first", devices + draws)


def _stays(node: SpareNode, policy: ScaleDownPolicy) -> str:
    if node.in_use:
        return f"{node.in_use} of its devices are in use"
    if node.size <= node.least:
        return f"its group needs at least {node.least} nodes"
    if node.not_removable:
        return node.not_removable
    if policy.policy == RESERVE and node.spare < policy.reserve_nodes:
        return f"{policy.reserve_nodes} nodes must stay ready for devices, and {node.spare} are ready"
    return ""
