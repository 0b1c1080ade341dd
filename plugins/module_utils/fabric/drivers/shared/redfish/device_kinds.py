# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind, model, size, serial number and health of a composable part, from its resources."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .fields import link
from .resources import Endpoint, Part, ResourceBlock, Status

# Blocks of these types belong to a machine. Composed devices are added to them.
MACHINE_BLOCKS: t.Final = frozenset({"Compute", "ComputerSystem"})
# The lists of a block's contents, the most specific list first.
BLOCK_LISTS: t.Final = (
    "Processors", "Memory", "Drives", "Storage", "SimpleStorage", "NetworkInterfaces", "EthernetInterfaces",
)
BLOCK_KINDS: t.Final = {"Processor": "processor", "Memory": "memory", "Storage": "storage", "Network": "network"}
PROCESSOR_KINDS: t.Final = {"GPU": "gpu", "Accelerator": "gpu", "FPGA": "fpga", "DSP": "dsp"}
TYPE_KINDS: t.Final = {
    "Memory": "memory", "MemoryChunks": "memory", "Drive": "storage", "Storage": "storage", "Volume": "storage",
    "SimpleStorage": "storage", "StoragePool": "storage", "NetworkInterface": "network",
    "EthernetInterface": "network", "NetworkDeviceFunction": "network",
}
CLASS_KINDS: t.Final = {
    "DisplayController": "gpu", "ProcessingAccelerators": "gpu", "Coprocessor": "gpu", "Processor": "fpga",
    "MemoryController": "memory", "MassStorageController": "storage", "NetworkController": "network",
}
# An endpoint may represent several things, such as a GPU, its memory and their device.
ENTITY_ORDER: t.Final = (
    "Processor", "AccelerationFunction", "MemoryChunk", "Memory", "Drive", "Volume", "StorageSubsystem",
    "NetworkController", "PCIeDevice", "CXLDevice",
)
_HEALTHS: t.Final = ("Critical", "Warning", "OK")
_CHASSIS: t.Final = "/redfish/v1/Chassis/"
_GONE: t.Final = frozenset({"Absent", "Disabled", "UnavailableOffline", "InTest", "Updating", "Quiesced"})


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits of a device. An empty ``kind`` means that it cannot be composed."""

    kind: str
    model: str
    size: int | None = None
    serial: str | None = None


def entity_uris(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the links of a target endpoint, the most specific link first.

    A switch or an initiator has none.
    """
    found = [e for e in endpoint.entities() if e.role != "Initiator" and e.entity_type in ENTITY_ORDER and e.target]
    found.sort(key=lambda entity: ENTITY_ORDER.index(entity.entity_type or ""))
    return tuple(entity.target for entity in found if entity.target)


def entity_links(endpoint: Endpoint) -> dict[str, set[str]]:
    """Return the links of ``entity_uris`` by their EntityType."""
    found: dict[str, set[str]] = {}
    named = set(entity_uris(endpoint))
    for entity in endpoint.entities():
        if entity.entity_type and entity.target in named:
            found.setdefault(entity.entity_type, set()).add(str(entity.target))
    return found


def is_machine(block: ResourceBlock) -> bool:
    """Return whether a block is a machine, or a machine's own processors and memory."""
    return bool(MACHINE_BLOCKS & set(block.types) or block.own_systems)


def holds_cpus(parts: Sequence[Part]) -> bool:
    """Return whether all parts are CPUs. Then their block belongs to a machine."""
    return bool(parts) and all(part.processor_type == "CPU" for part in parts)


def block_uris(block: ResourceBlock) -> tuple[str, ...]:
    """Return the links in the most specific list of a block that is not empty."""
    return next((found for name in BLOCK_LISTS if (found := block.within(name))), ())


def further_uris(part: Part) -> tuple[str, ...]:
    """Return links to resources that may show the kind or model of a part.

    They are the media of a memory chunk and the functions of a device.
    """
    media = (link(entry.get("Memory")) for entry in part.interleaves)
    return tuple(dict.fromkeys(uri for uri in (*media, part.functions) if uri))


