# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compose plan of one node: ComposabilityRequest to ComposableResources to the CDI Manager.

The rule that survives a crash: a ComposableResource that was asked for and has no device is *uncertain*. It is
resolved by looking at the machine: a device of its model that nobody owns and that was not there before is adopted;
while the manager may still be at work nothing is asked again; only then is it asked anew.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .actions import (
    Action,
    Adopt,
    Attach,
    CreateResource,
    DeleteResource,
    Detach,
    Finish,
    FinishRequest,
    Plan,
    Resume,
    SetState,
)
from .view import NodeView, Request, Resource

POLL = 0.5
ATTACHING, ONLINE, DETACHING, DELETING = "Attaching", "Online", "Detaching", "Deleting"


class _Compose:
    """Collects the decisions of one pass over one node."""

    def __init__(self, view: NodeView, settle: float) -> None:
        self.view, self.settle = view, settle
        self.adopted: set[str] = set()
        self.actions: list[Action] = []
        self.wake: list[float] = []

    def plan(self) -> Plan:
        for resource in sorted(self.view.resources, key=lambda r: (r.asked, r.name)):
            (self._leave if resource.deleting else self._arrive)(resource)
        for request in self.view.requests:
            self._children(request)
        followed = {r.model for r in self.view.requests if not r.deleting}
        for resource in self.view.resources:
            if self._orphan(resource) and resource.model not in followed and not resource.deleting:
                self._release([resource], 1, f"its ComposabilityRequest {resource.request} is gone")
        return Plan(tuple(self.actions), (), min(self.wake, default=None))

    def _orphan(self, resource: Resource) -> bool:
        """True when its ComposabilityRequest is gone; a request for the same model takes it over."""
        known = {r.name for r in self.view.requests} | self.view.other_requests
        return bool(resource.request) and resource.request not in known

    def _belongs(self, resource: Resource, request: Request) -> bool:
        if resource.request == request.name:
            return True
        heir = self.view.request(resource.model)
        return self._orphan(resource) and heir is not None and heir.name == request.name

    def _arrive(self, resource: Resource) -> None:
        if resource.busy:
            return
        if resource.device_uid:
            if resource.visible and resource.state != ONLINE:
                self.actions.append(SetState(self.view.name, "its device is in the node's ResourceSlice",
                                             resource.name, ONLINE))
        elif not resource.asked:
            self._attach(resource, "wanted and not asked for yet")
        elif resource.operation:
            self._resume(resource)
        elif not self._adopt(resource) and self._settled(resource):
            self._attach(resource, f"asked {self.settle:g} s ago without effect")

    def _leave(self, resource: Resource) -> None:
        if resource.busy:
            return
        if resource.state == DELETING:
            if not resource.visible or self._came_back(resource):
                self.actions.append(Finish(self.view.name, "detached and out of the node's ResourceSlice",
                                           resource.name))
        elif not resource.device_uid and resource.asked and resource.operation:
            self._resume(resource)
        elif not resource.device_uid:
            if not resource.asked or (not self._adopt(resource) and self._settled(resource)):
                self.actions.append(Finish(self.view.name, "nothing of it is on the fabric", resource.name))
        elif (resource.used_by or resource.hold_alive) and not resource.force_detach:
            error = (f"not detached: claim {resource.used_by} uses the device" if resource.used_by
                     else f"not detached: it is kept for claim {resource.held_for}")
            if resource.error != error:
                self.actions.append(SetState(self.view.name, "in use", resource.name, DETACHING, error))
        else:
            self.actions.append(Detach(self.view.name, "no longer wanted and no claim uses it", resource.name,
                                       resource.machine or self.view.machine or "", resource.device_uid,
                                       resource.force_detach))

    def _resume(self, resource: Resource) -> None:
        """The CDI Manager was at work when an earlier process ended, and can be asked what became of it."""
        self.actions.append(Resume(self.view.name, "an earlier process asked for it", resource.name,
                                   resource.operation))

    def _came_back(self, resource: Resource) -> bool:
        """True when the node shows the device because another ComposableResource has it now."""
        return any(r.serial == resource.serial and r.device_uid for r in self.view.resources if r.name != resource.name)

    def _adopt(self, resource: Resource) -> bool:
        """Adopt an unowned device of the model; True when the resource is dealt with for now."""
        if any(r.busy and r.model == resource.model for r in self.view.resources):
            self.wake.append(self.view.now + POLL)
            return True
        taken = self.view.owned | resource.present | self.adopted
        found = [u for u, m in (self.view.attached or {}).items() if m == resource.model and u not in taken]
        if not found:
            return False
        uid = min(found, key=lambda u: (-self._barred(u), u))
        self.adopted.add(uid)
        self.actions.append(Adopt(self.view.name, "an earlier request attached it unanswered", resource.name, uid))
        return True

    def _barred(self, uid: str) -> int:
        """How many others cannot have asked for a device, since it was there before: whoever can takes it first."""
        return sum(uid in r.present for r in self.view.resources if r.asked and not r.device_uid)

    def _settled(self, resource: Resource) -> bool:
        """True when an unanswered request can no longer take effect and the machine was really looked at."""
        if self.view.attached is not None and self.view.now - resource.asked >= self.settle:
            return True
        self.wake.append(self.view.now + POLL)
        return False

    def _attach(self, resource: Resource, reason: str) -> None:
        if self.view.machine and self._may_ask(resource.model):
            self.actions.append(Attach(self.view.name, reason, resource.name, resource.model, self.view.machine,
                                       self._foreign(resource.model)))

    def _may_ask(self, model: str) -> bool:
        """Nothing is asked for where the model is refused, or where nobody knows which devices were there before."""
        return self.view.attached is not None and model not in self.view.blocked

    def _foreign(self, model: str) -> tuple[str, ...]:
        attached = self.view.attached or {}
        return tuple(sorted(u for u, m in attached.items() if m == model and u not in self.view.owned))

    def _children(self, request: Request) -> None:
        children = [r for r in self.view.resources if self._belongs(r, request)]
        live = [r for r in children if not r.deleting]
        size = 0 if request.deleting else request.size
        if len(live) > size:
            self._release(live, len(live) - size, f"{request.name} wants {size}, has {len(live)}")
        elif len(live) < size and self.view.machine and self._may_ask(request.model):
            create = CreateResource(self.view.name, f"{request.name} wants {size}, has {len(live)}", request.name,
                                    request.model, self.view.machine, self._foreign(request.model),
                                    request.force_detach)
            self.actions += [create] * (size - len(live))
        if request.deleting and not children:
            self.actions.append(FinishRequest(self.view.name, "no ComposableResource is left", request.name))

    def _release(self, live: list[Resource], n: int, reason: str) -> None:
        free = [r for r in live if r.force_detach or not (r.used_by or r.hold_alive)]
        for resource in sorted(free, key=_surplus_order)[:n]:
            self.actions.append(DeleteResource(self.view.name, reason, resource.name))


