# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one node. This is the only place that decides, both for the controllers and for check
mode.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..actions import Action, Attach, CreateResource, DeleteResource, SetSize, SetState, Touch, WaitReason
from ..settings import Settings
from .compose import plan_compose
from .demand import label_problems
from .scale import after, plan_device_labels, plan_fabric_label, plan_scale
from .snapshot import NodeSnapshot
from .supply import stays

PUBLISHER, SCALER, OPERATOR = "publisher", "scaler", "operator"


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The roles for which a node is planned, and the rules.

    ``roles``: CoHDI's components that this process replaces, of ``publisher``, ``scaler``,
    ``operator``. ``attach_deadline``: seconds in which an attach without a reply may still take
    effect.
    """

    settings: Settings
    roles: frozenset[str]
    attach_deadline: float


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The actions at a node, in order.

    ``wait_reasons``: why each claim waits. ``label_problems``: labels of the node that are not
    numbers. ``hands_problem``: why devices stay or none can come, if node operations are not
    possible now. ``wake_at``: when the plan changes by the passing of time alone, in epoch seconds.
    ``roles``: roles of the plan.
    """

    actions: tuple[Action, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    label_problems: tuple[str, ...] = ()
    hands_problem: str = ""
    wake_at: float | None = None
    roles: frozenset[str] = frozenset()

    @property
    def urgent(self) -> tuple[Action, ...]:
        """Return the actions that a pod or another process waits for."""
        return tuple(action for action in self.actions if not self._may_wait(action))

    @property
    def background(self) -> tuple[Action, ...]:
        """Return the actions that can be written a moment later."""
        return tuple(action for action in self.actions if self._may_wait(action))

    @property
    def asks_for_devices(self) -> bool:
        """Return whether the plan requests a device. The machine must then be read right before."""
        return any(isinstance(action, (CreateResource, Attach)) for action in self.actions)

    def _may_wait(self, action: Action) -> bool:
        """Return whether no process waits for the action.

        This is true for use stamps and states, and for sizes unless an operator of another process
        reads them.
        """
        return isinstance(action, (Touch, SetState)) or (isinstance(action, SetSize) and OPERATOR in self.roles)


def evaluate_node(snapshot: NodeSnapshot, policy: NodePolicy) -> NodePlan:
    """Decide for one node: labels, conditions of claims, sizes, and requests to the CDI Manager.
    Pure.

    The sizes of ComposabilityRequests that are decided here count as written, so that devices are
    requested while the sizes are being written. Nothing is requested from a CDI Manager that was
    never polled. While the pods of devices that an earlier process attached are unknown
    (``snapshot.may_release`` is False), no device is released.

    Source: the roles are CoHDI's composable-dra-driver, dynamic-device-scaler and
    composable-resource-operator.
    """
    settings, roles = policy.settings, policy.roles
    actions: list[Action] = []
    wait_reasons: tuple[WaitReason, ...] = ()
    wakes: list[float | None] = [snapshot.lost_at if snapshot.resources else None]
    if PUBLISHER in roles and snapshot.fabric_seen:
        actions += plan_fabric_label(snapshot, settings)
    after_scale = snapshot
    if SCALER in roles:
        scale = plan_scale(snapshot, settings)
        actions += [*plan_device_labels(snapshot, settings), *scale.actions]
        wait_reasons, after_scale = scale.wait_reasons, after(snapshot, scale.actions)
        wakes.append(scale.wake_at)
    if OPERATOR in roles and snapshot.fabric_seen:
        compose = plan_compose(after_scale, policy.attach_deadline)
        actions += compose.actions
        wakes.append(compose.wake_at)
    if not snapshot.may_release:
        actions = [action for action in actions if not _releases(action)]
    problems = tuple(label_problems(snapshot, settings)) if SCALER in roles else ()
    wake_at = min((wake for wake in wakes if wake is not None), default=None)
    return NodePlan(tuple(actions), wait_reasons, problems, _agent_problem(snapshot), wake_at, roles)


def _agent_problem(snapshot: NodeSnapshot) -> str:
    """Return why devices stay or none can come, empty if node operations work or are not needed."""
    idle = [r for r in snapshot.resources if stays(r, snapshot) and not r.used_by]
    said = [f"{len(idle)} idle devices stay attached"] if idle else []
    said += ["no device can be attached"] if snapshot.no_agent in snapshot.blocked.values() else []
    return f"{' and '.join(said)}: {snapshot.no_agent}" if said and snapshot.no_agent and snapshot.machine else ""


def _releases(action: Action) -> bool:
    return isinstance(action, DeleteResource) or (isinstance(action, SetSize) and action.size < (action.before or 0))
