# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FM's client above the wire: partial success, sick devices, one failing count among good ones."""

from __future__ import annotations

import threading
import typing as t
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Capabilities, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.driver_support import (
    Connect,
    FakeSession,
    entry,
    listing,
)

TENANT = "7e63fd31-0a5c-4d1b-9a52-c0de00000001"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def make(answer: t.Callable[[Request], t.Any]) -> tuple[driver.FmDriver, FakeSession]:
        session = FakeSession(answer)
        monkeypatch.setattr(driver, "Session", lambda *_unused: session)
        keys = ("username", "password", "realm", "client_id", "client_secret")
        given = {"endpoint": "https://fm", "tenant": TENANT, **dict.fromkeys(keys, "x")}
        manager = connect(FabricConfig.from_dict(given))
        assert isinstance(manager, driver.FmDriver)
        return manager, session

    return make


def model_of(call: Request) -> str:
    return parse_qs(urlsplit(call.path).query)["condition"][0]


def test_capabilities_are_fms() -> None:
    assert driver.FmDriver.capabilities == Capabilities(asynchronous=False, batch=False)


def test_every_call_names_the_tenant(connected: Connect) -> None:
    manager, session = connected(lambda _unused: listing(entry("m/1", 1)))
    manager.machines()
    manager.machine("m/1")
    assert [urlsplit(call.path).query for call in session.calls] == [f"tenant_uuid={TENANT}"] * 2
    assert urlsplit(session.calls[1].path).path == "/fabric_manager/api/v1/machines/m%2F1"


def test_an_empty_list_of_machines_is_a_missing_machine(connected: Connect) -> None:
    manager, _unused = connected(lambda _unused: listing())
    with pytest.raises(Missing, match="read machine m1"):
        manager.machine("m1")


def test_an_answer_about_another_machine_is_not_believed(connected: Connect) -> None:
    manager, session = connected(lambda _unused: listing(entry("m2", 1, "d2")))
    with pytest.raises(Unavailable, match=r"read machine m1.*it is about machine m2"):
        manager.machine("m1")
    with pytest.raises(Unavailable, match="it is about machine m2"):
        manager.detach("m1", "d1")
    assert [call.method for call in session.calls] == ["GET", "GET"]


def test_a_machine_is_found_among_others(connected: Connect) -> None:
    manager, session = connected(lambda _unused: listing(entry("m2", 1, "d2"), entry("M1", 1, "d1")))
    assert [device.uid for device in manager.machine("m1").devices] == ["d1"]
    assert [device.uid for device in manager.detach("m1", "d1").devices] == ["d1"]
    assert [call.method for call in session.calls] == ["GET", "GET", "DELETE"]
    assert [device.uid for device in manager.attach("m1", "A100").devices] == ["d1"]


def test_an_attach_that_is_answered_with_another_machine_is_uncertain(connected: Connect) -> None:
    manager, _session = connected(lambda _unused: listing(entry("m2", 1, "d2")))
    with pytest.raises(Uncertain, match="it is about machine m2"):
        manager.attach("m1", "A100")


def test_a_snapshot_asks_once_per_model_and_fabric(connected: Connect) -> None:
    def answer(call: Request) -> t.Any:
        if "available" in call.path:
            return {"reserved_res_num_per_fabric": 3 if "A100" in model_of(call) else 5}
        return listing(entry("m1", 1), entry("m2", 1), entry("m3", 2), entry("m4", None))

    manager, session = connected(answer)
    found = manager.snapshot(["A100", "H100", "A100"])
    assert found.free == {("A100", 1): 3, ("A100", 2): 3, ("H100", 1): 5, ("H100", 2): 5}
    assert found.problems == {}
    assert found.machines["m4"].fabric is None
    assert len(session.calls) == 5


def test_one_failing_count_leaves_the_others(connected: Connect) -> None:
    def answer(call: Request) -> t.Any:
        if "available" not in call.path:
            return listing(entry("m1", 1), entry("m2", 2))
        if "H100" in model_of(call) and "/m2/" in call.path:
            return Unavailable("no reply within 30 s")
        return {"reserved_res_num_per_fabric": 4} if "L40S" not in model_of(call) else {"x": 1}

    manager, _unused = connected(answer)
    found = manager.snapshot(["A100", "H100", "L40S"])
    assert found.free == {("A100", 1): 4, ("A100", 2): 4, ("H100", 1): 4}
    assert set(found.problems) == {"H100/2", "L40S/1", "L40S/2"}
    assert found.problems["H100/2"] == "fabric 2: no reply within 30 s"
    assert "reserved_res_num_per_fabric" in found.problems["L40S/1"]


def test_a_listing_that_fails_fails_the_snapshot(connected: Connect) -> None:
    manager, _unused = connected(lambda _unused: Unavailable("away"))
    with pytest.raises(Unavailable):
        manager.snapshot(["A100"])


@pytest.mark.parametrize(("op_status", "health"), [("00", "OK"), ("10", "Warning")])
def test_attach_accepts_ok_and_warning(connected: Connect, op_status: str, health: str) -> None:
    manager, session = connected(lambda _unused: listing(entry("m1", 1, "d1", op_status=op_status)))
    task = manager.attach("m1", "A100", token="token-1")
    assert (task.done, [(d.uid, d.health) for d in task.devices]) == (True, [("d1", health)])
    assert (session.calls[0].method, session.calls[0].effect, session.calls[0].timeout) == ("PATCH", True, 180)


