# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that another process's scaler hands over: the operator keeps them for the claims that come.

CoHDI's scaler writes down for nobody which device it means, and ours a moment after it has told the claim: it may be
killed in between. Between two allocations of a claim nobody counts the claim, so with a short hold time the device
would be returned that the scheduler is about to give to the claim.
"""

from __future__ import annotations

from collections import Counter

from ...kube.objects import claims
from ...planning.node.demand import RESCHEDULE
from ..state import adapters
from ..state.cluster_state import ClusterState, Json
from ..state.node_snapshot import node_snapshot


def keep_devices(state: ClusterState, node: str) -> None:
    """Keep idle devices of a node, as many as they want of each model, for its claims that are told to move on."""
    for claim in state.claims.by("node", node):
        if adapters.claim_phase(claim) == RESCHEDULE:
            _keep_for(state, claim, node)


def _keep_for(state: ClusterState, claim: Json, node: str) -> None:
    """A device that is kept for it already counts, whoever kept it."""
    uid = claims.identity(claim)
    kept = Counter(str(raw["spec"]["model"]) for raw in state.holds.kept_for(uid) if raw["spec"]["target_node"] == node)
    lacking = _need(state, claim) - kept
    if not lacking:
        return
    snapshot = node_snapshot(state, node)
    for model, count in lacking.items():
        idle = [r for r in snapshot.live(model) if r.device_uid and r.visible and not r.taken]
        for resource in sorted(idle, key=lambda r: (r.created, r.name))[:count]:
            state.holds.keep(resource.name, uid)


def _need(state: ClusterState, claim: Json) -> Counter[str]:
    found = (state.settings.of_pool(result["pool"]) for result in claims.binding_results(claim))
    return Counter(of_pool[0].cdi_model_name for of_pool in found if of_pool)
