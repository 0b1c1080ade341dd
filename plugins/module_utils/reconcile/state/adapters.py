# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert raw JSON of the cluster, and the inventory of the fabric, to the values that the planners
read."""

from __future__ import annotations

import functools
import typing as t
from sys import intern

from ...fabric.api import FabricSnapshot, Machine
from ...kube.objects import claims, cohdi, nodes
from ...kube.objects.autoscaling import read_return_idle
from ...kube.objects.claim_ref import ClaimRef
from ...kube.times import parse_time
from ...model.claim import ResourceClaim, Result
from ...model.request import Request
from ...model.resource import NodeWork, Resource
from ...model.slice import Slice
from ...node import evidence
from ...node.evidence import Evidence
from ...planning.node.capacity import lacks
from ...planning.node.compose import ATTACHING
from ...planning.node.demand import FAILED, PREPARING, READY, RESCHEDULE
from ...planning.node.scale import FAILED_CONDITION, RESCHEDULE_CONDITION
from ...planning.node.snapshot import FOREIGN, UNREADABLE, Claim, ComposabilityRequest, PodRef, PoolResult
from ...planning.pool.plan import READY_CONDITION, PoolSlice
from ...planning.settings import Settings

Json = dict[str, t.Any]
V = t.TypeVar("V", bound=t.Hashable)
# Evidence is read many times between two changes, and an old text is never read again. The cache
# has room for the devices of a burst, 2 KiB each, because nodes are planned in turn.
_parsed = functools.lru_cache(1024)(Evidence.parse)


def read_claim(raw: Json) -> ResourceClaim:
    """Return what a ResourceClaim says."""
    meta = raw["metadata"]
    return ResourceClaim(
        meta["name"], intern(meta["namespace"]), meta["uid"], claims.identity(raw),
        parse_time(meta.get("creationTimestamp")), claims.allocated_at(raw), intern(claims.node(raw) or ""),
        claim_phase(raw), tuple(map(_result, claims.results(raw))),
        tuple((str(pod["name"]), intern(str(pod.get("uid") or ""))) for pod in claims.consumers(raw)),
        claims.reserved(raw))


def _result(raw: Json) -> Result:
    return Result(intern(str(raw.get("request") or "")), intern(raw["driver"]), intern(raw["pool"]),
                  intern(raw["device"]), bool(raw.get("bindingConditions")))


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Return the reference to a claim, for logs and annotations."""
    return ClaimRef(claim.key, claim.uid)


def claim_with_pool_devices(claim: ResourceClaim, settings: Settings) -> Claim | None:
    """Return a claim with pool devices that is reserved for a pod or a PodGroup, or None for other
    claims.

    A claim of a PodGroup does not name its pods.
    """
    ours = [r for r in claim.pool_results if r.driver in settings.drivers or settings.of_pool(r.pool)]
    if not ours or not claim.reserved:
        return None
    return Claim(claim.identity, claim.namespace, claim.name, claim.phase, claim.allocated_at,
                 tuple(PodRef(claim.namespace, name, uid) for name, uid in claim.pods),
                 tuple(_of_pool(result, settings) for result in ours))


def _of_pool(result: Result, settings: Settings) -> PoolResult:
    of_pool = settings.of_pool(result.pool)
    model, fabric = of_pool if of_pool and of_pool[0].driver_name == result.driver else (None, None)
    return PoolResult(result.driver, result.pool, result.device, model, fabric)


def claim_phase(raw: Json) -> str:
    """Return CoHDI's state of a claim, which is the worst of its pool devices."""
    types = [FAILED_CONDITION, RESCHEDULE_CONDITION, READY_CONDITION]
    found = [claims.condition(raw, r, types) for r in claims.binding_results(raw)]
    if FAILED_CONDITION in found:
        return FAILED
    if RESCHEDULE_CONDITION in found:
        return RESCHEDULE
    return READY if found and all(f == READY_CONDITION for f in found) else PREPARING


