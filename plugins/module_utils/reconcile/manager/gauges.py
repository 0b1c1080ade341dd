# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the values of metrics.GAUGES and READ_COUNTERS at the time of a scrape."""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from collections.abc import Callable, Iterable

from ...planning.prewarm import IdleMinimum
from ..pool.controller import pool_keys
from ..runtime.metrics import CONTROLLERS
from ..state.cluster_state import ClusterState
from .engine import Engine

Values: t.TypeAlias = "float | t.Mapping[str, float]"


def gauges(engine: Engine) -> dict[str, Values]:
    """Return a number for each metric without labels, else numbers by label value. Send no
    requests.

    Roles of other processes have no number. Only indexes are read, so that a scrape decodes no
    objects of attached devices.
    """
    state, now = engine.state, engine.state.clock()
    leads = engine.fence.required and engine.fence.open and not engine.stopping.is_set()
    return {
        "claims_waiting": len(engine.wait_reasons()), "gated_pods": state.pods.count("gated", True),
        "leader": dict.fromkeys(engine.roles, float(leads)),
        "queue_depth": _counted(CONTROLLERS["controller"], (key.controller for key in engine.queue.ready())),
        "fabric_up": float(state.snapshot is not None and not state.fabric_problem) if engine.looks else math.nan,
        "fabric_poll_age_seconds": engine.inventory_polls.age() if engine.looks else math.nan,
        "fabric_free_devices": _free(state), "pool_devices": _pool_devices(state),
        "pools_refused": len(state.refused_models),
        **_devices(state),
        "prewarm_devices": _of_minimums(state, lambda minimum: minimum.idle_at(now)),
        "prewarm_device_hours_per_week": _of_minimums(state, IdleMinimum.device_hours),
        "trace_spans_dropped_total": engine.claim_steps.tracer.dropped,
        "watch_restarts_total": {each.resource.plural: each.restarts for each in engine.watches.reflectors},
    }


def _models(state: ClusterState) -> list[str]:
    return [model.cdi_model_name for model in state.settings.models]


def _counted(known: Iterable[str], values: Iterable[str]) -> dict[str, float]:
    """Count the values, with 0 for known values that do not occur."""
    return {**dict.fromkeys(known, 0.0), **Counter(values)}


def _free(state: ClusterState) -> dict[str, float]:
    found = dict.fromkeys(_models(state), 0.0)
    for (model, _fabric), count in (state.snapshot.free if state.snapshot else {}).items():
        found[model] = found.get(model, 0.0) + count
    return found


def _of_minimums(state: ClusterState, number: Callable[[IdleMinimum], float]) -> dict[str, float]:
    """Return the sum of ``number`` over the minimums of idle devices, by model."""
    found = dict.fromkeys(_models(state), 0.0)
    for minimum in state.settings.idle_minimums:
        found[minimum.model] += number(minimum)
    return found


def _pool_devices(state: ClusterState) -> dict[str, float]:
    found = dict.fromkeys(_models(state), 0.0)
    for key in pool_keys(state):
        model = state.settings.model(key.model)
        shown = state.slices.values("pool", model.pool(key.fabric)) if model else ()
        found[key.model] += sum(len(each.devices) for each in shown)
    return found


def _devices(state: ClusterState) -> dict[str, Values]:
    """Count attached devices and orphans by indexes, because there are tens of thousands of
    devices."""
    nodes, models = state.nodes.names(), {*_models(state), *map(str, state.resources.keys("model"))}
    attached = {model: state.resources.count("model", model) - state.resources.count("unattached", model)
                for model in models}
    nodeless = sum(state.resources.count("node", name) for name in state.resources.keys("node")
                   if name not in nodes)
    return {"attached_devices": {model: float(n) for model, n in attached.items() if n or model in _models(state)},
            "orphans": {"device": _ownerless(state, _unowned(state)), "resource": nodeless}}


def _unowned(state: ClusterState) -> set[str]:
    """Return the devices that no ComposableResource has, although one was made for them
    (``cohdi.reclaimed``)."""
    made_for = {each.reclaims for model in state.resources.keys("unattached")
                for each in state.resources.values("unattached", model)}
    return {uid for uid in made_for if not _attached(state, uid)}


def _attached(state: ClusterState, uid: str) -> bool:
    return any(each.device_uid == uid for each in state.resources.values("device", uid))


def _ownerless(state: ClusterState, unowned: set[str]) -> int:
    """Count devices of configured models on the nodes' machines that no ComposableResource has."""
    machines = state.snapshot.machines.values() if state.snapshot else ()
    strays = ((machine, device) for machine in machines for device in machine.devices
              if device.uid in unowned or not state.resources.has("device", device.uid))
    return sum(device.state == "attached" and state.settings.model(device.model) is not None
               and state.nodes.has("machine", machine.uid) for machine, device in strays)
