# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From ports and endpoints to switches and links: said by either side, and nothing where neither says it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Link, Switch
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import driver, switch_reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    FABRIC,
    ROOT,
    SYSTEMS,
    UUIDS,
    FakeService,
    collection,
    gpu,
    ref,
    refs,
    switched,
)

Json = dict[str, t.Any]
M0, M1 = UUIDS["m0"], UUIDS["m1"]
SWITCHES, POINTS = f"{FABRIC}/Switches", f"{FABRIC}/Endpoints"


def cabled(**ports: Json) -> Json:
    """Machines m0 and m1, GPUs t0 and t1 in the chassis ``box``, and a switch ``s`` with these ports."""
    documents = switched([], {"1": ["i0", "i1", "t0", "t1"]}, ["t0", "t1"])
    documents[FABRIC]["Switches"] = ref(SWITCHES)
    return {**documents, SWITCHES: collection(SWITCHES, ["s"]), **switch("s", **ports)}


def switch(name: str, **ports: Json) -> Json:
    """A switch and its ports: links of each, and what else it says."""
    where = f"{SWITCHES}/{name}/Ports"
    return {f"{SWITCHES}/{name}": {"@odata.id": f"{SWITCHES}/{name}", "Id": name, "Name": f"switch {name}",
                                   "Status": {"Health": "OK"}, "Ports": ref(where)},
            where: collection(where, ports),
            **{f"{where}/{each}": {"@odata.id": f"{where}/{each}", "Id": each, **body} for each, body in ports.items()}}


def to(*names: str, **more: t.Any) -> Json:
    """A port that leads to these endpoints."""
    return {"Links": {"AssociatedEndpoints": refs(f"{POINTS}/{name}" for name in names)}, **more}


