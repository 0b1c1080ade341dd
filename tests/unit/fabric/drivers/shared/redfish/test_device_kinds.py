# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a composable part is: kind, model, size, serial number, health."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish import device_kinds
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.device_kinds import Traits
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.resources import (
    Endpoint,
    Part,
    ResourceBlock,
    Status,
)


def part(kind: str, **fields: t.Any) -> Part:
    return Part({"@odata.type": f"#{kind}.v1_0_0.{kind}", **fields})


def processor(kind: str, **fields: t.Any) -> Part:
    return part("Processor", ProcessorType=kind, **fields)


@pytest.mark.parametrize(("made", "kind"), [
    (processor("GPU"), "gpu"), (processor("Accelerator"), "gpu"), (processor("FPGA"), "fpga"), (processor("CPU"), ""),
    (processor("NewThing"), ""), (part("Memory", CapacityMiB=1), "memory"), (part("MemoryChunks"), "memory"),
    (Part({"MemoryChunkSizeMiB": 1}), "memory"), (part("Drive"), "storage"), (part("Storage"), "storage"),
    (part("EthernetInterface"), "network"), (part("PCIeFunction", DeviceClass="DisplayController"), "gpu"),
    (part("PCIeFunction", DeviceClass="ProcessingAccelerators"), "gpu"),
    (part("PCIeFunction", DeviceClass="MemoryController"), "memory"), (part("PCIeDevice"), ""), (Part(None), ""),
])
def test_kinds(made: Part, kind: str) -> None:
    assert device_kinds.kind_of(made) == kind


def inside(*chassis: str, listed: bool = True) -> dict[str, t.Any]:
    found = [{"@odata.id": f"/redfish/v1/Chassis/{name}"} for name in chassis]
    return {"Links": {"Chassis": found if listed else found[0]}}


@pytest.mark.parametrize(("resources", "box"), [
    ([processor("GPU", **inside("box-a", listed=False))], "box-a"),
    ([part("PCIeDevice", **inside("box-a"))], "box-a"),
    ([processor("GPU"), ResourceBlock(inside("box-b"))], "box-b"),
    ([processor("GPU", **inside("box-a", listed=False)), ResourceBlock(inside("box-b"))], "box-a"),
    ([processor("GPU"), ResourceBlock(inside("box-a", "box-b"))], None),
    ([processor("GPU", Links={"Chassis": "nothing"}), ResourceBlock({"Links": []})], None),
    ([Part({}, "/redfish/v1/Chassis/box-a/Processors/1")], "box-a"),
    ([Part({}, "/redfish/v1/Chassis/box-a/Processors/1"), ResourceBlock(inside("box-b"))], "box-b"),
    ([Part({}, "/redfish/v1/Chassis/box-a"), Part({}, "/redfish/v1/Systems/1/Processors/1")], None),
    ([], None),
])
def test_box(resources: list[Part | ResourceBlock], box: str | None) -> None:
    assert device_kinds.box_of(resources) == box


@pytest.mark.parametrize(("parts", "traits"), [
    ([processor("GPU", Model="A100", SerialNumber="s")], Traits("gpu", "A100", None, "s")),
    ([processor("GPU", PartNumber="900-1")], Traits("gpu", "900-1")),
    ([processor("GPU")], Traits("gpu", "GPU")),
    ([processor("GPU", Model="A100")] * 4, Traits("gpu", "4x A100")),
    ([processor("CPU", Model="Xeon"), processor("GPU", Model="A100")], Traits("gpu", "A100")),
    ([part("Memory", CapacityMiB=1024, Model="DIMM")] * 2, Traits("memory", "DIMM", 2048)),
    ([part("MemoryChunks", MemoryChunkSizeMiB=64)], Traits("memory", "memory-64MiB", 64)),
    ([part("MemoryChunks", MemoryChunkSizeMiB=64), part("Memory", CapacityMiB=512, Model="CXL-1")],
     Traits("memory", "CXL-1", 64)),
    ([part("PCIeDevice", Model="A100", SerialNumber="s"), part("PCIeFunction", DeviceClass="DisplayController"),
      part("PCIeFunction", DeviceClass="DisplayController")], Traits("gpu", "A100", None, "s")),
    ([part("Drive", Model="D")], Traits("storage", "D")),
    ([], Traits("", "")),
])
def test_traits(parts: list[Part], traits: Traits) -> None:
    assert device_kinds.traits(parts) == traits


