# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write ComposableResources, and the taints of their devices."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterable, Mapping

from ...kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES
from ...kube.errors import Conflict, NotFound
from ...kube.objects import cohdi, device_users
from ...kube.objects.claim_ref import CLAIM
from ...kube.objects.taints import DeviceTaints
from ...kube.times import format_micro_time, format_time
from ...model.resource import Resource
from ...model.slice import DeviceKey
from ...model.value import Json, Unreadable
from ...planning.actions import CreateResource, SetPoolDevice, Touch
from ...planning.node.compose import ATTACHING
from ..timelines.timeline import ANNOTATION, Timeline, dump, parse
from ..values import resource_values
from ..values.claim_values import claim_ref
from .object_writer import ObjectWriter, Outlet, as_read, same_object

# Annotations. None removes an annotation.
Notes: t.TypeAlias = Mapping[str, str | None]


class DeviceUses(t.Protocol):
    """Counts how long claims have devices."""

    def await_begin(self) -> None:
        """Wait some seconds until this process counts."""

    def notes(self, resource: str) -> Notes:
        """Return the annotations of a ComposableResource that list its claims and since when they use it."""

    def settle(self, resource: str) -> None:
        """Store what is counted before a ComposableResource is deleted."""


class NoUses:
    """Counts nothing."""

    def await_begin(self) -> None:
        """Do nothing."""

    def notes(self, resource: str) -> Notes:
        """Return no annotations."""
        return {}

    def settle(self, resource: str) -> None:
        """Do nothing."""


