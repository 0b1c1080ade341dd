# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shrink a failing scenario: leave out steps while it fails in the same way (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.composable.infra.tests.chaos.scenario import Scenario

# Most tries. The scenario that is reached then is the result.
TRIES = 120


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], tries: int = TRIES) -> Scenario:
    """Return the smallest scenario that was found. ``fails``: returns whether one fails as the
    first did.

    Halves are left out first, then quarters, down to single steps, until every step is needed.
    """
    size = max(1, len(scenario.steps) // 2)
    while scenario.steps and tries > 0:
        spared = False
        for first in range(0, len(scenario.steps), size):
            smaller = scenario.without(set(range(first, first + size)))
            tries -= 1
            if tries >= 0 and fails(smaller):
                scenario, spared = smaller, True
                break
        if not spared and size == 1:
            break
        size = size if spared else size // 2
        size = max(1, min(size, len(scenario.steps)))
    return scenario
