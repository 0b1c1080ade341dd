# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kept connection is used again only while it is surely good, and none is forgotten open."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.plugins.module_utils.net.pool import LONGEST_IDLE, ConnectionPool


class Fake:
    """A connection as the pool sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.reusable = True
        self.alive = True
        self.closed = 0

    def quiet(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.closed += 1


class Bench:
    def __init__(self, size: int = 2) -> None:
        self.now = 100.0
        self.made: list[Fake] = []
        self.timeouts: list[float] = []
        self.pool = ConnectionPool(self._dial, size, lambda: self.now)

    def _dial(self, timeout: float) -> HttpConnection:
        self.timeouts.append(timeout)
        self.made.append(Fake(len(self.made)))
        return cast(HttpConnection, self.made[-1])

    def take(self) -> Fake:
        return cast(Fake, self.pool.take(3.0))

    def give_back(self, *fakes: Fake) -> None:
        for fake in fakes:
            self.pool.give_back(cast(HttpConnection, fake))

    def closed(self) -> list[int]:
        return [fake.number for fake in self.made if fake.closed]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_connection_is_used_again(bench: Bench) -> None:
    first = bench.take()
    bench.give_back(first)
    assert bench.take() is first
    assert bench.take() is not first
    assert bench.timeouts == [3.0, 3.0]


def test_the_one_used_last_comes_first(bench: Bench) -> None:
    one, two = bench.take(), bench.take()
    bench.give_back(one, two)
    assert (bench.take(), bench.take()) == (two, one)


def test_no_more_than_size_are_kept(bench: Bench) -> None:
    bench.give_back(*[bench.take() for _unused in range(5)])
    assert bench.closed() == [2, 3, 4]
    assert [bench.take().number for _unused in range(2)] == [1, 0]


@pytest.mark.parametrize("flaw", ["reusable", "alive"])
def test_a_connection_that_is_of_no_use_is_closed(bench: Bench, flaw: str) -> None:
    first = bench.take()
    setattr(first, flaw, False)
    bench.give_back(first)
    assert bench.take() is not first
    assert first.closed == 1


def test_what_was_idle_for_too_long_is_closed(bench: Bench) -> None:
    first = bench.take()
    bench.give_back(first)
    bench.now += LONGEST_IDLE
    assert bench.take() is not first
    assert first.closed == 1


def test_old_ones_are_closed_while_others_are_in_use(bench: Bench) -> None:
    old, busy = bench.take(), bench.take()
    bench.give_back(old)
    bench.now += LONGEST_IDLE - 1
    bench.give_back(busy)
    assert bench.closed() == []
    assert bench.take() is busy
    bench.now += 1
    bench.give_back(busy)
    assert bench.closed() == [old.number]


def test_close_closes_what_is_idle_and_later_what_comes_back(bench: Bench) -> None:
    idle, busy = bench.take(), bench.take()
    bench.give_back(idle)
    bench.pool.close()
    assert bench.closed() == [idle.number]
    bench.give_back(busy)
    assert bench.closed() == [idle.number, busy.number]


def test_a_failure_to_connect_is_told(bench: Bench) -> None:
    def refuse(timeout: float) -> HttpConnection:
        raise NoResponse(ConnectionRefusedError("refused"), sent=False)

    with pytest.raises(NoResponse, match="refused"):
        ConnectionPool(refuse, 1).take(1.0)


def test_no_two_threads_have_the_same_connection() -> None:
    bench = Bench(size=8)
    in_use: set[Fake] = set()
    shared: list[Fake] = []

    def work() -> None:
        for _unused in range(200):
            mine = bench.take()
            if mine in in_use:
                shared.append(mine)
            in_use.add(mine)
            in_use.discard(mine)
            bench.give_back(mine)

    threads = [threading.Thread(target=work) for _unused in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared == []
    assert all(fake.closed <= 1 for fake in bench.made)
