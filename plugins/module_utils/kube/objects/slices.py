# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ResourceSlice (``resource.k8s.io/v1``) of a node or of a pool."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ...model.value import Json

LOST: t.Final = "gpu.nvidia.com/gpu-lost"


def driver(item: Json) -> str:
    """Return the driver of the slice."""
    return str(item["spec"]["driver"])


def node(item: Json) -> str | None:
    """Return the node of a node-local slice, None for a pool."""
    name = item["spec"].get("nodeName")
    return str(name) if name else None


def pool(item: Json) -> str:
    """Return the pool name of the slice."""
    return str(item["spec"]["pool"]["name"])


def attribute(device: Json, name: str) -> str | None:
    """Return a string attribute of a device, None if it is absent or of another type."""
    value = (device.get("attributes") or {}).get(name)
    text = value.get("string") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def without_uuid(device: Json) -> Json:
    """Return an entry without its UUID, which no other device has."""
    attributes = device.get("attributes") or {}
    return {**device, "attributes": {name: value for name, value in attributes.items() if name != "uuid"}}


def devices(item: Json) -> list[Json]:
    """Return the devices of the slice."""
    found: list[Json] = item["spec"].get("devices") or []
    return found


def sick(item: Json) -> Iterator[tuple[Json, str]]:
    """Yield the devices that their driver keeps from new claims, each with its taint:
    ``<key>=<value>:<effect>``.

    Source: KEP-5055. A driver taints a device in its ResourceSlice. A DeviceTaintRule is a separate
    object. NVIDIA's plugin gives all devices of a node the taint LOST while one device is lost.
    They are healthy again when that device has left.
    """
    for device in devices(item):
        for taint in device.get("taints") or ():
            if taint.get("effect") in ("NoSchedule", "NoExecute") and taint.get("key") != LOST:
                value = f"={taint['value']}" if taint.get("value") else ""
                yield device, f"{taint.get('key')}{value}:{taint['effect']}"
                break


def uuids(item: Json) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield (UUID, (driver, pool, device)) of devices with a UUID in a node-local slice."""
    for device in devices(item):
        if uuid := attribute(device, "uuid"):
            yield uuid, (driver(item), pool(item), device["name"])
