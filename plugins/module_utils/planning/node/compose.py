# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compose plan of one node: from ComposabilityRequests to ComposableResources to the CDI
Manager.

This rule survives a crash: a ComposableResource is *uncertain* if its device was requested and it
has none. The plan resolves it by the state of the machine. A device of its model without an owner
that was not there before is adopted. While the CDI Manager may still be working, nothing is
requested. Only after that the device is requested again.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

from ...model.resource import DeviceRecord
from ..actions import (
    Action,
    Adopt,
    AskRelease,
    Attach,
    CreateResource,
    DeleteResource,
    Detach,
    Finish,
    FinishDeparted,
    FinishRequest,
    Plan,
    Resume,
    SetPoolDevice,
    SetState,
    TaintDevice,
    WithdrawRelease,
)
from .demand import destined
from .preassigned import over, wanted_pool_devices
from .snapshot import FOREIGN, UNREADABLE, ComposabilityRequest, ComposableResource, NodeSnapshot
from .supply import DELETING, stays

POLL = 0.5
ATTACHING, ONLINE, DETACHING = "Attaching", "Online", "Detaching"
SHOWN = "a ResourceSlice of the node still shows the device, so the scheduler may allocate it"


class _Compose:
    """Collects the decisions about one node."""

    def __init__(self, snapshot: NodeSnapshot, attach_deadline: float) -> None:
        self.snapshot, self.attach_deadline = snapshot, attach_deadline
        self.adopted: set[str] = set()
        self.actions: list[Action] = []
        self.wake: list[float] = []

    def plan(self) -> Plan:
        self.actions += over(self.snapshot)
        for resource in sorted(self.snapshot.resources, key=lambda r: (r.asked, r.name)):
            if not self._depart(resource):
                (self._leave if resource.deleting else self._arrive)(resource)
        for request in self.snapshot.requests:
            self._children(request)
        followed = {r.model for r in self.snapshot.requests if not r.deleting}
        for resource in self.snapshot.resources:
            if self._orphan(resource) and resource.model not in followed and not resource.deleting:
                self._release([resource], 1, f"its ComposabilityRequest {resource.request} is gone")
        return Plan(tuple(self.actions), (), min(self.wake, default=None))

    def _orphan(self, resource: ComposableResource) -> bool:
        """Return whether its ComposabilityRequest is gone. A request for the same model takes it
        over.
        """
        known = {r.name for r in self.snapshot.requests} | self.snapshot.other_requests
        return bool(resource.request) and resource.request not in known

    def _belongs(self, resource: ComposableResource, request: ComposabilityRequest) -> bool:
        if resource.request == request.name:
            return True
        heir = self.snapshot.request(resource.model)
        return self._orphan(resource) and heir is not None and heir.name == request.name

    def _depart(self, resource: ComposableResource) -> bool:
        """Return whether the device has left the machine of a node that is gone. Plan the end of
        its record.
        """
        self.wake += [resource.departed_at] if resource.departed_at else []
        if not resource.departed or resource.busy or resource.state == DELETING or self._held(resource):
            return False
        if not resource.deleting:
            self.actions.append(DeleteResource(self.snapshot.name, resource.departed, resource.name))
        else:
            self.actions.append(FinishDeparted(self.snapshot.name, resource.departed, resource.name,
                                               resource.machine, resource.device_uid))
        return True

    def _arrive(self, resource: ComposableResource) -> None:
        if resource.busy:
            return
        if resource.device_uid:
            self._keep(resource)
        elif resource.doubt or resource.reclaims:
            self._resolve(resource)
        elif not resource.asked:
            self._attach(resource, "a device is wanted and not requested yet")
        elif resource.operation:
            self._resume(resource)
        elif not self._adopt(resource) and self._past_deadline(resource):
            self._attach(resource, f"requested {self.attach_deadline:g} s ago without effect")

    def _keep(self, resource: ComposableResource) -> None:
        """Write the node's result for a resource with a device into its state, or delete the
        resource.
        """
        trouble = resource.node_work.trouble or resource.rivalry or (
            f"not detached: {self.snapshot.not_lost}" if self.snapshot.not_lost else "")
        if resource.usable and resource.state != ONLINE:
            why = "the device is ready for its claim" if resource.pool_device else "the node's ResourceSlice shows it"
            self.actions.append(SetState(self.snapshot.name, why, resource.name, ONLINE))
        elif resource.node_work.fatal and not (resource.used_by or stays(resource, self.snapshot)):
            self.actions.append(DeleteResource(self.snapshot.name, resource.node_work.trouble, resource.name,
                                               resource.model))
        elif resource.error != trouble and (trouble or resource.state == ONLINE):
            self.actions.append(SetState(self.snapshot.name, trouble or "the node's problem is over", resource.name,
                                         resource.state or ATTACHING, trouble))

    def _leave(self, resource: ComposableResource) -> None:
        """End a resource that is being deleted once its device is off the node, if it has one."""
        if resource.busy:
            return
        if resource.state == DELETING:
            if not resource.visible or self._came_back(resource):
                self._finish(resource, "detached and no longer in the node's ResourceSlice")
        elif resource.device_uid:
            self._detach(resource)
        elif resource.asked and resource.operation:
            self._resume(resource)
        elif resource.doubt == FOREIGN:
            if not self._adopt_foreign(resource) and self._doubt_over(resource):
                self._finish(resource, "the other operator's request attached no device")
        elif not resource.asked or (not self._adopt(resource) and self._past_deadline(resource)):
            self._finish(resource, "no device was attached for this object")

    def _resolve(self, resource: ComposableResource) -> None:
        """Request nothing until it is known whether an earlier process requested the device."""
        if resource.reclaims:
            self._tell(resource, f"CoHDI's upstream syncer created this object to detach device {resource.reclaims}, "
                                 "which was attached without a ComposableResource. The controllers do not touch it. "
                                 "Delete this object, or detach the device with the module fabric_device")
        elif resource.doubt == UNREADABLE:
            self._tell(resource, f"no device is requested: {resource.doubt}. Restore the annotation, or delete this "
                                 "object")
        elif not self._adopt_foreign(resource) and self._doubt_over(resource):
            self._attach(resource, f"the request of another operator had no effect in {self.attach_deadline:g} s")

    def _adopt_foreign(self, resource: ComposableResource) -> bool:
        """Adopt what another operator, such as CoHDI's, attached. Return whether nothing else is to
        be done now.

        CoHDI detaches devices without a ComposableResource, so a device without one is new. If
        there are more such devices than resources that the operator was attaching, their owners are
        unknown.
        """
        ours = any(r.busy or (r.asked and not r.device_uid) for r in self._like(resource))
        if self.snapshot.attached is None or ours:
            self.wake.append(self.snapshot.now + POLL)
            return True
        unowned = [u for u in self._foreign(resource.model) if u not in self.adopted]
        rivals = [r for r in self._like(resource) if r.doubt == FOREIGN]
        if len(self._foreign(resource.model)) > len(rivals):
            self._tell(resource, f"no device is requested: {resource.doubt}. It is unknown which of "
                                 f"{', '.join(unowned)} on machine {self.snapshot.machine} belongs to this object. "
                                 "Detach the devices that no pod needs")
        elif unowned:
            self.adopted.add(unowned[0])
            self.actions.append(Adopt(self.snapshot.name, resource.doubt, resource.name, unowned[0],
                                      self.snapshot.machine or ""))
        return bool(unowned)

    def _like(self, resource: ComposableResource) -> list[ComposableResource]:
        return [r for r in self.snapshot.resources if r.model == resource.model]

    def _doubt_over(self, resource: ComposableResource) -> bool:
        """Return whether the request of another operator can no longer take effect."""
        until = resource.doubted_since + self.attach_deadline
        self.wake.append(max(until, self.snapshot.now + POLL))
        return bool(resource.doubted_since) and self.snapshot.now >= until

    def _tell(self, resource: ComposableResource, text: str) -> None:
        if resource.error != text:
            self.actions.append(SetState(self.snapshot.name, "it is unknown what was requested", resource.name,
                                         resource.state or ATTACHING, text))

    def _finish(self, resource: ComposableResource, reason: str) -> None:
        self.actions.append(Finish(self.snapshot.name, reason, resource.name))

    def _detach(self, resource: ComposableResource) -> None:
        """Request the removal from the node, then detach the device. Or record why the device
        stays.

        A device that a claim has, or that the node has not removed, is detached only by force.
        """
        reason = "no longer wanted and no claim uses it"
        held, forced = self._held(resource), self.snapshot.forced(resource)
        shown = resource.visible and not resource.tainted
        if forced or (not held and (self.snapshot.lost or (resource.node_work.removed and not shown))):
            self.actions.append(Detach(self.snapshot.name, self.snapshot.lost or reason, resource.name,
                                       resource.machine or self.snapshot.machine or "", resource.device_uid, forced,
                                       bool(self.snapshot.lost)))
        elif held:
            if resource.node_work.asked:
                self.actions.append(WithdrawRelease(self.snapshot.name, held, resource.name))
            self._stay(resource, held)
        elif self.snapshot.not_lost or self.snapshot.no_agent:
            self._stay(resource, self.snapshot.not_lost or self.snapshot.no_agent)
            self.wake += [self.snapshot.lost_at] if self.snapshot.lost_at else []
        elif not resource.node_work.asked:
            self.actions.append(AskRelease(self.snapshot.name, reason, resource.name))
        else:
            self._await_node(resource, shown)

    def _await_node(self, resource: ComposableResource, shown: bool) -> None:
        """Wait for the node to remove the device. Taint a device that the node published only
        later.
        """
        if shown:
            self.actions.append(TaintDevice(self.snapshot.name, SHOWN, resource.name))
        if resource.node_work.removed:
            self._stay(resource, SHOWN)
        elif resource.node_work.trouble and not resource.node_work.warning:
            self._stay(resource, resource.node_work.trouble)

    def _held(self, resource: ComposableResource) -> str:
        """Return which claim has the device, in a sentence, empty if none has."""
        if resource.used_by:
            return f"claim {resource.used_by} uses the device"
        return f"the device is reserved for claim {resource.held_for}" if resource.hold_alive else ""

    def _stay(self, resource: ComposableResource, why: str) -> None:
        told = f"not detached: {why}"
        if resource.error != told:
            self.actions.append(SetState(self.snapshot.name, "the device cannot be detached now", resource.name,
                                         DETACHING, told))

    def _resume(self, resource: ComposableResource) -> None:
        """Continue an earlier process's operation at a CDI Manager that can report its result."""
        self.actions.append(Resume(self.snapshot.name, "an earlier process sent this request", resource.name,
                                   resource.operation))

    def _came_back(self, resource: ComposableResource) -> bool:
        """Return whether the node publishes the device because another ComposableResource has it
        now.

        Ignore pool devices. No slice of the node lists them, so a listed entry is the old device
        and keeps its taint.
        """
        return any(r.serial == resource.serial and r.device_uid and not r.pool_device for r in self.snapshot.resources
                   if r.name != resource.name)

    def _adopt(self, resource: ComposableResource) -> bool:
        """Adopt a device of the model without an owner. Return whether nothing else is to be done
        now.

        While another resource waits for the result of its own attach, the device may belong to that
        resource.
        """
        if any(r.busy or (r.asked and r.operation and not r.device_uid) for r in self._like(resource)):
            self.wake.append(self.snapshot.now + POLL)
            return True
        taken = self.snapshot.owned | resource.present | self.adopted
        found = [u for u, m in (self.snapshot.attached or {}).items() if m == resource.model and u not in taken]
        if not found:
            return self._await_other_node(resource)
        uid = min(found, key=lambda u: (-self._barred(u), u))
        self.adopted.add(uid)
        self.actions.append(Adopt(self.snapshot.name, "an earlier request without a reply attached it", resource.name,
                                  uid))
        return True

    def _await_other_node(self, resource: ComposableResource) -> bool:
        """Return whether another node's ComposableResource may still have the awaited device.

        That resource does not know yet that its device has left.
        """
        attached = self.snapshot.attached or {}
        if any(attached[uid] == resource.model for uid in self.snapshot.leaving - resource.present):
            self.wake.append(self.snapshot.now + POLL)
            return True
        return False

    def _barred(self, uid: str) -> int:
        """Return how many other resources cannot have requested the device, because it was there
        before them.

        The device that most others cannot have is adopted first.
        """
        return sum(uid in r.present for r in self.snapshot.resources if r.asked and not r.device_uid)

    def _past_deadline(self, resource: ComposableResource) -> bool:
        """Return whether an unanswered request can take no effect now and the machine was read."""
        if self.snapshot.attached is not None and self.snapshot.now - resource.asked >= self.attach_deadline:
            return True
        self.wake.append(self.snapshot.now + POLL)
        return False

    def _attach(self, resource: ComposableResource, reason: str) -> None:
        if self.snapshot.machine and self._may_ask(resource.model):
            self.actions.append(Attach(self.snapshot.name, reason, resource.name, resource.model, self.snapshot.machine,
                                       self._foreign(resource.model)))

    def _may_ask(self, model: str) -> bool:
        """Return whether a device of the model may be requested.

        It may not while the model is blocked, or while the devices that were there before are
        unknown. It also may not while a device of the model is being detached, because a lost reply
        could make that device seem new.
        """
        known = self.snapshot.attached is not None and model not in self.snapshot.blocked
        return known and not any(r.model == model and self._may_be_off(r) for r in self.snapshot.resources)

    def _may_be_off(self, resource: ComposableResource) -> bool:
        """Return whether the CDI Manager may have been requested to detach the device, without a
        recorded result.
        """
        detaching = resource.node_work.removed or self.snapshot.forced(resource) or bool(self.snapshot.lost)
        return resource.deleting and bool(resource.device_uid) and resource.state != DELETING and detaching

    def _foreign(self, model: str) -> tuple[str, ...]:
        attached = self.snapshot.attached or {}
        return tuple(sorted(u for u, m in attached.items() if m == model and u not in self.snapshot.owned))

    def _children(self, request: ComposabilityRequest) -> None:
        children = [r for r in self.snapshot.resources if self._belongs(r, request)]
        live = [r for r in children if not r.deleting]
        size = 0 if request.deleting else request.size
        wanted = self._assign(live, wanted_pool_devices(self.snapshot, request.model))
        if len(live) > size:
            self._release(live, len(live) - size, f"{request.name} wants {size} devices and has {len(live)}")
        elif len(live) < size and self.snapshot.machine and self._may_ask(request.model) and not request.lacks:
            reason, foreign = f"{request.name} wants {size} devices and has {len(live)}", self._foreign(request.model)
            names = _new_names(request, self.snapshot.name, children, size - len(live))
            claims = [("", uid) for uid in destined(self.snapshot, request, len(names))]
            self.actions += [CreateResource(self.snapshot.name, reason, name, request.name, request.model,
                                            self.snapshot.machine, foreign, request.force_detach, request.type, claim,
                                            pool_device)
                             for name, (pool_device, claim) in zip(names, wanted + claims[len(wanted):], strict=False)]
        if request.deleting and not (children or request.nodeless):
            self.actions.append(FinishRequest(self.snapshot.name, "no ComposableResource is left", request.name))

    def _assign(self, live: list[ComposableResource], wanted: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Assign resources in flight to pool devices that claims wait for. Return the pool devices
        without one.
        """
        ready = sorted((r for r in live if r.assignable), key=lambda r: r.name)
        self.actions += [SetPoolDevice(self.snapshot.name, f"a claim waits for {name}", r.name, name, uid)
                         for r, (name, uid) in zip(ready, wanted, strict=False)]
        return wanted[len(ready):]

    def _release(self, live: list[ComposableResource], n: int, reason: str) -> None:
        free = [r for r in live if self.snapshot.forced(r) or not (r.taken or stays(r, self.snapshot))]
        for resource in sorted(free, key=surplus_order)[:n]:
            self.actions.append(DeleteResource(self.snapshot.name, reason, resource.name))


def surplus_order(resource: ComposableResource) -> tuple[int, float, str]:
    """Return the sort key of resources to delete: CoHDI's order, then the longest idle first.

    Source: composable-resource-operator.
    """
    if resource.taken:
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


def _new_names(request: ComposabilityRequest, node: str, children: list[ComposableResource], count: int) -> list[str]:
    """Return names as composable-resource-operator gives them: the type and a UUID.

    Every planner that sees the same children computes the same names.
    """
    seen = "/".join([request.name, *([node] if request.nodeless else ()), *sorted(child.uid for child in children)])
    return [f"{request.type}-{uuid5(NAMESPACE_OID, f'{seen}/{number}')}" for number in range(count)]


def plan_compose(snapshot: NodeSnapshot, attach_deadline: float) -> Plan:
    """Decide what to request from the CDI Manager for one node, and the end of its
    ComposableResources. Pure.

    The actions: one ComposableResource for each missing device (``CreateResource``, ``Attach``),
    the result of a request without a reply (``Adopt``, ``Resume``), the end of a surplus resource
    (``DeleteResource``, ``AskRelease``, ``TaintDevice``, ``WithdrawRelease``, ``Detach``,
    ``Finish``), and states. ``attach_deadline``: seconds in which an attach without a reply may
    still take effect. It is not repeated earlier. If ``snapshot.attached`` is None, nothing is
    requested, because the devices that were there before are unknown.

    Source: CoHDI's composable-resource-operator.
    """
    return _Compose(snapshot, attach_deadline).plan()


def uncertain(snapshot: NodeSnapshot) -> bool:
    """Return whether a request has no reply. The machine must then be read before the node is
    planned.
    """
    return any((r.asked or r.doubt) and not r.device_uid and not r.busy and r.state != DELETING
               for r in snapshot.resources)


def request_status(spec: Mapping[str, t.Any], children: Sequence[DeviceRecord], error: str,
                   deleting: bool = False, allocating: bool = False) -> dict[str, t.Any]:
    """Return the status of a ComposabilityRequest as composable-resource-operator writes it.

    ``spec``: its ``spec.resource``. ``children``: its ComposableResources. ``error``: why no device
    comes, or empty. ``allocating``: it names no node, and not all of its devices have a node.
    """
    state = "NodeAllocating" if allocating and not deleting else _request_state(spec, children, deleting)
    status: dict[str, t.Any] = {"state": state, "scalarResource": dict(spec)}
    if error:
        status["error"] = error
    if children:
        status["resources"] = {r.name: _entry(r) for r in sorted(children, key=lambda r: r.name)}
    return status


def _request_state(spec: Mapping[str, t.Any], children: Sequence[DeviceRecord], deleting: bool) -> str:
    if deleting:
        return "Cleaning" if children else "Deleting"
    live = [r for r in children if not r.deleting]
    complete = len(live) == spec.get("size") and all(r.state == ONLINE for r in live)
    return "Running" if complete else "Updating"


def _entry(resource: DeviceRecord) -> dict[str, str]:
    entry = {"state": resource.state or ATTACHING, "node_name": resource.node, "device_id": resource.serial,
             "cdi_device_id": resource.device_uid, "error": resource.error}
    return {k: v for k, v in entry.items() if v}
