# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a node from the stored objects and, if needed, from a fresh read of its machine.

The controllers and check mode use the same planner, so their plans agree.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ...fabric.api import FabricManager, Machine
from ...fabric.errors import FabricError, Unavailable
from ...planning.node.compose import uncertain
from ...planning.node.evaluate import OPERATOR, NodePlan, NodePolicy, evaluate_node
from ...planning.node.snapshot import NodeSnapshot
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import node_snapshot
from .others_handovers import keep_devices


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of a read: a machine, or the error of the CDI Manager.

    ``began`` is when the read began, in seconds of a monotonic clock.
    """

    machine: Machine | FabricError
    began: float


class Reader(t.Protocol):
    """Reads machines in the background."""

    def read(self, node: str, machine: str, fabric: int | None) -> Machine | FabricError | None:
        """Return a machine (by its UID) as it is now, or the error of the manager, or None while it
        is being read."""


def read_machine(fabric: FabricManager, uid: str) -> Reading:
    """Read a machine and wait for the CDI Manager. Raise nothing."""
    began = time.monotonic()
    try:
        return Reading(fabric.machine(uid), began)
    except FabricError as error:
        return Reading(error, began)
    except Exception as error:  # an unexpected response is no result
        return Reading(Unavailable(f"{type(error).__name__}: {error}"), began)


class NodePlanner:
    """Plans nodes. Reads, and writes only to the memory of the state. Thread-safe.

    ``reader`` reads machines in the background. Without it the caller waits for the CDI Manager.
    """

    def __init__(self, state: ClusterState, fabric: FabricManager, policy: NodePolicy, reporter: EventReporter,
                 reader: Reader | None = None) -> None:
        self._state, self._fabric, self.policy, self._reporter = state, fabric, policy, reporter
        self._reader = reader

    def of(self, state: ClusterState) -> NodePlanner:
        """Return the same planner for another state, such as a copy for a forecast, without a
        ``reader``."""
        return NodePlanner(state, self._fabric, self.policy, self._reporter)

    def plan_records(self, name: str) -> NodePlan:
        """Return the plan of a node for its records. It needs no read of the machine."""
        return evaluate_node(node_snapshot(self._state, name), self.policy)

    def plan(self, name: str) -> tuple[NodeSnapshot, NodePlan]:
        """Return the snapshot of a node, and its plan.

        If a request has no answer, read the machine before the plan, because the device may be
        there by now. If the manager does not answer, the snapshot is ``unread``. Also read the
        machine right before devices are requested, because devices that were attached since the
        last poll belong to others. An error of this second kind of read is ignored, because the
        request will fail the same way. While the machine is being read, request nothing. The node
        is planned again afterwards.
        """
        if OPERATOR in self.policy.roles:
            keep_devices(self._state, name)
        snapshot = node_snapshot(self._state, name)
        if OPERATOR not in self.policy.roles or not (snapshot.machine or snapshot.last_machine):
            return snapshot, evaluate_node(snapshot, self.policy)
        plan = None if uncertain(snapshot) else evaluate_node(snapshot, self.policy)
        if plan is not None and not plan.asks_for_devices:
            return snapshot, plan
        found = self._read(snapshot)
        if isinstance(found, FabricError) and plan is not None:
            return snapshot, plan
        if isinstance(found, Machine):
            snapshot = node_snapshot(self._state, name, {device.uid: device.model for device in found.devices})
        else:
            snapshot = node_snapshot(self._state, name, unread=True)
        return snapshot, evaluate_node(snapshot, self.policy)

    def _read(self, snapshot: NodeSnapshot) -> Machine | FabricError | None:
        """Return a fresh read of the node's machine, or the error of the CDI Manager, or None while
        it is read."""
        uid = snapshot.machine or snapshot.last_machine
        about = f"machine {uid}"
        found = (read_machine(self._fabric, uid).machine if self._reader is None
                 else self._reader.read(snapshot.name, uid, snapshot.fabric))
        if found is not None:
            self._reporter.once(about, str(found) if isinstance(found, FabricError) else "")
        return found
