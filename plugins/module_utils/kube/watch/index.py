# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what objects of a store are found, in few bytes: a large cluster has hundreds of thousands of entries."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable

from ..api_resources import Object
from .keys import Key

Indexer = Callable[[Object], Iterable[Hashable]]
# Keys of one place up to so many are a tuple, which is a fifth of a dict.
_FEW: t.Final = 16
# A number below 2**60 is the largest that takes 32 bytes.
_SMALL: t.Final = (1 << 60) - 1
_Keys = t.Union[Key, "tuple[Key, ...]", "dict[Key, None]"]


class ByHash:
    """An indexer whose places are kept as their hashes, a third of a UUID's bytes. Which places there are cannot be
    asked then, only what is at one."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def __call__(self, obj: Object) -> Iterable[Hashable]:
        """The places themselves."""
        return self._indexer(obj)


class Index:
    """Keys by place, those of one place in the order in which they came. Not thread-safe: the store's lock is held."""

    def __init__(self, indexer: Indexer) -> None:
        self.indexer, self.by_hash = indexer, isinstance(indexer, ByHash)
        self._keys: dict[Hashable, _Keys] = {}

    def add(self, place: Hashable, key: Key) -> None:
        """An object is at a place."""
        where = self._hash(place) if self.by_hash else place
        there = self._keys.get(where)
        if there is None:
            self._keys[where if self.by_hash else _shared(where)] = key
        elif isinstance(there, dict):
            there[key] = None
        elif key not in (known := _many(there)):
            self._keys[where] = (*known, key) if len(known) < _FEW else dict.fromkeys((*known, key))

    def discard(self, place: Hashable, key: Key) -> None:
        """It is no longer there."""
        where = self._hash(place) if self.by_hash else place
        there = self._keys.get(where)
        if isinstance(there, dict):
            there.pop(key, None)
            left: _Keys = there
        else:
            left = tuple(each for each in _many(there) if each != key)
        if not left:
            self._keys.pop(where, None)
        elif not isinstance(left, dict):
            self._keys[where] = left[0] if len(left) == 1 else left

    def at(self, place: Hashable) -> Collection[Key]:
        """Keys of the objects at a place; with ``by_hash`` one at another place may be among them, once in an age."""
        there = self._keys.get(self._hash(place) if self.by_hash else place)
        return there if isinstance(there, dict) else _many(there)

    def places(self) -> tuple[Hashable, ...]:
        """Where something is. TypeError when only hashes of them are known."""
        if self.by_hash:
            raise TypeError("an index by hash does not know its places")
        return (*self._keys,)

    @staticmethod
    def _hash(place: Hashable) -> int:
        return hash(place) & _SMALL


def _many(there: _Keys | None) -> tuple[Key, ...]:
    """One object is the rule where an index finds a uid or a device."""
    if there is None or isinstance(there, dict):
        return ()
    return (there,) if isinstance(there[0], str) else there


def _shared(place: Hashable) -> Hashable:
    """The names of nodes are places of many indexes: each is in memory once."""
    if isinstance(place, str):
        return sys.intern(str(place))
    # one with names for its fields keeps them
    return tuple(map(_shared, place)) if isinstance(place, tuple) and not hasattr(place, "_fields") else place
