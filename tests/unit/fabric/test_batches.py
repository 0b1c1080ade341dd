# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One batch in flight while others gather; each wish has its own outcome; nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.batches import Batches, Take, Wish, task_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Missing, Refused, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.fabric.types import Device

SOON = 10


class Gate:
    """A worker that notes its batches; each waits until the test lets it go."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def work(self, key: object, take: Take[str]) -> None:
        wishes = take()
        self.batches.append([w.what for w in wishes])
        self.begun.release()
        assert self.go.acquire(timeout=SOON)
        for wish in wishes:
            wish.fulfil(Device(wish.what, "A100"))


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
            (wish,) = future.result(timeout=SOON)
            assert wish.device
            assert wish.device.uid == wish.what
    assert len(gate.batches) == 2
    assert sorted(gate.batches[1]) == list("bcdef")


def test_different_keys_go_at_the_same_time() -> None:
    gate = Gate()
    batches = Batches(gate.work)
    with ThreadPoolExecutor(2) as pool:
        asking: list[Future[list[Wish[str]]]] = [pool.submit(batches.run, key, [key]) for key in ("m", "n")]
        assert gate.begun.acquire(timeout=SOON)
        assert gate.begun.acquire(timeout=SOON)
        gate.go.release(2)
        assert {future.result(timeout=SOON)[0].what for future in asking} == {"m", "n"}


def test_started_is_called_once_with_all_handles_before_the_end() -> None:
    told: list[str] = []
    heard = threading.Event()

    def work(key: object, take: Take[int]) -> None:
        wishes = take()
        wishes[2].fail(Refused("no"))
        for wish in wishes[:2]:
            wish.accept(f"handle-{wish.what}")
        assert heard.wait(SOON)
        for wish in wishes[:2]:
            wish.fulfil()

    def started(handle: str) -> None:
        told.append(handle)
        heard.set()

    wishes = Batches(work).run("m", [1, 2, 3], started)
    assert told == ["handle-1\nhandle-2"]
    assert isinstance(wishes[2].error, Refused)


def test_nothing_is_told_when_nothing_was_accepted() -> None:
    told: list[str] = []

    def work(key: object, take: Take[int]) -> None:
        for wish in take():
            wish.fulfil()

    assert Batches(work).run("m", [1], told.append)[0].error is None
    assert told == []


def test_an_error_before_anything_was_taken_is_for_all_who_wait_each_its_own_instance() -> None:
    def work(key: object, take: Take[int]) -> None:
        raise Busy("later", retry_after=3)

    wishes = Batches(work).run("m", [1, 2])
    errors = [w.error for w in wishes]
    assert all(isinstance(e, Busy) and (e.message, e.retry_after) == ("later", 3) for e in errors)
    assert errors[0] is not errors[1]


def test_an_error_on_the_way_leaves_what_was_settled_before() -> None:
    def work(key: object, take: Take[int]) -> None:
        wishes = take()
        wishes[0].fulfil()
        raise Uncertain("lost")

    done, lost = Batches(work).run("m", [1, 2])
    assert done.error is None
    assert isinstance(lost.error, Uncertain)


def test_a_worker_that_forgets_a_wish_fails_it_instead_of_hanging() -> None:
    def work(key: object, take: Take[int]) -> None:
        """Take nothing, settle nothing."""

    (wish,) = Batches(work).run("m", [1])
    assert isinstance(wish.error, AssertionError)
    with pytest.raises(AssertionError, match="left this open"):
        task_of([wish])


def test_the_next_batch_comes_after_a_failed_one() -> None:
    outcomes = iter([Busy("x"), None])

    def work(key: object, take: Take[int]) -> None:
        if error := next(outcomes):
            raise error
        for wish in take():
            wish.fulfil()

    batches = Batches(work)
    assert isinstance(batches.run("m", [1])[0].error, Busy)
    assert batches.run("m", [2])[0].error is None
    assert not batches._busy


def test_the_first_outcome_stays() -> None:
    wish = Wish(1)
    wish.fulfil(Device("d", "A100"))
    wish.fail(Refused("no"))
    assert wish.error is None
    other = Wish(2)
    other.fail(Refused("no"))
    other.fulfil(Device("e", "A100"))
    assert other.device is None


def test_several_outcomes_become_one_task_or_the_gravest_error_with_what_was_attached() -> None:
    wishes = [Wish(n) for n in range(3)]
    for wish in wishes:
        wish.accept(f"h{wish.what}")
        wish.fulfil(Device(f"d{wish.what}", "A100"))
    task = task_of(wishes)
    assert (task.done, [d.uid for d in task.devices], task.handle) == (True, ["d0", "d1", "d2"], "h0\nh1\nh2")
    bad, worse = Wish(3), Wish(4)
    bad.fail(Missing("gone"))
    worse.fail(Uncertain("lost"))
    with pytest.raises(Uncertain) as caught:
        task_of([*wishes, bad, worse])
    assert [d.uid for d in caught.value.devices] == ["d0", "d1", "d2"]
    assert [type(e) for e in caught.value.errors] == [Missing, Uncertain]
