# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pre-assigned devices: claims that keep the devices that were attached for them (handover
``direct``).

A pool device is only a name until a claim is allocated to it. The ComposableResource that is made
for the claim records this name before the device is requested, and keeps it until the claim is
deallocated. No ResourceSlice of the node shows the device beside the pool, so no other claim can
take it.

Source: KEP-5007, which describes this as its normal case.
"""

from __future__ import annotations

from ..actions import Action, SetPoolDevice
from .demand import ClaimGroup, claim_groups
from .snapshot import Claim, ComposableResource, NodeSnapshot


def preassigned_to(claim: Claim, snapshot: NodeSnapshot) -> list[ComposableResource]:
    """Return the ComposableResources of the node that are pool devices of a claim."""
    return [r for r in snapshot.resources if r.pool_device in claim.given]


def not_ready_of(group: ClaimGroup, snapshot: NodeSnapshot) -> list[str]:
    """Return the pre-assigned devices of a group that are not usable yet, with progress."""
    return [_progress(resource) for claim in group.claims for resource in preassigned_to(claim, snapshot)
            if not resource.usable]


def _progress(resource: ComposableResource) -> str:
    where = f"{resource.serial or resource.name} (pool device {resource.pool_device}) on node {resource.node}"
    if not resource.device_uid:
        return f"{where}: {'' if resource.asked else 'not yet '}requested from the CDI Manager"
    if resource.visible:
        return f"{where}: a ResourceSlice of the node shows it, so the scheduler may allocate it to another claim"
    step = f" (so far: {resource.node_work.last_step})" if resource.node_work.last_step else ""
    return f"{where}: attached, but the node agent has not reported Ready yet{step}"


def spoiled_of(group: ClaimGroup, snapshot: NodeSnapshot) -> str:
    """Return why a pre-assigned device of a group will never be usable, empty if all may be."""
    found = (_spoiled(r, snapshot) for claim in group.claims for r in preassigned_to(claim, snapshot))
    return next((why for why in found if why), "")


def _spoiled(resource: ComposableResource, snapshot: NodeSnapshot) -> str:
    if resource.node_work.fatal:
        what = resource.serial or resource.name
        return f"{what} cannot be used on node {resource.node}: {resource.node_work.trouble}"
    if not (resource.device_uid or resource.busy) and resource.model in snapshot.blocked:
        return f"{resource.model} cannot be attached to node {resource.node}: {snapshot.blocked[resource.model]}"
    return ""


def wanted_pool_devices(snapshot: NodeSnapshot, model: str) -> list[tuple[str, str]]:
    """Return (pool device, claim UID) of waiting claims without a device, oldest first."""
    return [(name, claim.uid) for group in claim_groups(snapshot) for claim in group.claims
            for name in claim.not_given(model)]


def over(snapshot: NodeSnapshot) -> list[Action]:
    """Return actions that end the assignment of devices once no claim has their pool device.

    Such a device becomes an ordinary device of the node, for any claim.
    """
    return [SetPoolDevice(snapshot.name, f"no claim has pool device {r.pool_device} any more", r.name, "")
            for r in snapshot.resources if r.pool_device and not r.used_by]
