# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the immutable snapshot of a pool: free devices, promised devices, and devices that have
arrived."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...fabric.api import FabricSnapshot
from ...model.claim import ResourceClaim
from ...planning.node.demand import PREPARING, READY
from ...planning.pool.plan import PoolSnapshot
from ...planning.settings import DeviceModel
from ..state import adapters
from ..state.cluster_state import ClusterState
from ..state.indexers import ASKED_TOGETHER
from ..state.pool_devices import is_awaited, is_on_its_way
from ..state.scale_ups import live_entries


def pool_snapshot(
    state: ClusterState, model: DeviceModel, fabric: int, snapshot: FabricSnapshot
) -> PoolSnapshot | None:
    """Return the snapshot of a pool, or None if the manager's count could not be read.

    A claim that is marked to be allocated again no longer has its device name. The scheduler must
    not find the name free when the claim drops the allocation. Devices that were requested since
    the poll have left the manager's count or will leave it.
    """
    count = snapshot.free.get((model.cdi_model_name, fabric))
    if count is None:
        return None
    name = model.pool(fabric)
    holders = _holders(state, name)
    published = tuple(adapters.pool_slice(found) for found in state.slices.values("pool", name)
                      if found.driver == model.driver_name)
    promised = frozenset(r.device for c in holders for r in c.pool_results if r.pool == name)
    wanted, reserved = promises(holders, name), placements(state, model, fabric, snapshot)
    if state.settings.is_direct(model.cdi_model_name):
        # A named device belongs to one claim. Reserved devices are for pods of groups, which get
        # unnamed devices.
        arrived = _on_their_way(state, name, holders)
        arrived += sum(min(n, arriving(state, node, model, named=False)) for node, n in reserved.items())
    else:
        arrived = sum(min(n, arriving(state, node, model)) for node, n in (wanted + reserved).items())
    free = max(0, count - asked_since(state, model, fabric, snapshot, snapshot.taken))
    return PoolSnapshot(model, fabric, free, promised, arrived, published, reserved.total(), _kept(state, name))


def _holders(state: ClusterState, pool: str) -> list[ResourceClaim]:
    """Return the claims that have devices of a pool and are not marked to be allocated again."""
    return [claim for claim in state.claims.values("pool", pool) if claim.phase == PREPARING]


def _kept(state: ClusterState, pool: str) -> frozenset[str]:
    """Return the devices of a pool that belong to ready claims. They do not change until
    deallocation."""
    ready = [claim for claim in state.claims.values("pool", pool) if claim.phase == READY]
    return frozenset(r.device for claim in ready for r in claim.pool_results if r.pool == pool)


def _on_their_way(state: ClusterState, pool: str, holders: list[ResourceClaim]) -> int:
    """Return the number of promised devices that were requested from the CDI Manager by name."""
    return sum(is_on_its_way(state, claim.node, pool, r.device) for claim in holders
               for r in claim.pool_results if r.pool == pool)


def promises(holders: list[ResourceClaim], pool: str) -> Counter[str]:
    """Return the number of a pool's devices that claims have, by node."""
    found: Counter[str] = Counter()
    for claim in holders:
        found[claim.node] += sum(r.pool == pool for r in claim.pool_results)
    return found


def placements(state: ClusterState, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> Counter[str]:
    """Return the number of a model's devices that are wanted on a fabric, by node.

    They are wanted by gated pods with a node, and by nodes that the autoscaler's provider chose.
    """
    wanted = Counter(state.reservations.wanted(model.cdi_model_name, state.is_allocated))
    for node, name, entry, _pod in live_entries(state, state.now()):
        wanted[node] += entry.count if name == model.cdi_model_name else 0
    return Counter({node: n for node, n in wanted.items() if fabric_of(state, node, snapshot) == fabric})


def fabric_of(state: ClusterState, node: str, snapshot: FabricSnapshot) -> int | None:
    """Return the fabric of a node's machine, or None."""
    found = state.nodes.value(node)
    return None if found and state.twins(found) else adapters.machine_of(found, snapshot)[1]


def arriving(state: ClusterState, node: str, model: DeviceModel, *, named: bool = True) -> int:
    """Return the number of a model's devices that were requested for a node and that no claim uses
    yet.

    With ``named``, count pool devices too.
    """
    live = [each for each in state.resources.values("node", node)
            if each.model == model.cdi_model_name and not each.deleting and (named or not each.pool_device)]
    return sum(1 for each in live if each.asked > 0 and (is_awaited(state, each) or not state.user(each)))


def left(state: ClusterState, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> int:
    """Return how many devices the manager may still attach that are not promised to a claim.

    Devices that were requested while the manager was read may or may not be in its count. A pool
    must not show a device too many. For a gated pod it is better to choose a node in vain than to
    choose none.
    """
    name = model.pool(fabric)
    since = max(snapshot.taken, snapshot.read)
    count = snapshot.free.get((model.cdi_model_name, fabric), 0) - asked_since(state, model, fabric, snapshot, since)
    promised = promises(_holders(state, name), name)
    not_asked = sum(max(0, n - arriving(state, node, model)) for node, n in promised.items())
    return max(0, count - not_asked)


def asked_since(state: ClusterState, model: DeviceModel, fabric: int, snapshot: FabricSnapshot, since: float) -> int:
    """Return how many devices of a model were requested on a fabric at ``since`` or later.

    ``since`` is in seconds since the epoch.
    """
    lately = [when for when in state.resources.keys("asked") if t.cast(float, when) >= since // ASKED_TOGETHER]
    found = 0
    for each in (each for when in lately for each in state.resources.values("asked", when)):
        if each.model == model.cdi_model_name and not each.deleting and each.asked >= since:
            found += fabric_of(state, each.node, snapshot) == fabric
    return found
