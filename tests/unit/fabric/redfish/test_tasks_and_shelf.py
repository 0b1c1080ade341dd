# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Task monitors, handles of several operations, and which free unit a wish takes."""

from __future__ import annotations

import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric import polling
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.compose import picture
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.picture import Picture
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.reader import Reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.shelf import Shelf
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.tasks import Monitor, handle_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.redfish.together import Together
from ansible_collections.composable.infra.plugins.module_utils.fabric.verdicts import Answer, Call
from ansible_collections.composable.infra.tests.unit.fabric.redfish.fake_service import (
    ROOT,
    UUIDS,
    FakeService,
    block,
    composable,
)

M0 = UUIDS["m0"]
HANDLE = f"{ROOT}/TaskService/TaskMonitors/1"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "FIRST_LOOK", 0.0)


def task(state: str, **more: t.Any) -> dict[str, t.Any]:
    return {"@odata.type": "#Task.v1_7_4.Task", "TaskState": state, **more}


class Replies(FakeService):
    """Gives one reply after the other."""

    def __init__(self, *replies: Answer | FabricError) -> None:
        super().__init__({})
        self.left = list(replies)

    def exchange(self, call: Call) -> Answer:
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(found, FabricError):
            raise found
        return found


def wait(*replies: Answer | FabricError, seconds: float = 5.0) -> None:
    Monitor(Replies(*replies).as_session()).wait(HANDLE, "attach it", seconds)


def status(error: FabricError, number: int) -> FabricError:
    error.status = number
    return error


@pytest.mark.parametrize("last", [
    Answer(204, {}, None), Answer(200, {}, {"some": "resource"}), Answer(201, {}, None),
    Answer(200, {}, task("Completed")), Answer(200, {}, task("Completed", TaskStatus="OK")),
])
def test_a_task_that_ends_well(last: Answer) -> None:
    wait(Answer(202, {}, None), Answer(202, {}, task("Running")), Answer(200, {}, task("Starting")), last)


@pytest.mark.parametrize("state", ["Exception", "Killed", "Cancelled"])
def test_a_task_that_fails_is_refused_with_its_words(state: str) -> None:
    messages = [{"MessageId": "Base.1.0.OperationFailed", "Message": "the switch is off"}]
    with pytest.raises(Refused, match="the switch is off") as refused:
        wait(Answer(200, {}, task(state, Messages=messages)))
    assert refused.value.code == "Base.1.0.OperationFailed"
    with pytest.raises(Refused, match="no reason"):
        wait(Answer(200, {}, task("Completed", TaskStatus="Critical")))


@pytest.mark.parametrize("error", [
    Unavailable("away"), Unauthorized("who?"), status(Busy("slow down"), 429), status(Busy("locked"), 423),
])
def test_not_being_answered_is_no_end(error: FabricError) -> None:
    wait(error, Answer(204, {}, None))


@pytest.mark.parametrize("error", [status(Refused("no"), 400), status(Busy("in use"), 409)])
def test_the_operations_own_error_is_its_end(error: FabricError) -> None:
    with pytest.raises(type(error)):
        wait(Answer(202, {}, None), error)


def test_a_task_that_is_not_known() -> None:
    with pytest.raises(Missing):
        wait(status(Unavailable("nothing there"), 404))


@pytest.mark.parametrize("handle", ["", "no-path", "4b8f0b9c-0000-4000-8000-000000000000", "//x.example/redfish"])
def test_a_handle_of_another_manager_is_not_known(handle: str) -> None:
    replies = Replies(Answer(202, {}, None))
    with pytest.raises(Missing):
        Monitor(replies.as_session()).wait(handle, "attach it", 5.0)


def test_what_is_answered_by_something_else_is_no_task() -> None:
    with pytest.raises(Unavailable):
        wait(status(Unavailable("a page"), 400))


def test_a_task_that_takes_too_long() -> None:
    with pytest.raises(Uncertain, match="still at work"):
        wait(Answer(202, {}, None), seconds=0.02)


