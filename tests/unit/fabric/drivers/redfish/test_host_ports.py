# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines without a ComputerSystem: the option machines names the endpoint or the zone that each one is behind."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition import executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration, Refused
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    FABRIC,
    SYSTEMS,
    UUIDS,
    FakeService,
    Json,
    connection,
    switched,
    zone,
)

PORTS = {"node-0": f"{FABRIC}/Endpoints/i0", "node-1": f"{FABRIC}/Endpoints/i1"}
HOST_ZONES = {"node-0": f"{FABRIC}/Zones/0", "node-1": f"{FABRIC}/Zones/1"}
DONE = JsonResponse(204, {}, None)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LOOKS", Backoff(0.0))
    monkeypatch.setattr(executor, "BACKOFF", Backoff(0.0))
    monkeypatch.setattr(executor, "NOTICE_SECONDS", 0.05)


def without_systems(documents: Json) -> Json:
    """The same service, which does not know what is behind its host ports."""
    return {**documents, SYSTEMS: {"Members": [], "Members@odata.count": 0}}


def targets_only(zones: dict[str, list[str]], targets: list[str]) -> Json:
    """A service of which each zone is a host port: it has no initiators at all, as PCIe chassis show themselves."""
    documents = without_systems(switched(None, zones, targets))
    documents[f"{FABRIC}/Endpoints"]["Members"] = [{"@odata.id": f"{FABRIC}/Endpoints/{name}"} for name in targets]
    documents[f"{FABRIC}/Endpoints"]["Members@odata.count"] = len(targets)
    return documents


def answers(fake: FakeService, call: Request) -> JsonResponse:
    """A service that does what it is asked: a zone's list, a connection more, a connection less."""
    if call.method == "PATCH":
        members = [entry["@odata.id"].rpartition("/")[2] for entry in call.body["Links"]["Endpoints"]]
        fake.documents[call.path] = zone(call.path.rpartition("/")[2], members)
    elif call.method == "POST":
        links = call.body["Links"]
        ends = [[entry["@odata.id"].rpartition("/")[2] for entry in links[f"{side}Endpoints"]]
                for side in ("Initiator", "Target")]
        made = connection("new", *ends)
        fake.documents |= {made["@odata.id"]: made}
        fake.documents[call.path] = {"Members": [made], "Members@odata.count": 1}
    else:
        fake.documents[f"{FABRIC}/Connections"] = {"Members": [], "Members@odata.count": 0}
    return DONE


