# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish the free devices of each fabric as pools, pool by pool, so that one bad pool stops no
other."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Iterator

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import CLAIMS, DEVICE_CLASSES, SLICES
from ...model.slice import Slice
from ...planning.pool.device_classes import refusal
from ...planning.pool.plan import PoolPlan, PoolSnapshot, plan_pool
from ...planning.settings import DeviceModel
from ..controller import Change, Controller
from ..keys import PoolKey, Result
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState
from ..writers.pools import DROPPED
from ..writers.writer import Writer
from .snapshot import pool_snapshot


def pool_keys(state: ClusterState) -> set[PoolKey]:
    """Return the keys of all pools that exist or should exist."""
    keys: set[PoolKey] = set()
    if state.snapshot is not None:
        keys.update(PoolKey(*found) for found in state.snapshot.free if state.settings.model(found[0]))
    for found in (found for pool in state.slices.keys("pool") for found in state.slices.values("pool", pool)):
        of_pool = state.settings.of_pool(found.pool)
        if of_pool and of_pool[0].driver_name == found.driver:
            keys.add(PoolKey(of_pool[0].cdi_model_name, of_pool[1]))
    return keys


def plan(state: ClusterState, key: PoolKey) -> PoolPlan | None:
    """Return the changes of a pool, or None while the CDI Manager's count is unknown.

    A pool of a fabric that is gone, or a pool that would break a DeviceClass, keeps only devices
    that claims have.
    """
    model, snapshot = state.settings.model(key.model), state.snapshot
    if model is None or snapshot is None:
        return None
    found = pool_snapshot(state, model, key.fabric, snapshot)
    if found is not None and (why := refused(state, model)):
        return withdrawal(state, found, why)
    if found is None and not any(machine.fabric == key.fabric for machine in snapshot.machines.values()):
        return _withdraw(state, model, key.fabric, f"fabric {key.fabric} is gone")
    return plan_pool(found, state.settings) if found else None


def refused(state: ClusterState, model: DeviceModel) -> str:
    """Return why pools of a model may not be published, or an empty string.

    They may not if a DeviceClass that the fabric serves would fail on their devices.
    """
    names = state.settings.device_classes
    return refusal(model, [item for item in state.classes.list() if item["metadata"]["name"] in names])


def withdrawal(state: ClusterState, found: PoolSnapshot, why: str) -> PoolPlan:
    """Return the plan that keeps only devices of claims, or deletes the pool if there are none."""
    if found.promised or found.kept:
        return plan_pool(dataclasses.replace(found, free=0), state.settings)
    return PoolPlan(found.name, why, delete=tuple(s.name for s in found.slices))


def _withdraw(state: ClusterState, model: DeviceModel, fabric: int, why: str) -> PoolPlan:
    name = model.pool(fabric)
    held = state.claims.has("pool", name)
    gone = () if held else tuple(found.name for found in state.slices.values("pool", name))
    return PoolPlan(name, why, delete=gone)


def publish(state: ClusterState, writer: Writer, key: PoolKey) -> PoolPlan | None:
    """Plan a pool and write it. Return the plan, or None. Raise ApiError.

    After an error the pool is planned again. Only one thread works on a pool at a time, because
    gated pods and the reconcile of a pool both publish.
    """
    with writer.pools.turn(key):
        found, model = plan(state, key), state.settings.model(key.model)
        if found is None or found.empty or model is None:
            return found
        state.pools_problem = "" if writer.pools.is_safe(found) else DROPPED
        if state.pools_problem:
            found = _withdraw(state, model, key.fabric, "the API server drops bindingConditions")
        if not found.empty:
            writer.pools.write(found)
        return found


class PoolController(Controller):
    """Publishes pools if this process is the publisher (``enabled``)."""

    kinds = frozenset({CLAIMS, DEVICE_CLASSES, SLICES})

    def __init__(self, state: ClusterState, writer: Writer, reporter: EventReporter, *, enabled: bool) -> None:
        self._state, self._writer, self._reporter, self.enabled = state, writer, reporter, enabled
        self.reconcilers = {PoolKey: self.reconcile}

    def concerned(self, change: Change) -> Iterator[PoolKey]:
        """Yield the pools that a claim has devices of, or that a slice belongs to.

        A DeviceClass may concern any pool.
        """
        if change.resource == DEVICE_CLASSES:
            yield from pool_keys(self._state)
        for obj in change.versions:
            for name in _pools(self._state, change, obj):
                if of_pool := self._state.settings.of_pool(name):
                    yield PoolKey(of_pool[0].cdi_model_name, of_pool[1])

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterator[PoolKey]:
        """Yield the pools that do not show what they should.

        Devices that were requested before a poll have left the manager's count, which may have the
        same value as before.
        """
        if not self._state.pools_problem:
            for pool in sorted(pool_keys(self._state)):
                if (found := plan(self._state, pool)) is not None and not found.empty:
                    yield pool

    def all_keys(self) -> set[PoolKey]:
        """Return the keys of all pools that exist or should exist."""
        return pool_keys(self._state)

    def reconcile(self, key: PoolKey) -> Result:
        """Publish a pool if this process is the publisher. Raise ApiError."""
        if not self.enabled:
            return Result()
        found = publish(self._state, self._writer, key)
        self._reporter.once("pools", self._state.pools_problem)
        model = self._state.settings.model(key.model)
        if why := refused(self._state, model) if model else "":
            self._state.refused_models[key.model] = why
        else:
            self._state.refused_models.pop(key.model, None)
        self._reporter.once(f"pools of {key.model}", why)
        if found is not None and not found.empty:
            self._reporter.note("PoolPublished", found.pool,
                                f"{len(found.devices)} devices, generation {found.generation} ({found.reason})")
        return Result()


def _pools(state: ClusterState, change: Change, obj: t.Any) -> Iterable[str]:
    """Return the names of the pools that a claim or a slice names."""
    if change.resource == CLAIMS:
        return sorted(map(str, state.claims.places("pool", obj)))
    return [obj.pool] if isinstance(obj, Slice) and not obj.node else []
