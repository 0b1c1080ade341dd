# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of fabrics and boxes, such as switches, endpoints, connections, zones and memory
domains.
"""

from __future__ import annotations

from ....pool.parts import MEMORY
from ....pool.pool import PooledDevice
from . import ports
from .documents import ROOT, Documents, Json, box_path, fabric_path, part_path, ref, refs, status, system_path


def fabric(docs: Documents, number: int) -> Json:
    """Return a fabric."""
    collections = ["Switches", "Endpoints", "Zones", *(["Connections"] if docs.connects() else [])]
    return {
        "@odata.type": "#Fabric.v1_4_0.Fabric", "Id": str(number), "Name": f"Fabric {number}", "FabricType": "PCIe",
        "Status": status(), **{name: ref(fabric_path(number, f"/{name}")) for name in collections},
    }


def switch(docs: Documents, number: int, ident: str) -> Json | None:
    """Return a switch of a fabric."""
    found = next((s for s in docs.context.spec.topology.switches if (s.id, s.fabric) == (ident, number)), None)
    if found is None:
        return None
    return {
        "@odata.type": "#Switch.v1_11_0.Switch", "Id": ident, "Name": found.name, "SwitchType": "PCIe",
        "SupportedProtocols": ["PCIe"], "Status": status(), "Ports": ref(ports.path(found)),
    }


def port(docs: Documents, number: int, switch_id: str, place: str) -> Json | None:
    """Return a port of a switch."""
    def there(uid: str) -> bool:
        machine, device = docs.pool.machines.get(uid), docs.device(uid)
        return number in (machine and machine.fabric, device and device.spec.fabric)

    return docs.ports.port(number, switch_id, place, there)


def endpoint(docs: Documents, number: int, uid: str) -> Json | None:
    """Return the endpoint of a machine (initiator) or of a device (target)."""
    machine = docs.pool.machines.get(uid)
    if machine is not None and machine.fabric == number:
        entity = {"EntityType": "RootComplex", "EntityRole": "Initiator", "EntityLink": ref(system_path(uid))}
        return _endpoint(docs, number, uid, machine.name, [entity], zones=_zone_of_initiator(docs, number, uid))
    device = docs.device(uid)
    if device is None or device.spec.fabric != number:
        return None
    body = _endpoint(docs, number, uid, device.spec.name, _entities(device), _zones_of(docs, device))
    return {**body, "Status": status(device.health)}


def _endpoint(docs: Documents, number: int, uid: str, name: str, entities: list[Json], zones: list[str]) -> Json:
    links: Json = {"Zones": refs(zones), "ConnectedPorts": refs(docs.ports.of_endpoint(uid))}
    if docs.connects():
        target = docs.device(uid)
        has = docs.pool.shown(uid) if target is None else [target] if docs.is_composed(target) else []
        links["Connections"] = refs(fabric_path(number, f"/Connections/{device.spec.uid}") for device in has)
    return {
        "@odata.type": "#Endpoint.v1_8_2.Endpoint", "Id": uid, "Name": name, "EndpointProtocol": "PCIe",
        "Identifiers": [{"DurableName": uid, "DurableNameFormat": "UUID"}], "ConnectedEntities": entities,
        "Links": links,
    }


def _entities(device: PooledDevice) -> list[Json]:
    """Return the entities of a device, a processor, or a chunk of memory with its memory."""
    entities = {"Memory" if device.kind == MEMORY else "Processor": part_path(device)}
    if device.kind == MEMORY:
        entities = {"MemoryChunk": chunk_path(device), **entities}
    return [
        {"EntityType": kind, "EntityRole": "Target", "EntityLink": ref(path)} for kind, path in entities.items()
    ]


def domain_path(device: PooledDevice) -> str:
    """Return the path of a memory device's memory domain."""
    return f"{box_path(device)}/MemoryDomains/{device.spec.uid}"


def chunk_path(device: PooledDevice) -> str:
    """Return the path of a memory device's only chunk."""
    return f"{domain_path(device)}/MemoryChunks/1"


