# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the decisions need of the cluster, so that they can be tried without one."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import (
    NodeOption,
    ScaleUpPlan,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GatedPod, Placement


class View(t.Protocol):
    """What is asked of the cluster; ``cluster.Cluster`` is one."""

    def require_ready(self) -> None:
        """Raises Refused while it is not read."""

    def waiting(self, only: Collection[str] | None = None) -> tuple[GatedPod, ...]:
        """Pods that the scheduler could place nowhere and no node was chosen for; ``only``: of these uids."""

    def plan(self, waiting: tuple[GatedPod, ...], options: tuple[NodeOption, ...], vertical: str = "") -> ScaleUpPlan:
        """Attach or add a node for these pods. ``vertical``: only nodes that this vertical group stands for."""

    def is_waiting(self, uid: str) -> bool:
        """Whether a pod is there, wanted, and on no node."""

    def asked(self, vertical: str = "") -> dict[str, tuple[str, str]]:
        """By uid of a pod that devices were asked for: its node, and why none come there. ``vertical``: only on nodes
        that this vertical group stands for."""

    def misfits(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """By uid of a pod: why the node that was chosen for it, by uid, can have it no more. Those that it suits are
        left out."""

    def provided(self, nodes: Collection[str]) -> set[str]:
        """Uids of pods whose devices are all in the slices of these nodes and idle."""

    def not_triggered(self, since: float) -> set[str]:
        """Uids of pods for which Cluster Autoscaler adds nothing, as it said after a moment (epoch seconds)."""


class NodeView(t.Protocol):
    """What is on a node; ``cluster.Cluster`` is one."""

    def devices(self, node: str) -> Iterator[tuple[str, bool]]:
        """(model, in use) of each device."""

    def pods_of(self, node: str) -> Sequence[str]:
        """Pods that a removal would kill, as namespace/name: those of a DaemonSet and static ones belong to the node.
        Raises ApiError."""


class Asking(t.Protocol):
    """Who writes down which pods wait on which nodes; ``requests.RequestWriter`` is one."""

    def ask(self, placements: Iterable[Placement], until: float) -> None:
        """The nodes of these placements shall have devices for their pods, until a moment (epoch seconds)."""

    def withdraw(self, pods: Iterable[str]) -> None:
        """Nothing is wanted any more for these pods (uids)."""


class Marks(t.Protocol):
    """Who writes on nodes and requests; ``requests.RequestWriter`` is one."""

    def return_idle(self, node: str, moment: float) -> None:
        """Devices of a node that have been idle since before a moment (epoch seconds) need not stay there."""

    def keep_node(self, node: str) -> None:
        """Have Cluster Autoscaler leave a node alone."""

    def free_node(self, node: str) -> None:
        """It may ask for the node again."""

    def remove_node(self, node: str) -> None:
        """Write down that it is being removed."""

    def note_removed(self, node: str) -> None:
        """Write down that it is switched off, and its Node object still there."""

    def return_node(self, node: str) -> bool:
        """One that was switched off runs again, and may have pods. False when that has to be tried again."""

    def marked_nodes(self) -> dict[str, str]:
        """What was written on nodes, by name."""
