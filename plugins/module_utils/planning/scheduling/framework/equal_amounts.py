# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal amounts of resources in memory once. Tens of thousands of pods and nodes are copies of a few."""

from __future__ import annotations

from ..filters.node_resources import Amounts

MOST = 1000


class EqualAmounts:
    """Keeps equal amounts once. Many are forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], ...], Amounts] = {}

    def once(self, amounts: Amounts) -> Amounts:
        """Return the first of equal amounts."""
        if len(self._known) >= MOST:
            self._known = {}
        return self._known.setdefault(tuple(amounts.items()), amounts)
