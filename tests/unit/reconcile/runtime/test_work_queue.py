# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue: many events are one pass, one key has one worker, delayed keys come when they are due."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import (
    BACKGROUND_TURN,
    ECHO_SECONDS,
    MOST_REPLACED,
    SOON,
    WorkQueue,
)


class Clock:
    """Time that the test moves. ``step`` sets the wall clock, which the monotonic clock does not follow."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.step = 0.0

    def wall(self) -> float:
        return self.now + self.step

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The queue's clocks."""
    made = Clock()
    monkeypatch.setattr(f"{WorkQueue.__module__}.time.time", made.wall)
    monkeypatch.setattr(f"{WorkQueue.__module__}.time.monotonic", made.monotonic)
    return made


def drain(queue: WorkQueue[str]) -> list[str]:
    """All keys that are ready, each worked on and done."""
    found = []
    while not queue.idle():
        key = queue.get()
        assert key is not None
        found.append(key)
        queue.done(key)
    return found


def test_keys_come_in_order_and_once() -> None:
    queue = WorkQueue[str]()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert drain(queue) == ["a", "b", "c"]


def test_key_added_while_it_is_worked_on_comes_once_more_and_only_afterwards() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get() == "a"
    for _unused in range(3):
        queue.add("a")
    queue.add("b")
    assert queue.get() == "b"
    queue.done("a")
    queue.done("b")
    assert drain(queue) == ["a"]


def test_a_wait_is_told_from_the_first_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = Clock(), list[tuple[object, float]]()
    monkeypatch.setattr(f"{WorkQueue.__module__}.time.monotonic", now.monotonic)
    queue = WorkQueue[str](waited=lambda key, seconds: told.append((key, seconds)))
    queue.add("a")
    now.now += 2
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    now.now += 3
    queue.add("a")
    queue.done("a")
    now.now += 1
    assert queue.get() == "a"
    assert told == [("a", 2), ("a", 4)]


def test_idle() -> None:
    queue = WorkQueue[str]()
    assert queue.idle()
    queue.add("a")
    assert not queue.idle()
    key = queue.get()
    assert key is not None
    assert not queue.idle()
    queue.done(key)
    assert queue.idle()


def test_a_background_key_with_an_appointment_for_later_is_idle() -> None:
    """As the records of a node, which are written when the next timeline is due."""
    queue = WorkQueue[str](lambda key: 0.5)
    queue.add_after("a", SOON + 1.0)
    assert queue.idle()
    queue.add_change("a")
    assert not queue.idle()


