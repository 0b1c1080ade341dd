# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a composable part is: kind, model, size, serial number and health, read from the resources it is made of."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .fields import link
from .resources import Endpoint, Part, ResourceBlock, Status

# Blocks of these types are a machine's own: what is composed is added to them.
MACHINE_BLOCKS: t.Final = frozenset({"Compute", "ComputerSystem"})
# Where a block lists what it holds, most telling first.
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
# An endpoint may stand for several things at once: a GPU, its memory, and the device that carries both.
ENTITY_ORDER: t.Final = (
    "Processor", "AccelerationFunction", "MemoryChunk", "Memory", "Drive", "Volume", "StorageSubsystem",
    "NetworkController", "PCIeDevice", "CXLDevice",
)
_HEALTHS: t.Final = ("Critical", "Warning", "OK")
_CHASSIS: t.Final = "/redfish/v1/Chassis/"
_GONE: t.Final = frozenset({"Absent", "Disabled", "UnavailableOffline", "InTest", "Updating", "Quiesced"})


@dataclass(frozen=True, slots=True)
class Traits:
    """``kind`` empty: nothing that can be composed."""

    kind: str
    model: str
    size: int | None = None
    serial: str | None = None


def entity_uris(endpoint: Endpoint) -> tuple[str, ...]:
    """Links of what a target endpoint stands for, most telling first; none for a switch or an initiator."""
    found = [e for e in endpoint.entities() if e.role != "Initiator" and e.entity_type in ENTITY_ORDER and e.target]
    found.sort(key=lambda entity: ENTITY_ORDER.index(entity.entity_type or ""))
    return tuple(entity.target for entity in found if entity.target)


def entity_links(endpoint: Endpoint) -> dict[str, set[str]]:
    """The links of ``entity_uris`` by their EntityType."""
    found: dict[str, set[str]] = {}
    named = set(entity_uris(endpoint))
    for entity in endpoint.entities():
        if entity.entity_type and entity.target in named:
            found.setdefault(entity.entity_type, set()).add(str(entity.target))
    return found


def is_machine(block: ResourceBlock) -> bool:
    """Whether a block is a machine, or a machine's own processors and memory."""
    return bool(MACHINE_BLOCKS & set(block.types) or block.own_systems)


def holds_cpus(parts: Sequence[Part]) -> bool:
    """Whether parts are a machine's CPUs: then their block is the machine's own, also if it tells no type."""
    return bool(parts) and all(part.processor_type == "CPU" for part in parts)


def block_uris(block: ResourceBlock) -> tuple[str, ...]:
    """Links of what a block holds, of the most telling list that is not empty."""
    return next((found for name in BLOCK_LISTS if (found := block.within(name))), ())


def further_uris(part: Part) -> tuple[str, ...]:
    """Where a part's kind or model is told when it does not tell itself: media of a chunk, functions of a device."""
    media = (link(entry.get("Memory")) for entry in part.interleaves)
    return tuple(dict.fromkeys(uri for uri in (*media, part.functions) if uri))


def traits(parts: Sequence[Part], types: Iterable[str] = ()) -> Traits:
    """Of a block or an endpoint: ``parts`` it is about, ``types`` of the block. Several GPUs are one thing.

    The parts of its kind tell first what it is; an adapter around them may tell what they leave out.
    """
    found = (*map(kind_of, parts), *(BLOCK_KINDS.get(name, "") for name in types))
    kind = next((kind for kind in found if kind), "")
    alike = [part for part in parts if kind_of(part) == kind]
    telling = [*alike, *(part for part in parts if part not in alike)]
    size = _size(alike) if kind == "memory" else None
    serial = next((number for part in telling if (number := serial_of(part, kind))), None)
    return Traits(kind, _model_name(kind, alike, telling, size), size, serial)


def _model_name(kind: str, alike: Sequence[Part], telling: Sequence[Part], size: int | None) -> str:
    """The model that a part tells, else what is known in general; with a number where there are several processors."""
    model = next((name for part in telling if (name := part.model or part.part_number)), None)
    named = model or _generic(next((part.processor_type for part in alike if part.processor_type), kind), size)
    many = sum(part.processor_type is not None for part in alike)
    return f"{many}x {named}" if many > 1 else named


def kind_of(part: Part) -> str:
    """``gpu``, ``fpga``, ``memory``, …; empty for what is not known and for a CPU."""
    if part.processor_type is not None:
        return PROCESSOR_KINDS.get(part.processor_type, "")
    if part.chunk_size is not None:
        return "memory"
    return TYPE_KINDS.get(part.type_name()) or CLASS_KINDS.get(part.device_class or "", "")


def serial_of(part: Part, kind: str) -> str | None:
    """What the node sees: NVIDIA's driver shows a GPU by its UUID, everything else by its serial number."""
    nvidia = kind == "gpu" and "nvidia" in (part.manufacturer or "").lower()
    if nvidia and part.uuid and not (part.serial or "").startswith("GPU-"):
        return f"GPU-{part.uuid}"
    return part.serial or part.uuid


def box_of(resources: Sequence[Part | ResourceBlock]) -> str | None:
    """Id of the chassis that the first resource which links to any is in; what is spread over several is in none.

    Without links it is the chassis that one is subordinate to, by its path. The Id is the last segment of a chassis'
    path (DSP0266), so it need not be read.
    """
    linked = next((resource.chassis for resource in resources if resource.chassis), None)
    if linked:
        return linked[0].rpartition("/")[2] if len(linked) == 1 else None
    paths = (resource.uri.removeprefix(_CHASSIS).split("/") for resource in resources
             if resource.uri.startswith(_CHASSIS))
    return next((path[0] for path in paths if len(path) > 1), None)


def worst(*statuses: Status) -> str:
    """The worst health that any of some statuses tells; Unknown when none does."""
    told = {status.health or status.rollup for status in statuses}
    return next((health for health in _HEALTHS if health in told), "Unknown")


def graver(one: str, other: str) -> str:
    """The worse of two healths."""
    return next((health for health in _HEALTHS if health in (one, other)), "Unknown")


def is_gone(*statuses: Status) -> bool:
    """Whether a status says that the thing cannot be used now."""
    return any(status.state in _GONE for status in statuses)


def _size(parts: Iterable[Part]) -> int | None:
    """MiB of all chunks, else of all memory: a chunk's media may be larger than the chunk."""
    found = list(parts)
    chunks = [part.chunk_size for part in found if part.chunk_size]
    return sum(chunks or [part.capacity or 0 for part in found]) or None


def _generic(kind: str, size: int | None) -> str:
    """Things without a model that are alike get the same name, so that one can stand in for the other."""
    return f"{kind}-{size}MiB" if size else kind
