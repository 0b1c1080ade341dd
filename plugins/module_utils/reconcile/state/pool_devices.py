# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find devices that claims have as their allocated pool devices: the handover direct.

An annotation of a ComposableResource names the pool device that its device stands for. It counts
only for the claim that has this pool device on the node of the ComposableResource.
"""

from __future__ import annotations

from dataclasses import replace

from ...kube.objects import cohdi
from ...model.claim import ResourceClaim
from ...model.resource import Resource
from ...planning.device_info import DIRECT, GATED, RESCHEDULE
from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import Claim
from . import adapters
from .cluster_state import ClusterState


def read_claim(state: ClusterState, allocated: ResourceClaim) -> Claim | None:
    """Return a claim with pool devices for a pod, and its pre-assigned devices, or None for other
    claims.

    The claim is direct if all its models are, or if it got a device while they were.
    """
    claim = adapters.claim_with_pool_devices(allocated, state.settings)
    if claim is None:
        return None
    node = allocated.node
    given = frozenset(r.pool_device for r in claim.results if node and _resources(state, r.pool_device, node))
    direct = all(r.model and state.settings.is_direct(r.model.cdi_model_name) for r in claim.results)
    return replace(claim, direct=direct or bool(given), given=given)


def handover(state: ClusterState, allocated: ResourceClaim) -> str:
    """Return the handover of a claim that waits for devices or has pool devices.

    Empty if undecided, or if the claim has devices of its node.
    """
    if (claim := read_claim(state, allocated)) is not None:
        return DIRECT if claim.direct else RESCHEDULE
    return GATED if state.reservations.holds_for(allocated.identity) and not allocated.results else ""


def is_awaited(state: ClusterState, resource: Resource) -> bool:
    """Return whether a claim that has the device still waits for it."""
    user = state.keeper(resource)
    return user is not None and user.phase == PREPARING


def is_on_its_way(state: ClusterState, node: str, pool: str, device: str) -> bool:
    """Return whether the device of a claim's pool device was requested for a node."""
    return any(each.asked > 0 for each in _resources(state, cohdi.pool_device(pool, device), node))


def _resources(state: ClusterState, pool_device: str, node: str) -> list[Resource]:
    return [each for each in state.resources.values("pool device", pool_device) if each.node == node]
