# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's clock, from its answers."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.server_clock import ServerClock

DATE, MOMENT = "Sun, 06 Nov 1994 08:49:37 GMT", 784111777.0


class Clocks:
    """The clocks of a host. Its wall clock is ``ahead`` seconds ahead of the API server's."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead, self.passed = ahead, 0.0

    def wall(self) -> float:
        return MOMENT + self.ahead + self.passed

    def steady(self) -> float:
        return 1000.0 + self.passed

    def made(self) -> ServerClock:
        return ServerClock(self.wall, self.steady)


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
def test_time_is_the_servers_however_far_ours_is_ahead(ahead: float) -> None:
    clocks = Clocks(ahead)
    clock = clocks.made()
    assert clock.now() == MOMENT + ahead
    clock.note(DATE, clocks.steady())
    clocks.passed += 5
    assert clock.now() == pytest.approx(MOMENT + 5, abs=1.0)


@pytest.mark.parametrize("ahead", [-0.4, 0.0, 0.3, 0.9])
def test_our_clock_is_taken_while_the_dates_do_not_contradict_it(ahead: float) -> None:
    """Two processes of one host then tell the same time, and a span of one does not begin after its root ended."""
    clocks = Clocks(ahead)
    clock = clocks.made()
    clock.note(DATE, clocks.steady())
    clocks.passed += 3
    assert clock.now() == pytest.approx(clocks.wall(), abs=0.01)


@pytest.mark.parametrize("step", [-3600.0, -30.0, 30.0, 3600.0])
def test_time_stays_the_servers_while_our_clock_is_set(step: float) -> None:
    """A request written before the next answer must not have a time that is wrong by the step."""
    clocks = Clocks()
    clock = clocks.made()
    clock.note(DATE, clocks.steady())
    clocks.ahead += step
    clocks.passed += 2
    assert clock.now() == pytest.approx(MOMENT + 2, abs=1.0)


@pytest.mark.parametrize("date", [None, "", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_date_that_cannot_be_read_changes_nothing(date: str | None) -> None:
    clocks = Clocks()
    clock = clocks.made()
    clock.note(date, clocks.steady())
    assert clock.now() == MOMENT


def test_second_that_was_told_before_is_not_its_beginning_again() -> None:
    clocks = Clocks()
    clock = clocks.made()
    clock.note(DATE, clocks.steady())
    before = clock.now()
    clocks.passed += 0.9
    clock.note(DATE, clocks.steady())
    assert clock.now() == pytest.approx(before + 0.9)


@pytest.mark.parametrize("slow", [1.0, 3.0, 30.0])
def test_slow_answer_does_not_set_the_time_back(slow: float) -> None:
    """The server wrote the date early, and the answer came late."""
    clocks = Clocks()
    clock = clocks.made()
    requested = clocks.steady()
    clocks.passed += slow
    clock.note(DATE, requested)
    assert clock.now() == pytest.approx(MOMENT + slow)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_slow_answer_moves_nothing_that_quick_ones_told(ahead: float) -> None:
    clocks = Clocks(ahead)
    clock = clocks.made()
    clock.note(DATE, clocks.steady())
    clocks.passed += 10.5
    requested = clocks.steady()
    clocks.passed += 20
    clock.note("Sun, 06 Nov 1994 08:49:47 GMT", requested)
    assert clock.now() == pytest.approx(MOMENT + 30.5, abs=0.5)


@pytest.mark.parametrize("step", [-40, -5, 5, 40])
def test_servers_clock_that_is_set_is_followed(step: int) -> None:
    clocks = Clocks()
    clock = clocks.made()
    clock.note(DATE, clocks.steady())
    clocks.passed += 2
    clock.note(f"Sun, 06 Nov 1994 08:{49 + (39 + step) // 60}:{(39 + step) % 60:02} GMT", clocks.steady())
    assert clock.now() == pytest.approx(MOMENT + 2 + step, abs=0.6)
