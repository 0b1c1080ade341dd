# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fault for attach or detach strikes zones, manifests and numbers too, where only the pool tells which it is."""

from __future__ import annotations

import asyncio
import typing as t

import pytest

from ansible_collections.composable.infra.emulator import machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.admin.request_log import RequestLog
from ansible_collections.composable.infra.emulator.context import EmulatorContext
from ansible_collections.composable.infra.emulator.credentials import Credentials
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.changes import purpose_of
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.options import Options
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.service import Service
from ansible_collections.composable.infra.emulator.dialects.sunfish import routes as sunfish
from ansible_collections.composable.infra.emulator.pool.fabric_spec import FabricSpec
from ansible_collections.composable.infra.emulator.pool.pool import DevicePool
from ansible_collections.composable.infra.emulator.tokens import Tokens

ROOT = "/redfish/v1"
NODE = machine_uuid("node-0")


def service(**settings: t.Any) -> Service:
    spec = FabricSpec.parse(simple_spec(["node-0"], {"GPU": 2}, attach=0.0, detach=0.0, managers=["redfish", "sunfish"],
                                        settings={"redfish": settings}))
    told = Credentials(spec.tenant, spec.realm, "client", "secret", {"admin": "word"})
    context = EmulatorContext(spec=spec, pool=DevicePool(spec), tokens=Tokens(told, b"key", 300.0), log=RequestLog())
    return Service(context, "redfish", Options.of(spec, "redfish", []), closed=True)


async def attached(pool: DevicePool) -> None:
    """The first device is on the node."""
    await pool.attach(NODE, "GPU", "gpu")


def zone(uids: list[str]) -> tuple[str, t.Any]:
    fabric = f"{ROOT}/Fabrics/1"
    links = [{"@odata.id": f"{fabric}/Endpoints/{uid}"} for uid in (NODE, *uids)]
    return f"{fabric}/Zones/{NODE}", {"Links": {"Endpoints": links}}


def manifest(uids: list[str]) -> tuple[str, t.Any]:
    links = [{"@odata.id": f"{ROOT}/CompositionService/ResourceBlocks/{uid}"} for uid in (NODE, *uids)]
    request = {"@odata.id": f"{ROOT}/Systems/{NODE}", "Links": {"ResourceBlocks": links}}
    stanza = {"StanzaType": "ComposeSystem", "Request": request}
    body = {"RequestFormat": "Manifest", "RequestType": "Apply", "Manifest": {"Stanzas": [stanza]}}
    return f"{ROOT}/CompositionService/Actions/CompositionService.Compose", body


@pytest.mark.parametrize(("dialect", "ask"), [("Zones", zone), ("Compose", manifest)])
def test_by_what_it_would_change(dialect: str, ask: t.Callable[[list[str]], tuple[str, t.Any]]) -> None:
    made = service(dialects=[dialect])
    pool = made.context.pool
    first, second = pool.devices
    told = [purpose_of(made.docs, *ask([first]))]
    asyncio.run(attached(pool))
    told += [purpose_of(made.docs, *ask(uids)) for uids in ([first], [first, second], [])]
    assert told == ["attach", "change", "attach", "detach"]


def test_what_is_not_valid_is_neither() -> None:
    made = service(dialects=["Zones"])
    assert purpose_of(made.docs, *zone(["nobody"])) == "change"
    assert purpose_of(made.docs, f"{ROOT}/Systems/1", {}) == "change"
    assert purpose_of(made.docs, zone([])[0], None) == "change"


def number(count: int, name: str = "node-0") -> t.Any:
    member = {"@Redfish.RequestCount": count, "ProcessorType": "GPU", "Model": "GPU"}
    return {"Name": name, "Processors": {"Members": [member]}}


def test_by_the_number_that_is_asked_for() -> None:
    counts = sunfish._Counts(service())
    told = [counts.purpose(sunfish.COMPOSED, number(count)) for count in (0, 1)]
    asyncio.run(attached(counts.pool))
    told += [counts.purpose(sunfish.COMPOSED, number(count)) for count in (0, 1, 2)]
    assert told == ["change", "attach", "detach", "change", "attach"]
    assert [counts.purpose(sunfish.COMPOSED, body) for body in (number(3), number(1, "nobody"), None)] == ["change"] * 3