def read_request(raw: Json) -> Request:
    """Return what a ComposabilityRequest says."""
    spec = raw["spec"]["resource"]
    return Request(raw["metadata"]["name"], raw["metadata"]["uid"], intern(spec["model"]), int(spec["size"]),
                   bool(raw["metadata"].get("deletionTimestamp")), bool(spec.get("force_detach")),
                   intern(spec.get("type") or "gpu"), read_return_idle(raw), cohdi.read_claims(raw),
                   spec.get("other_spec") or {})


def on_node(request: Request, node: Json | None) -> ComposabilityRequest:
    """Return a ComposabilityRequest for a node."""
    return ComposabilityRequest.of(request, lacks=lacking(request, node))


def lacking(request: Request, node: Json | None) -> str:
    """Return what a ComposabilityRequest asks for besides devices that the node lacks, in a sentence."""
    if node is None or not request.other_spec:
        return ""
    return lacks(node["metadata"]["name"], nodes.capacity(node), request.other_spec)


def read_evidence(raw: Json) -> Evidence | None:
    """Return the evidence of node operations on the device of a ComposableResource, or None.

    Evidence about an earlier device does not count.
    """
    found = _parsed(cohdi.annotation(raw, cohdi.NODE))
    return found if found and found.device == (raw.get("status") or {}).get("cdi_device_id") else None


def read_node_work(raw: Json) -> NodeWork:
    """Return the progress of node operations on the device of a ComposableResource."""
    release = cohdi.annotation(raw, cohdi.RELEASE)
    found, asked = read_evidence(raw), bool(release)
    if found is None:
        return NodeWork(asked)
    trouble = found.trouble
    warning = trouble is not None and trouble.reason in evidence.WARNINGS
    fatal = trouble is not None and (trouble.reason == evidence.LOST_ON_BUS or (
        found.phase == evidence.PREPARING and not warning))
    # After a withdrawn release the node takes the device back, whatever it wrote before. So
    # evidence counts only for the current release.
    removed = asked and found.phase == evidence.REMOVED and found.release == release
    return NodeWork(asked, found.phase == evidence.READY, removed,
                    found.steps[-1].step if found.steps else "", trouble.message if trouble else "", fatal, warning,
                    trouble.reason if trouble else "")


def serial(raw: Json) -> str:
    """Return the serial by which a node knows the device of a ComposableResource.

    It is the GPU's UUID, as reported by the CDI Manager or the node.
    """
    told = str((raw.get("status") or {}).get("device_id") or "")
    found = None if told else read_evidence(raw)
    return found.uuid if found else told


def doubt(raw: Json) -> str:
    """Return why it is uncertain whether the device of a ComposableResource was requested, or an
    empty string."""
    status = raw.get("status") or {}
    if status.get("cdi_device_id"):
        return ""
    if cohdi.intent_unreadable(raw):
        return UNREADABLE
    foreign = status.get("state") == ATTACHING and not cohdi.annotation(raw, cohdi.ATTACH)
    return FOREIGN if foreign and not cohdi.reclaimed(raw) else ""


def has_left(snapshot: FabricSnapshot | None, resource: Resource) -> bool:
    """Return whether an inventory proves that the device of a ComposableResource has left its
    machine.

    It does if it shows the machine without the device, or only another machine with it. An
    inventory with a problem proves nothing.
    """
    machine = resource.machine
    if snapshot is None or not (machine and resource.device_uid) or snapshot.unconfirmed or snapshot.problems:
        return False
    owners = {each.uid for each in snapshot.machines.values() if is_on(each, resource)}
    return machine not in owners and (machine in snapshot.machines or bool(owners))


def is_on(machine: Machine, resource: Resource) -> bool:
    """Return whether a machine has the device of a ComposableResource.

    A replaced CDI Manager may use another UID for the device, so compare serials too.
    """
    uid, known = resource.device_uid, resource.serial
    return any(device.uid == uid or (known and device.serial == known) for device in machine.devices)


