# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Redfish client above its resources: what a poll shows, and what is done, while a resource cannot be read."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused, Unavailable
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    BLOCKS,
    FABRIC,
    PARTS,
    SYSTEMS,
    UUIDS,
    FakeService,
    Json,
    block,
    collection,
    composable,
    connection,
    endpoint,
    switched,
    system,
)

M0 = UUIDS["m0"]
M1 = UUIDS["m1"]
SHARED = {"1": ["i0", "i1", "t0", "t1"]}


def broken() -> Unavailable:
    """What one resource is answered with; the service works."""
    error = Unavailable("500: internal error")
    error.status = 500
    return error


def connected(documents: Json, monkeypatch: pytest.MonkeyPatch) -> driver.RedfishDriver:
    """A driver of a service in memory."""
    monkeypatch.setattr(driver, "Session", lambda *_unused: FakeService(documents).as_session())
    return driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "http://x.example"}))


@pytest.mark.parametrize("path", [f"{BLOCKS}/a", f"{PARTS}/a"])
def test_a_poll_says_which_device_cannot_be_read_and_counts_the_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = composable([block("a"), block("b")])
    found = connected({**documents, path: broken()}, monkeypatch).snapshot(["A100"])
    assert found.free == {("A100", 1): 1}
    assert found.problems == {"devices/a": "device a is not offered: 500: internal error"}


def test_a_poll_says_which_fabric_is_barred(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1"])
    found = connected({**documents, f"{FABRIC}/Connections/c": broken()}, monkeypatch).snapshot(["A100"])
    assert found.free == {("A100", 1): 0}
    assert found.problems == {
        "connections/1": "fabric 1: all its devices count as attached: 500: internal error"}


def test_a_service_with_host_ports_and_no_system_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CXL switch may know its host ports and not the servers behind them; an account may not see these."""
    documents = {**switched([], SHARED, ["t0", "t1"]), SYSTEMS: {"Members": [], "Members@odata.count": 0}}
    found = connected(documents, monkeypatch).snapshot(["A100"])
    assert found.machines == {}
    assert found.problems == {"machines": (
        f"the CDI Manager shows host ports ({FABRIC}/Endpoints/i0, {FABRIC}/Endpoints/i1) and no ComputerSystem, so no "
        "node has a machine there. Have its administrator add the servers to its Systems, or allow this account to "
        "read them, or name the port of each server in the option machines")}
    empty = {**composable([block("a")]), SYSTEMS: {"Members": [], "Members@odata.count": 0}}
    assert connected(empty, monkeypatch).snapshot(["A100"]).problems == {}


def test_a_device_that_cannot_be_read_is_not_proven_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the block itself says which machine has it, and what its Id is."""
    documents = composable([block("a", "Composed", on=["m0"]), block("b")])
    for uid in ("a", "a-by-another-name"):
        with pytest.raises(Unavailable, match="500"):
            connected({**documents, f"{BLOCKS}/a": broken()}, monkeypatch).detach(M0, uid)
    for found in (documents, {**documents, f"{PARTS}/a": broken()}):
        assert connected(found, monkeypatch).detach(M0, "a-by-another-name") == Task(True)


class Blink(FakeService):
    """A service that once leaves something out, until ``last`` was read: ``without`` changes the documents."""

    def __init__(self, documents: Json, without: t.Callable[[Json], object], last: str) -> None:
        super().__init__(documents, self._change)
        self.without, self.last, self.left, self.watching = without, last, 1, False

    def get(self, path: str) -> JsonResponse:
        whole = self.documents
        if self.watching and self.left:
            self.documents = copy.deepcopy(whole)
            self.without(self.documents)
        try:
            return super().get(path)
        finally:
            self.documents = whole
            if path == self.last and self.watching and self.left:
                self.left -= 1

    @staticmethod
    def _change(fake: FakeService, call: Request) -> JsonResponse:
        if call.method == "DELETE":
            fake.documents[f"{FABRIC}/Connections"] = {"Members": [], "Members@odata.count": 0}
            return JsonResponse(204, {}, None)
        uid = call.body["ResourceBlock"]["@odata.id"].rpartition("/")[2]
        fake.documents[f"{BLOCKS}/{uid}"] = block(uid)
        return JsonResponse(204, {}, None)


def _unlinked(documents: Json) -> None:
    documents[f"{BLOCKS}/a"] = block("a")


def on_blink(documents: Json, without: t.Callable[[Json], object], last: str,
             monkeypatch: pytest.MonkeyPatch) -> tuple[driver.RedfishDriver, Blink]:
    fake = Blink(documents, without, last)
    monkeypatch.setattr(driver, "Session", lambda *_unused: fake.as_session())
    found = driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "http://x.example"}))
    found.machines()
    fake.watching = True
    return found, fake


def test_a_device_that_one_reading_leaves_out_is_detached(monkeypatch: pytest.MonkeyPatch) -> None:
    found, fake = on_blink(composable([block("a", "Composed", on=["m0"])]), _unlinked, f"{BLOCKS}/a", monkeypatch)
    assert [device.uid for device in found.detach(M0, "a").devices] == ["a"]
    assert len(fake.asked("POST")) == 1


def twins(*, on: str = "m1") -> Json:
    """Two blocks with one Id on two machines."""
    documents = composable([block("a", "Composed", on=["m0"], Id="1"), block("b", "Composed", on=[on], Id="1")],
                           [system("m0", ["m0"]), system("m1", ["m1"])])
    documents[BLOCKS]["Members"] = [{"@odata.id": f"{BLOCKS}/{name}"} for name in ("m0", "m1", "a", "b")]
    return documents


