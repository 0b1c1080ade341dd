# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Index functions of each store, so that every lookup of a plan takes one step."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable, Iterable, Mapping

from ...kube.objects import autoscaling, claims, cohdi, pods
from ...model.claim import ResourceClaim
from ...model.node import Node
from ...model.pod import Pod
from ...model.request import Request
from ...model.resource import Resource
from ...model.slice import Slice
from ...model.value import Json, Unreadable
from ...planning.node.demand import PREPARING

# Requests within this many seconds share an index key.
ASKED_TOGETHER: t.Final = 2.0
Indexes = Mapping[str, Callable[[t.Any], Iterable[Hashable]]]


def claim_node(claim: ResourceClaim) -> Iterable[Hashable]:
    """Return the node of an allocated claim, or nothing."""
    return (claim.node,) if claim.node else ()


def _pools(claim: ResourceClaim) -> Iterable[Hashable]:
    return {result.pool for result in claim.pool_results}


def _allocated_pool_devices(claim: ResourceClaim) -> Iterable[Hashable]:
    """Index by pool device and node, because the same pool device name may be used on another node
    later."""
    return {(cohdi.pool_device(result.pool, result.device), claim.node) for result in claim.pool_results}


def _allocated_from(claim: ResourceClaim) -> Iterable[Hashable]:
    return {(result.driver, result.pool) for result in claim.results}


def _claim_uids(claim: ResourceClaim) -> Iterable[Hashable]:
    return {claim.uid, claim.identity}


def _unallocated(claim: ResourceClaim) -> Iterable[Hashable]:
    return () if claim.results else _claim_uids(claim)


def _preparing(claim: ResourceClaim) -> Iterable[Hashable]:
    """Index claims that wait for pool devices."""
    return (True,) if claim.pool_results and claim.phase == PREPARING else ()


def _unread_node(claim: Json) -> Iterable[Hashable]:
    name = claims.node(claim)
    return (name,) if name else ()


def _unread_pools(claim: Json) -> Iterable[Hashable]:
    return {result["pool"] for result in claims.binding_results(claim)}


def _unread_pool_devices(claim: Json) -> Iterable[Hashable]:
    name = claims.node(claim) or ""
    return {(cohdi.pool_device(r["pool"], r["device"]), name) for r in claims.binding_results(claim)}


def _unread_allocated_from(claim: Json) -> Iterable[Hashable]:
    return {(result["driver"], result["pool"]) for result in claims.results(claim)}


def _unread_uids(claim: Json) -> Iterable[Hashable]:
    return {claim["metadata"]["uid"], claims.identity(claim)}


def _unread_unallocated(claim: Json) -> Iterable[Hashable]:
    return () if claims.results(claim) else _unread_uids(claim)


def _target(obj: Json) -> Iterable[Hashable]:
    spec = obj["spec"].get("resource") or obj["spec"]
    return (spec.get("target_node") or "",)


def request_node(found: Request | Unreadable) -> Iterable[Hashable]:
    """Return the node of a ComposabilityRequest, even of one that cannot be read."""
    return (found.node,) if isinstance(found, Request) else _target(found.whole)


def _scaled_up(found: Request) -> Iterable[Hashable]:
    return (True,) if autoscaling.scale_up_entries(found.annotation(autoscaling.SCALE_UP)) else ()


def resource_node(found: Resource | Unreadable) -> Iterable[Hashable]:
    """Return the node of a ComposableResource, even of one that cannot be read."""
    return (found.node,) if isinstance(found, Resource) else _target(found.whole)


def _unread_device(obj: Json) -> Iterable[Hashable]:
    uid = (obj.get("status") or {}).get("cdi_device_id") or cohdi.reclaimed(obj)
    return (uid,) if uid else ()


def _managed_by(found: Resource) -> Iterable[Hashable]:
    return (found.request,)


def _device_uid(found: Resource) -> Iterable[Hashable]:
    uid = found.device_uid or found.reclaims
    return (uid,) if uid else ()


def _model(found: Resource) -> Iterable[Hashable]:
    return (found.model,)


def _unattached(found: Resource) -> Iterable[Hashable]:
    """Index by model. Few objects have no device, so the attached ones are counted without a table
    of them."""
    return () if found.device_uid else (found.model,)


def _held_for(found: Resource) -> Iterable[Hashable]:
    uid = found.hold[0]
    return (uid,) if uid else ()


