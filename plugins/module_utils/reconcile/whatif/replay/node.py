# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a replay. Its plan and its devices change it. It has no clock and no cluster."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ....model.pod import Pod
from ....model.resource import NodeWork
from ....planning import actions as act
from ....planning.node.compose import ONLINE
from ....planning.node.evaluate import NodePolicy, evaluate_node
from ....planning.node.snapshot import Claim, ComposabilityRequest, ComposableResource, NodeSnapshot
from ....planning.node.supply import DELETING
from ....planning.scheduling.node_facts import Shown, node_facts
from ....planning.scheduling.snapshot import Json, NodeFacts
from .durations import DETACH, LEAVE

MOST_ROUNDS: t.Final = 8
ATTACH, SLICE, OPEN, UNRESERVE = "attach", "slice", "open", "unreserve"


@dataclass(frozen=True, slots=True)
class Begun:
    """A step that began.

    It is ATTACH, SLICE, LEAVE or DETACH of a ComposableResource, with its name as ``about``. Or it
    is the decision on a gated pod, with its UID as ``about``: OPEN (its devices are there) or
    UNRESERVE (it needs another node).
    """

    what: str
    about: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Devices of a node by model: used by claims, attached and idle, and returning to the
    fabric."""

    used: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    returning: Counter[str] = field(default_factory=Counter)


class ReplayedNode:
    """A node of a replay.

    ``facts`` is the node for the plan of gated pods, a new object after each change. ``free``
    counts by model how the free devices of its fabric changed since the replay last read this.
    """

    def __init__(self, snapshot: NodeSnapshot, facts: NodeFacts, policy: NodePolicy,
                 shown: Mapping[str, Json]) -> None:
        self.facts, self.policy, self._snapshot, self._shown = facts, policy, snapshot, shown
        # Handles of operations and holds are not part of a replay.
        self.resources = {each.name: replace(each, operation="", busy=False, held_for="", held_since=0.0,
                                             hold_alive=False) for each in snapshot.resources}
        self.requests = {each.name: each for each in snapshot.requests}
        self.claims: dict[str, Claim] = {}
        self.pods = {pod.uid: pod for pod in facts.pods}
        self.free: Counter[str] = Counter()
        self._began: list[Begun] = []

    def under_way(self) -> list[Begun]:
        """Return the steps that began before the replay. No plan begins them again."""
        found = []
        for each in self.resources.values():
            if each.deleting and each.node_work.asked and (each.visible or not each.node_work.removed):
                found.append(Begun(LEAVE, each.name))
            elif each.device_uid and not each.deleting and not (each.visible and each.usable):
                found.append(Begun(SLICE, each.name))
        return found

    @property
    def name(self) -> str:
        """Return the name of the node."""
        return self.facts.name

    def snapshot(self, now: float) -> NodeSnapshot:
        """Return the node for its plan."""
        attached = {each.device_uid: each.model for each in self.resources.values() if each.device_uid}
        return replace(self._snapshot, now=now, claims=tuple(self.claims.values()),
                       resources=tuple(self.resources.values()), requests=tuple(self.requests.values()),
                       attached=attached, owned=frozenset(attached))

    def renew(self, now: float) -> None:
        """Update the facts after changes."""
        self.facts = node_facts(self.snapshot(now), self.facts.node, tuple(self.pods.values()), self.policy.settings,
                                self._entry, self.facts.places)

    def _entry(self, resource: ComposableResource) -> Shown:
        return (resource.name, 0), self._shown[resource.model], "", ""

    def work(self, now: float) -> tuple[float | None, list[Begun]]:
        """Plan the node and carry out instant actions until nothing is left to do.

        Return when the plan changes by time alone (seconds since the epoch), and the steps that
        began.
        """
        for _round in range(MOST_ROUNDS):
            plan = evaluate_node(self.snapshot(now), self.policy)
            actions = [action for action in plan.actions if not isinstance(action, act.LabelNode)]
            for action in actions:
                self._carry(action, now)
            if not actions:
                break
        began, self._began = self._began, []
        return plan.wake_at, began

    def _carry(self, action: act.Action, now: float) -> None:
        if isinstance(action, (act.OpenGate, act.Unreserve)):
            self._decided(action, now)
        elif isinstance(action, (act.CreateResource, act.Attach, act.Resume, act.Adopt)):
            self._comes(action, now)
        elif isinstance(action, (act.DeleteResource, act.AskRelease, act.WithdrawRelease, act.Detach, act.Finish)):
            self._leaves(action)
        elif isinstance(action, act.SetSize):
            self.requests[action.request] = ComposabilityRequest(action.request, action.request, action.model,
                                                                 action.size, type=action.type)
        elif isinstance(action, act.Touch):
            self._set(action.resource, in_use=action.in_use, last_used=now)
        elif isinstance(action, act.SetState):
            self._set(action.resource, state=action.state, error=action.error)

    def _set(self, name: str, **fields: t.Any) -> None:
        self.resources[name] = replace(self.resources[name], **fields)

    def _decided(self, action: act.OpenGate | act.Unreserve, now: float) -> None:
        opened = isinstance(action, act.OpenGate)
        for uid, resource in action.devices if isinstance(action, act.OpenGate) else ():
            self._set(resource, held_for=uid, held_since=now, hold_alive=True)
            self.claims.pop(uid, None)
        self._began.append(Begun(OPEN if opened else UNRESERVE, action.pod.uid))

    def _comes(self, action: act.CreateResource | act.Attach | act.Resume | act.Adopt, now: float) -> None:
        if isinstance(action, act.CreateResource):
            self.resources[action.name] = ComposableResource(action.name, action.name, action.request, action.model,
                                                             self.name, "", now, machine=action.machine)
            self._ask(action.name, now)
        elif isinstance(action, act.Adopt):
            self._set(action.resource, device_uid=action.device, serial=action.device)
        else:
            self._ask(action.resource, now)

    def _ask(self, name: str, now: float) -> None:
        if not self.resources[name].asked:
            self.free[self.resources[name].model] -= 1
        self._set(name, asked=now, busy=True)
        self._began.append(Begun(ATTACH, name))

    def _leaves(self, action: act.DeleteResource | act.AskRelease | act.WithdrawRelease | act.Detach
                | act.Finish) -> None:
        name = action.resource
        if isinstance(action, act.DeleteResource):
            self._set(name, deleting=True, tainted=True)
        elif isinstance(action, act.AskRelease):
            self._set(name, node_work=replace(self.resources[name].node_work, asked=True))
            self._began.append(Begun(LEAVE, name))
        elif isinstance(action, act.WithdrawRelease):
            self._set(name, node_work=replace(self.resources[name].node_work, asked=False))
        elif isinstance(action, act.Detach):
            self._set(name, busy=True)
            self._began.append(Begun(DETACH, name))
        else:
            gone = self.resources.pop(name)
            self.free[gone.model] += bool(gone.asked or gone.serial)

    # Ends of steps that take time.

    def attached(self, name: str) -> None:
        """End the attach of a ComposableResource's device."""
        self._set(name, device_uid=f"device-{name}", serial=f"device-{name}", busy=False)

    def shown(self, name: str) -> None:
        """Show the device in the node's ResourceSlice after node operations, unless it is being
        given up."""
        if name in self.resources and not self.resources[name].deleting:
            self._set(name, visible=True, usable=True, node_work=NodeWork(prepared=True))

    def left(self, name: str) -> None:
        """End the release of the device by the node."""
        self._set(name, visible=False, usable=False, node_work=NodeWork(asked=True, removed=True))

    def detached(self, name: str) -> None:
        """End the detach of the device from the machine."""
        self._set(name, device_uid="", state=DELETING, busy=False)

    def bound(self, pod: Pod, claims: Mapping[str, Claim]) -> None:
        """Bind a pod to the node. Its claims get the devices that were held for them."""
        self.pods[pod.uid] = pod
        for each in [*self.resources.values()]:
            if each.held_for in claims:
                self._set(each.name, used_by=claims[each.held_for].key, held_for="", held_since=0.0, hold_alive=False,
                          state=ONLINE)

    def ended(self, uid: str, keys: frozenset[str], now: float) -> None:
        """End a pod. Its claims (namespace/name) no longer use devices."""
        self.pods.pop(uid, None)
        for each in [*self.resources.values()]:
            if each.used_by in keys:
                self._set(each.name, used_by="", last_used=now)

    def counts(self) -> Counts:
        """Return the devices of the node."""
        found = Counts()
        for each in self.resources.values():
            if each.deleting and (each.device_uid or each.state == DELETING):
                found.returning[each.model] += 1
            elif each.used_by:
                found.used[each.model] += 1
            if each.device_uid and not each.used_by:
                found.idle[each.model] += 1
        return found
