# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fabric is made of, and how each part is read from its document."""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from .fields import Fields, SpecError

HEALTHS: t.Final = ("OK", "Warning", "Critical", "Unknown")

T = t.TypeVar("T")


@dataclass(frozen=True, slots=True)
class Model:
    """A model of devices; ``memory`` is a Kubernetes quantity, the ids are four hexadecimal digits."""

    name: str
    kind: str = "gpu"
    product_name: str = ""
    memory: str = "40Gi"
    vendor_id: str = "10de"
    device_id: str = "20f1"
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device that the fabric has; ``slot`` counts from 1 over all fabrics."""

    uid: str
    serial: str
    model: str
    fabric: int
    name: str
    slot: int
    health: str = "OK"


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine; ``fabric`` None: it is on no fabric and nothing can be attached to it."""

    uid: str
    name: str
    fabric: int | None


def machine_uuid(name: str) -> str:
    """The uuid of a machine that is given none: always the same for one name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.machine.composable.infra"))


def models_of(top: Fields) -> dict[str, Model]:
    """``models`` by name. Raises SpecError."""
    allowed = ("name", "kind", "product_name", "memory", "vendor_id", "device_id", "attributes")
    found = [
        Model(
            name=entry.text("name"),
            kind=entry.text("kind", "gpu"),
            product_name=entry.text("product_name", entry.text("name")),
            memory=entry.text("memory", "40Gi"),
            vendor_id=entry.hexadecimal("vendor_id", "10de"),
            device_id=entry.hexadecimal("device_id", "20f1"),
            attributes=entry.mapping("attributes"),
        )
        for entry in top.list_of("models", allowed)
    ]
    unique([model.name for model in found], "models", "name")
    return {model.name: model for model in found}


def devices_of(fabrics: list[Fields], models: Mapping[str, Model]) -> tuple[DeviceSpec, ...]:
    """Devices of all ``fabrics``, slots numbered through. Raises SpecError."""
    allowed = ("model", "count", "serials", "serial", "uuid", "name", "health")
    found: list[DeviceSpec] = []
    for fabric in fabrics:
        for entry in fabric.list_of("devices", allowed):
            found += _of_entry(entry, fabric.integer("id"), models, len(found) + 1)
    unique([device.uid for device in found], "devices", "uuid")
    unique([device.serial for device in found], "devices", "serial")
    return tuple(found)


def _of_entry(entry: Fields, fabric: int, models: Mapping[str, Model], slot: int) -> list[DeviceSpec]:
    model, health = entry.text("model"), entry.text("health", "OK")
    if model not in models:
        raise SpecError(entry.at("model"), f"{model!r} is not among models: {', '.join(models) or 'none'}")
    if health not in HEALTHS:
        raise SpecError(entry.at("health"), f"{health!r}; allowed are {', '.join(HEALTHS)}")
    if sum(entry.has(key) for key in ("count", "serials", "serial")) > 1:
        raise SpecError(entry.where, "give one of count, serials and serial")
    serials = entry.texts("serials", [])
    number = len(serials) if entry.has("serials") else entry.integer("count", 1)
    if number != 1 and (entry.has("uuid") or entry.has("name")):
        raise SpecError(entry.where, "uuid and name are for a single device")
    return [
        _device(entry, DeviceSpec("", serials[n] if serials else "", model, fabric, "", slot + n, health))
        for n in range(number)
    ]


def _device(entry: Fields, bare: DeviceSpec) -> DeviceSpec:
    name = f"{bare.slot}.{bare.fabric}.{bare.model}.device.composable.infra"
    made = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return DeviceSpec(
        uid=entry.uuid("uuid", str(made)),
        serial=bare.serial or entry.text("serial", f"GPU-{uuid.uuid5(made, 'serial')}"),
        model=bare.model, fabric=bare.fabric, slot=bare.slot, health=bare.health,
        name=entry.text("name", f"device-{bare.slot}"),
    )


def machines_of(top: Fields, fabrics: list[int]) -> tuple[MachineSpec, ...]:
    """``machines``; ``fabrics`` are the ids that exist. Raises SpecError."""
    found = []
    for entry in top.list_of("machines", ("name", "uuid", "fabric")):
        name = entry.text("name")
        fabric = entry.integer("fabric") if entry.has("fabric") else None
        if fabric is not None and fabric not in fabrics:
            raise SpecError(entry.at("fabric"), f"{fabric} is not the id of a fabric: {fabrics}")
        found.append(MachineSpec(entry.uuid("uuid", machine_uuid(name)), name, fabric))
    unique([machine.uid for machine in found], "machines", "uuid")
    return tuple(found)


def unique(values: list[T], where: str, what: str) -> list[T]:
    """The values, none of them twice. Raises SpecError."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            raise SpecError(where, f"{what} {value!r} appears twice")
        seen.add(value)
    return values
