# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish documents in memory, answered as a Session answers: no sockets, no time."""

from __future__ import annotations

import json
import types
import typing as t
import zlib
from collections.abc import Callable, Iterable
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError, Missing
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session

ROOT = "/redfish/v1"
SYSTEMS, BLOCKS = f"{ROOT}/Systems", f"{ROOT}/CompositionService/ResourceBlocks"
ZONES, PARTS = f"{ROOT}/CompositionService/ResourceZones", f"{ROOT}/Chassis/box/Processors"
FABRIC = f"{ROOT}/Fabrics/1"
UUIDS = {name: f"00000000-0000-4000-8000-{n:012}" for n, name in enumerate(("m0", "m1", "m2"))}

Json = dict[str, t.Any]
Reaction = Callable[["FakeService", Request], JsonResponse]


class FakeService:
    """``documents`` by path; ``react`` answers what is no GET. Stands in for a Session."""

    def __init__(self, documents: Json, react: Reaction | None = None) -> None:
        self.documents = documents
        self.react = react
        self.etags = True
        self.calls: list[Request] = []
        self.config = types.SimpleNamespace(endpoint="https://redfish.example", attach_timeout=5.0)

    def as_session(self) -> Session:
        """For whoever wants a Session."""
        return t.cast(Session, self)

    def redact(self, text: str) -> str:
        """Nothing is secret here."""
        return text

    def call(self, call: Request) -> JsonResponse:
        """One request."""
        self.calls.append(call)
        if call.method != "GET":
            assert self.react is not None, f"nobody expected {call.method} {call.path}"
            return self.react(self, call)
        return self.get(call.path)

    def get(self, path: str) -> JsonResponse:
        """A document with its ETag, or an error of status 404."""
        parts = urlsplit(path)
        body = self.documents.get(path) or self.documents.get(parts.path.rstrip("/") or path)
        if isinstance(body, FabricError):
            raise body
        if body is None:
            error = Missing(f"{path} is not there")
            error.status = 404
            raise error
        if "$skip" in parse_qs(parts.query):
            return JsonResponse(200, {}, self.documents[path])
        return JsonResponse(200, {"etag": etag(body)} if self.etags else {}, body)

    def asked(self, method: str) -> list[Request]:
        """Requests by one method."""
        return [call for call in self.calls if call.method == method]

    def close(self) -> None:
        """Nothing to close."""


def etag(body: object) -> str:
    """Always the same for the same content."""
    return f'"{zlib.crc32(json.dumps(body, sort_keys=True).encode())}"'


def ref(path: str) -> Json:
    return {"@odata.id": path}


def refs(paths: Iterable[str]) -> list[Json]:
    return [ref(path) for path in paths]


def collection(path: str, names: Iterable[str]) -> Json:
    members = refs(f"{path}/{name}" for name in names)
    return {"@odata.id": path, "Members": members, "Members@odata.count": len(members)}


def root(**more: t.Any) -> Json:
    found = {name: ref(f"{ROOT}/{name}") for name in ("Systems", "CompositionService", "Fabrics")}
    return {"@odata.id": f"{ROOT}/", **found, **more}


def system(name: str, blocks: Iterable[str] = (), *, actions: bool = True, **more: t.Any) -> Json:
    body: Json = {
        "@odata.id": f"{SYSTEMS}/{name}", "Id": name, "Name": name, "UUID": UUIDS.get(name, name),
        "Links": {"ResourceBlocks": refs(f"{BLOCKS}/{block}" for block in blocks)},
    }
    if actions:
        target = f"{SYSTEMS}/{name}/Actions/ComputerSystem."
        body["Actions"] = {f"#ComputerSystem.{verb}ResourceBlock": {"target": f"{target}{verb}ResourceBlock"}
                           for verb in ("Add", "Remove")}
    return {**body, **more}


def machine_block(name: str, zone: str | None = "1") -> Json:
    return {
        "@odata.id": f"{BLOCKS}/{name}", "Id": name, "ResourceBlockType": ["ComputerSystem"],
        "ComputerSystems": refs([f"{SYSTEMS}/{name}"]), "CompositionStatus": {"CompositionState": "Composed"},
        "Links": {"Zones": refs([f"{ZONES}/{zone}"] if zone else [])},
    }


def block(name: str, state: str = "Unused", on: Iterable[str] = (), zone: str = "1", **more: t.Any) -> Json:
    return {
        "@odata.id": f"{BLOCKS}/{name}", "Id": name, "Name": f"block {name}", "ResourceBlockType": ["Processor"],
        "CompositionStatus": {"CompositionState": state, "Reserved": False}, "Status": {"Health": "OK"},
        "Processors": refs([f"{PARTS}/{name}"]),
        "Links": {"ComputerSystems": refs(f"{SYSTEMS}/{one}" for one in on), "Zones": refs([f"{ZONES}/{zone}"])},
        **more,
    }


def gpu(name: str, **more: t.Any) -> Json:
    return {
        "@odata.id": f"{PARTS}/{name}", "@odata.type": "#Processor.v1_22_0.Processor", "Id": name, "Model": "A100",
        "ProcessorType": "GPU", "SerialNumber": f"serial-{name}", **more,
    }


