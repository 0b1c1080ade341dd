# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a burst."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.runtime.batcher import Batcher


class Clock:
    """Seconds, set by the test."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def burst(clock: Clock) -> Batcher:
    """Over after one quiet second, after four at the latest."""
    return Batcher(1.0, 4.0, clock)


def test_nothing_came(burst: Batcher) -> None:
    assert burst.lasts_until() == 0.0


def test_one_alone_is_waited_for_once(burst: Batcher, clock: Clock) -> None:
    assert burst.note() == 101.0
    assert burst.lasts_until() == 101.0
    clock.now = 101.0
    assert burst.lasts_until() == 0.0


def test_another_one_makes_it_longer(burst: Batcher, clock: Clock) -> None:
    burst.note()
    clock.now = 100.5
    assert burst.note() == 101.5
    clock.now = 101.0
    assert burst.lasts_until() == 101.5


def test_it_does_not_last_for_ever(burst: Batcher, clock: Clock) -> None:
    for second in range(4):
        clock.now = 100.0 + 0.9 * second
        burst.note()
    clock.now = 103.9
    assert burst.note() == 104.0
    clock.now = 104.0
    assert burst.lasts_until() == 0.0


def test_what_comes_after_its_end_is_a_new_one(burst: Batcher, clock: Clock) -> None:
    burst.note()
    clock.now = 150.0
    assert burst.lasts_until() == 0.0
    assert burst.note() == 151.0
