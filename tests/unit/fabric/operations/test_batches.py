# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One batch at work while others gather; each operation has its own outcome; nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Missing, Refused, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import (
    Batches,
    PendingOperation,
    Take,
    task_of,
)

SOON = 10


class Gate:
    """A worker that notes its batches; each waits until the test lets it go."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def work(self, key: object, take: Take[str]) -> None:
        operations = take()
        self.batches.append([o.what for o in operations])
        self.begun.release()
        assert self.go.acquire(timeout=SOON)
        for operation in operations:
            operation.fulfil(Device(operation.what, "A100"))


def test_what_comes_while_one_is_in_flight_goes_together_in_the_next() -> None:
    gate = Gate()
    batches = Batches(gate.work)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(batches.run, "m", ["a"])
        assert gate.begun.acquire(timeout=SOON)
        others = [pool.submit(batches.run, "m", [name]) for name in "bcdef"]
        while sum(len(waiting) for waiting in batches._waiting.values()) < 5:
            threading.Event().wait(0.001)
        gate.go.release(2)
        for future in (first, *others):
            (operation,) = future.result(timeout=SOON)
            assert operation.device
            assert operation.device.uid == operation.what
    assert len(gate.batches) == 2
    assert sorted(gate.batches[1]) == list("bcdef")


def test_different_keys_go_at_the_same_time() -> None:
    gate = Gate()
    batches = Batches(gate.work)
    with ThreadPoolExecutor(2) as pool:
        asking: list[Future[list[PendingOperation[str]]]] = [pool.submit(batches.run, key, [key]) for key in ("m", "n")]
        assert gate.begun.acquire(timeout=SOON)
        assert gate.begun.acquire(timeout=SOON)
        gate.go.release(2)
        assert {future.result(timeout=SOON)[0].what for future in asking} == {"m", "n"}


def test_started_is_called_once_with_all_handles_before_the_end() -> None:
    told: list[tuple[str, ...]] = []
    heard = threading.Event()

    def work(key: object, take: Take[int]) -> None:
        operations = take()
        operations[2].fail(Refused("no"))
        for operation in operations[:2]:
            operation.accept(f"handle-{operation.what}")
        assert heard.wait(SOON)
        for operation in operations[:2]:
            operation.fulfil()

    def started(handles: tuple[str, ...]) -> None:
        told.append(handles)
        heard.set()

    operations = Batches(work).run("m", [1, 2, 3], started)
    assert told == [("handle-1", "handle-2")]
    assert isinstance(operations[2].error, Refused)


def test_nothing_is_told_when_nothing_was_accepted() -> None:
    told: list[tuple[str, ...]] = []

    def work(key: object, take: Take[int]) -> None:
        for operation in take():
            operation.fulfil()

    assert Batches(work).run("m", [1], told.append)[0].error is None
    assert told == []


def test_an_error_before_anything_was_taken_is_for_all_who_wait_each_its_own_instance() -> None:
    def work(key: object, take: Take[int]) -> None:
        raise Busy("later", retry_after=3)

    operations = Batches(work).run("m", [1, 2])
    errors = [o.error for o in operations]
    assert all(isinstance(e, Busy) and (e.message, e.retry_after) == ("later", 3) for e in errors)
    assert errors[0] is not errors[1]


def test_an_error_on_the_way_leaves_what_was_finished_before() -> None:
    def work(key: object, take: Take[int]) -> None:
        operations = take()
        operations[0].fulfil()
        raise Uncertain("lost")

    done, lost = Batches(work).run("m", [1, 2])
    assert done.error is None
    assert isinstance(lost.error, Uncertain)


def test_a_worker_that_forgets_an_operation_fails_it_instead_of_hanging() -> None:
    def work(key: object, take: Take[int]) -> None:
        """Take nothing, finish nothing."""

    (operation,) = Batches(work).run("m", [1])
    assert isinstance(operation.error, AssertionError)
    with pytest.raises(AssertionError, match="left this open"):
        task_of([operation])


def test_the_next_batch_comes_after_a_failed_one() -> None:
    outcomes = iter([Busy("x"), None])

    def work(key: object, take: Take[int]) -> None:
        if error := next(outcomes):
            raise error
        for operation in take():
            operation.fulfil()

    batches = Batches(work)
    assert isinstance(batches.run("m", [1])[0].error, Busy)
    assert batches.run("m", [2])[0].error is None
    assert not batches._busy


def test_the_first_outcome_stays() -> None:
    operation = PendingOperation(1)
    operation.fulfil(Device("d", "A100"))
    operation.fail(Refused("no"))
    assert operation.error is None
    other = PendingOperation(2)
    other.fail(Refused("no"))
    other.fulfil(Device("e", "A100"))
    assert other.device is None


def test_several_outcomes_become_one_task_or_the_gravest_error_with_what_was_attached() -> None:
    operations = [PendingOperation(n) for n in range(3)]
    for operation in operations:
        operation.accept(f"h{operation.what}")
        operation.fulfil(Device(f"d{operation.what}", "A100"))
    task = task_of(operations)
    assert (task.done, [d.uid for d in task.devices], task.handles) == (True, ["d0", "d1", "d2"], ("h0", "h1", "h2"))
    bad, worse = PendingOperation(3), PendingOperation(4)
    bad.fail(Missing("gone"))
    worse.fail(Uncertain("lost"))
    with pytest.raises(Uncertain) as caught:
        task_of([*operations, bad, worse])
    assert [d.uid for d in caught.value.devices] == ["d0", "d1", "d2"]
    assert [type(e) for e in caught.value.errors] == [Missing, Uncertain]
