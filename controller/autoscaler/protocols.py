# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the cluster that decisions need, as protocols, so that tests need no cluster."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import (
    NodeOption,
    ScaleUpPlan,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GatedPod, Placement


class View(t.Protocol):
    """The view of the cluster. ``cluster.Cluster`` implements it."""

    def require_ready(self) -> None:
        """Raise Refused until the cluster was read."""

    def waiting(self, only: Collection[str] | None = None) -> tuple[GatedPod, ...]:
        """Return the pods that the scheduler could not place and for which no node was chosen.

        ``only``: pods with these uids, None for all.
        """

    def plan(self, waiting: tuple[GatedPod, ...], options: tuple[NodeOption, ...], vertical: str = "") -> ScaleUpPlan:
        """Plan whether to attach devices or to add a node for these pods.

        ``vertical``: id of a vertical group. Only its nodes count then.
        """

    def is_waiting(self, uid: str) -> bool:
        """Return whether a pod exists, has not ended, and is not bound."""

    def asked(self, vertical: str = "") -> dict[str, tuple[str, str]]:
        """Return (node, problem) of each pod with a request for devices, by the pod's uid.

        The problem is why no devices come, empty if they do. ``vertical``: id of a vertical group.
        Only its nodes count then.
        """

    def misfits(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Return why a chosen node no longer fits its pod, by the pod's uid.

        ``chosen``: node by uid of a pod. Pods with a node that fits are left out.
        """

    def provided(self, nodes: Collection[str]) -> set[str]:
        """Return the uids of pods with all devices idle in the slices of these nodes."""

    def not_triggered(self, since: float) -> set[str]:
        """Return the uids of pods for which Cluster Autoscaler has reported since a moment that it
        adds nothing.

        ``since``: seconds since the epoch.
        """


class NodeView(t.Protocol):
    """The view of a node. ``cluster.Cluster`` implements it."""

    def devices(self, node: str) -> Iterator[tuple[str, bool]]:
        """Yield (model, in use) of each device."""

    def expecting(self) -> set[str]:
        """Return the nodes to which a device is on its way, or where a device is kept for a claim."""

    def pods_of(self, node: str) -> Sequence[str]:
        """Return the pods that a removal of the node would end, as namespace/name.

        Pods of a DaemonSet and static pods belong to the node. Raises ApiError.
        """


class Asking(t.Protocol):
    """The writer of requests for devices. ``requests.RequestWriter`` implements it."""

    def ask(self, placements: Iterable[Placement], until: float) -> None:
        """Request devices for pods on the nodes of the placements.

        ``until``: when the request expires, in seconds since the epoch.
        """

    def withdraw(self, pods: Iterable[str]) -> None:
        """Withdraw the requests for these pods (uids)."""


class Marks(t.Protocol):
    """The writer of marks on nodes and requests. ``requests.RequestWriter`` implements it."""

    def return_idle(self, node: str, moment: float) -> None:
        """Allow the return of a node's devices that have been idle since before ``moment`` (epoch
        seconds).
        """

    def keep_node(self, node: str) -> None:
        """Make Cluster Autoscaler leave a node alone."""

    def hold_node(self, node: str) -> None:
        """Make Cluster Autoscaler leave a node alone while devices come."""

    def free_node(self, node: str) -> None:
        """Allow Cluster Autoscaler to request the node's removal again."""

    def remove_node(self, node: str) -> None:
        """Mark a node as being removed."""

    def note_removed(self, node: str) -> None:
        """Mark a node as switched off, while its Node object still exists."""

    def return_node(self, node: str) -> bool:
        """Allow pods on a node again that was switched off and runs again.

        Return False if this must be tried again.
        """

    def marked_nodes(self) -> dict[str, str]:
        """Return the marks on nodes, by name."""
