# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the ResourceSlices of a pool: the names of its devices, and how many slices hold them.

A pool shows the devices that kube-scheduler may still allocate, and those that it has allocated and
that claims still hold. When a device is attached for a claim, the free count falls but the claim
still holds its pool device. The pool therefore does not change until the claim moves to the node's
own slice. There is one change per claim, and an allocated device is never withdrawn.

A pool with many free devices shows only some of them (``max_pool_devices``). The scheduler sees
when more are allocated, and every change rewrites all slices of the pool. A pool with 20,000 free
devices would be 157 writes for each reserved device, and a pool that shows 512 is none.
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
    """A published slice of a pool. ``spec`` is None if only the names of its devices are known."""

    name: str
    generation: int
    count: int
    devices: tuple[str, ...]
    spec: Mapping[str, t.Any] | None = None


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One pool at one moment.

    ``free``: number of free devices at the CDI Manager. ``promised``: names of pool devices that
    claims have allocated. ``reserved``: number of devices that gated pods need. ``arrived``: how many
    of these two are attached already. ``kept``: names of pool devices that claims use with the handover
    ``direct``. A name in ``kept`` does not change.
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
        """Return the name of the pool."""
        return self.model.pool(self.fabric)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Slices to write in order, and slices to delete after that.

    ``replace`` maps the name of an existing slice to its new spec.
    """

    pool: str
    reason: str
    devices: tuple[str, ...] = ()
    generation: int = 0
    replace: Mapping[str, dict[str, t.Any]] = field(default_factory=dict)
    create: tuple[dict[str, t.Any], ...] = ()
    delete: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Return whether the pool needs no change."""
        return not (self.replace or self.create or self.delete)


def unassigned(snapshot: PoolSnapshot) -> int:
    """Return how many free devices of the fabric are neither promised nor reserved."""
    return max(0, snapshot.free - max(0, len(snapshot.promised) + snapshot.reserved - snapshot.arrived))


def device_names(snapshot: PoolSnapshot, most: int) -> list[str]:
    """Return the names that the pool should show, sorted by number.

    These are all names that claims have, then the lowest other names, ``most`` at most.
    """
    room = min(most, unassigned(snapshot))
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

    While the slices show enough devices (``_shows_enough``) and the configuration, the plan is
    ``empty``. Otherwise every slice is written in a new generation.

    Source: ResourceSlice of ``resource.k8s.io/v1``, and KEP-5007 for the binding conditions.
    """
    names = device_names(snapshot, settings.max_pool_devices)
    newest = max((s.generation for s in snapshot.slices), default=0)
    current = [s for s in snapshot.slices if s.generation == newest]
    shown = {d for s in current for d in s.devices}
    enough = _shows_enough(shown, snapshot, settings.max_pool_devices)
    if _complete(snapshot.slices, current) and enough and all(_current(s, snapshot, settings) for s in current):
        return PoolPlan(snapshot.name, "up to date", tuple(sorted(shown, key=_number)), newest)
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


def _shows_enough(shown: set[str], snapshot: PoolSnapshot, most: int) -> bool:
    """Return whether a pool may stay as it is.

    It must show all names that claims have, never more free devices than the fabric has, and at
    least half of ``most`` or all free devices.
    """
    taken, room = snapshot.promised | snapshot.kept, unassigned(snapshot)
    return taken <= shown and min(room, least_shown(most)) <= len(shown - taken) <= min(room, most)


def least_shown(most: int) -> int:
    """Return how many free devices a pool shows at least if the fabric has as many. ``most``: how many
    it shows at most."""
    return (most + 1) // 2


def _counts(snapshot: PoolSnapshot) -> str:
    reserved = f", {snapshot.reserved} reserved for gated pods" if snapshot.reserved else ""
    kept = f", {len(snapshot.kept)} pre-assigned" if snapshot.kept else ""
    promised = f"{len(snapshot.promised)} allocated{reserved}, {snapshot.arrived} of them attached"
    return f"{snapshot.free} free, {promised}{kept}"


def _complete(slices: tuple[PoolSlice, ...], current: list[PoolSlice]) -> bool:
    return bool(current) and len(current) == len(slices) and all(s.count == len(slices) for s in slices)


def _current(item: PoolSlice, snapshot: PoolSnapshot, settings: Settings) -> bool:
    """Return whether labels and attributes match the current configuration.

    Fields that a server may drop are not compared.
    """
    if item.spec is None:
        return True
    wanted = slice_spec(snapshot, settings, item.devices, item.generation, item.count)
    same_nodes = item.spec.get("nodeSelector") == wanted["nodeSelector"]
    return same_nodes and _described(item.spec) == _described(wanted)


def _described(spec: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return attributes and capacities by device, capacities as numbers, since the API server
    writes 1024Mi as 1Gi.
    """
    return {d["name"]: (d.get("attributes") or {}, {name: quantity(value["value"]) for name, value
                                                    in (d.get("capacity") or {}).items()})
            for d in spec.get("devices") or []}


def slice_spec(snapshot: PoolSnapshot, settings: Settings, names: Iterable[str], generation: int,
               count: int) -> dict[str, t.Any]:
    """Return the spec of a ResourceSlice (``resource.k8s.io/v1``) as composable-dra-driver
    publishes it.

    With the handover ``direct`` a claim keeps its pool device. Nodes with the label of another
    driver are then excluded.
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
