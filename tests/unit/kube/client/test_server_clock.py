# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's clock, from its answers."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.server_clock import ServerClock

DATE, MOMENT = "Sun, 06 Nov 1994 08:49:37 GMT", 784111777.0


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
def test_time_is_the_servers_however_far_ours_is_ahead(ahead: float) -> None:
    wall = [MOMENT + ahead]
    clock = ServerClock(lambda: wall[0])
    assert clock.now() == MOMENT + ahead
    clock.note(DATE)
    wall[0] += 5
    assert clock.now() == pytest.approx(MOMENT + 5, abs=1.0)


@pytest.mark.parametrize("date", [None, "", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_date_that_cannot_be_read_changes_nothing(date: str | None) -> None:
    clock = ServerClock(lambda: MOMENT)
    clock.note(date)
    assert clock.now() == MOMENT


def test_second_that_was_told_before_is_not_its_beginning_again() -> None:
    wall = [MOMENT]
    clock = ServerClock(lambda: wall[0])
    clock.note(DATE)
    before = clock.now()
    wall[0] += 0.9
    clock.note(DATE)
    assert clock.now() == pytest.approx(before + 0.9)
