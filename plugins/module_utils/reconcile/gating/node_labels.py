# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store labels of nodes compactly.

node-feature-discovery writes about fifty labels on each node, with the same names.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Iterator, Mapping

# Number of name tables to remember. Nodes of one pool share a table.
_MOST: t.Final = 200


class NodeLabels(Mapping[str, str]):
    """Labels that behave like a dict and equal one. Nodes with the same label names share one name
    table."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[str, ...]) -> None:
        self._places, self._values = places, values

    def __getitem__(self, name: str) -> str:
        return self._values[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return repr({**self})


class LabelNames:
    """The shared tables of label names. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], dict[str, int]] = {}

    def labels(self, labels: Mapping[str, str]) -> NodeLabels:
        """Return equal labels that share their name table and strings in memory."""
        names = (*labels,)
        places = self._known.get(names)
        if places is None:
            if len(self._known) >= _MOST:
                self._known = {}
            places = {sys.intern(name): place for place, name in enumerate(names)}
            self._known[(*places,)] = places
        return NodeLabels(places, tuple(map(sys.intern, labels.values())))
