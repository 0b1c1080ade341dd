# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Task monitors, handles of several operations, and which free unit a token takes."""

from __future__ import annotations

import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.build import service_model
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.service_model import (
    ServiceModel,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.unit_allocator import (
    UnitAllocator,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.reader import Reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.tasks import Monitor, handle_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.handle_collector import HandleCollector
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    ROOT,
    UUIDS,
    FakeService,
    block,
    composable,
    system,
)

M0 = UUIDS["m0"]
HANDLE = f"{ROOT}/TaskService/TaskMonitors/1"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LOOKS", Backoff(0.0))


def task(state: str, **more: t.Any) -> dict[str, t.Any]:
    return {"@odata.type": "#Task.v1_7_4.Task", "TaskState": state, **more}


class Replies(FakeService):
    """Gives one reply after the other."""

    def __init__(self, *replies: JsonResponse | FabricError) -> None:
        super().__init__({})
        self.left = list(replies)

    def call(self, call: Request) -> JsonResponse:
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(found, FabricError):
            raise found
        return found


def wait(*replies: JsonResponse | FabricError, seconds: float = 5.0) -> None:
    Monitor(Replies(*replies).as_session()).wait(HANDLE, "attach it", seconds)


def status(error: FabricError, number: int) -> FabricError:
    error.status = number
    return error


@pytest.mark.parametrize("last", [
    JsonResponse(204, {}, None), JsonResponse(200, {}, {"some": "resource"}), JsonResponse(201, {}, None),
    JsonResponse(200, {}, task("Completed")), JsonResponse(200, {}, task("Completed", TaskStatus="OK")),
])
def test_a_task_that_ends_well(last: JsonResponse) -> None:
    wait(JsonResponse(202, {}, None), JsonResponse(202, {}, task("Running")),
         JsonResponse(200, {}, task("Starting")), last)


@pytest.mark.parametrize("state", ["Exception", "Killed", "Cancelled"])
def test_a_task_that_fails_is_refused_with_its_words(state: str) -> None:
    messages = [{"MessageId": "Base.1.0.OperationFailed", "Message": "the switch is off"}]
    with pytest.raises(Refused, match="the switch is off") as refused:
        wait(JsonResponse(200, {}, task(state, Messages=messages)))
    assert refused.value.code == "Base.1.0.OperationFailed"
    with pytest.raises(Refused, match="no reason"):
        wait(JsonResponse(200, {}, task("Completed", TaskStatus="Critical")))


@pytest.mark.parametrize("error", [
    Unavailable("away"), Unauthorized("who?"), status(Busy("slow down"), 429), status(Busy("locked"), 423),
])
def test_not_being_answered_is_no_end(error: FabricError) -> None:
    wait(error, JsonResponse(204, {}, None))


@pytest.mark.parametrize("error", [status(Refused("no"), 400), status(Busy("in use"), 409)])
def test_the_operations_own_error_is_its_end(error: FabricError) -> None:
    with pytest.raises(type(error)):
        wait(JsonResponse(202, {}, None), error)


def test_a_task_that_is_not_known() -> None:
    with pytest.raises(Missing):
        wait(status(Missing("nothing there"), 404))


@pytest.mark.parametrize("handle", ["", "no-path", "4b8f0b9c-0000-4000-8000-000000000000", "//x.example/redfish"])
def test_a_handle_of_another_manager_is_not_known(handle: str) -> None:
    replies = Replies(JsonResponse(202, {}, None))
    with pytest.raises(Missing):
        Monitor(replies.as_session()).wait(handle, "attach it", 5.0)


@pytest.mark.parametrize("code", [302, 400, 404])
def test_what_something_else_answers_says_nothing_of_the_task(code: int) -> None:
    wait(status(Unavailable("a page"), code), JsonResponse(200, {}, None))
    with pytest.raises(Uncertain):
        wait(status(Unavailable("a page"), code), seconds=0.01)


def test_a_task_that_takes_too_long() -> None:
    with pytest.raises(Uncertain, match="still at work"):
        wait(JsonResponse(202, {}, None), seconds=0.02)


@pytest.mark.parametrize(("answer", "handle"), [
    (JsonResponse(202, {"location": f"https://x.example{HANDLE}"}, None), HANDLE),
    (JsonResponse(202, {}, {"@odata.type": "#Task.v1_7_4.Task", "TaskMonitor": HANDLE, "@odata.id": "/t"}), HANDLE),
    (JsonResponse(202, {}, {"@odata.id": "/redfish/v1/TaskService/Tasks/1"}), "/redfish/v1/TaskService/Tasks/1"),
    (JsonResponse(202, {}, None), None), (JsonResponse(200, {"location": HANDLE}, None), None),
])
def test_where_a_task_is(answer: JsonResponse, handle: str | None) -> None:
    assert handle_of(answer) == handle


def test_handles_are_told_once_when_all_are_known() -> None:
    told: list[tuple[str, ...]] = []
    collector = HandleCollector(3, told.append)
    both = threading.Barrier(2)

    def work(number: int) -> None:
        def one(say: t.Callable[[tuple[str, ...]], None]) -> None:
            if number == 2:
                return
            both.wait(5)
            say((f"handle-{number}",))
            say(("said twice",))

        collector.run(number, one)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert told == [("handle-0", "handle-1")]
    assert collector.handles == ("handle-0", "handle-1")


def test_without_handles_nothing_is_told() -> None:
    told: list[tuple[str, ...]] = []
    collector = HandleCollector(2, told.append)
    with pytest.raises(Refused):
        collector.run(0, refuse)
    collector.run(1, lambda say: None)
    assert (told, collector.handles) == ([], ())


def refuse(_say: t.Callable[[tuple[str, ...]], None]) -> None:
    raise Refused("no")


def model(count: int) -> ServiceModel:
    """What a service with ``count`` GPUs shows."""
    fake = FakeService(composable([block(f"g{n}") for n in range(count)]))
    return service_model(Reader(Service(fake.as_session())).tree())


def allocator(count: int) -> tuple[UnitAllocator, list[float]]:
    """An allocator of ``count`` GPUs, and when it was looked at."""
    shown, looks = model(count), list[float]()

    def look() -> ServiceModel:
        looks.append(time.monotonic())
        return shown

    return UnitAllocator(look), looks


def take(found: UnitAllocator, token: str | None = None, tried: t.Collection[str] = ()) -> str:
    return found.take(M0, "A100", "gpu", token, tried).unit.uid


def test_nobody_reaches_for_the_same_unit() -> None:
    found, looks = allocator(8)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda n: take(found, "one token"), range(8))) == [f"g{n}" for n in range(8)]
    assert len(looks) == 1
    with pytest.raises(Refused) as refused:
        take(found)
    assert refused.value.exhausted


