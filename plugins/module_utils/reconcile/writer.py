# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every write to the API server that a pass makes, and nothing else: the one place to look for what we change.

Answers are put into the stores at once, so that the next pass does not wait for its own watch.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterable, Mapping

from ..kube import claims, cro, gates
from ..kube.client import Client
from ..kube.conditions import already_set, device_conditions
from ..kube.errors import AlreadyExists, Conflict, NotFound
from ..kube.resource import CLAIMS, NODES, PODS, REQUESTS, RESOURCES
from ..kube.taints import DeviceTaints
from ..kube.times import format_micro_time, format_time
from ..scaling.actions import CreateResource, LabelNode, MarkClaim, SetSize, Touch
from ..scaling.demand import PREPARING
from ..scaling.pools import PoolPlan
from ..scaling.view import PodRef
from . import views
from .poolwriter import PoolWriter
from .world import Json, World


class Writer:
    """Writes for one engine. Methods raise the kube layer's errors unless they say otherwise.

    ``changes`` counts what was changed of pools, sizes, resources, labels and conditions; summaries and steering do
    not count.
    """

    def __init__(self, client: Client, world: World) -> None:
        self.client, self.world = client, world
        self.changes = 0
        self.taints = DeviceTaints(client)
        self.pools = PoolWriter(client, world)

    def set_size(self, action: SetSize) -> None:
        """Create or patch a ComposabilityRequest; one that exists already is taken over."""
        if action.before is None:
            try:
                body = cro.request_body(action.request, action.node, action.model, action.size)
                self.world.requests.upsert(self.client.create(REQUESTS, body))
                self.changes += 1
                return
            except AlreadyExists:
                self.world.requests.upsert(self.client.get(REQUESTS, action.request))
        patch = {"spec": {"resource": {"size": action.size}}}
        self.world.requests.upsert(self.client.merge_patch(REQUESTS, action.request, patch))
        self.changes += 1

    def label_node(self, action: LabelNode) -> None:
        """Set and remove node labels."""
        patch = {"metadata": {"labels": dict(action.labels)}}
        self.world.nodes.upsert(self.client.merge_patch(NODES, action.node, patch))
        self.changes += 1

    def hold(self, resource: str, claim_uid: str) -> None:
        """Keep a device for the claim that it is handed to, for none when the uid is empty; CoHDI's last-used-time is
        stamped with it."""
        now = time.time()
        self._annotate(resource, {cro.HELD_FOR: cro.hold(claim_uid, now) if claim_uid else None,
                                  self.world.settings.label(cro.LAST_USED): format_time(now)})

    def touch(self, action: Touch) -> None:
        """Record that a device began or ceased to be used; with its use the hold for its claim is over."""
        self._annotate(action.resource, {cro.IN_USE: "true" if action.in_use else None, cro.HELD_FOR: None,
                                         self.world.settings.label(cro.LAST_USED): format_micro_time(time.time())})

    def intent(self, resource: str, machine: str, present: Iterable[str]) -> None:
        """Write down that the CDI Manager is about to be asked for a device."""
        self._annotate(resource, {cro.ATTACH: cro.attach_intent(machine, time.time(), present), cro.OPERATION: None})

    def operation(self, resource: str, handle: str | None) -> None:
        """Write down by which handle an asynchronous CDI Manager knows the attach; None: it knows it no more."""
        self._annotate(resource, {cro.OPERATION: handle})

    def forget_intent(self, resource: str) -> None:
        """Record that nothing of an attach is on the fabric: the CDI Manager refused it."""
        self._annotate(resource, {cro.ATTACH: None, cro.OPERATION: None})

    def _annotate(self, resource: str, annotations: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        self.world.resources.upsert(self.client.merge_patch(RESOURCES, resource, patch))
        self.changes += 1

    def create_resource(self, name: str, action: CreateResource, present: Iterable[str]) -> None:
        """Create a ComposableResource that carries its attach intent."""
        intent = cro.attach_intent(action.machine, time.time(), present)
        body = cro.resource_body(name, action.request, action.node, action.model, intent, force=action.force)
        self.world.resources.upsert(self.client.create(RESOURCES, body))
        self.changes += 1

    def resource_status(self, name: str, **status: str) -> None:
        """Patch fields of a ComposableResource's status."""
        patch = {"status": status}
        self.world.resources.upsert(self.client.merge_patch(RESOURCES, name, patch, subresource="status"))
        self.changes += 1

    def delete_resource(self, name: str) -> None:
        """Mark a ComposableResource for deletion; one that is gone is fine."""
        try:
            self.client.delete(RESOURCES, name)
            self.changes += 1
            self.world.resources.upsert(self.client.get(RESOURCES, name))
        except NotFound:
            self._forget(self.world.resources.get(name), self.world.resources)

    def finish(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposableResource."""
        self.taints.remove(name)
        self._finalize(RESOURCES, name, self.world.resources)
        self.changes += 1

    def finish_request(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposabilityRequest."""
        self._finalize(REQUESTS, name, self.world.requests)
        self.changes += 1

    def _finalize(self, kind: t.Any, name: str, store: t.Any) -> None:
        raw = store.get(name)
        left = [f for f in ((raw or {}).get("metadata", {}).get("finalizers") or []) if f != cro.FINALIZER]
        with contextlib.suppress(NotFound):
            self.client.merge_patch(kind, name, {"metadata": {"finalizers": left or None}})
        if not left:
            self._forget(raw, store)

    @staticmethod
    def _forget(raw: Json | None, store: t.Any) -> None:
        if raw is not None:
            store.remove(raw)

    def request_status(self, name: str, status: Json) -> None:
        """Replace the status of a ComposabilityRequest, keeping what is equal."""
        raw = self.world.requests.get(name)
        if raw is None or raw.get("status") == status:
            return
        old = (raw.get("status") or {}).get("resources") or {}
        gone = {key: None for key in old if key not in status.get("resources", {})}
        body = {**status, "error": status.get("error"), "resources": {**gone, **status.get("resources", {})} or None}
        try:
            self.world.requests.upsert(
                self.client.merge_patch(REQUESTS, name, {"status": body}, subresource="status"))
        except NotFound:
            self._forget(raw, self.world.requests)

    def nominate(self, namespace: str, pod: str, uid: str, node: str, anyway: bool = False) -> bool:
        """Have the scheduler try a node first for a pod (empty: none); False when that pod is gone or already bound.

        Nothing is written when the nomination is known to be there, unless ``anyway``.
        """
        known = None if anyway else next(iter(self.world.pods.by("uid", uid)), None)
        if known and gates.nominated(known) == node:
            return True
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
        try:
            answer = self.client.merge_patch(PODS, pod, body, namespace=namespace, subresource="status")
        except (NotFound, Conflict):
            return False
        if gates.held(answer):  # nobody else acts on it, so nobody misses the event of the watch
            self.world.pods.upsert(answer)
        return not gates.bound(answer)

    def protect(self, claim: str) -> None:
        """Give a claim (its uid) the finalizer that the scheduler would write first; one that is gone is fine."""
        raw = next(iter(self.world.claims.by("uid", claim)), None)
        if raw is None or claims.protected(raw):
            return
        meta = raw["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            self.world.claims.upsert(self.client.strategic_patch(CLAIMS, meta["name"], claims.protection(claim),
                                                                 namespace=meta["namespace"]))

    def ungate(self, pod: PodRef) -> bool:
        """Remove our scheduling gate and no other; False when that pod is gone."""
        try:
            answer = self.client.strategic_patch(PODS, pod.name, gates.removal(pod.uid), namespace=pod.namespace)
        except (NotFound, Conflict):
            return False
        self.world.pods.upsert(answer)
        self.changes += 1
        return True

    def mark_claim(self, action: MarkClaim) -> bool:
        """Write a condition onto the allocation it was decided for; False when that allocation is no more."""
        raw = next(iter(self.world.claims.by("uid", action.claim)), None)
        for _unused in range(3):
            if raw is None or views.claim_phase(raw) != PREPARING or already_set(raw, action.condition):
                return False
            body = device_conditions(raw, action.condition, "True", "DeviceConditionUpdated", action.reason,
                                     format_time(time.time()))
            try:
                answer = self.client.apply(CLAIMS, action.name, body, namespace=action.namespace,
                                           subresource="status", field_manager=cro.FIELD_MANAGER)
            except NotFound:
                return False
            except Conflict:
                raw = self._same_allocation(raw, action)
                continue
            self.world.claims.upsert(answer)
            self.changes += 1
            return True
        return False

    def _same_allocation(self, raw: Json, action: MarkClaim) -> Json | None:
        try:
            fresh = self.client.get(CLAIMS, action.name, namespace=action.namespace)
        except NotFound:
            return None
        self.world.claims.upsert(fresh)
        same = fresh["metadata"]["uid"] == action.claim
        return fresh if same and _allocation(fresh) == _allocation(raw) else None

    def deallocate(self, claim: Json) -> None:
        """Drop an allocation that the scheduler has given up (reserved for nobody) and would drop a second later.

        The resourceVersion goes with it: a claim that was reserved meanwhile keeps its allocation.
        """
        meta = claim["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"allocation": None}}
        try:
            self.world.claims.upsert(self.client.merge_patch(CLAIMS, meta["name"], body, namespace=meta["namespace"],
                                                             subresource="status"))
        except (NotFound, Conflict):
            return

    def write_pool(self, plan: PoolPlan) -> None:
        """Write the slices of a pool; a slice changed by somebody else raises Conflict."""
        self.pools.write(plan)
        self.changes += 1


def _allocation(claim: Json) -> t.Any:
    return (claim.get("status") or {}).get("allocation")
