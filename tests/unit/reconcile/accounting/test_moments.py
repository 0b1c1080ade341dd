# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process keeps the times that it saw for ten minutes, in which the ledger reads them."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.moments import (
    ATTACHED,
    KEPT,
    MOST,
    RELEASED,
    Moments,
)


def test_a_time_is_kept_for_a_while() -> None:
    now = 1000.0
    moments = Moments("", lambda: now)
    moments.note(ATTACHED, "gpu-a", 5.0)  # when it happened may be long ago
    now += KEPT
    moments.note(ATTACHED, "gpu-b", now)
    assert (moments.of(ATTACHED, "gpu-a"), moments.of(RELEASED, "gpu-a")) == (5.0, 0.0)
    now += 1.0
    moments.note(ATTACHED, "gpu-c", now)
    assert [moments.of(ATTACHED, f"gpu-{name}") for name in "abc"] == [0.0, now - 1.0, now]


def test_there_are_never_more_than_the_limit() -> None:
    moments = Moments("", lambda: 1000.0)
    for number in range(MOST + 5):
        moments.note(ATTACHED, f"gpu-{number}", 1000.0)
    assert [moments.of(ATTACHED, f"gpu-{number}") for number in (4, 5)] == [0.0, 1000.0]
