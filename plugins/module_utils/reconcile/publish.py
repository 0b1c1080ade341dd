# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The publish pass: the fabric's free devices become pools, pool by pool, so that one bad pool stops no other."""

from __future__ import annotations

import typing as t

from ..kube import slices
from ..scaling.pools import PoolPlan, plan_pool
from ..scaling.settings import DeviceModel
from .poolview import pool_view
from .poolwriter import DROPPED
from .world import World
from .writer import Writer

PoolKey = tuple[str, int]


def pool_keys(world: World) -> set[PoolKey]:
    """(CDI model name, fabric id) of every pool that exists or should exist."""
    keys: set[PoolKey] = set()
    snapshot = world.snapshot
    if snapshot is not None:
        keys.update(k for k in snapshot.free if world.settings.model(k[0]))
    for item in world.slices.list():
        of_pool = None if slices.node(item) else world.settings.of_pool(slices.pool(item))
        if of_pool and of_pool[0].driver_name == slices.driver(item):
            keys.add((of_pool[0].cdi_model_name, of_pool[1]))
    return keys


def plan(world: World, key: PoolKey) -> PoolPlan | None:
    """What to change about one pool; None while the manager's count is unknown.

    A pool whose fabric is gone keeps what claims hold and loses the rest.
    """
    model, snapshot = world.settings.model(key[0]), world.snapshot
    if model is None or snapshot is None:
        return None
    view = pool_view(world, model, key[1], snapshot)
    if view is None and not _fabric_known(snapshot, key[1]):
        return _withdraw(world, model, key[1], f"fabric {key[1]} is gone")
    return plan_pool(view, world.settings) if view else None


def _fabric_known(snapshot: t.Any, fabric: int) -> bool:
    return any(m.fabric == fabric for m in snapshot.machines.values())


def _withdraw(world: World, model: DeviceModel, fabric: int, why: str) -> PoolPlan:
    name = model.pool(fabric)
    held = bool(world.claims.by("pool", name))
    gone = () if held else tuple(s["metadata"]["name"] for s in world.slices.by("pool", name))
    return PoolPlan(name, why, delete=gone)


def run(world: World, writer: Writer, key: PoolKey) -> PoolPlan | None:
    """Plan one pool and write it. Raises kube.errors.ApiError; the pool is then planned again.

    One at a time: the pass over held pods and the pass over a pool would be in each other's way.
    """
    with writer.pools.turn(key):
        found, model = plan(world, key), world.settings.model(key[0])
        if found is None or found.empty or model is None:
            return found
        world.pools_problem = "" if writer.pools.is_safe(found) else DROPPED
        if world.pools_problem:
            found = _withdraw(world, model, key[1], "it would be unsafe")
        if not found.empty:
            writer.write_pool(found)
        return found
