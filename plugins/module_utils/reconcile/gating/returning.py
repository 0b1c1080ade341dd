# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are not free yet and will be in some moments: a held pod waits for them before it is let go."""

from __future__ import annotations

from collections import Counter

from ...fabric.api import FabricSnapshot
from ...kube.objects import claims
from ...planning.node.supply import DELETING
from ..pool.snapshot import fabric_of
from ..state.cluster_state import ClusterState


def returning(state: ClusterState, snapshot: FabricSnapshot) -> Counter[tuple[str, int]]:
    """Devices on their way back to the fabric, by (model, fabric): those that are being given up and are not stuck, and
    those that came back after the look at the fabric began."""
    found: Counter[tuple[str, int]] = Counter(state.returns.since(snapshot.taken))
    for raw in state.resources.by("deleting", True):
        status = raw.get("status") or {}
        if status.get("error"):
            continue
        fabric = fabric_of(state, raw["spec"]["target_node"], snapshot)
        if fabric is not None and (status.get("cdi_device_id") or status.get("state") == DELETING):
            found[raw["spec"]["model"], fabric] += 1
    return found


def ending(state: ClusterState, snapshot: FabricSnapshot) -> Counter[tuple[str, int]]:
    """Devices of claims whose pods leave within the time that a held pod waits, by (model, fabric); not those that are
    being given up already."""
    now = state.now()
    uids, nodes = set[str](), set[str]()
    for claim in state.ending_claims.until(now, now + state.settings.hold_timeout):
        uids.add(claim["metadata"]["uid"])
        nodes.add(claims.node(claim) or "")
    found: Counter[tuple[str, int]] = Counter()
    for node in nodes - {""}:
        used = [name for name, user in state.users(node).items() if user["metadata"]["uid"] in uids]
        fabric = fabric_of(state, node, snapshot) if used else None
        kept = (raw for name in used if (raw := state.resources.get(name)))
        found.update((raw["spec"]["model"], fabric) for raw in kept
                     if fabric is not None and not raw["metadata"].get("deletionTimestamp"))
    return found