def read_resource(raw: Json, settings: Settings) -> Resource:
    """Return what a ComposableResource says."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    machine, asked, present = cohdi.read_intent(raw)
    found, request = read_evidence(raw), (meta.get("labels") or {}).get(cohdi.MANAGED_BY, "")
    return Resource(  # texts that many have are in memory once
        name=meta["name"], uid=meta["uid"], request=intern(request),
        model=intern(spec["model"]), node=intern(spec["target_node"]), state=intern(status.get("state", "")),
        created=parse_time(meta.get("creationTimestamp")),
        device_uid=intern(status.get("cdi_device_id", "")), serial=intern(serial(raw)),
        address=intern(found.address if found else ""),
        error=status.get("error", ""), deleting=bool(meta.get("deletionTimestamp")),
        force_detach=bool(spec.get("force_detach")),
        delete_first=cohdi.annotation(raw, settings.label(cohdi.DELETE_FIRST)) == "true",
        last_used=parse_time(cohdi.annotation(raw, settings.label(cohdi.LAST_USED))),
        in_use=cohdi.annotation(raw, cohdi.IN_USE) == "true", hold=_once(cohdi.read_hold(raw)),
        machine=intern(machine), asked=asked, present=present,
        operation=cohdi.annotation(raw, cohdi.OPERATION), node_work=_once(read_node_work(raw)), doubt=doubt(raw),
        reclaims=cohdi.reclaimed(raw), pool_device=cohdi.annotation(raw, cohdi.POOL_DEVICE))


@functools.lru_cache(1024)
def _once(value: V) -> V:
    """Return the same object for equal values. Most devices are prepared, have no problem and no
    hold."""
    return value


def pool_slice(found: Slice) -> PoolSlice:
    """Return a ResourceSlice of a pool as its plan reads it."""
    return PoolSlice(found.name, found.generation, found.count, tuple(device.name for device in found.devices),
                     found.as_object()["spec"])


def machine_of(node: Json | None, snapshot: FabricSnapshot | None) -> tuple[str | None, int | None, str]:
    """Return (machine UID, fabric ID, problem) of a node by its providerID,
    ``fsas-cdi://<machine uid>``.

    Trust a well-formed providerID while the CDI Manager was not polled yet, or while its list of
    machines may be incomplete.
    """
    if node is None:
        return None, None, "the cluster has no such node"
    uid = nodes.machine(node)
    if not uid:
        provider = str((node.get("spec") or {}).get("providerID") or "")
        return None, None, f"its providerID is {provider or 'empty'!r}, not {nodes.PROVIDER_PREFIX}<machine uuid>"
    if snapshot is None:
        return uid, None, ""
    machine = snapshot.machines.get(uid)
    if machine is None and snapshot.unconfirmed:
        return uid, None, ""
    if machine is None:
        return None, None, f"the CDI Manager knows no machine {uid} (from its providerID)"
    if machine.fabric is None:
        return None, None, f"machine {uid} is on no fabric"
    return uid, machine.fabric, ""


def sizes_of(snapshot: FabricSnapshot | None, machine: str | None) -> dict[str, tuple[int | None, int | None]]:
    """Return the CDI Manager's limits for a machine as (minimum, maximum) by model. Empty if it has
    none."""
    found = snapshot.sizes.get(machine, {}) if snapshot and machine else {}
    return {model: (size.minimum, size.maximum) for model, size in found.items()}


def attached_models(snapshot: FabricSnapshot | None, machine: str | None) -> dict[str, str] | None:
    """Return the model of each device UID on a machine in the last inventory, or None if
    unknown."""
    found = snapshot.machines.get(machine) if snapshot and machine else None
    return {d.uid: d.model for d in found.devices} if found else None