class Service:
    """A driver of documents, and what it asked for."""

    def __init__(self, documents: Json, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = FakeService(documents)
        monkeypatch.setattr(driver, "Session", lambda config, read: self.fake.as_session())
        self.made = driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "https://x"}))

    def look(self) -> FabricSnapshot:
        return self.made.snapshot(["A100"])

    def asked(self) -> list[str]:
        return [call.path.partition("?")[0] for call in self.fake.calls if "/Switches" in call.path]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of what was read: its last entry."""
    now = [1000.0]
    monkeypatch.setattr(f"{switch_reader.__name__}.time.monotonic", lambda: now[-1])
    return now


def links(documents: Json, monkeypatch: pytest.MonkeyPatch) -> list[Link]:
    (one,) = Service(documents, monkeypatch).look().switches
    return list(one.links)


def test_a_port_tells_what_it_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Service(cabled(u0=to("i0"), u1=to("i1"), d0=to("t0", "t1")), monkeypatch).look()
    assert seen.switches == (Switch("s", 1, "switch s", "OK", (
        Link("box", "box"), Link("machine", M0), Link("machine", M1))),)
    assert seen.switches_of == {"1/t0": ("s",), "1/t1": ("s",)}
    assert seen.problems == {}


def test_an_endpoint_tells_its_port_where_the_port_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = cabled(u0={}, d0={"Links": {}})
    documents[f"{POINTS}/i0"]["Links"] = {"ConnectedPorts": refs([f"{SWITCHES}/s/Ports/u0"])}
    documents[f"{POINTS}/t0"]["Links"] = {"ConnectedPorts": refs([f"{SWITCHES}/s/Ports/d0"])}
    seen = Service(documents, monkeypatch).look()
    assert seen.switches[0].links == (Link("box", "box"), Link("machine", M0))
    assert seen.switches_of == {"1/t0": ("s",)}


def test_the_path_of_the_far_port_is_the_last_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    far = [f"{SYSTEMS}/m1/Processors/CPU/Ports/1"], [f"{ROOT}/Chassis/box/FabricAdapters/1/Ports/1"]
    u0, d0 = ({"Links": {"ConnectedPorts": refs(paths)}} for paths in far)
    strange = {"Links": {"ConnectedPorts": refs([f"{ROOT}/Chassis/elsewhere/FabricAdapters/1/Ports/1"])}}
    assert links(cabled(u0=u0, d0=d0, d1=strange), monkeypatch) == [Link("box", "box"), Link("machine", M1)]


def test_ports_to_one_end_are_counted_with_their_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {"a": to("t0", LinkStatus="LinkUp", CurrentSpeedGbps=256), "b": to("t1", CurrentSpeedGbps=128.5),
             "c": to("t1", LinkStatus="LinkDown", CurrentSpeedGbps=256), "d": to("t0", LinkState="Disabled"),
             "e": to("i0", CurrentSpeedGbps=-1)}
    assert links(cabled(**ports), monkeypatch) == [Link("box", "box", 4, 2, 384.5), Link("machine", M0)]


def test_a_device_whose_box_is_not_told_is_an_end_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = cabled(d0=to("t0"))
    loose = f"{ROOT}/loose/t0"
    documents[f"{POINTS}/t0"]["ConnectedEntities"][0]["EntityLink"] = ref(loose)
    documents[loose] = {**gpu("t0"), "@odata.id": loose}
    assert links(documents, monkeypatch) == [Link("device", "1/t0")]


@pytest.mark.parametrize("told", [
    {"ConnectedSwitches": [ref(f"{SWITCHES}/r")]}, {"ConnectedSwitchPorts": [ref(f"{SWITCHES}/r/Ports/1")]}])
def test_switches_lead_to_each_other(told: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = {**cabled(x={"Links": told}), **switch("r")}
    documents[SWITCHES] = collection(SWITCHES, ["s", "r"])
    one, other = Service(documents, monkeypatch).look().switches
    assert (one.links, other.links) == ((Link("switch", "r"),), ())


def test_nothing_is_said_of_ports_that_lead_nowhere_known(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"Links": {"AssociatedEndpoints": refs([f"{POINTS}/hidden"]), "ConnectedSwitches": refs([f"{ROOT}/x"])}}
    assert links(cabled(a={}, b=unknown, c={"Links": 7}), monkeypatch) == []


def test_a_fabric_without_switches_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(switched([], {"1": ["i0", "t0"]}, ["t0"]), monkeypatch)
    seen = service.look()
    assert (seen.switches, seen.switches_of, service.asked()) == ((), {}, [])


def test_they_are_read_again_when_they_may_be_old(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(cabled(u0=to("i0")), monkeypatch)
    read = [SWITCHES, f"{SWITCHES}/s", f"{SWITCHES}/s/Ports", f"{SWITCHES}/s/Ports/u0"]
    service.look()
    service.look()
    assert service.asked() == read
    clock.append(clock[-1] + switch_reader.SECONDS + 1)
    service.fake.documents.update(switch("s", u0=to("i1")))
    assert service.look().switches[0].links == (Link("machine", M1),)
    assert service.asked() == [*read, *read]


def test_only_a_look_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(cabled(u0=to("i0")), monkeypatch)
    service.made.machines()
    service.made.machine(M0)
    service.made.devices()
    assert service.asked() == []


def test_what_cannot_be_read_is_as_it_was_and_is_said(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(cabled(u0=to("i0"), d0=to("t0")), monkeypatch)
    known = service.look().switches
    good = service.fake.documents[f"{SWITCHES}/s/Ports"]
    service.fake.documents[f"{SWITCHES}/s/Ports"] = Unavailable("the service answers 503")
    clock.append(clock[-1] + switch_reader.SECONDS + 1)
    seen = service.look()
    assert (seen.switches, seen.problems) == (known, {"switches/1": "the service answers 503"})
    assert seen.free == {("A100", 1): 2}
    service.fake.documents[f"{SWITCHES}/s/Ports"] = good
    clock.append(clock[-1] + switch_reader.RETRY + 1)
    assert service.look().problems == {}


def test_sick_switches_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = cabled()
    documents[f"{SWITCHES}/s"]["Status"] = {"Health": "Critical"}
    assert Service(documents, monkeypatch).look().switches[0].health == "Critical"
