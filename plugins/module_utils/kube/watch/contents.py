# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a store by key. Trimmed objects are packed, and recently used ones are decoded
too. Values are kept as they are.
"""

from __future__ import annotations

import logging
import typing as t
import weakref
from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence

from ...model.value import Value
from ..api_resources import Object
from .keys import Key
from .packed import Packer
from .parts import Trimmed

Kept: t.TypeAlias = "Object | Value | bytes"
Handles = list[tuple[Key, Kept]]
# Text length of one generation of decoded objects. A decoded object takes ten times as much memory.
# This is what some thirty workers and the plans of 200 busy nodes read at a time. With less, they
# evict each other's objects.
RECENT = 1 << 18

_log = logging.getLogger(__name__)


class Contents:
    """Packed and decoded objects. Not thread-safe: callers have the store's lock.

    An object that is still referenced is returned as the same dict, so that a cache can check by
    ``is`` whether its source changed. There are two generations of decoded objects. The older one
    is dropped when the younger is full, or by ``age``.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self._packer, self._recent = Packer(), recent
        self._kept: dict[Key, Kept] = {}
        self._live: weakref.WeakValueDictionary[Key, Trimmed] = weakref.WeakValueDictionary()
        self._young: dict[Key, Trimmed] = {}
        self._old: dict[Key, Trimmed] = {}
        self._length = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[t.Any]:
        return (self.read(*each) for each in self.handles())

    def __getitem__(self, key: Key) -> t.Any:
        kept = self._kept[key]
        if not isinstance(kept, bytes):
            return kept
        live = self._live.get(key)
        if live is None:
            live = self._live[key] = self._packer.unpack(kept)
        if key not in self._young:
            self._remember(key, live)
        return live

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def get(self, key: Key) -> t.Any:
        """Return one object, or None."""
        return self[key] if key in self._kept else None

    def peek(self, key: Key) -> t.Any:
        """Return one object like ``get``, without marking it as recently used."""
        return self.read(key, self._kept[key]) if key in self._kept else None

    def is_recent(self, key: Key) -> bool:
        """Return whether an object was used recently."""
        return key in self._young or key in self._old

    def keys(self) -> KeysView[Key]:
        """Return the keys of all objects."""
        return self._kept.keys()

    def handles(self) -> Handles:
        """Return handles by which ``read`` returns each present object, even after changes."""
        return [*self._kept.items()]

    def read(self, key: Key, kept: Kept) -> t.Any:
        """Return the object of a handle, without marking it as recently used.

        A caller that reads all objects does not use them again soon.
        """
        if not isinstance(kept, bytes):
            return kept
        same = self._kept.get(key) is kept
        live = self._live.get(key) if same else None
        if live is None:
            live = self._packer.unpack(kept)
            if same:
                self._live[key] = live
        return live

    def unpacked(self, kept: Kept) -> t.Any:
        """Return the object of a handle, decoded again. Thread-safe."""
        return self._packer.unpack(kept) if isinstance(kept, bytes) else kept

    def put(self, key: Key, obj: Object | Value) -> None:
        """Keep an object that is not here."""
        if isinstance(obj, Trimmed):
            try:
                self._kept[key] = self._packer.pack(obj)
                self._live[key] = obj
                return
            except (TypeError, ValueError):
                _log.warning("Kept %s unchanged: invalid JSON", "/".join(key))
        self._kept[key] = obj

    def pop(self, key: Key) -> t.Any:
        """Remove an object, and return it."""
        obj = self.read(key, self._kept[key])
        if (young := self._young.pop(key, None)) is not None:
            self._length -= young.length
        for known in (self._kept, self._live, self._old):
            known.pop(key, None)
        return obj

    def handle(self, key: Key) -> Kept:
        """Return a handle by which ``read`` returns the present object, even after changes."""
        return self._kept[key]

    def packed(self, obj: Object | Value) -> Kept:
        """Return a handle for an object that is not kept here."""
        return self._packer.pack(obj) if isinstance(obj, Trimmed) else obj

    def age(self) -> None:
        """Drop decoded objects that were not used since the last call. The present ones become the
        older generation.
        """
        self._old, self._young, self._length = self._young, {}, 0

    def _remember(self, key: Key, obj: Trimmed) -> None:
        if self._length >= self._recent:
            self.age()
        self._young[key] = obj
        self._length += obj.length


class PackedObjects(Sequence[Object]):
    """Objects as they were at one moment. Each is decoded on access and not kept decoded."""

    __slots__ = ("_kept", "_read")

    def __init__(self, read: Callable[[Kept], Object], kept: tuple[Kept, ...]) -> None:
        self._read, self._kept = read, kept

    def __len__(self) -> int:
        return len(self._kept)

    @classmethod
    def of(cls, found: Iterable[Object]) -> PackedObjects:
        """Pack objects one by one, so that they need not be in memory together.

        Raise ValueError or TypeError for an object that is not JSON.
        """
        packer = Packer()
        kept = tuple(packer.pack(Trimmed(obj)) for obj in found)
        return cls(lambda packed: packer.unpack(t.cast(bytes, packed)), kept)

    @t.overload
    def __getitem__(self, place: int) -> Object: ...

    @t.overload
    def __getitem__(self, place: slice) -> Sequence[Object]: ...

    def __getitem__(self, place: int | slice) -> Object | Sequence[Object]:
        if isinstance(place, slice):
            return PackedObjects(self._read, self._kept[place])
        return self._read(self._kept[place])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        same = isinstance(other, PackedObjects) and self._kept == other._kept
        return same or (len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True)))