def test_delayed_key_comes_when_it_is_due(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_at("a", clock.now + 5)
    assert queue.idle()
    clock.now += 4.9
    assert queue.idle()
    clock.now += 0.1
    assert drain(queue) == ["a"]


@pytest.mark.parametrize("step", [7200.0, -7200.0])
def test_a_wall_clock_that_is_set_moves_no_appointment(clock: Clock, step: float) -> None:
    queue = WorkQueue[str](lambda key: 5.0 if key == "background" else None)
    queue.add_at("a", clock.wall() + 5)
    queue.add_change("background")
    queue.add_echo("echo")
    clock.step = step
    assert queue.ready() == []
    clock.now += 4.9
    assert queue.ready() == ["echo"]
    queue.add_at("a", clock.wall() + 5)
    clock.now += 0.1
    assert drain(queue) == ["echo", "a", "background"]
    queue.add_at("a", clock.wall() + 5)
    clock.now += 4.9
    assert queue.ready() == []
    clock.now += 0.1
    assert drain(queue) == ["a"]


@pytest.mark.parametrize(("first", "second"), [(5, 9), (9, 5)])
def test_of_two_appointments_the_earlier_is_kept(clock: Clock, first: float, second: float) -> None:
    queue = WorkQueue[str]()
    queue.add_at("a", clock.now + first)
    queue.add_at("a", clock.now + second)
    clock.now += 5
    assert drain(queue) == ["a"]
    clock.now += 10
    assert drain(queue) == []


def test_appointment_after_one_that_was_kept(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_at("a", clock.now + 1)
    clock.now += 1
    assert drain(queue) == ["a"]
    queue.add_at("a", clock.now + 1)
    clock.now += 1
    assert drain(queue) == ["a"]


def test_due_keys_come_in_the_order_of_their_times(clock: Clock) -> None:
    queue = WorkQueue[str]()
    for key, delay in (("c", 3), ("a", 1), ("b", 2)):
        queue.add_at(key, clock.now + delay)
    clock.now += 5
    assert drain(queue) == ["a", "b", "c"]


def test_key_due_in_the_past_comes_at_once(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_at("a", clock.now - 1)
    assert queue.get() == "a"


def test_key_that_becomes_due_while_it_is_worked_on_comes_again(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get() == "a"
    queue.add_at("a", clock.now + 1)
    clock.now += 1
    assert not queue.idle()
    queue.done("a")
    assert drain(queue) == ["a"]


def test_ready_and_due_is_one(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add_at("a", clock.now)
    assert drain(queue) == ["a"]


def test_background_waits_for_what_has_priority() -> None:
    queue = WorkQueue[str](lambda key: 0.0 if str(key).startswith("background") else None)
    for key in ("background-1", "priority-1", "background-2", "priority-2"):
        queue.add(key)
    assert drain(queue) == ["priority-1", "priority-2", "background-1", "background-2"]


def test_background_has_its_turn_however_much_has_priority() -> None:
    queue = WorkQueue[str](lambda key: 0.0 if key == "background" else None)
    queue.add("background")
    taken = []
    for number in range(BACKGROUND_TURN + 1):
        queue.add(f"priority-{number}")
        queue.add(f"priority-{number}-b")
        key = queue.get()
        assert key is not None
        taken.append(key)
        queue.done(key)
    assert "background" in taken
    assert taken[0] != "background"


def threads(number: int, work: Callable[[], None]) -> list[threading.Thread]:
    """Started threads."""
    made = [threading.Thread(target=work, daemon=True) for _unused in range(number)]
    for thread in made:
        thread.start()
    return made


def join(made: list[threading.Thread]) -> None:
    """Wait for the end of all."""
    for thread in made:
        thread.join(10)
        assert not thread.is_alive()


def test_close_lets_every_waiting_worker_go() -> None:
    queue, ended = WorkQueue[str](), list[str | None]()
    made = threads(4, lambda: ended.append(queue.get()))
    queue.close()
    join(made)
    assert ended == [None] * 4
    queue.add("a")
    assert queue.get() is None


def test_waiting_worker_is_woken_by_a_key() -> None:
    queue, found = WorkQueue[str](), list[str | None]()
    made = threads(1, lambda: found.append(queue.get()))
    queue.add("a")
    join(made)
    assert found == ["a"]


def test_waiting_worker_is_woken_by_an_appointment() -> None:
    queue, found = WorkQueue[str](), list[str | None]()
    made = threads(1, lambda: found.append(queue.get()))
    queue.add_at("far", time.time() + 3600)
    queue.add_at("near", time.time() + 0.01)
    join(made)
    assert found == ["near"]


class Counted(threading.Condition):
    """A condition that counts how often somebody woke up."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def wait(self, timeout: float | None = None) -> bool:
        found = super().wait(timeout)
        self.woken += 1
        return found


def test_an_appointment_does_not_wake_all_idle_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions: list[Counted] = []

    def made() -> Counted:
        conditions.append(Counted())
        return conditions[-1]

    with monkeypatch.context() as patched:
        patched.setattr(f"{WorkQueue.__module__}.threading.Condition", made)
        queue = WorkQueue[int]()
    worked, appointments = threading.Semaphore(0), 20

    def work() -> None:
        while (key := queue.get()) is not None:
            queue.done(key)
            worked.release()

    workers = threads(32, work)
    for number in range(appointments):
        queue.add_at(number, time.time() + 0.01)
        assert worked.acquire(timeout=10)
    woken = conditions[0].woken
    queue.close()
    join(workers)
    # Who is told of the appointment, who keeps the time after it; 32 for each, were all woken.
    assert woken <= 4 * appointments


@pytest.mark.parametrize("apart", [0.0, 0.01])
def test_appointments_are_kept_while_others_work(apart: float) -> None:
    """Whoever kept the time works now, for ever: another one keeps it."""
    queue, found, number = WorkQueue[int](), list[int | None](), 6
    now = time.time()
    made = threads(number, lambda: found.append(queue.get()))
    queue.add_at(100, now + 3600)
    for each in range(number):
        queue.add_at(each, now + 0.02 + apart * each)
    join(made)
    assert sorted(key for key in found if key is not None) == [*range(number)]


def test_background_comes_one_at_a_time_however_many_wait() -> None:
    queue = WorkQueue[str](lambda key: 0.0 if key.startswith("b") else None)
    for key in ("b1", "b2", "a"):
        queue.add(key)
    assert [queue.get(), queue.get()] == ["a", "b1"]
    queue.add("b1")
    queue.done("b1")
    queue.done("b1")  # nobody works on it: nothing
    assert queue.get() == "b2"
    queue.add("a2")
    assert queue.get() == "a2"
    queue.done("b2")
    assert queue.get() == "b1"


def test_one_key_has_one_worker_and_no_event_is_lost() -> None:
    """Many threads add, several work: never two on one key, and the last add of each key is worked on after it."""
    queue, lock = WorkQueue[int](), threading.Lock()
    active: Counter[object] = Counter()
    added: Counter[object] = Counter()
    seen: dict[object, int] = {}
    clashes: list[object] = []

    def work() -> None:
        while (key := queue.get()) is not None:
            with lock:
                active[key] += 1
                if active[key] > 1:
                    clashes.append(key)
                seen[key] = added[key]
            with lock:
                active[key] -= 1
            queue.done(key)

    def feed() -> None:
        for number in range(300):
            key = number % 7
            with lock:
                added[key] += 1
            queue.add(key)

    workers, feeders = threads(4, work), threads(4, feed)
    join(feeders)
    while not queue.idle():
        threading.Event().wait(0.001)
    queue.close()
    join(workers)
    assert clashes == []
    assert seen == dict(added)


def test_keys_that_wait_for_a_worker() -> None:
    """What is worked on does not wait, nor what is due later; what is due now does."""
    queue: WorkQueue[str] = WorkQueue(lambda key: 1.0 if key == "background" else None)
    queue.add("a")
    queue.add("b")
    queue.add("background")
    queue.add_at("later", time.time() + 60.0)
    queue.add_at("now", time.time() - 1.0)
    assert sorted(queue.ready()) == ["a", "b", "background", "now"]
    assert queue.get() == "a"
    assert sorted(queue.ready()) == ["b", "background", "now"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Passing:
    """A key of which every appointment has an object of its own."""

    name: str = "pass"


def test_appointments_that_were_replaced_are_not_kept_until_their_time(clock: Clock) -> None:
    queue: WorkQueue[Passing] = WorkQueue()
    made: list[weakref.ref[Passing]] = []
    for _unused in range(10 * MOST_REPLACED):
        key = Passing()
        made.append(weakref.ref(key))
        queue.add_at(key, clock.now + 300)
        queue.add_at(Passing(), clock.now + 1)
        clock.now += 1
        queue.done(queue.get() or key)
    del key
    assert sum(each() is not None for each in made) <= MOST_REPLACED + 2
    queue.add_at(Passing(), clock.now + 300)
    assert not queue.ready()
    clock.now += 300
    assert queue.ready() == [Passing()]


def test_echoes_wait_a_moment_and_come_once(clock: Clock) -> None:
    queue = WorkQueue[str]()
    for _unused in range(3):
        queue.add_echo("a")
    assert queue.ready() == []
    assert not queue.idle(), "a run that ends when nothing is left waits for it"
    clock.now += ECHO_SECONDS
    assert drain(queue) == ["a"]
    clock.now += 10 * ECHO_SECONDS
    assert queue.idle()
    assert queue.ready() == []


def test_who_begins_before_knows_of_the_echo(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_echo("a")
    queue.add("a")
    assert drain(queue) == ["a"]
    clock.now += ECHO_SECONDS
    assert queue.ready() == []
    queue.add("b")
    queue.add_echo("b")
    assert drain(queue) == ["b"]
    clock.now += ECHO_SECONDS
    assert queue.ready() == []


def test_who_has_begun_may_not_know_of_the_echo(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get() == "a"
    queue.add_echo("a")
    queue.done("a")
    clock.now += ECHO_SECONDS
    assert drain(queue) == ["a"]


def test_a_change_does_not_wait_for_an_echo(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_echo("a")
    queue.add_change("a")
    assert queue.ready() == ["a"]


def test_an_earlier_appointment_stays_when_there_was_an_echo(clock: Clock) -> None:
    queue = WorkQueue[str]()
    queue.add_at("a", clock.now + ECHO_SECONDS / 2)
    queue.add_echo("a")
    queue.add("a")
    assert drain(queue) == ["a"]
    clock.now += ECHO_SECONDS / 2
    assert drain(queue) == ["a"], "it was no echo's"
