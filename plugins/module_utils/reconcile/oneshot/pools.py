# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read, publish and withdraw pools on request, with the planner and writer of the engine."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...planning.pool.plan import PoolPlan
from ..config import BadConfig
from ..keys import PoolKey
from ..manager.engine import Engine
from ..manager.leader_election import LeaderElection
from ..pool import controller
from ..pool.snapshot import pool_snapshot
from ..writers.pools import DROPPED
from .run import NotReady, Run

COMPONENT = "publisher"
Planner = Callable[[Engine, PoolKey], "PoolPlan | None"]


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """State of a pool. ``promised`` are the devices that claims have."""

    name: str
    model: str
    fabric: int
    devices: tuple[str, ...]
    promised: tuple[str, ...]
    published: bool


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """Pools ``before`` and ``after``, by name.

    ``led_by`` names the processes that publish instead of this run.
    """

    before: Mapping[str, PoolStatus]
    after: Mapping[str, PoolStatus]
    led_by: tuple[str, ...] = ()

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of a module."""
        sides = [{name: list(pool.devices) for name, pool in side.items() if pool.published}
                 for side in (self.before, self.after)]
        return {"changed": sides[0] != sides[1], "pools": [_row(pool) for pool in self.after.values()],
                "led_by": list(self.led_by), "diff": {"before": sides[0], "after": sides[1]}}


def _row(pool: PoolStatus) -> dict[str, t.Any]:
    return {**dataclasses.asdict(pool), "devices": list(pool.devices), "promised": list(pool.promised)}


class PoolRun(Run):
    """A run over some pools, or over all if none is named. Raises BadConfig, NotReady and errors of
    clients."""

    def look(self, names: Iterable[str]) -> PoolOutcome:
        """Return the pools as they are."""
        with self._engine(events=False) as engine:
            found = _pools(engine, _keys(engine, names).values())
            return PoolOutcome(found, found)

    def published(self, names: Iterable[str], dry: bool) -> PoolOutcome:
        """Publish the free devices of the fabric. With ``dry``, write nothing."""
        return self._made(names, dry, _publication)

    def withdrawn(self, names: Iterable[str], dry: bool) -> PoolOutcome:
        """Remove from the pools all devices that no claim has. Delete pools that become empty.

        With ``dry``, write nothing.
        """
        return self._made(names, dry, _withdrawal)

    def _made(self, names: Iterable[str], dry: bool, planner: Planner) -> PoolOutcome:
        with self._engine(events=False) as engine:
            keys = _keys(engine, names)
            before = _pools(engine, keys.values())
            plans = {name: plan for name, key in keys.items() if (plan := planner(engine, key)) and not plan.empty}
            after = {name: _planned(pool, plans[name]) if name in plans else pool for name, pool in before.items()}
            if not plans:
                return PoolOutcome(before, after)
            must = planner is _withdrawal
            led_by = self._refuse(self._leaders(), must) if dry else self._write(engine, plans.values(), must)
            return PoolOutcome(before, before, led_by) if led_by else PoolOutcome(before, after)

    def _leaders(self) -> tuple[str, ...]:
        """Return the processes that publish now."""
        return LeaderElection(self.client, self.config.lease_namespace, [COMPONENT], threading.Event().set).look()

    def _refuse(self, holders: tuple[str, ...], must: bool) -> tuple[str, ...]:
        """Return the processes that publish.

        Raise NotReady if there are any and ``must`` is set, because they would undo the change.
        """
        if holders and must:
            raise NotReady(f"pools are published by {', '.join(holders)}, which would publish them again. "
                           "Stop it first")
        return holders

    def _write(self, engine: Engine, plans: Iterable[PoolPlan], must: bool) -> tuple[str, ...]:
        """Write the plans unless other processes publish. Return their names."""
        stop = threading.Event()
        leadership = LeaderElection(self.client, self.config.lease_namespace, [COMPONENT], stop.set)
        engine.fence.require(lambda: leadership.held)
        try:
            if holders := leadership.lead_unless_led(stop, self.ready_timeout):
                return self._refuse(holders, must)
            for plan in plans:
                if not engine.writer.pools.is_safe(plan):
                    raise NotReady(DROPPED)
                engine.writer.pools.write(plan)
            return ()
        finally:
            leadership.leave()


def _keys(engine: Engine, names: Iterable[str]) -> dict[str, PoolKey]:
    """Return the keys of the pools by name. Raise BadConfig for a name that is not and should not
    be a pool."""
    settings = engine.state.settings
    known = {model.pool(key.fabric): key for key in sorted(controller.pool_keys(engine.state))
             if (model := settings.model(key.model))}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise BadConfig(f"pools: {name!r} is not a pool of this fabric. Allowed are {', '.join(known) or 'none'}")
    return {name: key for name, key in known.items() if not wanted or name in wanted}


def _pools(engine: Engine, keys: Iterable[PoolKey]) -> dict[str, PoolStatus]:
    return {pool.name: pool for key in keys if (pool := _pool(engine, key))}


def _pool(engine: Engine, key: PoolKey) -> PoolStatus | None:
    state = engine.state
    model = state.settings.model(key.model)
    if model is None:
        return None
    name = model.pool(key.fabric)
    shown = [each for each in state.slices.values("pool", name) if each.driver == model.driver_name]
    snapshot = pool_snapshot(state, model, key.fabric, state.snapshot) if state.snapshot else None
    names = tuple(sorted(device.name for each in shown for device in each.devices))
    return PoolStatus(name, key.model, key.fabric, names,
                      tuple(sorted(snapshot.promised)) if snapshot else (), bool(shown))


def _planned(pool: PoolStatus, plan: PoolPlan) -> PoolStatus:
    gone = bool(plan.delete) and not (plan.replace or plan.create)
    return dataclasses.replace(pool, devices=() if gone else tuple(sorted(plan.devices)), published=not gone)


def _publication(engine: Engine, key: PoolKey) -> PoolPlan | None:
    """Return the plan that publishes a pool, or None. Raise NotReady if it would break a
    DeviceClass."""
    model = engine.state.settings.model(key.model)
    if model is not None and (why := controller.refused(engine.state, model)):
        raise NotReady(why)
    return controller.plan(engine.state, key)


def _withdrawal(engine: Engine, key: PoolKey) -> PoolPlan | None:
    state = engine.state
    model = state.settings.model(key.model)
    if model is None or state.snapshot is None:
        return None
    snapshot = pool_snapshot(state, model, key.fabric, state.snapshot)
    if snapshot is None:
        raise NotReady(f"pools: {model.pool(key.fabric)} cannot be withdrawn: "
                       "the CDI Manager does not report the free devices")
    return controller.withdrawal(state, snapshot, "withdrawn on request")
