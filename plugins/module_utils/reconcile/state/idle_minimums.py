# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of the last pass: how many idle devices each node keeps for claims that are still to
come."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .memory import Remembered


@dataclass(frozen=True, slots=True)
class FloorShare:
    """Share of one model on one node.

    ``kept`` devices should be idle there. ``idle`` devices were idle when this was computed.
    """

    idle: int
    kept: int

    def at(self, idle: int) -> int:
        """Return how many devices to keep while ``idle`` are left.

        The next pass decides where to replace a device that was taken since.
        """
        return max(0, self.kept - max(0, self.idle - idle))


Shares = Mapping[str, Mapping[str, FloorShare]]
"""Shares by node and model."""


class IdleMinimums(Remembered):
    """Shares of all nodes. They are replaced as a whole, so that a reader sees those of one
    pass."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares: Shares = shares or {}

    def of(self, node: str) -> Mapping[str, FloorShare]:
        """Return the shares of a node by model, empty for a node without a minimum."""
        return self._shares.get(node) or {}

    def replace(self, shares: Shares) -> set[str]:
        """Store the shares of a pass. Return the nodes with a change."""
        before, self._shares = self._shares, shares
        return set(_differing(before, shares))

    def copy(self) -> t.Self:
        """Return a copy that can be replaced independently."""
        return type(self)(self._shares)


def _differing(before: Shares, after: Shares) -> Iterator[str]:
    return (node for node in before.keys() | after.keys() if before.get(node, {}) != after.get(node, {}))
