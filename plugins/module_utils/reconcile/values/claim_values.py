# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ResourceClaim into its value."""

from __future__ import annotations

import typing as t
from sys import intern

from ...kube.objects import claims
from ...kube.objects.claim_ref import ClaimRef
from ...kube.times import parse_time
from ...kube.watch.parts import shared
from ...model.claim import ResourceClaim, Result, selector_of, user_of
from ...model.value import Json
from ...planning.node.demand import FAILED, PREPARING, READY, RESCHEDULE
from ...planning.node.scale import FAILED_CONDITION, RESCHEDULE_CONDITION
from ...planning.pool.plan import READY_CONDITION

_NAMES: t.Final = frozenset({"request", "driver", "pool", "device"})


def read_claim(raw: Json) -> ResourceClaim:
    """Return what a ResourceClaim says."""
    kept = claims.trimmed(raw)
    meta, status, spec = kept["metadata"], kept["status"], shared(kept["spec"])
    allocation, users = status.get("allocation") or {}, status.get("reservedFor") or ()
    node, selector = intern(claims.node(kept) or ""), allocation.get("nodeSelector")
    results = tuple(map(_result, claims.results(kept)))
    pods = tuple((str(pod["name"]), intern(str(pod.get("uid") or ""))) for pod in claims.consumers(kept))
    return ResourceClaim(
        name=meta["name"], namespace=intern(meta["namespace"]), uid=meta["uid"],
        version=str(meta.get("resourceVersion") or ""), identity=claims.identity(kept),
        created=parse_time(meta.get("creationTimestamp")), allocated=parse_time(allocation.get("allocationTimestamp")),
        node=node, phase=claim_phase(kept), results=results, pods=pods, for_a_group=claims.for_a_group(kept), spec=spec,
        finalizers=shared(tuple(meta.get("finalizers") or ())),
        made_for={name: meta[name] for name in ("annotations", "ownerReferences") if name in meta},
        devices=tuple(map(_with_conditions, status.get("devices") or ())),
        more=shared({name: value for name, value in (allocation.get("devices") or {}).items() if name != "results"}),
        selector=None if not selector or selector == selector_of(node) else shared(selector),
        users=() if [*users] == [user_of(*pod) for pod in pods] else tuple(users),
        deleted=str(meta.get("deletionTimestamp") or ""), whole=None if results else {**kept, "spec": spec})


def _result(raw: Json) -> Result:
    return Result(intern(str(raw.get("request") or "")), intern(raw["driver"]), intern(raw["pool"]),
                  intern(raw["device"]), shared({name: raw[name] for name in raw if name not in _NAMES}))


def _with_conditions(raw: Json) -> Json:
    """Return an entry of ``status.devices`` with each text in memory once."""
    found = {name: _once_in_memory(value) for name, value in raw.items()}
    if raw.get("conditions"):
        found["conditions"] = [{intern(name): _once_in_memory(value) for name, value in each.items()}
                               for each in raw["conditions"]]
    return found


def _once_in_memory(value: t.Any) -> t.Any:
    return intern(value) if isinstance(value, str) else value


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Return the reference to a claim, for logs and annotations."""
    return ClaimRef(claim.key, claim.uid)


def claim_phase(raw: Json) -> str:
    """Return CoHDI's state of a claim, which is the worst of its pool devices."""
    types = [FAILED_CONDITION, RESCHEDULE_CONDITION, READY_CONDITION]
    found = [claims.condition(raw, r, types) for r in claims.binding_results(raw)]
    if FAILED_CONDITION in found:
        return FAILED
    if RESCHEDULE_CONDITION in found:
        return RESCHEDULE
    return READY if found and all(f == READY_CONDITION for f in found) else PREPARING