def _surplus_order(resource: Resource) -> tuple[int, float, str]:
    """CoHDI's order of what goes first (composable-resource-operator), idle longest first within a rank."""
    if resource.used_by or resource.hold_alive:
        rank = 6
    elif not resource.device_uid:
        rank = 2 if resource.busy or resource.asked else 0
    elif resource.delete_first:
        rank = 1
    elif resource.state != ONLINE:
        rank = 3
    else:
        rank = 4 if resource.error else 5
    return rank, resource.idle_since, resource.name


def plan_compose(view: NodeView, settle: float) -> Plan:
    """Decide what to ask of the CDI Manager for one node. Pure.

    ``settle`` is how long, in seconds, an unanswered attach may still take effect.
    """
    return _Compose(view, settle).plan()


def uncertain(view: NodeView) -> bool:
    """True when the machine has to be read afresh before this node can be planned."""
    return any(r.asked and not r.device_uid and not r.busy and r.state != DELETING for r in view.resources)


def asks(plan: Plan) -> bool:
    """True when the plan asks the CDI Manager for a device, so that the machine has to be read right before."""
    return any(isinstance(a, (CreateResource, Attach)) for a in plan.actions)


def request_status(spec: Mapping[str, t.Any], children: list[Resource], error: str) -> dict[str, t.Any]:
    """Status of a ComposabilityRequest as composable-resource-operator writes it."""
    live = [r for r in children if not r.deleting]
    settled = len(live) == spec.get("size") and all(r.state == ONLINE for r in live)
    status: dict[str, t.Any] = {"state": "Running" if settled else "Updating", "scalarResource": dict(spec)}
    if error:
        status["error"] = error
    if children:
        status["resources"] = {r.name: _entry(r) for r in sorted(children, key=lambda r: r.name)}
    return status


def _entry(resource: Resource) -> dict[str, str]:
    entry = {"state": resource.state or ATTACHING, "node_name": resource.node, "device_id": resource.serial,
             "cdi_device_id": resource.device_uid, "error": resource.error}
    return {k: v for k, v in entry.items() if v}
