# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans a node from what is known, and from a fresh reading of its machine where that is needed.

The controllers and check mode plan here, so that they plan the same.
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
    """A machine, or why the CDI Manager does not give it; ``began``: when it was asked, in seconds of a clock that is
    never set."""

    machine: Machine | FabricError
    began: float


class Reader(t.Protocol):
    """Reads machines beside the caller."""

    def read(self, node: str, machine: str, fabric: int | None) -> Machine | FabricError | None:
        """A machine (its uid) as it is now, or why the manager does not give it; None while it is being read."""


def read_machine(fabric: FabricManager, uid: str) -> Reading:
    """Read a machine; waits for the CDI Manager. Raises nothing."""
    began = time.monotonic()
    try:
        return Reading(fabric.machine(uid), began)
    except FabricError as error:
        return Reading(error, began)
    except Exception as error:  # an answer that nobody expected is no reading
        return Reading(Unavailable(f"{type(error).__name__}: {error}"), began)


class NodePlanner:
    """Reads and plans, and writes nothing; what others hand over is kept in the state's memory. Thread-safe.

    ``reader``: reads machines beside the caller; without one the caller waits for the CDI Manager.
    """

    def __init__(self, state: ClusterState, fabric: FabricManager, policy: NodePolicy, reporter: EventReporter,
                 reader: Reader | None = None) -> None:
        self._state, self._fabric, self.policy, self._reporter = state, fabric, policy, reporter
        self._reader = reader

    def of(self, state: ClusterState) -> NodePlanner:
        """The same planner on another state, such as a copy for a forecast, which waits for the CDI Manager."""
        return NodePlanner(state, self._fabric, self.policy, self._reporter)

    def plan_records(self, name: str) -> NodePlan:
        """The plan of a node for its records alone, which need no reading of the machine."""
        return evaluate_node(node_snapshot(self._state, name), self.policy)

    def plan(self, name: str) -> tuple[NodeSnapshot, NodePlan]:
        """The snapshot of a node, and its plan.

        The machine is read before the plan when a request is without an answer: that device may be there by now. A
        manager that does not answer then leaves the snapshot ``unread``. It is also read right before devices are asked
        for: what others attached since the last look is theirs. A manager that does not answer this will say so when
        it is asked. While the machine is being read nothing is asked for; the node is planned again afterwards.
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
        """A fresh reading of the node's machine, or why the CDI Manager does not give it; None while it is read."""
        uid = snapshot.machine or snapshot.last_machine
        about = f"machine {uid}"
        found = (read_machine(self._fabric, uid).machine if self._reader is None
                 else self._reader.read(snapshot.name, uid, snapshot.fabric))
        if found is not None:
            self._reporter.once(about, str(found) if isinstance(found, FabricError) else "")
        return found