def composable(blocks: Iterable[Json], systems: Iterable[Json] | None = None, **more: t.Any) -> Json:
    """A service with machines m0 and m1 in zone 1, and these blocks with a GPU each."""
    found = list(blocks)
    machines = list(systems) if systems is not None else [system(name, [name]) for name in ("m0", "m1")]
    names = [machine["Id"] for machine in machines]
    every = [*(machine_block(name) for name in names), *found]
    documents: Json = {
        ROOT: root(Fabrics=None), SYSTEMS: collection(SYSTEMS, names), ZONES: collection(ZONES, ["1"]),
        f"{ROOT}/CompositionService": {"ResourceBlocks": ref(BLOCKS), "ResourceZones": ref(ZONES)},
        BLOCKS: collection(BLOCKS, [entry["Id"] for entry in every]),
        f"{ZONES}/1": {"@odata.id": f"{ZONES}/1", "Id": "1",
                       "Links": {"ResourceBlocks": refs(entry["@odata.id"] for entry in every)}},
    }
    documents |= {entry["@odata.id"]: entry for entry in (*machines, *every)}
    documents |= {f"{PARTS}/{entry['Id']}": gpu(entry["Id"]) for entry in found}
    return {**documents, **more}


def endpoint(name: str, entity: str, role: str, kind: str = "Processor", **links: t.Any) -> Json:
    entities = [{"EntityType": kind, "EntityRole": role, "EntityLink": ref(entity)}]
    return {"@odata.id": f"{FABRIC}/Endpoints/{name}", "Id": name, "ConnectedEntities": entities, "Links": links}


def switched(connections: Iterable[Json] | None, zones: dict[str, list[str]], targets: Iterable[str]) -> Json:
    """A service with a fabric: machines m0 and m1 as initiators i0 and i1, GPUs as targets."""
    names, devices = ("m0", "m1"), list(targets)
    points = [endpoint(f"i{n}", f"{SYSTEMS}/{name}", "Initiator", "RootComplex") for n, name in enumerate(names)]
    points += [endpoint(name, f"{PARTS}/{name}", "Target") for name in devices]
    fabric: Json = {"@odata.id": FABRIC, "Id": "1", "Endpoints": ref(f"{FABRIC}/Endpoints"),
                    "Zones": ref(f"{FABRIC}/Zones")}
    documents: Json = {
        ROOT: root(CompositionService=None), SYSTEMS: collection(SYSTEMS, names),
        f"{ROOT}/Fabrics": collection(f"{ROOT}/Fabrics", ["1"]), FABRIC: fabric,
        f"{FABRIC}/Endpoints": collection(f"{FABRIC}/Endpoints", [p["Id"] for p in points]),
        f"{FABRIC}/Zones": collection(f"{FABRIC}/Zones", zones),
    }
    if connections is not None:
        found = list(connections)
        fabric["Connections"] = ref(f"{FABRIC}/Connections")
        documents[f"{FABRIC}/Connections"] = collection(f"{FABRIC}/Connections", [c["Id"] for c in found])
        documents |= {connection["@odata.id"]: connection for connection in found}
    documents |= {f"{SYSTEMS}/{name}": system(name, actions=False) for name in names}
    documents |= {entry["@odata.id"]: entry for entry in points}
    documents |= {f"{PARTS}/{name}": gpu(name) for name in devices}
    documents |= {f"{FABRIC}/Zones/{name}": zone(name, members) for name, members in zones.items()}
    return documents


def zone(name: str, members: Iterable[str]) -> Json:
    return {"@odata.id": f"{FABRIC}/Zones/{name}", "Id": name,
            "Links": {"Endpoints": refs(f"{FABRIC}/Endpoints/{member}" for member in members)}}


def connection(name: str, initiators: Iterable[str], targets: Iterable[str]) -> Json:
    where = f"{FABRIC}/Endpoints"
    return {"@odata.id": f"{FABRIC}/Connections/{name}", "Id": name,
            "Links": {"InitiatorEndpoints": refs(f"{where}/{one}" for one in initiators),
                      "TargetEndpoints": refs(f"{where}/{one}" for one in targets)}}


def grouped(name: str, initiators: str, targets: str) -> Json:
    """A connection between two endpoint groups, as Connection 1.0 allows in place of endpoints."""
    where = f"{FABRIC}/EndpointGroups"
    return {"@odata.id": f"{FABRIC}/Connections/{name}", "Id": name,
            "Links": {"InitiatorEndpointGroups": refs([f"{where}/{initiators}"]),
                      "TargetEndpointGroups": refs([f"{where}/{targets}"])}}


def group(name: str, members: Iterable[str]) -> Json:
    """An endpoint group by its path."""
    path = f"{FABRIC}/EndpointGroups/{name}"
    body = {"@odata.id": path, "Id": name, "Endpoints": refs(f"{FABRIC}/Endpoints/{one}" for one in members)}
    return {path: body}