def test_the_type_of_a_block_helps_when_its_parts_cannot_be_read() -> None:
    assert device_kinds.traits([], ["Storage"]) == Traits("storage", "storage")
    assert device_kinds.traits([], ["Expansion"]).kind == ""


@pytest.mark.parametrize(("fields", "serial"), [
    ({"Manufacturer": "NVIDIA", "UUID": "37596f04-b032-48ce-9bad-7d55a61fe574", "SerialNumber": "board"},
     "GPU-37596f04-b032-48ce-9bad-7d55a61fe574"),
    ({"Manufacturer": "NVIDIA Corporation", "SerialNumber": "GPU-1", "UUID": "37596f04-b032-48ce-9bad-7d55a61fe574"},
     "GPU-1"),
    ({"Manufacturer": "Contoso", "UUID": "37596f04-b032-48ce-9bad-7d55a61fe574", "SerialNumber": "s"}, "s"),
    ({"UUID": "37596f04-b032-48ce-9bad-7d55a61fe574"}, "37596f04-b032-48ce-9bad-7d55a61fe574"), ({}, None),
])
def test_the_serial_number_is_what_the_node_sees(fields: dict[str, str], serial: str | None) -> None:
    assert device_kinds.serial_of(processor("GPU", **fields), "gpu") == serial


def test_a_block_is_what_its_most_telling_list_holds() -> None:
    body = {"ResourceBlockType": ["Processor"], "Memory": [{"@odata.id": "/m"}], "Processors": [{"@odata.id": "/p"}]}
    assert device_kinds.block_uris(ResourceBlock(body)) == ("/p",)
    assert device_kinds.block_uris(ResourceBlock({"Processors": [], "Drives": [{"@odata.id": "/d"}]})) == ("/d",)
    assert device_kinds.block_uris(ResourceBlock({})) == ()


@pytest.mark.parametrize(("body", "machine"), [
    ({"ResourceBlockType": ["Compute"]}, True), ({"ResourceBlockType": ["Network", "ComputerSystem"]}, True),
    ({"ComputerSystems": [{"@odata.id": "/s"}]}, True), ({"ResourceBlockType": ["Processor"]}, False), ({}, False),
])
def test_machines_are_blocks_too(body: dict[str, t.Any], machine: bool) -> None:
    assert device_kinds.is_machine(ResourceBlock(body)) is machine


def test_an_endpoint_is_what_it_tells_most_of() -> None:
    def entity(kind: str, role: str, path: str) -> dict[str, t.Any]:
        return {"EntityType": kind, "EntityRole": role, "EntityLink": {"@odata.id": path}}

    entities = [entity("CXLDevice", "Target", "/c"), entity("MemoryChunk", "Target", "/m"),
                entity("Processor", "Target", "/p"), entity("Processor", "Initiator", "/i"),
                entity("Switch", "Target", "/s")]
    assert device_kinds.entity_uris(Endpoint({"ConnectedEntities": entities})) == ("/p", "/m", "/c")
    assert device_kinds.entity_uris(Endpoint({"ConnectedEntities": [entity("Switch", "Target", "/s")]})) == ()


def test_where_more_is_told() -> None:
    chunk = Part({"InterleaveSets": [{"Memory": {"@odata.id": "/m"}}, {"Memory": {"@odata.id": "/m"}}]})
    assert device_kinds.further_uris(chunk) == ("/m",)
    assert device_kinds.further_uris(Part({"PCIeFunctions": {"@odata.id": "/f"}})) == ("/f",)
    assert device_kinds.further_uris(Part({})) == ()


@pytest.mark.parametrize(("healths", "worst"), [
    (["OK", "Warning", "OK"], "Warning"), (["OK", "Critical"], "Critical"), (["OK"], "OK"), ([], "Unknown"),
    ([None, None], "Unknown"), (["odd"], "Unknown"), ([None, "OK"], "OK"),
])
def test_the_worst_health_counts(healths: list[str | None], worst: str) -> None:
    assert device_kinds.worst(*(Status({"Health": health}) for health in healths)) == worst


def test_health_of_what_it_holds_where_its_own_is_not_told() -> None:
    assert device_kinds.worst(Status({"HealthRollup": "Warning"})) == "Warning"
    assert device_kinds.worst(Status({"Health": "OK", "HealthRollup": "Critical"})) == "OK"
    assert device_kinds.graver("OK", "Warning") == "Warning"
    assert device_kinds.graver("Unknown", "Unknown") == "Unknown"
    assert device_kinds.is_gone(Status({"State": "Absent"}))
    assert not device_kinds.is_gone(Status({"State": "Enabled"}), Status(None))