def traits(parts: Sequence[Part], types: Iterable[str] = ()) -> Traits:
    """Return the traits of a block or an endpoint.

    ``parts`` are its parts, and ``types`` are the types of the block.

    Several GPUs are one device. Parts of the device's kind come first. An adapter around them may
    supply what they leave out.
    """
    found = (*map(kind_of, parts), *(BLOCK_KINDS.get(name, "") for name in types))
    kind = next((kind for kind in found if kind), "")
    alike = [part for part in parts if kind_of(part) == kind]
    telling = [*alike, *(part for part in parts if part not in alike)]
    size = _size(alike) if kind == "memory" else None
    serial = next((number for part in telling if (number := serial_of(part, kind))), None)
    return Traits(kind, _model_name(kind, alike, telling, size), size, serial)


def _model_name(kind: str, alike: Sequence[Part], telling: Sequence[Part], size: int | None) -> str:
    """Return the model of a part, or a generic name, with a count for several processors."""
    model = next((name for part in telling if (name := part.model or part.part_number)), None)
    named = model or _generic(next((part.processor_type for part in alike if part.processor_type), kind), size)
    many = sum(part.processor_type is not None for part in alike)
    return f"{many}x {named}" if many > 1 else named


def kind_of(part: Part) -> str:
    """Return ``gpu``, ``fpga``, ``memory`` and so on, or empty for an unknown part or a CPU."""
    if part.processor_type is not None:
        return PROCESSOR_KINDS.get(part.processor_type, "")
    if part.chunk_size is not None:
        return "memory"
    return TYPE_KINDS.get(part.type_name()) or CLASS_KINDS.get(part.device_class or "", "")


def serial_of(part: Part, kind: str) -> str | None:
    """Return the serial number that the node sees.

    NVIDIA's driver shows a GPU by its UUID, and other devices have a serial number.
    """
    nvidia = kind == "gpu" and "nvidia" in (part.manufacturer or "").lower()
    if nvidia and part.uuid and not (part.serial or "").startswith("GPU-"):
        return f"GPU-{part.uuid}"
    return part.serial or part.uuid


def box_of(resources: Sequence[Part | ResourceBlock]) -> str | None:
    """Return the Id of the chassis of the first resource with a link to one.

    Return None if it links to several. Without links, use the chassis in a resource's path. The Id
    is the last segment of a chassis' path (DSP0266), so the chassis need not be read.
    """
    linked = next((resource.chassis for resource in resources if resource.chassis), None)
    if linked:
        return linked[0].rpartition("/")[2] if len(linked) == 1 else None
    paths = (resource.uri.removeprefix(_CHASSIS).split("/") for resource in resources
             if resource.uri.startswith(_CHASSIS))
    return next((path[0] for path in paths if len(path) > 1), None)


def worst(*statuses: Status) -> str:
    """Return the worst health of the statuses, or Unknown."""
    told = {status.health or status.rollup for status in statuses}
    return next((health for health in _HEALTHS if health in told), "Unknown")


def graver(one: str, other: str) -> str:
    """Return the worse of two healths."""
    return next((health for health in _HEALTHS if health in (one, other)), "Unknown")


def is_gone(*statuses: Status) -> bool:
    """Return whether a status shows that the resource cannot be used now."""
    return any(status.state in _GONE for status in statuses)


def _size(parts: Iterable[Part]) -> int | None:
    """Return the MiB of all chunks, or else of all memory. A chunk's media may be larger."""
    found = list(parts)
    chunks = [part.chunk_size for part in found if part.chunk_size]
    return sum(chunks or [part.capacity or 0 for part in found]) or None


def _generic(kind: str, size: int | None) -> str:
    """Return a generic model, so that equal devices without a model can replace each other."""
    return f"{kind}-{size}MiB" if size else kind
