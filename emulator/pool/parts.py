# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a fabric, and how each is read from its document."""

from __future__ import annotations

import re
import typing as t
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .fields import Fields, SpecError

HEALTHS: t.Final = ("OK", "Warning", "Critical", "Unknown")
MEMORY: t.Final = "memory"
_MIB: t.Final = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_MODEL: t.Final = (
    "name", "kind", "product_name", "memory", "vendor_id", "device_id", "attributes", "size", "bars",
)
_DEVICE: t.Final = (
    "model", "count", "serials", "serial", "uuid", "name", "health", "size", "bars", "box", "slot", "numa", "machine",
)

T = t.TypeVar("T")


@dataclass(frozen=True, slots=True)
class Model:
    """A model of devices.

    ``memory``: a Kubernetes quantity. ``vendor_id``, ``device_id``: four hexadecimal digits.
    ``size``: MiB of a memory device, None for other kinds. ``bars``: sizes of the PCI base address
    registers.
    """

    name: str
    kind: str = "gpu"
    product_name: str = ""
    memory: str = "40Gi"
    vendor_id: str = "10de"
    device_id: str = "20f1"
    attributes: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None
    bars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device of a fabric.

    ``slot``: counts from 1 over all fabrics. ``box``: id of its box. ``numa``: the nearest NUMA
    node of a machine, None if not known. ``on``: uid of its machine at the start, None if it is
    free.
    """

    uid: str
    serial: str
    model: str
    fabric: int
    name: str
    slot: int
    health: str = "OK"
    size: int | None = None
    bars: tuple[str, ...] = ()
    box: str = ""
    numa: int | None = None
    on: str | None = None


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine. ``fabric``: None if it is on no fabric. Then nothing can be attached to it.

    ``tenant``: a tenant other than the document's. Managers with tenants do not show it to ours.
    """

    uid: str
    name: str
    fabric: int | None
    tenant: str | None = None


