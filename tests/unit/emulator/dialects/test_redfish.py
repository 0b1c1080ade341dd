# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated Redfish service without sockets: its tree, its settings, its strictness, its sessions and tasks."""

from __future__ import annotations

import asyncio
import base64
import time
import types
import typing as t
from pathlib import Path

import pytest
from aiohttp import web

from ansible_collections.composable.infra.emulator import machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.admin.request_log import RequestLog
from ansible_collections.composable.infra.emulator.context import EmulatorContext
from ansible_collections.composable.infra.emulator.credentials import Credentials
from ansible_collections.composable.infra.emulator.dialects.managers import MANAGERS, redfish_error, redfish_purpose
from ansible_collections.composable.infra.emulator.dialects.redfish import routes as redfish
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.changes import (
    block_wants,
    compose_wants,
    connection_wants,
    zone_wants,
)
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.errors import RedfishError
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.metadata import metadata, service_document
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.options import Options
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.service import Service
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.sessions import LONGEST, SHORTEST, Sessions
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.tasks import PoolChange, Tasks
from ansible_collections.composable.infra.emulator.dialects.sunfish import routes as sunfish
from ansible_collections.composable.infra.emulator.pool.fabric_spec import FabricSpec
from ansible_collections.composable.infra.emulator.pool.fields import SpecError
from ansible_collections.composable.infra.emulator.pool.journal import Journal
from ansible_collections.composable.infra.emulator.pool.pool import DevicePool, DeviceTaken, OperationFailed, PoolError
from ansible_collections.composable.infra.emulator.tokens import Tokens

ROOT = "/redfish/v1"
BLOCKS = f"{ROOT}/CompositionService/ResourceBlocks"
NODE = machine_uuid("node-0")
ALL = ["AddResourceBlock", "Connections", "Compose"]


def context(settings: dict[str, t.Any] | None = None, folder: Path | None = None, **more: t.Any) -> EmulatorContext:
    document = simple_spec(["node-0", "node-1"], {"GPU": 3}, attach=0.0, detach=0.0, managers=["redfish", "sunfish"],
                           settings={"redfish": settings or {}}, **more)
    document["models"].append({"name": "CXL", "kind": "memory", "size": 1024})
    document["fabrics"][0]["devices"].append({"model": "CXL"})
    spec = FabricSpec.parse(document)
    told = Credentials(spec.tenant, spec.realm, "client", "secret", {"admin": "pass:word"})
    return EmulatorContext(spec=spec, pool=DevicePool(spec), tokens=Tokens(told, b"key", 300.0), log=RequestLog(),
                           folder=folder)


def service(settings: dict[str, t.Any] | None = None, **more: t.Any) -> Service:
    made = context(settings, **more)
    return Service(made, "redfish", Options.of(made.spec, "redfish", redfish.OFFERED), closed=True)


def get(found: Service, path: str, **query: str) -> dict[str, t.Any]:
    body = found.tree.get(f"{ROOT}{path}", {f"${key}": value for key, value in query.items()})
    assert body is not None, path
    return body


def members(body: dict[str, t.Any]) -> list[str]:
    return [entry["@odata.id"] for entry in body["Members"]]