def _pool_device(found: Resource) -> Iterable[Hashable]:
    return (found.pool_device,) if found.pool_device else ()


def _asked(found: Resource) -> Iterable[Hashable]:
    """Index by the time of the request, to find recent requests without reading all objects."""
    return (found.asked // ASKED_TOGETHER,) if found.asked > 0 else ()


def _deleting(found: Resource) -> Iterable[Hashable]:
    return (True,) if found.deleting else ()


def slice_node(found: Slice) -> Iterable[Hashable]:
    """Return the node of a slice, or nothing for a slice of a pool."""
    return (found.node,) if found.node else ()


def _slice_pool(found: Slice) -> Iterable[Hashable]:
    return () if found.node else (found.pool,)


def _slice_driver(found: Slice) -> Iterable[Hashable]:
    """Index the slices of nodes by their driver."""
    return (found.driver,) if found.node else ()


def _pod_node(pod: Pod) -> Iterable[Hashable]:
    """Index by the node to which it is bound, else nominated."""
    name = pod.node or pod.nominated
    return (name,) if name else ()


def _gated(pod: Pod) -> Iterable[Hashable]:
    return (True,) if pod.held else ()


def _unschedulable(pod: Pod) -> Iterable[Hashable]:
    return (True,) if pod.waits and pod.unschedulable and not pod.spec.get("schedulingGates") else ()


def _waiting(pod: Pod) -> Iterable[Hashable]:
    return (True,) if pod.wants_devices and pod.waits else ()


def _grouped(pod: Pod) -> Iterable[Hashable]:
    return (True,) if pod.group else ()


def _consumes(pod: Pod) -> Iterable[Hashable]:
    """Index by the ProvisioningRequest that booked the devices of the pod."""
    return (pod.consumes,) if pod.consumes else ()


def _unread_gated(pod: Json) -> Iterable[Hashable]:
    return (True,) if pods.held(pod) else ()


def _unread_uid(pod: Json) -> Iterable[Hashable]:
    return (pod["metadata"]["uid"],)


def _machine(node: Node) -> Iterable[Hashable]:
    return (node.machine,) if node.machine else ()


def _uid(pod: Pod) -> Iterable[Hashable]:
    """Index only pods that may have a claim or have no node. No caller looks up others by UID."""
    return (pod.uid,) if not pod.node or pod.wants_devices or pod.claims else ()


CLAIMS: t.Final[Indexes] = {"node": claim_node, "device": lambda claim: claim.device_keys, "pool": _pools,
                            "uid": _claim_uids, "allocated from": _allocated_from,
                            "unallocated": _unallocated, "pool device": _allocated_pool_devices,
                            "preparing": _preparing}
UNREAD_CLAIMS: t.Final[Indexes] = {"node": _unread_node, "device": claims.device_keys, "pool": _unread_pools,
                                   "uid": _unread_uids, "allocated from": _unread_allocated_from,
                                   "unallocated": _unread_unallocated, "pool device": _unread_pool_devices}
"""The places of claims without a value, as far as their raw fields say."""
SLICES: t.Final[Indexes] = {"node": slice_node, "pool": _slice_pool, "driver": _slice_driver}
NODES: t.Final[Indexes] = {"machine": _machine}
REQUESTS: t.Final[Indexes] = {"node": request_node, "scale up": _scaled_up}
UNREAD_REQUESTS: t.Final[Indexes] = {"node": _target}
RESOURCES: t.Final[Indexes] = {"node": resource_node, "request": _managed_by, "device": _device_uid,
                               "held": _held_for, "pool device": _pool_device, "model": _model, "asked": _asked,
                               "deleting": _deleting, "unattached": _unattached}
UNREAD_RESOURCES: t.Final[Indexes] = {"node": _target, "device": _unread_device}
"""Where a ComposableResource that cannot be read is found. Its node is not planned, and its device is
owned."""
PODS: t.Final[Indexes] = {"uid": _uid, "node": _pod_node, "gated": _gated,
                          "grouped": _grouped, "unschedulable": _unschedulable, "waiting": _waiting,
                          "consumes": _consumes}
UNREAD_PODS: t.Final[Indexes] = {"uid": _unread_uid, "gated": _unread_gated}
"""Where a pod that cannot be read is found, so that its gate is removed."""
