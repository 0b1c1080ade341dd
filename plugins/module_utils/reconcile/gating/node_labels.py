# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes in few bytes: node-feature-discovery writes some fifty, with the same names on each node."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Iterator, Mapping

# Orders of names that are remembered at most; nodes of one pool have the same.
_MOST: t.Final = 200


class NodeLabels(Mapping[str, str]):
    """As a dict, and equal to one; the names are one table for all nodes that have the same ones."""

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
    """The tables of names. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], dict[str, int]] = {}

    def labels(self, labels: Mapping[str, str]) -> NodeLabels:
        """The same labels, with names and values that are in memory once."""
        names = (*labels,)
        places = self._known.get(names)
        if places is None:
            if len(self._known) >= _MOST:
                self._known = {}
            places = {sys.intern(name): place for place, name in enumerate(names)}
            self._known[(*places,)] = places
        return NodeLabels(places, tuple(map(sys.intern, labels.values())))
