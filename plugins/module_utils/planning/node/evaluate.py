# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one node: the one place that decides, for the controllers and for check mode alike."""

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
    """For whom a node is planned, and by which rules.

    ``roles``: CoHDI's components that are played here, of ``publisher``, ``scaler``, ``operator``. ``attach_deadline``:
    seconds in which an attach without an answer may still take effect.
    """

    settings: Settings
    roles: frozenset[str]
    attach_deadline: float


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What to do at a node, in order.

    ``wait_reasons``: what each claim waits for. ``label_problems``: labels of the node that are no numbers.
    ``hands_problem``: why devices stay or none can come, where nobody works on the node.
    ``wake_at``: when time alone changes the plan, in seconds since the epoch. ``roles``: for whom it was made.
    """

    actions: tuple[Action, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    label_problems: tuple[str, ...] = ()
    hands_problem: str = ""
    wake_at: float | None = None
    roles: frozenset[str] = frozenset()

    @property
    def urgent(self) -> tuple[Action, ...]:
        """What somebody waits for."""
        return tuple(action for action in self.actions if not self._may_wait(action))

    @property
    def background(self) -> tuple[Action, ...]:
        """Records that may be written a moment later."""
        return tuple(action for action in self.actions if self._may_wait(action))

    @property
    def asks_for_devices(self) -> bool:
        """True when the CDI Manager is asked for a device, so that the machine has to be read right before."""
        return any(isinstance(action, (CreateResource, Attach)) for action in self.actions)

    def _may_wait(self, action: Action) -> bool:
        """Nobody waits for use stamps and the Online state; for a size only an operator of another process does."""
        return isinstance(action, (Touch, SetState)) or (isinstance(action, SetSize) and OPERATOR in self.roles)


def evaluate_node(snapshot: NodeSnapshot, policy: NodePolicy) -> NodePlan:
    """Decide for one node: labels, conditions of claims, sizes, and what to ask of the CDI Manager. Pure.

    The sizes of ComposabilityRequests that are decided here count as written already: devices are asked for while the
    sizes are on their way. Nothing is asked of a manager that was never seen. While it is not known for which pods an
    earlier process attached devices (``snapshot.may_release``), nothing is given up.

    Source: the roles are CoHDI's composable-dra-driver, dynamic-device-scaler and composable-resource-operator.
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
    return NodePlan(tuple(actions), wait_reasons, problems, _hands_problem(snapshot), wake_at, roles)


def _hands_problem(snapshot: NodeSnapshot) -> str:
    """Empty where somebody works on the node, and where nobody has to."""
    idle = [r for r in snapshot.resources if stays(r, snapshot) and not r.used_by]
    said = [f"{len(idle)} idle devices stay"] if idle else []
    said += ["no device can be attached"] if snapshot.no_hands in snapshot.blocked.values() else []
    return f"{' and '.join(said)}: {snapshot.no_hands}" if said and snapshot.no_hands and snapshot.machine else ""


def _releases(action: Action) -> bool:
    return isinstance(action, DeleteResource) or (isinstance(action, SetSize) and action.size < (action.before or 0))
