# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen picture of one pool: what the manager has, whom it is promised to, and what of it has arrived."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping

from ..fabric.types import FabricSnapshot
from ..kube import claims, cro, slices
from ..scaling.demand import PREPARING
from ..scaling.pools import PoolView
from ..scaling.settings import DeviceModel
from . import views

if t.TYPE_CHECKING:
    from .world import Json, World


def pool_view(world: World, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> PoolView | None:
    """One pool; None when the manager's count could not be read.

    A claim that was told to move on holds its name no more: the scheduler must not find it free once it drops the
    allocation. What was asked for since the manager was read has left, or will leave, its count.
    """
    count = snapshot.free.get((model.cdi_model_name, fabric))
    if count is None:
        return None
    name = model.pool(fabric)
    holders = _holders(world, name)
    published = tuple(views.slice_view(s) for s in world.slices.by("pool", name)
                      if slices.driver(s) == model.driver_name)
    promised = frozenset(r["device"] for c in holders for r in claims.binding_results(c) if r["pool"] == name)
    wanted, booked = promises(holders, name), bookings(world, model, fabric, snapshot)
    arrived = sum(min(n, arriving(world, node, model)) for node, n in (wanted + booked).items())
    free = max(0, count - _asked_since(world, model, fabric, snapshot, snapshot.taken))
    return PoolView(model, fabric, free, promised, arrived, published, booked.total())


def _holders(world: World, pool: str) -> list[Json]:
    """Claims that hold devices of a pool and have not been told to move on."""
    return [c for c in world.claims.by("pool", pool) if views.claim_phase(c) == PREPARING]


def promises(holders: list[Json], pool: str) -> Counter[str]:
    """Devices of a pool that claims hold, by the node they are for."""
    found: Counter[str] = Counter()
    for claim in holders:
        found[claims.node(claim) or ""] += sum(r["pool"] == pool for r in claims.binding_results(claim))
    return found


def bookings(world: World, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> Counter[str]:
    """Devices of a model that are wanted for held pods on nodes of a fabric, by node."""
    wanted = world.bookings.wanted(model.cdi_model_name, world.has_devices)
    return Counter({node: n for node, n in wanted.items() if fabric_of(world, node, snapshot) == fabric})


def fabric_of(world: World, node: str, snapshot: FabricSnapshot) -> int | None:
    """The fabric that a node's machine is on."""
    return views.machine_of(world.nodes.get(node), snapshot)[1]


def arriving(world: World, node: str, model: DeviceModel) -> int:
    """Devices of a model that were asked for a node and that no claim uses yet."""
    return sum(1 for raw in _live(world, node, model) if cro.read_intent(raw)[1] > 0 and not world.user(raw))


def left(world: World, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> int:
    """What the manager may still attach and has promised to no claim of a pool.

    What was asked for while the manager was being read may or may not be in its count. A pool must not show a device
    too many; a node is rather chosen in vain than not at all.
    """
    name = model.pool(fabric)
    since = max(snapshot.taken, snapshot.read)
    count = snapshot.free.get((model.cdi_model_name, fabric), 0) - _asked_since(world, model, fabric, snapshot, since)
    return max(0, count - _outstanding(world, model, promises(_holders(world, name), name)))


def _asked_since(world: World, model: DeviceModel, fabric: int, snapshot: FabricSnapshot, since: float) -> int:
    found = 0
    for raw in world.resources.by("model", model.cdi_model_name):
        if cro.read_intent(raw)[1] >= since and not raw["metadata"].get("deletionTimestamp"):
            found += fabric_of(world, raw["spec"]["target_node"], snapshot) == fabric
    return found


def _live(world: World, node: str, model: DeviceModel) -> list[Json]:
    return [raw for raw in world.resources.by("node", node)
            if raw["spec"]["model"] == model.cdi_model_name and not raw["metadata"].get("deletionTimestamp")]


def _outstanding(world: World, model: DeviceModel, wanted: Mapping[str, int]) -> int:
    """How many of the devices that are wanted on nodes have not been asked for yet."""
    return sum(max(0, n - arriving(world, node, model)) for node, n in wanted.items())
