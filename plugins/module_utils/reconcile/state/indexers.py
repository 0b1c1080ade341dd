# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Index functions of each store, so that every lookup of a plan takes one step."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable, Iterable, Mapping

from ...kube.objects import autoscaling, claims, cohdi, nodes, pods, provisioning_requests
from ...model.slice import Slice
from ...planning.node.demand import PREPARING
from . import adapters

# Requests within this many seconds share an index key.
ASKED_TOGETHER: t.Final = 2.0
Json = dict[str, t.Any]
Indexes = Mapping[str, Callable[[t.Any], Iterable[Hashable]]]


def _of_claim_node(claim: Json) -> Iterable[Hashable]:
    name = claims.node(claim)
    return (name,) if name else ()


def _pools(claim: Json) -> Iterable[Hashable]:
    return {r["pool"] for r in claims.binding_results(claim)}


def _allocated_pool_devices(claim: Json) -> Iterable[Hashable]:
    """Index by pool device and node, because the same pool device name may be used on another node
    later."""
    name = claims.node(claim)
    return {(cohdi.pool_device(r["pool"], r["device"]), name) for r in claims.binding_results(claim)}


def _allocated_from(claim: Json) -> Iterable[Hashable]:
    return {(r["driver"], r["pool"]) for r in claims.results(claim)}


def _unallocated(claim: Json) -> Iterable[Hashable]:
    return () if claims.results(claim) else _claim_uids(claim)


def _preparing(claim: Json) -> Iterable[Hashable]:
    """Index claims that wait for pool devices."""
    return (True,) if claims.binding_results(claim) and adapters.claim_phase(claim) == PREPARING else ()


def _target(obj: Json) -> Iterable[Hashable]:
    spec = obj["spec"].get("resource") or obj["spec"]
    return (spec.get("target_node") or "",)


def _scaled_up(obj: Json) -> Iterable[Hashable]:
    return (True,) if autoscaling.read_scale_up(obj) else ()


def _managed_by(obj: Json) -> Iterable[Hashable]:
    return ((obj["metadata"].get("labels") or {}).get(cohdi.MANAGED_BY) or "",)


def _device_uid(obj: Json) -> Iterable[Hashable]:
    uid = (obj.get("status") or {}).get("cdi_device_id") or cohdi.reclaimed(obj)
    return (uid,) if uid else ()


def _unattached(obj: Json) -> Iterable[Hashable]:
    """Index by model. Few objects have no device, so the attached ones are counted without a table
    of them."""
    return () if (obj.get("status") or {}).get("cdi_device_id") else (obj["spec"]["model"],)


def _held_for(obj: Json) -> Iterable[Hashable]:
    uid = cohdi.read_hold(obj)[0]
    return (uid,) if uid else ()


def _pool_device(obj: Json) -> Iterable[Hashable]:
    name = cohdi.annotation(obj, cohdi.POOL_DEVICE)
    return (name,) if name else ()


def _asked(obj: Json) -> Iterable[Hashable]:
    """Index by the time of the request, to find recent requests without reading all objects."""
    asked = cohdi.read_intent(obj)[1]
    return (asked // ASKED_TOGETHER,) if asked > 0 else ()


def _deleting(obj: Json) -> Iterable[Hashable]:
    return (True,) if obj["metadata"].get("deletionTimestamp") else ()


def slice_node(found: Slice) -> Iterable[Hashable]:
    """Return the node of a slice, or nothing for a slice of a pool."""
    return (found.node,) if found.node else ()


def _slice_pool(found: Slice) -> Iterable[Hashable]:
    return () if found.node else (found.pool,)


def _slice_driver(found: Slice) -> Iterable[Hashable]:
    """Index the slices of nodes by their driver."""
    return (found.driver,) if found.node else ()


def _pod_node(pod: Json) -> Iterable[Hashable]:
    name = pods.node(pod)
    return (name,) if name else ()


def _gated(pod: Json) -> Iterable[Hashable]:
    return (True,) if pods.held(pod) else ()


def _unschedulable(pod: Json) -> Iterable[Hashable]:
    waits = not (pods.bound(pod) or pods.ended(pod) or (pod.get("spec") or {}).get("schedulingGates"))
    return (True,) if waits and pods.unschedulable(pod) else ()


def _waiting(pod: Json) -> Iterable[Hashable]:
    return (True,) if pods.wants_devices(pod) and not (pods.bound(pod) or pods.ended(pod)) else ()


def _grouped(pod: Json) -> Iterable[Hashable]:
    return (True,) if pods.group(pod) else ()


def _consumes(pod: Json) -> Iterable[Hashable]:
    """Index by the ProvisioningRequest that booked the devices of the pod."""
    key = provisioning_requests.consumed(pod)
    return (key,) if key else ()


def _machine(obj: Json) -> Iterable[Hashable]:
    uid = nodes.machine(obj)
    return (uid,) if uid else ()


def _uid(pod: Json) -> Iterable[Hashable]:
    """Index only pods that may have a claim or have no node. No caller looks up others by UID."""
    sought = not pods.bound(pod) or pods.wants_devices(pod) or pods.claim_names(pod)
    return (pod["metadata"]["uid"],) if sought else ()


def _claim_uids(claim: Json) -> Iterable[Hashable]:
    return {claim["metadata"]["uid"], claims.identity(claim)}


CLAIMS: t.Final[Indexes] = {"node": _of_claim_node, "device": claims.device_keys, "pool": _pools,
                            "uid": _claim_uids, "allocated from": _allocated_from,
                            "unallocated": _unallocated, "pool device": _allocated_pool_devices,
                            "preparing": _preparing}
SLICES: t.Final[Indexes] = {"node": slice_node, "pool": _slice_pool, "driver": _slice_driver}
NODES: t.Final[Indexes] = {"machine": _machine}
REQUESTS: t.Final[Indexes] = {"node": _target, "scale up": _scaled_up}
RESOURCES: t.Final[Indexes] = {"node": _target, "request": _managed_by, "device": _device_uid,
                               "held": _held_for, "pool device": _pool_device,
                               "model": lambda o: (o["spec"]["model"],), "asked": _asked, "deleting": _deleting,
                               "unattached": _unattached}
PODS: t.Final[Indexes] = {"uid": _uid, "node": _pod_node, "gated": _gated,
                          "grouped": _grouped, "unschedulable": _unschedulable, "waiting": _waiting,
                          "consumes": _consumes}
