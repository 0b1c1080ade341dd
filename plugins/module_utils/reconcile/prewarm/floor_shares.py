# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the last pass over the floors said: how many idle devices each node keeps for claims that are still to come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloorShare:
    """Of one model on one node: ``kept`` devices are to be idle there, and ``idle`` were when that was said."""

    idle: int
    kept: int

    def at(self, idle: int) -> int:
        """How many are kept when ``idle`` are left. One that was taken since is made good where the next pass says."""
        return max(0, self.kept - max(0, self.idle - idle))


Shares = Mapping[str, Mapping[str, FloorShare]]
"""By node and model."""


class FloorShares:
    """The shares of all nodes. They are replaced as a whole, so that a reader sees those of one pass."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares: Shares = shares or {}

    def of(self, node: str) -> Mapping[str, FloorShare]:
        """By model; nothing for a node of no floor."""
        return self._shares.get(node) or {}

    def replace(self, shares: Shares) -> set[str]:
        """Take over what a pass says; the nodes for which it is something else than before."""
        before, self._shares = self._shares, shares
        return set(_differing(before, shares))

    def copy(self) -> FloorShares:
        """The same shares, to be replaced on their own."""
        return FloorShares(self._shares)


def _differing(before: Shares, after: Shares) -> Iterator[str]:
    return (node for node in before.keys() | after.keys() if before.get(node, {}) != after.get(node, {}))