def test_one_machine_names_its_devices_as_the_whole_service_does(monkeypatch: pytest.MonkeyPatch) -> None:
    found = connected(twins(), monkeypatch)
    listed = {machine.uid: [d.uid for d in machine.devices] for machine in found.machines()}
    assert listed[M0] == [d.uid for d in found.machine(M0).devices] == [f"{BLOCKS}/a"]


def test_a_device_is_detached_by_the_name_that_was_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeService(twins(), lambda fake, call: Blink._change(fake, call))
    monkeypatch.setattr(driver, "Session", lambda *_unused: fake.as_session())
    found = driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "http://x.example"}))
    found.detach(M0, f"{BLOCKS}/a")
    assert [call.body["ResourceBlock"] for call in fake.asked("POST")] == [{"@odata.id": f"{BLOCKS}/a"}]


def test_a_name_that_a_second_device_has_taken_is_not_detached(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=f"several devices of this name.*{BLOCKS}/a"):
        connected(twins(), monkeypatch).detach(M0, "1")


def test_a_404_of_a_proxy_is_no_detach(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Unavailable("404: a page")
    page.status = 404
    documents = composable([block("a", "Composed", on=["m0"])])
    for path in (f"{BLOCKS}/a", f"{SYSTEMS}/m0", SYSTEMS):
        with pytest.raises(Unavailable, match="404"):
            connected({**documents, path: page}, monkeypatch).detach(M0, "a")
    links = switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0"])
    with pytest.raises(Unavailable, match="404"):
        connected({**links, f"{FABRIC}/Connections/c": page}, monkeypatch).detach(M0, "1/t0")


def test_a_connection_that_one_reading_leaves_out_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(documents: Json) -> None:
        documents[f"{FABRIC}/Connections"] = {"Members": [], "Members@odata.count": 0}

    documents = switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0"])
    found, fake = on_blink(documents, without, f"{FABRIC}/Connections", monkeypatch)
    assert found.detach(M0, "1/t0").done
    assert [call.path for call in fake.asked("DELETE")] == [f"{FABRIC}/Connections/c"]


def test_a_device_that_no_reading_shows_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    found, fake = on_blink(composable([block("a")]), _unlinked, f"{BLOCKS}/a", monkeypatch)
    assert found.detach(M0, "a") == Task(True)
    with pytest.raises(Missing):
        found.detach("nobody", "a")
    assert fake.asked("POST") == []


ON_TWO = {
    "connections": switched([connection("a", ["i0"], ["t0"]), connection("b", ["i1"], ["t0"])], SHARED, ["t0"]),
    "zones": switched(None, {"0": ["i0", "t0"], "1": ["i1", "t0"]}, ["t0"]),
    "blocks": composable([block("t0", "Composed", on=["m0", "m1"])]),
}


@pytest.mark.parametrize("way", ON_TWO)
def test_a_device_that_another_machine_has_too_says_so(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the reading of one machine, which does not read the other one."""
    found = connected(ON_TWO[way], monkeypatch)
    assert [[d.shared for d in machine.devices] for machine in found.machines()] == [[True], [True]]
    assert [d.shared for d in found.machine(M0).devices] == [d.shared for d in found.machine(M1).devices] == [True]


def test_a_device_of_one_machine_and_a_block_that_may_be_shared_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    several = block("a", "ComposedAndAvailable", on=["m0", "m1"])
    several["CompositionStatus"]["SharingCapable"] = True
    found = connected(composable([several, block("b", "Composed", on=["m0"])]), monkeypatch)
    assert [d.shared for d in found.machine(M0).devices] == [False, False]


def test_a_second_host_port_in_a_machines_zone_is_no_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every service says whose each host port is."""
    documents = switched(None, {"0": ["i0", "i9", "t0"], "1": ["i1"]}, ["t0"])
    where = f"{FABRIC}/Endpoints"
    documents[f"{where}/i9"] = endpoint("i9", "/redfish/v1/Systems/hidden", "Initiator", "RootComplex")
    documents[where] = collection(where, ["i0", "i1", "i9", "t0"])
    found = connected(documents, monkeypatch)
    assert [(d.uid, d.shared) for d in found.machine(M0).devices] == [("1/t0", False)]


class Late(FakeService):
    """A service that shows another client's connection only after a few looks at the connections."""

    def __init__(self, looks: int) -> None:
        super().__init__(switched([], SHARED, ["t0"]), self._connect)
        self.looks, self.made = looks, False

    def get(self, path: str) -> JsonResponse:
        if path == f"{FABRIC}/Connections" and self.made:
            self.looks -= 1
            names = {"ours": "i0", **({} if self.looks > 0 else {"theirs": "i1"})}
            self.documents |= {f"{FABRIC}/Connections/{n}": connection(n, [i], ["t0"]) for n, i in names.items()}
            self.documents[path] = collection(path, names)
        return super().get(path)

    def _connect(self, fake: FakeService, call: Request) -> JsonResponse:
        self.made = True
        return JsonResponse(204, {}, None)


def test_the_last_look_before_a_device_is_handed_over_refuses_one_on_two_machines(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Late(looks=2)
    monkeypatch.setattr(driver, "Session", lambda *_unused: fake.as_session())
    found = driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "http://x.example"}))
    with pytest.raises(Refused, match=r"another machine has it too\. Return it") as caught:
        found.attach(M0, "A100")
    assert caught.value.device is not None
    assert caught.value.device.uid == "1/t0"
