# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All writes of a controller to the API server.

Each response is put into its store at once, so that the next reconcile does not wait for the watch.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterable, Mapping

from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
)
from ...kube.client.verbs import Client
from ...kube.errors import AlreadyExists, Conflict, NotFound
from ...kube.objects import claims, cohdi, device_users, pods
from ...kube.objects.claim_ref import CLAIM, ClaimRef, read_claim
from ...kube.objects.conditions import already_set, device_conditions
from ...kube.objects.ready import with_ready
from ...kube.objects.taints import DeviceTaints
from ...kube.times import format_micro_time, format_time
from ...kube.watch.keys import key_of
from ...planning.actions import (
    CreateResource,
    LabelNode,
    MarkClaim,
    SetPoolDevice,
    SetSize,
    Touch,
)
from ...planning.node.compose import ATTACHING
from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import PodRef
from ..state import adapters
from ..state.cluster_state import ClusterState, DeviceKey, Json
from ..timelines.timeline import ANNOTATION, Timeline, dump, of_resource
from .pools import PoolWriter

# Annotations. None removes an annotation.
Notes: t.TypeAlias = Mapping[str, str | None]


class DeviceUses(t.Protocol):
    """Counts how long claims have devices."""

    def notes(self, resource: str) -> Notes:
        """Return annotations of a ComposableResource about its claims of now."""

    def settle(self, resource: str) -> None:
        """Store what is counted before a ComposableResource is deleted."""


class NoUses:
    """Counts nothing."""

    def notes(self, resource: str) -> Notes:
        """Return no annotations."""
        return {}

    def settle(self, resource: str) -> None:
        """Do nothing."""


