# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert values of objects, and the inventory of the fabric, to the values that the planners read."""

from __future__ import annotations

from ...fabric.api import FabricSnapshot, Machine
from ...kube.objects.nodes import PROVIDER_PREFIX
from ...model.claim import ResourceClaim, Result
from ...model.node import Node
from ...model.request import Request
from ...model.resource import Resource
from ...model.slice import Slice
from ...planning.node.capacity import lacks
from ...planning.node.snapshot import Claim, ComposabilityRequest, PodRef, PoolResult
from ...planning.pool.plan import PoolSlice
from ...planning.settings import Settings


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


def on_node(request: Request, node: Node | None) -> ComposabilityRequest:
    """Return a ComposabilityRequest for a node."""
    return ComposabilityRequest.of(request, lacks=lacking(request, node))


def lacking(request: Request, node: Node | None) -> str:
    """Return what a ComposabilityRequest asks for besides devices that the node lacks, in a sentence."""
    if node is None or not request.other_spec:
        return ""
    return lacks(node.name, {name: str(amount) for name, amount in node.capacity.items()}, request.other_spec)


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


def pool_slice(found: Slice) -> PoolSlice:
    """Return a ResourceSlice of a pool as its plan reads it."""
    return PoolSlice(found.name, found.generation, found.count, tuple(device.name for device in found.devices),
                     found.as_object()["spec"])


def machine_of(node: Node | None, snapshot: FabricSnapshot | None) -> tuple[str | None, int | None, str]:
    """Return (machine UID, fabric ID, problem) of a node by its providerID,
    ``fsas-cdi://<machine uid>``.

    Trust a well-formed providerID while the CDI Manager was not polled yet, or while its list of
    machines may be incomplete.
    """
    if node is None:
        return None, None, "the cluster has no such node"
    uid = node.machine
    if not uid:
        return None, None, f"its providerID is {node.provider_id or 'empty'!r}, not {PROVIDER_PREFIX}<machine uuid>"
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
