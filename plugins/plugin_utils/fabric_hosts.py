# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert machines of a fabric into hosts with variables and groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine

from ..module_utils.model.value import Json
from .hosts import Host, group, unique_names

# Default fields of a host's devices. Machine and fabric are fields of the host.
DEVICE_FIELDS = ("uid", "model", "kind", "state", "health", "serial", "size")
# The worst health is first.
HEALTHS = ("Critical", "Warning", "Unknown", "OK")
FreeKey = tuple[str, int | None]


def health(devices: Iterable[Device]) -> str:
    """Return the worst health of the devices, or OK without devices."""
    found = {d.health for d in devices}
    return next((h for h in HEALTHS if h in found), "OK")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Settings. ``bmc`` are addresses by uid or name.

    ``fields`` are those of each device, or None for all fields with a value.
    """

    bmc: Mapping[str, str]
    by_uid: bool = False
    fields: tuple[str, ...] | None = None


def machine_hosts(machines: Iterable[Machine], free: Mapping[FreeKey, int], wanted: Wanted) -> list[Host]:
    """Return a host for each machine. ``free`` counts devices by model and fabric."""
    found = sorted(machines, key=lambda m: (m.name, m.uid))
    names = {m.uid: m.uid for m in found} if wanted.by_uid else unique_names((m.uid, m.name) for m in found)
    capacity: dict[int | None, dict[str, int]] = {}
    for (model, fabric), count in free.items():
        capacity.setdefault(fabric, {})[model] = count
    return [Host(names[m.uid], variables(m, capacity.get(m.fabric, {}), wanted), groups(m, capacity.get(m.fabric, {})))
            for m in found]


def variables(machine: Machine, free: Mapping[str, int], wanted: Wanted) -> Json:
    """Return the variables of a machine. ``free`` counts the attachable devices by model."""
    found: Json = {
        "composable_machine": machine.uid, "composable_name": machine.name, "composable_fabric": machine.fabric,
        "composable_health": health(machine.devices), "composable_free": dict(free),
        "composable_devices": [_device(d, wanted.fields) for d in machine.devices]}
    address = wanted.bmc.get(machine.uid) or wanted.bmc.get(machine.name)
    return found | {"composable_bmc": address} if address else found


def _device(device: Device, fields: tuple[str, ...] | None) -> Json:
    if fields is not None:
        return {name: getattr(device, name) for name in fields}
    return {name: value for name in DEVICE_FIELDS if (value := getattr(device, name)) is not None}


def groups(machine: Machine, free: Mapping[str, int]) -> list[str]:
    """Return the groups that every inventory of a fabric has."""
    found = [_fabric_group(machine), "has_devices" if machine.devices else "without_devices"]
    found += sorted({group("model", d.model) for d in machine.devices if d.model})
    found += sorted(group("free", model) for model, count in free.items() if count > 0)
    worst = health(machine.devices)
    return [*found, "unhealthy"] if worst in ("Critical", "Warning") else found


def _fabric_group(machine: Machine) -> str:
    return "no_fabric" if machine.fabric is None else group("fabric", machine.fabric)
