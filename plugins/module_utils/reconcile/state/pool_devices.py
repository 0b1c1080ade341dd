# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices claims keep as the pool devices that they were allocated: the handover direct.

A ComposableResource says by an annotation which pool device its device is. That holds for the claim that is allocated
this pool device on the node of the ComposableResource, and for nobody else.
"""

from __future__ import annotations

from dataclasses import replace

from ...kube.objects import claims, cohdi
from ...planning.device_info import DIRECT, GATED, RESCHEDULE
from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import Claim
from . import adapters
from .cluster_state import ClusterState, Json


def read_claim(state: ClusterState, raw: Json) -> Claim | None:
    """A claim that holds pool devices for a pod, with what it was given of them; None for any other claim.

    It is direct where all its models are, and where it was given a device before they ceased to be.
    """
    claim = adapters.read_claim(raw, state.settings)
    if claim is None:
        return None
    node = claims.node(raw)
    given = frozenset(r.pool_device for r in claim.results if node and _resources(state, r.pool_device, node))
    direct = all(r.model and state.settings.is_direct(r.model.cdi_model_name) for r in claim.results)
    return replace(claim, direct=direct or bool(given), given=given)


def handover(state: ClusterState, raw: Json) -> str:
    """In which way a claim gets devices or has the pool's; empty for one that has no way yet, and for one that has
    devices of its node, whichever way these came."""
    if (claim := read_claim(state, raw)) is not None:
        return DIRECT if claim.direct else RESCHEDULE
    return GATED if state.reservations.holds_for(claims.identity(raw)) and not claims.results(raw) else ""


def is_awaited(state: ClusterState, resource: Json) -> bool:
    """Whether a claim that keeps the device waits for it."""
    user = state.keeper(resource)
    return user is not None and adapters.claim_phase(user) == PREPARING


def is_on_its_way(state: ClusterState, node: str, pool: str, device: str) -> bool:
    """Whether the CDI Manager was asked for the device that a claim on a node will have as a pool device."""
    return any(cohdi.read_intent(raw)[1] > 0 for raw in _resources(state, cohdi.pool_device(pool, device), node))


def _resources(state: ClusterState, pool_device: str, node: str) -> list[Json]:
    return [raw for raw in state.resources.by("pool device", pool_device) if raw["spec"]["target_node"] == node]