def domain(docs: Documents, device: PooledDevice) -> Json:
    """Return a memory domain."""
    return {
        "@odata.type": "#MemoryDomain.v1_5_1.MemoryDomain", "Id": device.spec.uid, "Name": device.spec.name,
        "MemorySizeMiB": device.spec.size, "AllowsMemoryChunkCreation": False, "Status": status(device.health),
        "MemoryChunks": ref(f"{domain_path(device)}/MemoryChunks"),
    }


def chunk(docs: Documents, device: PooledDevice) -> Json:
    """Return a memory chunk."""
    return {
        "@odata.type": "#MemoryChunks.v1_6_2.MemoryChunks", "Id": "1", "Name": device.spec.name,
        "MemoryChunkSizeMiB": device.spec.size, "AddressRangeType": "Volatile", "Status": status(device.health),
        "Links": {"Endpoints": refs([fabric_path(device.spec.fabric, f"/Endpoints/{device.spec.uid}")]
                                    if docs.options.fabrics else [])},
    }


def box(docs: Documents, ident: str) -> Json | None:
    """Return a chassis of devices."""
    found = next((b for b in docs.context.spec.topology.boxes if b.id == ident), None)
    if found is None:
        return None
    where = f"{ROOT}/Chassis/{ident}"
    return {
        "@odata.type": "#Chassis.v1_28_0.Chassis", "Id": ident, "Name": found.name, "ChassisType": "Expansion",
        "Status": status(), "Processors": ref(f"{where}/Processors"), "Memory": ref(f"{where}/Memory"),
        "MemoryDomains": ref(f"{where}/MemoryDomains"),
    }


def connection(docs: Documents, number: int, uid: str) -> Json | None:
    """Return the connection between a device and its machine, with the device's uid as Id."""
    device = docs.device(uid)
    if device is None or device.spec.fabric != number or not docs.is_composed(device):
        return None
    body: Json = {
        "@odata.type": "#Connection.v1_4_0.Connection", "Id": uid, "Name": device.spec.name, "Status": status(),
        "Links": {
            "InitiatorEndpoints": [ref(fabric_path(number, f"/Endpoints/{device.machine}"))],
            "TargetEndpoints": [ref(fabric_path(number, f"/Endpoints/{uid}"))],
        },
    }
    if device.kind == MEMORY:
        access = {"AccessCapabilities": ["Read", "Write"], "MemoryChunk": ref(chunk_path(device))}
        body |= {"ConnectionType": "Memory", "MemoryChunkInfo": [access]}
    return body


def zone(docs: Documents, number: int, ident: str) -> Json | None:
    """Return a zone.

    With connections, it has all endpoints of a fabric. Without them, it has a machine and its
    devices.
    """
    if docs.connects():
        uids = [*(m.uid for m in docs.machines(number)), *(d.spec.uid for d in docs.devices(number))]
        return _zone(number, ident, f"Fabric {number}", uids) if ident == str(number) else None
    machine = docs.pool.machines.get(ident)
    if machine is None or machine.fabric != number:
        return None
    return _zone(number, ident, machine.name, [ident, *(d.spec.uid for d in docs.pool.shown(ident))])


def zone_idents(docs: Documents, number: int) -> list[str]:
    """Return the ids of a fabric's zones."""
    return [str(number)] if docs.connects() else [machine.uid for machine in docs.machines(number)]


def _zone(number: int, ident: str, name: str, uids: list[str]) -> Json:
    links = {"Endpoints": refs(fabric_path(number, f"/Endpoints/{uid}") for uid in uids)}
    return {
        "@odata.type": "#Zone.v1_6_3.Zone", "Id": ident, "Name": name, "ZoneType": "ZoneOfEndpoints",
        "Status": status(), "Links": links,
    }


def _zone_of_initiator(docs: Documents, number: int, uid: str) -> list[str]:
    return [fabric_path(number, f"/Zones/{number if docs.connects() else uid}")]


def _zones_of(docs: Documents, device: PooledDevice) -> list[str]:
    number = device.spec.fabric
    if docs.connects():
        return [fabric_path(number, f"/Zones/{number}")]
    return [fabric_path(number, f"/Zones/{device.machine}")] if docs.is_composed(device) else []