@pytest.mark.parametrize(("answer", "handle"), [
    (Answer(202, {"Location": f"https://x.example{HANDLE}"}, None), HANDLE),
    (Answer(202, {}, {"@odata.type": "#Task.v1_7_4.Task", "TaskMonitor": HANDLE, "@odata.id": "/t"}), HANDLE),
    (Answer(202, {}, {"@odata.id": "/redfish/v1/TaskService/Tasks/1"}), "/redfish/v1/TaskService/Tasks/1"),
    (Answer(202, {}, None), None), (Answer(200, {"Location": HANDLE}, None), None),
])
def test_where_a_task_is(answer: Answer, handle: str | None) -> None:
    assert handle_of(answer) == handle


def test_handles_are_told_once_when_all_are_known() -> None:
    told: list[str] = []
    together = Together(3, told.append)
    both = threading.Barrier(2)

    def work(number: int) -> None:
        def one(say: t.Callable[[str], None]) -> None:
            if number == 2:
                return
            both.wait(5)
            say(f"handle-{number}")
            say("said twice")

        together.run(number, one)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert told == ["handle-0\nhandle-1"]
    assert together.handles == "handle-0\nhandle-1"


def test_without_handles_nothing_is_told() -> None:
    told: list[str] = []
    together = Together(2, told.append)
    with pytest.raises(Refused):
        together.run(0, refuse)
    together.run(1, lambda say: None)
    assert (told, together.handles) == ([], None)


def refuse(_say: t.Callable[[str], None]) -> None:
    raise Refused("no")


def shelf(count: int) -> tuple[Shelf, list[float]]:
    """A shelf of ``count`` GPUs, and when it was looked at."""
    fake, looks = FakeService(composable([block(f"g{n}") for n in range(count)])), list[float]()
    shown: Picture = picture(Reader(Service(fake.as_session())).tree())

    def look() -> Picture:
        looks.append(time.monotonic())
        return shown

    return Shelf(look), looks


def take(found: Shelf, token: str | None = None, tried: t.Collection[str] = ()) -> str:
    return found.take(M0, "A100", "gpu", token, tried).unit.uid


def test_nobody_reaches_for_the_same_unit() -> None:
    found, looks = shelf(8)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda n: take(found, "one wish"), range(8))) == [f"g{n}" for n in range(8)]
    assert len(looks) == 1
    with pytest.raises(Refused) as refused:
        take(found)
    assert refused.value.exhausted


def test_a_wish_has_an_order_of_its_own() -> None:
    orders = []
    for token in ("a", "b", "a"):
        found, _looks = shelf(8)
        orders.append([take(found, token) for _unit in range(8)])
    assert orders[0] == orders[2] != orders[1]


def test_what_was_not_taken_comes_back() -> None:
    found, _looks = shelf(1)
    uid = take(found)
    found.release(uid, moved=False)
    assert take(found) == uid


def test_what_was_taken_comes_back_with_a_new_picture_only() -> None:
    found, looks = shelf(1)
    uid = take(found)
    found.release(uid, moved=True)
    before = len(looks)
    assert take(found) == uid
    assert len(looks) == before + 1


def test_what_was_tried_is_not_tried_again() -> None:
    found, _looks = shelf(2)
    first = take(found, "x")
    found.release(first, moved=False)
    assert take(found, "x", {first}) != first


def test_a_picture_is_shared_by_those_who_wait_for_it() -> None:
    found, looks = shelf(1)
    first = found.picture()
    assert found.picture(oldest=60.0) is first
    assert len(looks) == 1
    found.picture()
    assert len(looks) == 2


def test_an_unknown_machine_is_looked_for_anew() -> None:
    found, looks = shelf(1)
    found.picture()
    with pytest.raises(Missing):
        found.take("nobody", "A100", "gpu", None, ())
    assert len(looks) == 2
