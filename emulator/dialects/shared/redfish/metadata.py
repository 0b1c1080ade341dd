# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OData documents of a Redfish service, with its types and its entry points."""

from __future__ import annotations

import typing as t

from .documents import ROOT, Json

TYPES: t.Final = {
    "ServiceRoot": "v1_20_0", "ComputerSystem": "v1_27_0", "Chassis": "v1_28_0", "Session": "v1_8_0",
    "SessionService": "v1_2_0", "TaskService": "v1_3_0", "Task": "v1_7_4", "Message": "v1_3_0",
    "CompositionService": "v1_2_3", "ResourceBlock": "v1_4_3", "Zone": "v1_6_3", "Fabric": "v1_4_0",
    "Switch": "v1_11_0", "Endpoint": "v1_8_2", "Connection": "v1_4_0", "Processor": "v1_22_0", "Memory": "v1_23_0",
    "MemoryDomain": "v1_5_1", "MemoryChunks": "v1_6_2", "Port": "v1_18_0",
}


def metadata() -> str:
    """Return ``$metadata``, with a reference for each type."""
    includes = "".join(map(_reference, TYPES))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" '
        f'Version="4.0">{includes}<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" '
        'Namespace="Service"><EntityContainer Name="Service" Extends="ServiceRoot.v1_20_0.ServiceContainer"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )


def service_document(root: Json) -> Json:
    """Return ``odata``, with the service root and its links."""
    parts = {name: value for name, value in root.items() if isinstance(value, dict) and "@odata.id" in value}
    named = {"Service": f"{ROOT}/", **{name: value["@odata.id"] for name, value in parts.items()}}
    value = [{"name": name, "kind": "Singleton", "url": path} for name, path in named.items()]
    return {"@odata.context": f"{ROOT}/$metadata", "value": value}


def _reference(name: str) -> str:
    uri = f"http://redfish.dmtf.org/schemas/v1/{name}"
    version = TYPES[name]
    both = f'<edmx:Include Namespace="{name}"/><edmx:Include Namespace="{name}.{version}"/>'
    listed = f'<edmx:Include Namespace="{name}Collection"/>'
    return (
        f'<edmx:Reference Uri="{uri}_v1.xml">{both}</edmx:Reference>'
        f'<edmx:Reference Uri="{uri}Collection_v1.xml">{listed}</edmx:Reference>'
    )