class ResourceWriter(ObjectWriter):
    """Writes ComposableResources. ``uses`` counts how long claims have devices."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self.uses: DeviceUses = NoUses()
        self.taints = DeviceTaints(outlet.client)

    def hold(self, resource: str, claim_uid: str) -> None:
        """Write the hold of a device for a claim, or its end if the UID is empty, with CoHDI's
        last-used-time."""
        now = self.client.server_time()
        self._annotate(resource, {cohdi.HELD_FOR: cohdi.hold(claim_uid, now) if claim_uid else None,
                                  self.state.settings.label(cohdi.LAST_USED): format_time(now)})

    def touch(self, action: Touch, notes: Notes | None = None) -> None:
        """Record the begin or end of a device's use, and the claim. The use ends a hold.

        Write ``notes`` in the same patch.
        """
        resource = self.state.resources.value(action.resource)
        user = self.state.user(resource) if resource and action.in_use else None
        now = format_micro_time(self.client.server_time())
        self._annotate(action.resource, {cohdi.IN_USE: "true" if action.in_use else None, cohdi.HELD_FOR: None,
                                         self.state.settings.label(cohdi.LAST_USED): now,
                                         **({CLAIM: claim_ref(user).note} if user else {}), **(notes or {}),
                                         **self.uses.notes(action.resource)})

    def intent(self, resource: str, machine: str, present: Iterable[str]) -> None:
        """Record that a device is about to be requested from the CDI Manager."""
        intent = cohdi.attach_intent(machine, self.client.server_time(), present)
        self._annotate(resource, {cohdi.ATTACH: intent, cohdi.OPERATION: None}, unchanged=True)

    def operation(self, resource: str, handle: str | None) -> None:
        """Record the handle of an attach at an asynchronous CDI Manager, or remove it if ``handle``
        is None."""
        self._annotate(resource, {cohdi.OPERATION: handle})

    def ask_release(self, resource: str) -> None:
        """Request the node to release a device. Record its claims, because no slice shows it afterwards."""
        self.uses.await_begin()
        found = self.state.resources.value(resource)
        patch: Json = {"metadata": {"annotations": {cohdi.RELEASE: format_micro_time(time.time()),
                                                    **self.uses.notes(resource)}}}
        if found is not None:  # an object without the label becomes visible to the node now
            patch["metadata"]["labels"] = _of_node(found)
        self.state.resources.upsert(self.client.merge_patch(COMPOSABLE_RESOURCES, resource, patch))
        self.outlet.changes += 1

    def give_to_node(self, resource: str) -> None:
        """Label a ComposableResource of another operator, so that the node agent sees it."""
        found = self.state.resources.value(resource)
        if found is not None:
            meta = {"uid": found.uid, "labels": _of_node(found)}
            with contextlib.suppress(Conflict, NotFound):
                self.state.resources.upsert(
                    self.client.merge_patch(COMPOSABLE_RESOURCES, resource, {"metadata": meta}))
                self.outlet.changes += 1

    def withdraw_release(self, resource: str) -> None:
        """Withdraw the request to release a device, so that the node keeps it."""
        self._annotate(resource, {cohdi.RELEASE: None})

    def note(self, resource: str, notes: Notes) -> None:
        """Write annotations of a ComposableResource."""
        self._annotate(resource, notes)

    def timeline_notes(self, resource: str, timelines: Iterable[Timeline]) -> Notes:
        """Return the annotation with these timelines added to those of the device. A claim's own is
        replaced."""
        found, added = self.state.resources.value(resource), [*timelines]
        known = {each.uid for each in added}
        others = [each for each in parse(found.annotation(ANNOTATION) if found else "") if each.uid not in known]
        return {ANNOTATION: dump([*others, *added])}

    def set_pool_device(self, action: SetPoolDevice) -> None:
        """Record which pool device a claim has the device as. Do nothing if the object has changed.

        Before removing the record, read the claim again, because the watch may be behind an earlier
        leader.
        """
        if not action.pool_device and self._is_kept(action.resource):
            return
        claim = next(iter(self.state.claim_refs([action.claim])), None)
        notes = {cohdi.POOL_DEVICE: action.pool_device or None, **({CLAIM: claim.note} if claim else {})}
        with contextlib.suppress(Conflict):
            self._annotate(action.resource, notes, unchanged=True)

    def _is_kept(self, resource: str) -> bool:
        """Return whether the recorded claim still has the pool device, by a fresh read of the
        claim."""
        found = self.state.resources.value(resource)
        claim = resource_values.noted_claim(found) if found else None
        if found is None or claim is None:
            return False
        namespace, _unused, name = claim.key.partition("/")
        try:
            fresh = self.client.get(CLAIMS, name, namespace)
        except NotFound:
            return False
        self.state.claims.upsert(fresh)
        return bool(device_users.keeper([fresh], found.node, found.pool_device))

    def forget_intent(self, resource: str) -> None:
        """Record that an attach has nothing on the fabric, because the CDI Manager refused it."""
        self._annotate(resource, {cohdi.ATTACH: cohdi.NOT_ASKED, cohdi.OPERATION: None})

    def _annotate(self, resource: str, annotations: Notes, unchanged: bool = False) -> None:
        """Patch annotations. With ``unchanged``, patch only the object as it was read.

        If the object has changed, read it again and raise Conflict.
        """
        found = self.state.resources.stored(resource)
        known = as_read(found) if unchanged and found is not None else same_object(found)
        patch = {"metadata": {**known, "annotations": dict(annotations)}}
        try:
            self.state.resources.upsert(self.client.merge_patch(COMPOSABLE_RESOURCES, resource, patch))
        except Conflict:
            self.read(resource)
            raise
        self.outlet.changes += 1

    def create(self, name: str, action: CreateResource, present: Iterable[str]) -> None:
        """Create a ComposableResource with its attach intent."""
        intent = cohdi.attach_intent(action.machine, self.client.server_time(), present)
        claim = next(iter(self.state.claim_refs([action.claim])), None)
        body = cohdi.resource_body(name, action.request, action.node, action.model, intent, action.type,
                                   action.force, claim, action.pool_device)
        self.state.resources.upsert(self.client.create(COMPOSABLE_RESOURCES, body))
        self.outlet.changes += 1

    def read_taints(self) -> None:
        """Learn which devices an earlier process has tainted for the scheduler.

        Lift taints of ComposableResources that are gone by the data of ``read_journal``. No other
        code does.
        """
        for resource, keys in self.taints.placed().items():
            self.state.note_taints(resource, keys)
            if self.state.resources.stored(resource) is None:
                self.lift_taints(resource, keys)

    def read(self, name: str) -> None:
        """Read a ComposableResource again. Ignore one that is gone."""
        with contextlib.suppress(NotFound):
            self.state.resources.upsert(self.client.get(COMPOSABLE_RESOURCES, name))

    def record_device(self, name: str, device: str, serial: str) -> str:
        """Write the device of a ComposableResource, and return the device that it has now.

        It is another device if another process wrote one in the meantime, because a written device
        stays.
        """
        found: Resource | Unreadable = self.state.resources.stored(name) or self._fresh(name)
        while True:
            known = resource_values.device_uid(found)
            if known and known != device:
                return known
            status = {"state": ATTACHING, "error": "", "device_id": serial, "cdi_device_id": device}
            try:
                self._patch_status(name, as_read(found), {**status, **self._conditions(found, status)})
            except Conflict:
                found = self._fresh(name)
                continue
            self.outlet.changes += 1
            return device

    def _fresh(self, name: str) -> Resource | Unreadable:
        """Return what the store would keep of the object that the API server has."""
        found = self.state.resources.trimmed(self.client.get(COMPOSABLE_RESOURCES, name))
        return t.cast("Resource | Unreadable", found)

    def _conditions(self, found: Resource | Unreadable | None, status: Mapping[str, str]) -> Json:
        """Return the conditions for a status, as a part of the status. None without a readable
        object."""
        if not isinstance(found, Resource):
            return {}
        return self._ready(found.conditions, found.generation, {"state": found.state, "error": found.error, **status})

    def set_status(self, name: str, **status: str) -> None:
        """Patch fields of a ComposableResource's status."""
        found = self.state.resources.stored(name)
        self._patch_status(name, same_object(found), {**status, **self._conditions(found, status)})
        self.outlet.changes += 1

    def observe(self, name: str) -> None:
        """Update the observed generation of a ComposableResource's condition. A conflict is retried
        later."""
        found = self.state.resources.value(name)
        if found and (conditions := self._conditions(found, {})):
            with contextlib.suppress(Conflict, NotFound):
                self._patch_status(name, as_read(found), conditions)

    def _patch_status(self, name: str, known: Json, status: Json) -> None:
        answer = self.client.merge_patch(COMPOSABLE_RESOURCES, name, {"metadata": known, "status": status},
                                         subresource="status")
        self._note_conditions(status, answer)
        self.state.resources.upsert(answer)

    def delete(self, name: str) -> None:
        """Mark a ComposableResource for deletion. Ignore one that is gone."""
        found = self.state.resources.stored(name)
        try:
            left = self.client.delete(COMPOSABLE_RESOURCES, name, precondition_uid=same_object(found).get("uid"))
        except NotFound:
            left = None
        else:
            self.outlet.changes += 1
        if left is None:
            self._forget(found, self.state.resources)
        else:
            self.state.resources.upsert(left)

    def lift_taints(self, resource: str, keys: frozenset[DeviceKey]) -> None:
        """Allow the scheduler to allocate these slice entries, (driver, pool, device), again."""
        self.taints.lift(resource, keys)
        if left := self.state.tainted.pop(resource, frozenset()) - keys:
            self.state.tainted[resource] = left
        self.outlet.changes += 1

    def finish(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposableResource."""
        self.uses.settle(name)
        self.taints.remove(name)
        self.state.tainted.pop(name, None)
        self._finalize(COMPOSABLE_RESOURCES, name, self.state.resources)
        self.outlet.changes += 1


def _of_node(found: Resource) -> dict[str, str]:
    return {cohdi.TARGET_NODE: cohdi.node_label(found.node)}
