# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token bucket on a clock of the test's own: bursts, the rate after them, and who would wait for too long."""

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.rate_limit import TokenBucket


class Clock:
    """Seconds, moved by the test."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_burst_goes_at_once_and_what_follows_at_the_rate(clock: Clock) -> None:
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.reserve(math.inf) for _each in range(6)] == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


def test_a_pause_fills_it_up_to_the_burst_and_no_further(clock: Clock) -> None:
    bucket = TokenBucket(10, 3, clock)
    for _each in range(5):
        bucket.reserve(math.inf)
    clock.now += 0.2
    assert bucket.reserve(math.inf) == pytest.approx(0.1)
    clock.now += 3600
    assert [bucket.reserve(math.inf) for _each in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_who_would_wait_for_too_long_takes_nothing(clock: Clock) -> None:
    bucket = TokenBucket(1, 1, clock)
    assert bucket.reserve(0.5) == 0
    assert [bucket.reserve(0.5) for _each in range(100)] == [None] * 100
    clock.now += 1
    assert bucket.reserve(0.5) == 0


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing(clock: Clock) -> None:
    bucket = TokenBucket(1, 2, clock)
    bucket.reserve(math.inf)
    clock.now -= 100
    assert bucket.reserve(math.inf) == 0
    assert bucket.reserve(math.inf) == pytest.approx(1)


def test_never_more_than_the_burst_and_the_rate_in_any_stretch_of_time(clock: Clock, rng: random.Random) -> None:
    """Whoever asks when: what goes in a stretch of time is bounded as client-go promises it."""
    qps, burst = rng.uniform(1, 50), rng.randint(1, 20)
    bucket, gone = TokenBucket(qps, burst, clock), list[float]()
    for _each in range(500):
        clock.now += rng.choice([0.0, 0.0, rng.expovariate(2 * qps)])
        due = bucket.reserve(math.inf)
        assert due is not None
        gone.append(clock.now + due)
    assert gone == sorted(gone), "first come, first served"
    for first in range(0, len(gone), 7):
        for last in range(first, len(gone), 11):
            assert last - first + 1 <= burst + qps * (gone[last] - gone[first]) + 1e-6
