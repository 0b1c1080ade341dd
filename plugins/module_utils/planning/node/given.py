# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that keep the very devices that were attached for them: the handover direct.

A pool device is a name until a claim is allocated to it. The ComposableResource that is made for the claim then has
this name, before the CDI Manager is asked, and keeps it until the claim is deallocated. So no ResourceSlice of the node
ever shows the device beside the pool, and no other claim can take it.

Source: KEP-5007, whose happy path this is.
"""

from __future__ import annotations

from ..actions import Action, SetPoolDevice
from .demand import ClaimGroup, claim_groups
from .snapshot import Claim, ComposableResource, NodeSnapshot


def given_to(claim: Claim, snapshot: NodeSnapshot) -> list[ComposableResource]:
    """The ComposableResources of the node that are pool devices of a claim."""
    return [r for r in snapshot.resources if r.pool_device in claim.given]


def not_ready_of(group: ClaimGroup, snapshot: NodeSnapshot) -> list[str]:
    """Devices that were given to claims of a group and cannot be used yet, each with how far it has come."""
    return [_progress(resource) for claim in group.claims for resource in given_to(claim, snapshot)
            if not resource.usable]


def _progress(resource: ComposableResource) -> str:
    where = f"{resource.serial or resource.name}, which is its {resource.pool_device}, on node {resource.node}"
    if not resource.device_uid:
        return f"{where}: the CDI Manager {'was asked for it' if resource.asked else 'is to be asked for it'}"
    if resource.visible:
        return f"{where}: a ResourceSlice of the node shows it, so it may be promised to others"
    step = f" (so far: {resource.node_work.last_step})" if resource.node_work.last_step else ""
    return f"{where}: attached, the node has not written Ready yet{step}"


def spoiled_of(group: ClaimGroup, snapshot: NodeSnapshot) -> str:
    """Why a device that was given to a claim of a group will not be usable, in a sentence; empty when all may be."""
    found = (_spoiled(r, snapshot) for claim in group.claims for r in given_to(claim, snapshot))
    return next((why for why in found if why), "")


def _spoiled(resource: ComposableResource, snapshot: NodeSnapshot) -> str:
    if resource.node_work.fatal:
        what = resource.serial or resource.name
        return f"{what} cannot be used on node {resource.node}: {resource.node_work.trouble}"
    if not (resource.device_uid or resource.busy) and resource.model in snapshot.blocked:
        return f"{resource.model} cannot be attached to node {resource.node}: {snapshot.blocked[resource.model]}"
    return ""


def wanted_pool_devices(snapshot: NodeSnapshot, model: str) -> list[tuple[str, str]]:
    """(pool device, claim uid) of what claims that wait were not given yet, the oldest claim first."""
    return [(name, claim.uid) for group in claim_groups(snapshot) for claim in group.claims
            for name in claim.not_given(model)]


def over(snapshot: NodeSnapshot) -> list[Action]:
    """No claim has the pool device any more: from now on the device is one of the node, for anybody."""
    return [SetPoolDevice(snapshot.name, f"no claim has {r.pool_device} any more", r.name, "")
            for r in snapshot.resources if r.pool_device and not r.used_by]
