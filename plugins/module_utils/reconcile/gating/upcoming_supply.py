# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count devices that will become free soon. A gated pod waits for them before it is released."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from ...fabric.api import FabricSnapshot
from ...planning.node.supply import DELETING
from ..pool.snapshot import fabric_of
from ..state.cluster_state import ClusterState


def returning(state: ClusterState, snapshot: FabricSnapshot) -> Counter[tuple[str, int]]:
    """Return the number of devices on their way back to the fabric, by (model, fabric).

    These are devices that are being given up without an error, and devices that were returned after
    the poll ``snapshot`` began. A device counts at every moment until a poll shows it. To miss
    none, the ComposableResources are read first, and each return is noted before its
    ComposableResource is deleted.
    """
    found: dict[str, tuple[str, str]] = {}
    for each in state.resources.values("deleting", True):
        if (each.device_uid or each.state == DELETING) and not each.error and each.uid not in state.returns:
            found[each.uid] = each.model, each.node
    back = {uid: (left.model, left.node) for uid, left in state.returns.since(snapshot.taken).items()}
    return _by_fabric(state, snapshot, (back | found).values())


def _by_fabric(state: ClusterState, snapshot: FabricSnapshot,
               devices: Iterable[tuple[str, str]]) -> Counter[tuple[str, int]]:
    """Count devices, each given as (model, node), by (model, fabric)."""
    fabrics = functools.cache(lambda node: fabric_of(state, node, snapshot))
    return Counter((model, fabric) for model, node in devices if (fabric := fabrics(node)) is not None)


def ending(state: ClusterState, snapshot: FabricSnapshot) -> Counter[tuple[str, int]]:
    """Return the number of devices that leaving pods free within ``hold_timeout``, by (model,
    fabric).

    Only claims that lose all their pods count. Devices that are already being given up do not.
    """
    now = state.now()
    uids, nodes = set[str](), set[str]()
    for claim in state.ending_claims.until(now, now + state.settings.hold_timeout):
        uids.add(claim.uid)
        nodes.add(claim.node)
    used = ((name, node) for node in nodes - {""} for name, user in state.users(node).items()
            if user.uid in uids)
    kept = ((resource, node) for name, node in used if (resource := state.resources.value(name)))
    return _by_fabric(state, snapshot, [(resource.model, node) for resource, node in kept if not resource.deleting])
