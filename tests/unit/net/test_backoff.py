# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits grow, stay in bounds, differ from each other, and are never shorter than a server asked for."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff

SAMPLES = 50


def delays(backoff: Backoff, failures: int, at_least: float = 0.0) -> list[float]:
    return [backoff.delay(failures, at_least) for _unused in range(SAMPLES)]


@pytest.mark.parametrize(("failures", "grown"), [(0, 0.5), (1, 0.5), (2, 1.5), (3, 4.5), (4, 5.0), (10_000, 5.0)])
def test_a_wait_grows_up_to_the_longest(failures: int, grown: float) -> None:
    backoff = Backoff(0.5, factor=3.0, longest=5.0, jitter=0.2)
    assert all(grown <= delay <= 1.2 * grown for delay in delays(backoff, failures))


def test_without_an_end_it_grows_on() -> None:
    assert Backoff(1.0, jitter=0.0).delay(11) == 1024.0


def test_waits_differ_unless_that_is_switched_off() -> None:
    assert len(set(delays(Backoff(1.0), 1))) > 1
    assert set(delays(Backoff(1.0, jitter=0.0), 1)) == {1.0}


def test_what_the_server_asks_for_is_the_least() -> None:
    backoff = Backoff(0.1, longest=1.0, jitter=0.1)
    assert all(7.0 <= delay <= 7.7 for delay in delays(backoff, 1, at_least=7.0))
    assert all(0.1 <= delay <= 0.11 for delay in delays(backoff, 1, at_least=0.01))
