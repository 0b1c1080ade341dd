# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Indexes of a store in few bytes. A large cluster has hundreds of thousands of entries."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable

from ..api_resources import Object
from .keys import Key

Indexer = Callable[[Object], Iterable[Hashable]]
# Up to this number, the keys of one place are a tuple, which takes a fifth of a dict.
_FEW: t.Final = 16
# Numbers below 2**60 take at most 32 bytes.
_SMALL: t.Final = (1 << 60) - 1
_Keys = t.Union[Key, "tuple[Key, ...]", "dict[Key, None]"]


class ByHash:
    """An indexer with places that are kept as hashes, a third of a UUID's bytes.

    Such an index can return the objects at a place, but not its places.
    """

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def __call__(self, obj: Object) -> Iterable[Hashable]:
        """Return the places themselves."""
        return self._indexer(obj)


class Index:
    """Keys by place, those of one place in the order of arrival. Not thread-safe: callers have the
    store's lock.
    """

    def __init__(self, indexer: Indexer) -> None:
        self.indexer, self.by_hash = indexer, isinstance(indexer, ByHash)
        self._keys: dict[Hashable, _Keys] = {}

    def add(self, place: Hashable, key: Key) -> None:
        """Add an object at a place."""
        where = self._hash(place) if self.by_hash else place
        there = self._keys.get(where)
        if there is None:
            self._keys[where if self.by_hash else _shared(where)] = key
        elif isinstance(there, dict):
            there[key] = None
        elif key not in (known := _many(there)):
            self._keys[where] = (*known, key) if len(known) < _FEW else dict.fromkeys((*known, key))

    def discard(self, place: Hashable, key: Key) -> None:
        """Remove an object from a place."""
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
        """Return the keys of the objects at a place.

        With ``by_hash`` a key of another place may be among them, which is very rare.
        """
        there = self._keys.get(self._hash(place) if self.by_hash else place)
        return there if isinstance(there, dict) else _many(there)

    def places(self) -> tuple[Hashable, ...]:
        """Return the places with objects. Raise TypeError if only their hashes are kept."""
        if self.by_hash:
            raise TypeError("an index by hash does not know its places")
        return (*self._keys,)

    @staticmethod
    def _hash(place: Hashable) -> int:
        return hash(place) & _SMALL


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