@pytest.mark.parametrize(("op_status", "health"), [("20", "Critical"), ("3", "Unknown"), ("", "Unknown")])
def test_attach_refuses_a_sick_device_and_names_it_to_be_returned(
    connected: Connect, op_status: str, health: str
) -> None:
    manager, _unused = connected(lambda _unused: listing(entry("m1", 1, "d1", op_status=op_status)))
    with pytest.raises(Refused, match=f"device d1 .*machine m1.*{health}.*res_op_status '{op_status}'") as caught:
        manager.attach("m1", "A100")
    assert caught.value.device is not None
    assert caught.value.device.uid == "d1"
    assert not caught.value.exhausted


@pytest.mark.parametrize("body", [listing(), listing(entry("m1", 1)), {}, [], None])
def test_a_reply_that_names_no_device_is_uncertain(connected: Connect, body: t.Any) -> None:
    manager, _unused = connected(lambda _unused: body)
    with pytest.raises(Uncertain, match="It may have taken effect"):
        manager.attach("m1", "A100")


@pytest.mark.parametrize(
    ("error", "free", "exhausted"),
    [
        (Missing("404", code="E02", detail="insufficient resources"), None, True),
        (Missing("404", code="E02", detail="insufficient_resources"), None, True),
        (Refused("400", code="E02", detail="no free device"), None, True),
        (Refused("400", code="E02", detail="no"), {"reserved_res_num_per_fabric": 0}, True),
        (Missing("404", code="E02", detail="Ressourcen fehlen"), {"reserved_res_num_per_fabric": 0}, True),
        (Refused("400", code="E02", detail="no"), {"reserved_res_num_per_fabric": 1}, False),
        (Missing("404", code="E02", detail="machine not found"), Missing("404"), False),
    ],
)
def test_exhaustion_is_told_by_the_managers_words_or_by_asking(
    connected: Connect, error: FabricError, free: t.Any, exhausted: bool
) -> None:
    manager, session = connected(lambda call: error if call.method == "PATCH" else free)
    with pytest.raises(FabricError) as caught:
        manager.attach("m1", "A100")
    assert getattr(caught.value, "exhausted", False) is exhausted
    assert isinstance(caught.value, Refused if exhausted else type(error))
    assert caught.value.code == "E02"
    assert len(session.calls) == (1 if free is None else 2)


def test_several_devices_are_several_requests_at_once(connected: Connect) -> None:
    together, numbers = threading.Barrier(4, timeout=10), iter(range(4))

    def answer(_call: Request) -> t.Any:
        number = next(numbers)
        together.wait()
        return listing(entry("m1", 1, f"d{number}"))

    manager, _unused = connected(answer)
    assert {d.uid for d in manager.attach("m1", "A100", 4).devices} == {"d0", "d1", "d2", "d3"}


def test_partial_success_names_what_was_attached_and_the_gravest_error(connected: Connect) -> None:
    sick = entry("m1", 1, "sick", op_status="20")
    answers = iter(
        [listing(entry("m1", 1, "d1")), Busy("busy"), listing(sick), Uncertain("lost"), listing(entry("m1", 1, "d2"))]
    )
    lock = threading.Lock()

    def answer(_call: Request) -> t.Any:
        with lock:
            return next(answers)

    manager, _unused = connected(answer)
    with pytest.raises(Uncertain, match="lost") as caught:
        manager.attach("m1", "A100", 5)
    assert {d.uid for d in caught.value.devices} == {"d1", "d2"}
    assert {type(e) for e in caught.value.errors} == {Busy, Refused, Uncertain}
    assert [e.device.uid for e in caught.value.errors if e.device] == ["sick"]


def test_detaching_a_device_that_two_readings_do_not_show_sends_no_delete(connected: Connect) -> None:
    manager, session = connected(lambda _unused: listing(entry("m1", 1, "d2")))
    assert manager.detach("m1", "d1") == Task(True)
    assert [call.method for call in session.calls] == ["GET", "GET"]


def test_detaching_a_device_that_one_reading_left_out(connected: Connect) -> None:
    answers = iter([listing(entry("m1", 1)), listing(entry("m1", 1, "d1")), None])
    manager, session = connected(lambda _unused: next(answers))
    manager.detach("m1", "d1")
    assert [call.method for call in session.calls] == ["GET", "GET", "DELETE"]


def test_detaching_reads_first_and_ignores_the_reply(connected: Connect) -> None:
    manager, session = connected(lambda _unused: listing(entry("m1", 1, "d1")))
    assert [d.uid for d in manager.detach("m1", "d1").devices] == ["d1"]
    assert [(c.method, c.effect, c.reads) for c in session.calls] == [("GET", False, True), ("DELETE", True, False)]


def test_a_device_that_another_detached_meanwhile_is_done(connected: Connect) -> None:
    answers = iter([listing(entry("m1", 1, "d1")), Missing("resource not found"), listing(entry("m1", 1))])
    manager, _unused = connected(lambda _unused: next(answers))
    assert manager.detach("m1", "d1").done


def test_a_delete_that_finds_nothing_though_the_device_is_there_is_an_error(connected: Connect) -> None:
    here = listing(entry("m1", 1, "d1"))
    answers = iter([here, Missing("resource not found"), here])
    manager, _unused = connected(lambda _unused: next(answers))
    with pytest.raises(Missing):
        manager.detach("m1", "d1")


def test_close_closes_the_session(connected: Connect) -> None:
    manager, session = connected(lambda _unused: None)
    manager.close()
    assert session.closed
