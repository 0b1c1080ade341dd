# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep devices of another process's scaler for the claims that will take them.

CoHDI's scaler does not record which device it means. Our scaler records it shortly after it writes
the claim's condition, and may be killed in between. Between two allocations the claim is not
counted as a user. With a short hold time the device would then be returned just before the
scheduler gives it to the claim.
"""

from __future__ import annotations

from collections import Counter

from ...model.claim import ResourceClaim
from ...planning.node.demand import RESCHEDULE
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import node_snapshot


def keep_devices(state: ClusterState, node: str) -> None:
    """Keep idle devices of a node for its claims that are marked to be allocated again, as many as
    they need."""
    for claim in state.claims.values("node", node):
        if claim.phase == RESCHEDULE:
            _keep_for(state, claim, node)


def _keep_for(state: ClusterState, claim: ResourceClaim, node: str) -> None:
    """Keep the missing devices of a claim. A device that is already kept for it counts."""
    uid = claim.identity
    kept = Counter(each.model for each in state.holds.kept_for(uid) if each.node == node)
    lacking = _need(state, claim) - kept
    if not lacking:
        return
    snapshot = node_snapshot(state, node)
    for model, count in lacking.items():
        idle = [r for r in snapshot.live(model) if r.device_uid and r.visible and not r.taken]
        for resource in sorted(idle, key=lambda r: (r.created, r.name))[:count]:
            state.holds.keep(resource.name, uid)


def _need(state: ClusterState, claim: ResourceClaim) -> Counter[str]:
    found = (state.settings.of_pool(result.pool) for result in claim.pool_results)
    return Counter(of_pool[0].cdi_model_name for of_pool in found if of_pool)
