# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Free devices of the fabric as ResourceSlices: which device names a pool shows, in how many slices.

A pool shows what the scheduler may still promise plus what it has promised and not yet moved on from. A device that
was attached for a claim leaves the free count while the claim still holds its pool device, so the pool does not
change until the claim moves to the node's own slice: one change per claim, and never a promised device withdrawn.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..device_info import DRIVER_LABEL
from ..scheduling.framework.quantity import quantity
from ..settings import DeviceModel, Settings

SLICE_LIMIT = 128
READY_CONDITION = "FabricDeviceReady"
FAILURE_CONDITIONS = ("FabricDeviceReschedule", "FabricDeviceFailed")


@dataclass(frozen=True, slots=True)
class PoolSlice:
    """A published slice of a pool; ``spec`` is None when only its devices' names are known."""

    name: str
    generation: int
    count: int
    devices: tuple[str, ...]
    spec: Mapping[str, t.Any] | None = None


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One pool at one moment.

    ``free`` is the manager's count, ``promised`` the names that claims hold, ``reserved`` how many devices are wanted
    for pods that our gate holds, ``arrived`` for how many of both the device is attached already and waits on its node.
    ``kept``: names of devices that claims have on their nodes, with the handover direct; they stay as they are.
    """

    model: DeviceModel
    fabric: int
    free: int
    promised: frozenset[str] = frozenset()
    arrived: int = 0
    slices: tuple[PoolSlice, ...] = ()
    reserved: int = 0
    kept: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Pool name."""
        return self.model.pool(self.fabric)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Slices to write in order, and to delete after them. ``write`` maps an existing name, or a number, to a spec."""

    pool: str
    reason: str
    devices: tuple[str, ...] = ()
    generation: int = 0
    replace: Mapping[str, dict[str, t.Any]] = field(default_factory=dict)
    create: tuple[dict[str, t.Any], ...] = ()
    delete: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True when the pool is as it should be."""
        return not (self.replace or self.create or self.delete)


def device_names(snapshot: PoolSnapshot) -> list[str]:
    """Names that the pool should show: all that claims have, and the lowest others, in order of their number."""
    room = max(0, snapshot.free - max(0, len(snapshot.promised) + snapshot.reserved - snapshot.arrived))
    names, number = set(snapshot.promised | snapshot.kept), 0
    while room > 0:
        name = f"{snapshot.model.k8s_device_name}-{number}"
        if name not in names:
            names.add(name)
            room -= 1
        number += 1
    return sorted(names, key=_number)


def _number(name: str) -> tuple[int, str]:
    tail = name.rpartition("-")[2]
    return (int(tail) if tail.isdecimal() else -1, name)


def plan_pool(snapshot: PoolSnapshot, settings: Settings) -> PoolPlan:
    """Decide how the slices of a pool must change. Pure.

    Nothing changes while the set of devices and today's configuration are what the slices show; the plan is then
    ``empty``. Else every slice is written in a new generation.

    Source: ResourceSlice of resource.k8s.io/v1; KEP-5007 for the binding conditions.
    """
    names = device_names(snapshot)
    newest = max((s.generation for s in snapshot.slices), default=0)
    current = [s for s in snapshot.slices if s.generation == newest]
    shown = {d for s in current for d in s.devices}
    if _complete(snapshot.slices, current) and shown == set(names) and all(_current(s, snapshot, settings)
                                                                           for s in current):
        return PoolPlan(snapshot.name, "as it should be", tuple(names), newest)
    chunks = [names[i:i + SLICE_LIMIT] for i in range(0, len(names), SLICE_LIMIT)] or [[]]
    specs = [slice_spec(snapshot, settings, chunk, newest + 1, len(chunks)) for chunk in chunks]
    old = sorted(snapshot.slices, key=lambda s: s.name)
    return PoolPlan(
        snapshot.name, _counts(snapshot),
        tuple(names), newest + 1,
        replace={s.name: spec for s, spec in zip(old, specs, strict=False)},
        create=tuple(specs[len(old):]),
        delete=tuple(s.name for s in old[len(specs):]),
    )


def _counts(snapshot: PoolSnapshot) -> str:
    reserved = f", {snapshot.reserved} reserved" if snapshot.reserved else ""
    kept = f", {len(snapshot.kept)} kept" if snapshot.kept else ""
    promised = f"{len(snapshot.promised)} promised{reserved}, {snapshot.arrived} of them arrived"
    return f"{snapshot.free} free, {promised}{kept}"


def _complete(slices: tuple[PoolSlice, ...], current: list[PoolSlice]) -> bool:
    return bool(current) and len(current) == len(slices) and all(s.count == len(slices) for s in slices)


def _current(item: PoolSlice, snapshot: PoolSnapshot, settings: Settings) -> bool:
    """True when labels and attributes are those of today's configuration; what a server may drop is not compared."""
    if item.spec is None:
        return True
    wanted = slice_spec(snapshot, settings, item.devices, item.generation, item.count)
    same_nodes = item.spec.get("nodeSelector") == wanted["nodeSelector"]
    return same_nodes and _described(item.spec) == _described(wanted)


def _described(spec: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Quantities as numbers: the API server writes 1024Mi as 1Gi."""
    return {d["name"]: (d.get("attributes") or {}, {name: quantity(value["value"]) for name, value
                                                    in (d.get("capacity") or {}).items()})
            for d in spec.get("devices") or []}


def slice_spec(snapshot: PoolSnapshot, settings: Settings, names: Iterable[str], generation: int,
               count: int) -> dict[str, t.Any]:
    """Spec of a ResourceSlice (resource.k8s.io/v1) as composable-dra-driver publishes it.

    A claim keeps its pool device with the handover direct, so only nodes that do not have another driver may get one.
    """
    model = snapshot.model
    others = model.other_driver_names if settings.is_direct(model.cdi_model_name) else ()
    return {
        "driver": model.driver_name,
        "pool": {"name": snapshot.name, "generation": generation, "resourceSliceCount": count},
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": settings.label(model.k8s_device_name), "operator": "In", "values": ["true"]},
            {"key": settings.label("fabric"), "operator": "In", "values": [str(snapshot.fabric)]},
            *([{"key": DRIVER_LABEL, "operator": "NotIn", "values": [*others]}] if others else ()),
        ]}]},
        "devices": [_device(model, name) for name in names],
    }


def _device(model: DeviceModel, name: str) -> dict[str, t.Any]:
    return {
        "name": name,
        "attributes": {k: {"string": v} for k, v in model.attributes.items()},
        **({"capacity": {k: {"value": v} for k, v in model.capacity.items()}} if model.capacity else {}),
        "bindsToNode": True,
        "bindingConditions": [READY_CONDITION],
        "bindingFailureConditions": list(FAILURE_CONDITIONS),
    }