class Writer:
    """Writes for one engine. Methods raise the errors of the kube layer unless they say otherwise.

    ``uses`` counts how long claims have devices. Times that other processes compare are the API
    server's. ``changes`` counts changes of pools, sizes, resources, labels and conditions, but not
    summaries and nominations.
    """

    def __init__(self, client: Client, state: ClusterState) -> None:
        self.client, self.state = client, state
        self.uses: DeviceUses = NoUses()
        self._changes = 0
        # False after a CRD dropped the conditions, like that of CoHDI, which has none.
        self._conditions = True
        self.taints = DeviceTaints(client)
        self.pools = PoolWriter(client, state)

    @property
    def changes(self) -> int:
        """Return the number of changes."""
        return self._changes + self.pools.changes

    def set_size(self, action: SetSize) -> None:
        """Create or patch a ComposabilityRequest. Take over one that already exists."""
        if action.before is None:
            try:
                body = cohdi.request_body(action.request, action.node, action.model, action.size, action.type,
                                          action.claims)
                self.state.requests.upsert(self.client.create(COMPOSABILITY_REQUESTS, body))
                self._changes += 1
                return
            except AlreadyExists:
                self.state.requests.upsert(self.client.get(COMPOSABILITY_REQUESTS, action.request))
        patch: Json = {"spec": {"resource": {"size": action.size}}}
        note = cohdi.claims_note(action.claims)
        if note != cohdi.annotation(self.state.requests.get(action.request) or {"metadata": {}}, cohdi.CLAIMS):
            patch["metadata"] = {"annotations": {cohdi.CLAIMS: note or None}}
        self.state.requests.upsert(self.client.merge_patch(COMPOSABILITY_REQUESTS, action.request, patch))
        self._changes += 1

    def label_node(self, action: LabelNode) -> None:
        """Set and remove node labels."""
        patch = {"metadata": {"labels": dict(action.labels)}}
        self.state.nodes.upsert(self.client.merge_patch(NODES, action.node, patch))
        self._changes += 1

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
        raw = self.state.resources.get(action.resource)
        user = self.state.user(raw) if raw and action.in_use else None
        now = format_micro_time(self.client.server_time())
        self._annotate(action.resource, {cohdi.IN_USE: "true" if action.in_use else None, cohdi.HELD_FOR: None,
                                         self.state.settings.label(cohdi.LAST_USED): now,
                                         **({CLAIM: ClaimRef.of(user).note} if user else {}), **(notes or {}),
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
        """Request the node to release a device."""
        raw = self.state.resources.get(resource)
        patch: Json = {"metadata": {"annotations": {cohdi.RELEASE: format_micro_time(time.time())}}}
        if raw is not None:  # an object without the label becomes visible to the node now
            patch["metadata"]["labels"] = _of_node(raw)
        self.state.resources.upsert(self.client.merge_patch(COMPOSABLE_RESOURCES, resource, patch))
        self._changes += 1

    def give_to_node(self, resource: str) -> None:
        """Label a ComposableResource of another operator, so that the node agent sees it."""
        raw = self.state.resources.get(resource)
        if raw is not None:
            meta = {"uid": raw["metadata"]["uid"], "labels": _of_node(raw)}
            with contextlib.suppress(Conflict, NotFound):
                self.state.resources.upsert(
                    self.client.merge_patch(COMPOSABLE_RESOURCES, resource, {"metadata": meta}))
                self._changes += 1

    def withdraw_release(self, resource: str) -> None:
        """Withdraw the request to release a device, so that the node keeps it."""
        self._annotate(resource, {cohdi.RELEASE: None})

    def note(self, resource: str, notes: Notes) -> None:
        """Write annotations of a ComposableResource."""
        self._annotate(resource, notes)

    def timeline_notes(self, resource: str, timelines: Iterable[Timeline]) -> Notes:
        """Return the annotation with these timelines added to those of the device. A claim's own is
        replaced."""
        raw, added = self.state.resources.get(resource), [*timelines]
        known = {each.uid for each in added}
        others = [each for each in (of_resource(raw) if raw else ()) if each.uid not in known]
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
        raw = self.state.resources.get(resource)
        claim = read_claim(raw) if raw else None
        if raw is None or claim is None:
            return False
        namespace, _unused, name = claim.key.partition("/")
        try:
            fresh = self.client.get(CLAIMS, name, namespace)
        except NotFound:
            return False
        self.state.claims.upsert(fresh)
        return bool(device_users.keeper([fresh], raw["spec"]["target_node"],
                                        cohdi.annotation(raw, cohdi.POOL_DEVICE)))

    def forget_intent(self, resource: str) -> None:
        """Record that an attach has nothing on the fabric, because the CDI Manager refused it."""
        self._annotate(resource, {cohdi.ATTACH: cohdi.NOT_ASKED, cohdi.OPERATION: None})

    def _annotate(self, resource: str, annotations: Notes, unchanged: bool = False) -> None:
        """Patch annotations. With ``unchanged``, patch only the object as it was read.

        If the object has changed, read it again and raise Conflict.
        """
        raw = self.state.resources.get(resource)
        known = {} if raw is None else _unchanged(raw) if unchanged else {"uid": raw["metadata"]["uid"]}
        patch = {"metadata": {**known, "annotations": dict(annotations)}}
        try:
            self.state.resources.upsert(self.client.merge_patch(COMPOSABLE_RESOURCES, resource, patch))
        except Conflict:
            self.read_resource(resource)
            raise
        self._changes += 1

    def create_resource(self, name: str, action: CreateResource, present: Iterable[str]) -> None:
        """Create a ComposableResource with its attach intent."""
        intent = cohdi.attach_intent(action.machine, self.client.server_time(), present)
        claim = next(iter(self.state.claim_refs([action.claim])), None)
        body = cohdi.resource_body(name, action.request, action.node, action.model, intent, action.type,
                                   action.force, claim, action.pool_device)
        self.state.resources.upsert(self.client.create(COMPOSABLE_RESOURCES, body))
        self._changes += 1

    def read_journal(self) -> None:
        """Read all ComposabilityRequests and ComposableResources from the API server."""
        stores = ((COMPOSABILITY_REQUESTS, self.state.requests), (COMPOSABLE_RESOURCES, self.state.resources))
        for kind, store in stores:
            listed = self.client.list(kind, trim=store.take_listed)
            store.retain({key_of(obj) for obj in listed.items}, listed.resource_version)

    def read_taints(self) -> None:
        """Learn which devices an earlier process has tainted for the scheduler.

        Lift taints of ComposableResources that are gone by the data of ``read_journal``. No other
        code does.
        """
        for resource, keys in self.taints.placed().items():
            self.state.note_taints(resource, keys)
            if self.state.resources.get(resource) is None:
                self.lift_taints(resource, keys)

    def read_resource(self, name: str) -> None:
        """Read a ComposableResource again. Ignore one that is gone."""
        with contextlib.suppress(NotFound):
            self.state.resources.upsert(self.client.get(COMPOSABLE_RESOURCES, name))

    def record_device(self, name: str, device: str, serial: str) -> str:
        """Write the device of a ComposableResource, and return the device that it has now.

        It is another device if another process wrote one in the meantime, because a written device
        stays.
        """
        raw = self.state.resources.get(name) or self.client.get(COMPOSABLE_RESOURCES, name)
        while True:
            known = (raw.get("status") or {}).get("cdi_device_id")
            if known and known != device:
                return str(known)
            status = {"state": ATTACHING, "error": "", "device_id": serial, "cdi_device_id": device}
            try:
                self._patch_status(name, _unchanged(raw), {**status, **self._ready(raw, status)})
            except Conflict:
                raw = self.client.get(COMPOSABLE_RESOURCES, name)
                continue
            self._changes += 1
            return device

    def resource_status(self, name: str, **status: str) -> None:
        """Patch fields of a ComposableResource's status."""
        raw = self.state.resources.get(name)
        known = {"uid": raw["metadata"]["uid"]} if raw else {}
        self._patch_status(name, known, {**status, **(self._ready(raw, status) if raw else {})})
        self._changes += 1

    def observe(self, name: str) -> None:
        """Update the observed generation of a ComposableResource's condition. A conflict is retried
        later."""
        raw = self.state.resources.get(name)
        if raw is not None and self._ready(raw, {}):
            with contextlib.suppress(Conflict, NotFound):
                self._patch_status(name, _unchanged(raw), self._ready(raw, {}))

    def _patch_status(self, name: str, known: Json, status: Json) -> None:
        answer = self.client.merge_patch(COMPOSABLE_RESOURCES, name, {"metadata": known, "status": status},
                                         subresource="status")
        self._note_conditions(status, answer)
        self.state.resources.upsert(answer)

    def _ready(self, raw: Json, status: Json) -> Json:
        """Return the conditions for a status, as a part of the status."""
        if not self._conditions:
            return {}
        return {"conditions": with_ready(raw, {**(raw.get("status") or {}), **status}, format_time(time.time()))}

    def _note_conditions(self, status: Json, answer: Json) -> None:
        if "conditions" in status and "conditions" not in (answer.get("status") or {}):
            self._conditions = False

    def delete_resource(self, name: str) -> None:
        """Mark a ComposableResource for deletion. Ignore one that is gone."""
        try:
            raw = self.state.resources.get(name)
            self.client.delete(COMPOSABLE_RESOURCES, name, precondition_uid=raw["metadata"]["uid"] if raw else None)
            self._changes += 1
            self.state.resources.upsert(self.client.get(COMPOSABLE_RESOURCES, name))
        except NotFound:
            self._forget(self.state.resources.get(name), self.state.resources)

    def lift_taints(self, resource: str, keys: frozenset[DeviceKey]) -> None:
        """Allow the scheduler to allocate these slice entries, (driver, pool, device), again."""
        self.taints.lift(resource, keys)
        if left := self.state.tainted.pop(resource, frozenset()) - keys:
            self.state.tainted[resource] = left
        self._changes += 1

    def finish(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposableResource."""
        self.uses.settle(name)
        self.taints.remove(name)
        self.state.tainted.pop(name, None)
        self._finalize(COMPOSABLE_RESOURCES, name, self.state.resources)
        self._changes += 1

    def finish_request(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposabilityRequest."""
        self._finalize(COMPOSABILITY_REQUESTS, name, self.state.requests)
        self._changes += 1

    def _finalize(self, kind: t.Any, name: str, store: t.Any) -> None:
        """Remove our finalizer. Retry once if another client, such as the node agent, changed the
        object.

        Do not retry on another object with the same name. Raise Conflict if the object changes
        again.
        """
        raw = store.get(name)
        try:
            left = self._remove_finalizer(kind, name, raw)
        except Conflict:
            fresh = self.client.get(kind, name)
            store.upsert(fresh)
            if raw is None or fresh["metadata"]["uid"] != raw["metadata"]["uid"]:
                raise
            raw, left = fresh, self._remove_finalizer(kind, name, fresh)
        if not left:
            self._forget(raw, store)

    def _remove_finalizer(self, kind: t.Any, name: str, raw: Json | None) -> list[str]:
        """Return the finalizers of others that are left, or none if the object is gone."""
        left = [f for f in ((raw or {}).get("metadata", {}).get("finalizers") or []) if f != cohdi.FINALIZER]
        known = _unchanged(raw) if raw else {}
        try:
            self.client.merge_patch(kind, name, {"metadata": {**known, "finalizers": left or None}})
        except NotFound:
            return []
        return left

    @staticmethod
    def _forget(raw: Json | None, store: t.Any) -> None:
        if raw is not None:
            store.remove(raw)

    def request_status(self, name: str, status: Json) -> None:
        """Replace the status of a ComposabilityRequest. Keep equal parts and the conditions of
        others."""
        raw = self.state.requests.get(name)
        if raw is None:
            return
        status = {**status, **self._ready(raw, {"error": "", **status})}
        if raw.get("status") == status:
            return
        old = (raw.get("status") or {}).get("resources") or {}
        gone = {key: None for key in old if key not in status.get("resources", {})}
        body = {**status, "error": status.get("error"), "resources": {**gone, **status.get("resources", {})} or None}
        try:
            answer = self.client.merge_patch(COMPOSABILITY_REQUESTS, name, {"status": body}, subresource="status")
        except NotFound:
            self._forget(raw, self.state.requests)
            return
        self._note_conditions(status, answer)
        self.state.requests.upsert(answer)

    def nominate(self, namespace: str, pod: str, uid: str, node: str, anyway: bool = False) -> bool:
        """Nominate a pod for a node, or for none if empty. Return False if the pod is gone or
        already bound.

        Write nothing if the nomination is known to be there, unless ``anyway``.
        """
        known = None if anyway else self.state.pods.first("uid", uid)
        if known and pods.nominated(known) == node:
            return True
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
        try:
            answer = self.client.merge_patch(PODS, pod, body, namespace=namespace, subresource="status")
        except (NotFound, Conflict):
            return False
        if pods.held(answer):  # no other process acts on a gated pod, so this hides no event
            self.state.pods.upsert(answer)
        return not pods.bound(answer)

    def protect(self, claim: str) -> None:
        """Give a claim (its UID) the finalizer that the scheduler would write first. Ignore one
        that is gone."""
        raw = self.state.claims.first("uid", claim)
        if raw is None or claims.protected(raw):
            return
        meta = raw["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            self.state.claims.upsert(self.client.strategic_patch(CLAIMS, meta["name"], claims.protection(claim),
                                                                 namespace=meta["namespace"]))

    def ungate(self, pod: PodRef) -> bool:
        """Remove our scheduling gate and no other. Return False if the pod is gone."""
        try:
            answer = self.client.strategic_patch(PODS, pod.name, pods.removal(pod.uid), namespace=pod.namespace)
        except (NotFound, Conflict):
            return False
        self.state.pods.upsert(answer)
        self._changes += 1
        return True

    def tell_not_served(self, pod: PodRef, reason: str) -> None:
        """Write the condition Served of a pod that was released without devices. Ignore one that is
        gone."""
        body = pods.not_served(pod.uid, reason, format_time(self.client.server_time()))
        with contextlib.suppress(NotFound, Conflict):
            self.state.pods.upsert(self.client.strategic_patch(PODS, pod.name, body, namespace=pod.namespace,
                                                               subresource="status"))

    def mark_claim(self, action: MarkClaim) -> bool:
        """Write a condition to the allocation that it was decided for. Return False if that
        allocation is gone."""
        raw = self.state.claims.first("uid", action.claim)
        for _unused in range(3):
            if raw is None or not _waits_on(raw, action.node) or already_set(raw, action.condition):
                return False
            body = device_conditions(raw, action.condition, "True", "DeviceConditionUpdated", action.reason,
                                     format_time(time.time()))
            try:
                answer = self.client.apply(CLAIMS, action.name, body, namespace=action.namespace,
                                           subresource="status", field_manager=cohdi.FIELD_MANAGER)
            except NotFound:
                return False
            except Conflict:
                raw = self._same_allocation(raw, action)
                continue
            self.state.claims.upsert(answer)
            self._changes += 1
            return True
        return False

    def _same_allocation(self, raw: Json, action: MarkClaim) -> Json | None:
        try:
            fresh = self.client.get(CLAIMS, action.name, namespace=action.namespace)
        except NotFound:
            return None
        self.state.claims.upsert(fresh)
        same = fresh["metadata"]["uid"] == raw["metadata"]["uid"]
        return fresh if same and _allocation(fresh) == _allocation(raw) else None

    def deallocate(self, claim: Json) -> None:
        """Drop an allocation that the scheduler has given up and would drop about a second later.

        Send the resourceVersion, so that a claim that was reserved in the meantime keeps its
        allocation.
        """
        meta = claim["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"allocation": None}}
        try:
            self.state.claims.upsert(self.client.merge_patch(CLAIMS, meta["name"], body, namespace=meta["namespace"],
                                                             subresource="status"))
        except (NotFound, Conflict):
            return


def _of_node(raw: Json) -> dict[str, str]:
    return {cohdi.TARGET_NODE: cohdi.node_label(raw["spec"]["target_node"])}


def _unchanged(raw: Json) -> Json:
    """Return metadata for a patch that fails if the object has changed since it was read."""
    return {key: raw["metadata"][key] for key in ("uid", "resourceVersion")}


def _waits_on(claim: Json, node: str) -> bool:
    """Return whether the claim is still allocated on the node and waits for pool devices."""
    here = bool(claims.binding_results(claim)) and claims.node(claim) == node
    return here and adapters.claim_phase(claim) == PREPARING


def _allocation(claim: Json) -> t.Any:
    return (claim.get("status") or {}).get("allocation")
