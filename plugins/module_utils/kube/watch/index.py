# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Indexes of a store in few bytes. A large cluster has hundreds of thousands of entries."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable

from .keys import Key

Indexer = Callable[[t.Any], Iterable[Hashable]]
# Up to this number, the keys of one place are a tuple, which takes a fifth of a dict.
_FEW: t.Final = 16
_Keys = t.Union[Key, "tuple[Key, ...]", "dict[Key, None]"]


class Index:
    """Keys by place, those of one place in the order of arrival. Not thread-safe: callers have the
    store's lock.
    """

    def __init__(self, indexer: Indexer) -> None:
        self.indexer = indexer
        self._keys: dict[Hashable, _Keys] = {}

    def add(self, place: Hashable, key: Key) -> None:
        """Add an object at a place."""
        there = self._keys.get(place)
        if there is None:
            self._keys[_shared(place)] = key
        elif isinstance(there, dict):
            there[key] = None
        elif key not in (known := _many(there)):
            self._keys[place] = (*known, key) if len(known) < _FEW else dict.fromkeys((*known, key))

    def discard(self, place: Hashable, key: Key) -> None:
        """Remove an object from a place."""
        there = self._keys.get(place)
        if isinstance(there, dict):
            there.pop(key, None)
            left: _Keys = there
        else:
            left = tuple(each for each in _many(there) if each != key)
        if not left:
            self._keys.pop(place, None)
        elif not isinstance(left, dict):
            self._keys[place] = left[0] if len(left) == 1 else left

    def at(self, place: Hashable) -> Collection[Key]:
        """Return the keys of the objects at a place."""
        there = self._keys.get(place)
        return there if isinstance(there, dict) else _many(there)

    def places(self) -> tuple[Hashable, ...]:
        """Return the places with objects."""
        return (*self._keys,)


def _many(there: _Keys | None) -> tuple[Key, ...]:
    """Return the keys as a tuple. A UID or a device usually has one object."""
    if there is None or isinstance(there, dict):
        return ()
    return (there,) if isinstance(there[0], str) else there


def _shared(place: Hashable) -> Hashable:
    """Return the place with its texts interned, because node names are places of many indexes."""
    if isinstance(place, str):
        return sys.intern(str(place))
    # a named tuple stays as it is
    return tuple(map(_shared, place)) if isinstance(place, tuple) and not hasattr(place, "_fields") else place