def uids(found: Service, kind: str = "gpu") -> list[str]:
    return [device.spec.uid for device in found.docs.devices() if device.kind == kind]


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def every_path(found: Service) -> set[str]:
    """All paths that can be reached from the root by links."""
    seen: set[str] = set()
    todo = [f"{ROOT}/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        body = found.tree.get(path.rstrip("/") or path)
        assert body is not None, f"a link leads to {path}, and there is nothing"
        todo += links(body)
    return seen


def links(value: t.Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["@odata.id"]] if isinstance(value.get("@odata.id"), str) else []
        return own + [path for inner in value.values() for path in links(inner)]
    return [path for inner in value for path in links(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("settings", [{"dialects": ALL}, {"dialects": ["Zones"]}, {"dialects": []}, {"page": 1}])
def test_every_link_leads_somewhere(settings: dict[str, t.Any]) -> None:
    found = service(settings)
    asyncio.run(found.tasks.carry_out([PoolChange(NODE, uids(found)[0], True), PoolChange(NODE, uids(found,
                                                                                                     "memory")[0],
                                                                                          True)]))
    assert len(every_path(found)) > 20


def test_the_views_of_one_device_agree() -> None:
    found = service({"dialects": ALL})
    uid = uids(found)[0]
    before = get(found, f"/CompositionService/ResourceBlocks/{uid}")
    assert before["CompositionStatus"]["CompositionState"] == "Unused"
    asyncio.run(found.tasks.carry_out([PoolChange(NODE, uid, True)]))
    after = get(found, f"/CompositionService/ResourceBlocks/{uid}")
    assert after["CompositionStatus"]["CompositionState"] == "Composed"
    assert after["Links"]["ComputerSystems"] == [ref(f"{ROOT}/Systems/{NODE}")]
    assert after["@odata.etag"] != before["@odata.etag"]
    assert ref(f"{BLOCKS}/{uid}") in get(found, f"/Systems/{NODE}")["Links"]["ResourceBlocks"]
    assert members(get(found, "/Fabrics/1/Connections")) == [f"{ROOT}/Fabrics/1/Connections/{uid}"]
    assert members(get(found, f"/Systems/{NODE}/Processors")) == [f"{ROOT}/Chassis/box-1/Processors/{uid}"]
    zones = service({"dialects": ["Zones"]})
    asyncio.run(zones.tasks.carry_out([PoolChange(NODE, uid, True)]))
    endpoints = get(zones, f"/Fabrics/1/Zones/{NODE}")["Links"]["Endpoints"]
    assert endpoints == [ref(f"{ROOT}/Fabrics/1/Endpoints/{one}") for one in (NODE, uid)]


@pytest.mark.parametrize("kind", ["gpu", "memory"])
def test_a_block_and_what_it_holds_link_to_their_box(kind: str) -> None:
    found = service()
    (uid, *_others) = uids(found, kind)
    block = get(found, f"/CompositionService/ResourceBlocks/{uid}")
    assert block["Links"]["Chassis"] == [ref(f"{ROOT}/Chassis/box-1")]
    (part,) = (block.get("Processors") or block["Memory"])
    assert get(found, part["@odata.id"].removeprefix(ROOT))["Links"] == {"Chassis": ref(f"{ROOT}/Chassis/box-1")}


def test_what_is_not_offered_is_not_there() -> None:
    found = service({"dialects": ["Zones"]})
    for path in ("/CompositionService", "/CompositionService/ResourceBlocks", "/Fabrics/1/Connections", "/Fabrics/9"):
        assert found.tree.get(f"{ROOT}{path}") is None
    assert "CompositionService" not in get(found, "")
    assert set(get(found, f"/Systems/{NODE}")["Actions"]) == {"#ComputerSystem.Reset"}
    assert "Actions" not in get(service({"dialects": ["Zones"], "reset_types": []}), f"/Systems/{NODE}")
    assert service({"dialects": ["AddResourceBlock"]}).tree.get(f"{ROOT}/Fabrics") is None


def test_pages() -> None:
    found = service({"page": 2})
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        page = get(found, "/CompositionService/ResourceBlocks", **query)
        assert page["Members@odata.count"] == 6
        assert len(page["Members"]) <= 2
        seen += members(page)
        if "Members@odata.nextLink" not in page:
            break
        query = {"skip": page["Members@odata.nextLink"].rpartition("=")[2]}
    assert len(set(seen)) == 6


def test_expansion() -> None:
    found = service()
    one = get(found, "/CompositionService/ResourceBlocks", expand=".($levels=1)")["Members"]
    assert all("CompositionStatus" in block and "@odata.etag" in block for block in one)
    assert all(set(link) == {"@odata.id"} for block in one for link in block.get("Processors", []))
    two = get(found, "/CompositionService/ResourceBlocks", expand=".($levels=2)")["Members"]
    assert [part["Model"] for block in two for part in block.get("Processors", [])] == ["GPU"] * 3
    assert all(set(link) == {"@odata.id"} for block in two for link in block["Links"]["Zones"])
    plain = service({"expand": False})
    assert members(get(plain, "/Systems", expand=".")) == members(get(plain, "/Systems"))
    assert set(get(plain, "/Systems", expand=".")["Members"][0]) == {"@odata.id"}


def test_a_page_says_how_the_next_one_is_expanded() -> None:
    page = get(service({"page": 1}), "/Systems", expand=".($levels=1)")
    assert page["Members@odata.nextLink"] == f"{ROOT}/Systems?$skip=1&$expand=.($levels=1)"
    assert page["Members"][0]["UUID"]


def test_etags_can_be_left_out() -> None:
    assert "@odata.etag" not in get(service({"etags": False}), f"/Systems/{NODE}")


def test_a_vanished_device_is_nowhere() -> None:
    found = service({"dialects": ALL})
    uid = uids(found)[0]
    found.context.pool.set_present(uid, False)
    assert not any(uid in path for path in every_path(found))
    assert found.tree.get(f"{BLOCKS}/{uid}") is None


@pytest.mark.parametrize(("settings", "field"), [
    ({"dialects": ["Magic"]}, "dialects"), ({"dialects": "Zones"}, "dialects"),
    ({"dialects": ["Zones", "Connections"]}, "dialects"), ({"page": -1}, "page"), ({"etags": "yes"}, "etags"),
    ({"agents": True}, "agents"), ({"nonsense": 1}, "nonsense"),
])
def test_bad_settings_are_named(settings: dict[str, t.Any], field: str) -> None:
    with pytest.raises(SpecError, match=field):
        service(settings)


def asks(found: Service) -> dict[str, t.Callable[[t.Any], list[PoolChange]]]:
    return {
        "add": lambda body: block_wants(found.tree, NODE, body, attach=True),
        "remove": lambda body: block_wants(found.tree, NODE, body, attach=False),
        "compose": lambda body: compose_wants(found.docs, body),
        "connect": lambda body: connection_wants(found.docs, 1, body),
        "zone": lambda body: zone_wants(found.docs, 1, NODE, body),
    }


@pytest.mark.parametrize("name", ["add", "remove", "compose", "connect", "zone"])
@pytest.mark.parametrize("body", [
    None, [], "x", {}, {"Unknown": 1}, {"ResourceBlock": {}}, {"Links": {}}, {"Links": []}, {"Manifest": {}},
    {"RequestFormat": "Manifest", "RequestType": "Preview"},
])
def test_bodies_that_drift_are_refused(name: str, body: t.Any) -> None:
    with pytest.raises(RedfishError) as refused:
        asks(service())[name](body)
    assert refused.value.status in (400, 428)


def test_a_block_needs_its_etag() -> None:
    found = service({"dialects": ALL})
    uid = uids(found)[0]
    link, right = ref(f"{BLOCKS}/{uid}"), get(found, f"/CompositionService/ResourceBlocks/{uid}")["@odata.etag"]
    for wrong in ({}, {"ResourceBlockETag": '"old"'}, {"ResourceBlockETag": right, "ComputerSystemETag": '"old"'}):
        with pytest.raises(RedfishError) as refused:
            asks(found)["add"]({"ResourceBlock": link, **wrong})
        assert refused.value.status == 428
    assert asks(found)["add"]({"ResourceBlock": link, "ResourceBlockETag": right}) == [PoolChange(NODE, uid, True)]
    with pytest.raises(RedfishError, match="has no resource block"):
        asks(found)["remove"]({"ResourceBlock": link, "ResourceBlockETag": right})


def test_a_strict_service_needs_the_systems_etag() -> None:
    found = service({"strict_etags": True})
    uid = uids(found)[0]
    body = {"ResourceBlock": ref(f"{BLOCKS}/{uid}"),
            "ResourceBlockETag": get(found, f"/CompositionService/ResourceBlocks/{uid}")["@odata.etag"]}
    with pytest.raises(RedfishError, match="ComputerSystemETag"):
        asks(found)["add"](body)
    body["ComputerSystemETag"] = get(found, f"/Systems/{NODE}")["@odata.etag"]
    assert asks(found)["add"](body) == [PoolChange(NODE, uid, True)]


def test_lists_are_compared_with_what_the_machine_has() -> None:
    found = service({"dialects": ["Zones"]})
    first, second, _third = uids(found)
    asyncio.run(found.tasks.carry_out([PoolChange(NODE, first, True)]))
    where = f"{ROOT}/Fabrics/1/Endpoints"
    body = {"Links": {"Endpoints": [ref(f"{where}/{uid}") for uid in (NODE, second)]}}
    assert asks(found)["zone"](body) == [PoolChange(NODE, second, True), PoolChange(NODE, first, False)]
    with pytest.raises(RedfishError, match="cannot leave"):
        asks(found)["zone"]({"Links": {"Endpoints": [ref(f"{where}/{first}")]}})


def test_a_manifest_names_a_system_and_its_blocks() -> None:
    found = service()
    uid = uids(found)[0]
    blocks = [ref(f"{BLOCKS}/{name}") for name in (NODE, uid)]
    request = {**ref(f"{ROOT}/Systems/{NODE}"), "Links": {"ResourceBlocks": blocks}}
    stanza = {"StanzaType": "ComposeSystem", "Request": request}
    body = {"RequestFormat": "Manifest", "RequestType": "Apply", "Manifest": {"Stanzas": [stanza]}}
    assert asks(found)["compose"](body) == [PoolChange(NODE, uid, True)]
    spoilt: list[dict[str, t.Any]] = [
        {"StanzaType": "DecomposeSystem"}, {"Request": {}}, {"Request": {**request, "Links": {}}}]
    for wrong in spoilt:
        with pytest.raises(RedfishError):
            asks(found)["compose"]({**body, "Manifest": {"Stanzas": [{**stanza, **wrong}]}})


def test_memory_is_connected_by_its_chunk() -> None:
    found = service()
    (memory,), gpu = uids(found, "memory"), uids(found)[0]
    where = f"{ROOT}/Fabrics/1/Endpoints"
    ends = {"InitiatorEndpoints": [ref(f"{where}/{NODE}")], "TargetEndpoints": [ref(f"{where}/{memory}")]}
    chunk = {"AccessCapabilities": ["Read"], "MemoryChunk": ref(
        f"{ROOT}/Chassis/box-1/MemoryDomains/{memory}/MemoryChunks/1")}
    right: dict[str, t.Any] = {"Links": ends, "ConnectionType": "Memory", "MemoryChunkInfo": [chunk]}
    assert asks(found)["connect"](right) == [PoolChange(NODE, memory, True)]
    of_gpu = {**ends, "TargetEndpoints": [ref(f"{where}/{gpu}")]}
    assert asks(found)["connect"]({"Links": of_gpu}) == [PoolChange(NODE, gpu, True)]
    for wrong in ({"Links": ends}, {**right, "Links": of_gpu}, {**right, "MemoryChunkInfo": [{}]},
                  {**right, "Links": {**ends, "InitiatorEndpoints": ends["TargetEndpoints"]}}):
        with pytest.raises(RedfishError):
            asks(found)["connect"](wrong)


def test_all_or_nothing_begins() -> None:
    found = service()
    first, second, _third = uids(found)
    asyncio.run(found.tasks.carry_out([PoolChange(NODE, first, True)]))
    with pytest.raises(DeviceTaken):
        asyncio.run(found.tasks.carry_out([PoolChange(NODE, second, True), PoolChange(NODE, first, True)]))
    assert [d.spec.uid for d in found.context.pool.shown(NODE)] == [first]


def test_a_task_runs_and_ends() -> None:
    found = service()

    async def scenario() -> None:
        task = found.tasks.begin([PoolChange(NODE, uids(found)[0], True)], "/made")
        assert found.tasks.document(task)["TaskState"] == "Running"
        await found.context.pool.changed_since(found.context.pool.generation, 5)
        for _turn in range(100):
            await asyncio.sleep(0)
        body = found.tasks.document(task)
        assert (body["TaskState"], body["PercentComplete"], body["Messages"]) == ("Completed", 100, [])

    asyncio.run(scenario())


@pytest.mark.parametrize(("attached", "state"), [(True, "Completed"), (False, "Exception")])
def test_a_task_of_an_earlier_life_is_judged_by_its_devices(tmp_path: Path, attached: bool, state: str) -> None:
    found = service()
    uid = uids(found)[0]

    async def begin() -> None:
        Tasks(found.context.pool, Journal(tmp_path / "tasks")).begin([PoolChange(NODE, uid, True)], None)

    asyncio.run(begin())
    later = service()
    if attached:
        asyncio.run(later.tasks.carry_out([PoolChange(NODE, uid, True)]))
    task = Tasks(later.context.pool, Journal(tmp_path / "tasks")).find("1")
    assert task is not None
    assert task.state == state


def shown(**headers: str) -> web.Request:
    return t.cast(web.Request, types.SimpleNamespace(headers=headers))


def test_sessions(tmp_path: Path) -> None:
    tokens = context().tokens
    sessions = Sessions(tokens, Journal(tmp_path / "sessions"))
    session = sessions.open({"UserName": "admin", "Password": "pass:word"})
    sessions.admit(shown(**{"X-Auth-Token": session.token}))
    again = Sessions(tokens, Journal(tmp_path / "sessions"))
    again.admit(shown(**{"X-Auth-Token": session.token}))
    assert again.end(session.ident)
    assert not again.end(session.ident)
    with pytest.raises(RedfishError):
        Sessions(tokens, Journal(tmp_path / "sessions")).admit(shown(**{"X-Auth-Token": session.token}))


def test_sessions_end_by_time_and_by_revocation() -> None:
    sessions = Sessions(context().tokens, None)
    session = sessions.open({"UserName": "admin", "Password": "pass:word"})
    session.used = time.time() - sessions.tokens.lifetime - 1
    assert sessions.alive() == []
    other = sessions.open({"UserName": "admin", "Password": "pass:word"})
    assert sessions.find(other.ident) is other
    sessions.tokens.revoke()
    assert sessions.find(other.ident) is None


@pytest.mark.parametrize("body", [None, {}, {"UserName": "admin"}, {"UserName": "admin", "Password": 7},
                                  {"UserName": "admin", "Password": "x"}, {"UserName": "", "Password": ""}])
def test_no_session_without_the_password(body: t.Any) -> None:
    with pytest.raises(RedfishError) as refused:
        Sessions(context().tokens, None).open(body)
    assert refused.value.status in (400, 401)


@pytest.mark.parametrize(("header", "let_in"), [
    (f"Basic {base64.b64encode(b'admin:pass:word').decode()}", True),
    (f"basic {base64.b64encode(b'admin:pass:word').decode()}", True),
    (f"Basic {base64.b64encode(b'admin:pass').decode()}", False), ("Basic ???", False), ("Bearer x", False),
    ("", False),
])
def test_basic_authentication(header: str, let_in: bool) -> None:
    sessions = Sessions(context().tokens, None)
    if let_in:
        sessions.admit(shown(Authorization=header))
    else:
        with pytest.raises(RedfishError):
            sessions.admit(shown(Authorization=header))


def test_the_timeout_is_one_that_redfish_allows() -> None:
    sessions = Sessions(context().tokens, None)
    for lifetime, told in ((0.5, SHORTEST), (300.0, 300), (1e9, LONGEST)):
        sessions.tokens.lifetime = lifetime
        assert sessions.timeout == told


@pytest.mark.parametrize(("method", "path", "purpose"), [
    ("POST", f"{ROOT}/SessionService/Sessions", "login"), ("DELETE", f"{ROOT}/SessionService/Sessions/1", "change"),
    ("GET", f"{ROOT}/TaskService/TaskMonitors/1", "poll"), ("GET", f"{ROOT}/Systems", "read"),
    ("POST", f"{ROOT}/Systems/1/Actions/ComputerSystem.AddResourceBlock", "attach"),
    ("POST", f"{ROOT}/Systems/1/Actions/ComputerSystem.RemoveResourceBlock", "detach"),
    ("POST", f"{ROOT}/Fabrics/1/Connections", "attach"), ("DELETE", f"{ROOT}/Fabrics/1/Connections/1", "detach"),
    ("PATCH", f"{ROOT}/Fabrics/1/Zones/1", "change"),
])
def test_what_a_request_is_for(method: str, path: str, purpose: str) -> None:
    assert redfish_purpose(method, path, None) == purpose


def test_an_injected_error_has_redfishs_form() -> None:
    body = redfish_error(503, "go away")
    assert body["error"]["@Message.ExtendedInfo"][0]["Message"] == "go away"
    assert MANAGERS["redfish"].error is MANAGERS["sunfish"].error is redfish_error


@pytest.mark.parametrize(("error", "status"), [
    (DeviceTaken("x", None), 409), (PoolError("x"), None),
])
def test_the_pools_errors(error: PoolError, status: int | None) -> None:
    if status is None:
        with pytest.raises(KeyError):
            RedfishError.of_pool(error)
    else:
        assert RedfishError.of_pool(error).status == status
    assert RedfishError.of_pool(OperationFailed("x", t.cast(t.Any, None))).status == 400


def test_ports_of_a_switch_are_the_cables_that_end_there() -> None:
    cables = [{"from": "node-0", "to": "s"}, {"from": "s", "to": "box-1", "type": "CXL", "lanes": 8},
              {"from": "s", "to": "r"}]
    found = service({"dialects": ["Connections"]}, links=cables,
                    switches=[{"id": "s", "fabric": 1}, {"id": "r", "fabric": 1}])
    where = f"{ROOT}/Fabrics/1"
    assert get(found, "/Fabrics/1/Switches/s")["Ports"] == ref(f"{where}/Switches/s/Ports")
    assert members(get(found, "/Fabrics/1/Switches/s/Ports")) == [f"{where}/Switches/s/Ports/{n}" for n in (1, 2, 3)]
    up, down, across = (get(found, f"/Fabrics/1/Switches/s/Ports/{n}") for n in (1, 2, 3))
    assert [each["PortType"] for each in (up, down, across)] == ["UpstreamPort", "DownstreamPort", "InterswitchPort"]
    assert up["Links"] == {"AssociatedEndpoints": [ref(f"{where}/Endpoints/{NODE}")]}
    assert (down["PortProtocol"], down["ActiveWidth"]) == ("CXL", 8)
    devices = [device.spec.uid for device in found.docs.devices()]
    assert down["Links"] == {"AssociatedEndpoints": [ref(f"{where}/Endpoints/{uid}") for uid in devices]}
    assert across["Links"] == {"ConnectedSwitches": [ref(f"{where}/Switches/r")],
                               "ConnectedSwitchPorts": [ref(f"{where}/Switches/r/Ports/1")]}
    assert get(found, f"/Fabrics/1/Endpoints/{NODE}")["Links"]["ConnectedPorts"] == [ref(f"{where}/Switches/s/Ports/1")]
    assert found.tree.get(f"{where}/Switches/s/Ports/9") is None
    assert found.tree.get(f"{where}/Switches/none/Ports") is None


def test_the_metadata_names_every_type_that_is_served() -> None:
    found = service({"dialects": ALL})
    text = metadata()
    for path in every_path(found):
        kind = (found.tree.get(path.rstrip("/")) or {})["@odata.type"].lstrip("#").partition(".")[0]
        assert f'Namespace="{kind}"' in text, kind
    urls = {entry["url"] for entry in service_document(found.docs.root())["value"]}
    assert {f"{ROOT}/", f"{ROOT}/Systems", f"{ROOT}/Fabrics", f"{ROOT}/CompositionService"} <= urls


def count_body(name: t.Any, **member: t.Any) -> dict[str, t.Any]:
    return {"Name": name, "Processors": {"Members": [member]}}


COUNT = "@Redfish.RequestCount"


@pytest.mark.parametrize("body", [
    None, {}, {"Name": "node-0"}, {"Name": "node-0", "Processors": {"Members": []}},
    count_body("node-0", **{COUNT: -1}, ProcessorType="GPU", Model="GPU"),
    count_body("node-0", ProcessorType="GPU", Model="GPU"),
    count_body("node-0", **{COUNT: True}, ProcessorType="GPU", Model="GPU"),
    count_body("node-0", **{COUNT: 1}, ProcessorType="CPU", Model="GPU"),
    count_body(7, **{COUNT: 1}, ProcessorType="GPU", Model="GPU"),
])
def test_sunfish_wants_cohdis_form(body: t.Any) -> None:
    with pytest.raises(RedfishError) as refused:
        sunfish._count_in(body)
    assert refused.value.status == 400


def test_sunfish_counts_towards_the_number() -> None:
    found = service()
    counts, machine = sunfish._Counts(found), found.context.pool.machines[NODE]
    wants = counts._wants(machine, "GPU", 2)
    assert [want.attach for want in wants] == [True, True]
    asyncio.run(found.tasks.carry_out(wants))
    assert counts._wants(machine, "GPU", 2) == []
    assert [want.attach for want in counts._wants(machine, "GPU", 0)] == [False, False]
    with pytest.raises(RedfishError, match="5 of GPU"):
        counts._wants(machine, "GPU", 5)
