# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsed fields of a node and its pods. As ``NodeInfo`` of kube-scheduler's
``framework/types.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ....model.node import Node
from ....model.pod import Pod
from ..filters.node_ports import Port
from ..filters.node_resources import Amounts
from ..snapshot import Json
from .label_selector import Labels
from .pod_info import PodInfo


@dataclass(slots=True, eq=False)
class NodeInfo:
    """A node with the sums over its pods. It never changes.

    ``said``: the pods from which it was parsed.
    """

    name: str
    node: Node
    said: Sequence[Pod]
    labels: Labels
    taints: tuple[Json, ...]
    unschedulable: bool
    allocatable: Amounts
    pods: tuple[PodInfo, ...]
    requested: Amounts = field(default_factory=dict)
    ports: tuple[Port, ...] = ()

    def __post_init__(self) -> None:
        for pod in self.pods:
            self.ports += pod.ports
            for name, value in pod.requests.items():
                self.requested[name] = self.requested.get(name, 0) + value


PlacedPods = dict[str, dict[tuple[PodInfo, str], tuple[PodInfo, NodeInfo]]]
"""Pods with their nodes: by namespace, then by pod and name of the node."""
Filter = Callable[[NodeInfo], str]
"""Return why a pod cannot be on a node, in kube-scheduler's words, empty if it can."""
