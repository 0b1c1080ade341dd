# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a call is repeated at once, and when that is left to the caller."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Unavailable
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import session
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import LONGEST_PAUSE, REPEATS


def pause(error: Unavailable | Busy, failures: int = 1) -> float | None:
    return session._pause(error, failures)


def test_what_may_pass_soon_is_repeated_with_growing_and_varied_pauses() -> None:
    for failures in range(1, REPEATS + 1):
        pauses = {pause(Unavailable("x", passing=True), failures) for _unused in range(20)}
        assert len(pauses) > 1
        assert all(p is not None and 1 <= p / (0.1 * 2 ** (failures - 1)) <= 1.5 for p in pauses)


def test_repeating_has_an_end() -> None:
    assert pause(Unavailable("x", passing=True), REPEATS + 1) is None
    assert pause(Busy("x", retry_after=0), REPEATS + 1) is None


@pytest.mark.parametrize("error", [Unavailable("x"), Busy("x"), Unavailable("x", code="certificate")])
def test_what_will_not_pass_soon_is_left_to_the_caller(error: Unavailable | Busy) -> None:
    assert pause(error) is None


def test_the_managers_own_retry_after_is_kept_up_to_a_limit() -> None:
    for error in (Busy("x", retry_after=2), Unavailable("x", passing=True, retry_after=2)):
        found = pause(error)
        assert found is not None
        assert 2 <= found <= 2.2
    assert pause(Unavailable("x", passing=True, retry_after=LONGEST_PAUSE + 1)) is None