def test_a_token_has_an_order_of_its_own() -> None:
    orders = []
    for token in ("a", "b", "a"):
        found, _looks = allocator(8)
        orders.append([take(found, token) for _unit in range(8)])
    assert orders[0] == orders[2] != orders[1]


def test_a_refused_unit_that_is_gone_is_not_offered_again() -> None:
    """The model from before the refusal still shows it; only a new look tells."""
    models = [model(2), model(1)]
    found = UnitAllocator(lambda: models.pop(0))
    taken = {take(found), take(found)}
    found.release("g1")
    assert taken == {"g0", "g1"}
    with pytest.raises(Refused) as refused:
        take(found)
    assert refused.value.exhausted


def test_what_was_released_comes_back_with_a_new_model_only() -> None:
    found, looks = allocator(1)
    uid = take(found)
    found.release(uid)
    before = len(looks)
    assert take(found) == uid
    assert len(looks) == before + 1


def test_what_was_tried_is_not_tried_again() -> None:
    found, _looks = allocator(2)
    first = take(found, "x")
    found.release(first)
    assert take(found, "x", {first}) != first


def test_a_model_is_shared_by_those_who_wait_for_it() -> None:
    found, looks = allocator(1)
    first = found.service_model()
    assert found.service_model(oldest=60.0) is first
    assert len(looks) == 1
    found.service_model()
    assert len(looks) == 2


def test_an_unknown_machine_is_looked_for_anew() -> None:
    found, looks = allocator(1)
    found.service_model()
    with pytest.raises(Missing):
        found.take("nobody", "A100", "gpu", None, ())
    assert len(looks) == 2


def test_free_devices_that_no_way_leads_to_are_not_exhausted() -> None:
    documents = composable([block("a"), block("b")], [system("m0", ["m0"], actions=False)])
    reader = Reader(Service(FakeService(documents).as_session()))
    with pytest.raises(Refused, match=r"2 are free, but .* none of AddResourceBlock, .*, AddEndpoint, Zones") as no:
        UnitAllocator(lambda: service_model(reader.tree())).take(M0, "A100", "gpu", None, ())
    assert not no.value.exhausted