def connected(
    documents: Json, machines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> tuple[driver.RedfishDriver, FakeService]:
    fake = FakeService(documents, answers)
    monkeypatch.setattr(driver, "Session", lambda *_unused: fake.as_session())
    options = {"manager": "redfish", "endpoint": "https://x.example", "auth": "none", "attach_timeout": 2,
               "machines": machines}
    return driver.RedfishDriver(FabricConfig.from_dict(options)), fake


@pytest.mark.parametrize(("documents", "machines"), [
    (without_systems(switched([], {"1": ["i0", "i1", "t0", "t1"]}, ["t0", "t1"])), PORTS),
    (without_systems(switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0", "t1"])), PORTS),
    (without_systems(switched(None, {"0": ["i0"], "1": ["i1"]}, ["t0", "t1"])), HOST_ZONES),
    (targets_only({"0": [], "1": []}, ["t0", "t1"]), HOST_ZONES),
], ids=["connections", "zones by endpoint", "zones by zone", "zones that are ports"])
def test_a_machine_behind_a_port_gets_a_device_and_gives_it_back(
    documents: Json, machines: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric, _fake = connected(documents, machines, monkeypatch)
    shown = fabric.snapshot(["A100"])
    assert {uid: (m.name, m.fabric, m.devices) for uid, m in shown.machines.items()} == {
        "node-0": ("node-0", 1, ()), "node-1": ("node-1", 1, ())}
    assert shown.free == {("A100", 1): 2}
    assert shown.problems == {}
    device = fabric.attach("node-0", "A100").devices[0]
    assert (device.machine, device.state) == ("node-0", "attached")
    assert [each.uid for each in fabric.machine("node-0").devices] == [device.uid]
    assert fabric.machine("node-1").devices == ()
    assert fabric.snapshot(["A100"]).free == {("A100", 1): 1}
    fabric.detach("node-0", device.uid)
    assert fabric.machine("node-0").devices == ()
    assert fabric.free("node-1", "A100") == 2


def test_what_is_in_a_zone_without_a_machine_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where zones are host ports, a zone that nobody named has a server behind it too."""
    documents = targets_only({"0": [], "1": ["t0"]}, ["t0", "t1"])
    machines = {"node-0": HOST_ZONES["node-0"]}
    fabric, _fake = connected(documents, machines, monkeypatch)
    assert {device.uid: (device.state, device.machine) for device in fabric.devices()} == {
        "1/t0": ("attached", None), "1/t1": ("free", None)}
    assert fabric.attach("node-0", "A100").devices[0].uid == "1/t1"
    with pytest.raises(Refused, match="no gpu of this model is free"):
        fabric.attach("node-0", "A100")


def test_what_a_nameless_zone_takes_at_the_last_moment_is_not_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric, fake = connected(targets_only({"0": [], "1": []}, ["t0"]), {"node-0": HOST_ZONES["node-0"]}, monkeypatch)
    fabric.snapshot(["A100"])
    fabric.service_model()
    fake.documents[f"{FABRIC}/Zones/1"] = zone("1", ["t0"])
    with pytest.raises(Refused):
        fabric.attach("node-0", "A100")
    assert fake.asked("PATCH") == []


@pytest.mark.parametrize(("machines", "zones"), [
    ({"node-0": f"{FABRIC}/Endpoints/absent"}, None),
    ({"node-0": f"{FABRIC}/Endpoints/i0"}, None),  # a ComputerSystem has it
    ({UUIDS["m0"]: f"{FABRIC}/Zones/9"}, None),  # a ComputerSystem has the uid
    ({"node-0": f"{FABRIC}/Zones/1"}, []),  # a zone on a fabric with connections says nothing of who has what
], ids=["absent", "endpoint of a system", "uid of a system", "zone beside connections"])
def test_a_machine_that_cannot_be_served_is_said(
    machines: dict[str, str], zones: list[Json] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = switched(zones, {"0": ["i0"], "1": ["i1", "t0"], "9": []}, ["t0"])
    fabric, _fake = connected(documents, machines, monkeypatch)
    (uid, path), = machines.items()
    shown = fabric.snapshot(["A100"])
    assert set(shown.machines) == {UUIDS["m0"], UUIDS["m1"]}
    assert shown.problems == {f"machines/{uid}": (
        f"option machines: {path} of machine {uid} must be an endpoint, or a zone of a fabric without Connections, and "
        "no ComputerSystem may have this endpoint or this uid. Correct the path, or leave the machine out")}


def test_the_power_of_a_machine_behind_a_port_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = without_systems(switched([], {"1": ["i0", "i1", "t0"]}, ["t0"]))
    fabric, fake = connected(documents, PORTS, monkeypatch)
    found = fabric.power("node-0")
    assert (found.state, found.reset_types) == ("", ())
    with pytest.raises(Refused, match=r"offers no ComputerSystem\.Reset"):
        fabric.reset("node-0", "ForceOff")
    assert fake.asked("POST") == []


@pytest.mark.parametrize(("machines", "said"), [
    (["node-0"], "machines: "),
    ({"node/0": f"{FABRIC}/Zones/1"}, "machines: 'node/0'"),
    ({"node-0": "/redfish/v1/Systems/1"}, "machines.node-0: '/redfish/v1/Systems/1'"),
    ({"node-0": f"{FABRIC}/Zones/1", "node-1": f"{FABRIC}/Zones/1"}, "Another machine has this path"),
])
def test_bad_machines_are_refused_by_name(machines: t.Any, said: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        FabricConfig.from_dict({"manager": "redfish", "endpoint": "https://x.example", "auth": "none",
                                "machines": machines})
    assert said in str(caught.value)
    with pytest.raises(BadConfiguration, match=r"machines: .*does not use it"):
        FabricConfig.from_dict({"manager": "nec", "endpoint": "https://x.example", "machines": PORTS})