def machine_uuid(name: str) -> str:
    """Return the uuid of a machine without one in the document.

    It is always the same for one name.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.machine.composable.infra"))


def models_of(top: Fields) -> dict[str, Model]:
    """Read ``models`` by name. Raises SpecError."""
    found = [
        Model(
            name=entry.text("name"),
            kind=entry.text("kind", "gpu"),
            product_name=entry.text("product_name", entry.text("name")),
            memory=entry.text("memory", "40Gi"),
            vendor_id=entry.hexadecimal("vendor_id", "10de"),
            device_id=entry.hexadecimal("device_id", "20f1"),
            attributes=entry.mapping("attributes"),
            size=_size(entry, entry.text("kind", "gpu"), entry.text("memory", "40Gi")),
            bars=_bars(entry),
        )
        for entry in top.list_of("models", _MODEL)
    ]
    unique([model.name for model in found], "models", "name")
    return {model.name: model for model in found}


def _size(entry: Fields, kind: str, memory: str) -> int | None:
    """Return the MiB of a memory device, by ``size`` or ``memory``. Raises SpecError."""
    if entry.has("size"):
        return entry.integer("size")
    if kind != MEMORY:
        return None
    found = re.fullmatch(r"(\d+)(Mi|Gi|Ti)", memory)
    if not found:
        raise SpecError(entry.at("memory"), f"it must be a number with Mi, Gi or Ti, not {memory!r}. You can also set "
                                            "size")
    return int(found[1]) * _MIB[found[2]]


def _bars(entry: Fields, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    bars = tuple(entry.texts("bars", list(default)))
    for size in bars:
        if not re.fullmatch(r"\d+(Ki|Mi|Gi)", size):
            raise SpecError(entry.at("bars"), f"{size!r} must be a number with Ki, Mi or Gi")
    return bars


def devices_of(
    fabrics: list[Fields], models: Mapping[str, Model], machines: tuple[MachineSpec, ...] = ()
) -> tuple[DeviceSpec, ...]:
    """Read the devices of all ``fabrics`` and number their slots. Raises SpecError."""
    found: list[DeviceSpec] = []
    uids = {(machine.name, machine.fabric): machine.uid for machine in reversed(machines)}
    for fabric in fabrics:
        for entry in fabric.list_of("devices", _DEVICE):
            number = fabric.integer("id")
            on = _on(entry, number, uids)
            found += [replace(d, on=on) for d in _of_entry(entry, number, models, len(found) + 1)]
    unique([device.slot for device in found], "devices", "slot")
    unique([device.uid for device in found], "devices", "uuid")
    unique([device.serial for device in found], "devices", "serial")
    return tuple(found)


def _on(entry: Fields, fabric: int, uids: Mapping[tuple[str, int | None], str]) -> str | None:
    """Return the uid of the machine that has the devices at the start, None for none.

    ``uids``: of machines, by name and fabric. Raises SpecError.
    """
    if not entry.has("machine"):
        return None
    name = entry.text("machine")
    if found := uids.get((name, fabric)):
        return found
    raise SpecError(entry.at("machine"), f"{name!r} is not the name of a machine on fabric {fabric}")


def _of_entry(entry: Fields, fabric: int, models: Mapping[str, Model], slot: int) -> list[DeviceSpec]:
    model, health = entry.text("model"), entry.text("health", "OK")
    if model not in models:
        raise SpecError(entry.at("model"), f"{model!r} is not in models. Allowed are {', '.join(models) or 'none'}")
    if health not in HEALTHS:
        raise SpecError(entry.at("health"), f"{health!r} is not allowed. Allowed are {', '.join(HEALTHS)}")
    if sum(entry.has(key) for key in ("count", "serials", "serial")) > 1:
        raise SpecError(entry.where, "set only one of count, serials and serial")
    serials = entry.texts("serials", [])
    number = len(serials) if entry.has("serials") else entry.integer("count", 1)
    if number != 1 and any(entry.has(key) for key in ("uuid", "name", "slot")):
        raise SpecError(entry.where, "uuid, name and slot are allowed for a single device only")
    first = entry.integer("slot", slot)
    return [
        _device(entry, models[model], DeviceSpec("", serial, model, fabric, "", first + n, health))
        for n, serial in enumerate(serials or [""] * number)
    ]


def _device(entry: Fields, model: Model, bare: DeviceSpec) -> DeviceSpec:
    name = f"{bare.slot}.{bare.fabric}.{bare.model}.device.composable.infra"
    made = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return DeviceSpec(
        uid=entry.uuid("uuid", str(made)),
        serial=bare.serial or entry.text("serial", _serial(model, made)),
        model=bare.model, fabric=bare.fabric, slot=bare.slot, health=bare.health,
        name=entry.text("name", f"device-{bare.slot}"),
        size=entry.integer("size") if entry.has("size") else model.size,
        bars=_bars(entry, model.bars),
        box=entry.text("box", f"box-{bare.fabric}"),
        numa=entry.integer("numa") if entry.has("numa") else None,
    )


def _serial(model: Model, made: uuid.UUID) -> str:
    """Return a serial as the node's driver shows it, a GPU's UUID or the 64 bits of CXL memory."""
    found = uuid.uuid5(made, "serial")
    return f"{found.int >> 64:#x}" if model.kind == MEMORY else f"GPU-{found}"


def machines_of(top: Fields, fabrics: list[int]) -> tuple[MachineSpec, ...]:
    """Read ``machines``. ``fabrics``: ids that exist. Raises SpecError."""
    found = []
    for entry in top.list_of("machines", ("name", "uuid", "fabric", "tenant")):
        name = entry.text("name")
        fabric = entry.integer("fabric") if entry.has("fabric") else None
        if fabric is not None and fabric not in fabrics:
            raise SpecError(entry.at("fabric"), f"{fabric} is not the id of a fabric. Allowed are {fabrics}")
        tenant = entry.uuid("tenant", "") if entry.has("tenant") else None
        found.append(MachineSpec(entry.uuid("uuid", machine_uuid(name)), name, fabric, tenant))
    unique([machine.uid for machine in found], "machines", "uuid")
    return tuple(found)


def unique(values: list[T], where: str, what: str) -> list[T]:
    """Return the values. Raises SpecError if a value appears twice."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            raise SpecError(where, f"{what} {value!r} appears twice")
        seen.add(value)
    return values
