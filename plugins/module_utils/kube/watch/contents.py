# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a store by key: those that were trimmed are packed, and those asked for lately are decoded, too."""

from __future__ import annotations

import logging
import typing as t
import weakref
from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence

from ..api_resources import Object
from .keys import Key
from .packed import Packer
from .parts import Trimmed

Kept: t.TypeAlias = "Object | bytes"
Handles = list[tuple[Key, Kept]]
# Length of the texts that one generation of decoded objects has; a decoded object takes ten times as much. It is what
# some thirty workers and the plans of 200 busy nodes read at a time: with less they push out each other's.
RECENT = 1 << 18

_log = logging.getLogger(__name__)


class Contents:
    """Not thread-safe: the store's lock is held.

    An object that somebody still holds is given again as the same dict, so that who remembers what it read from an
    object may ask by ``is`` whether that is still so. Of two generations of decoded objects the older one is let go
    when the younger is full, or by ``age``.
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

    def __iter__(self) -> Iterator[Object]:
        return (self.read(*each) for each in self.handles())

    def __getitem__(self, key: Key) -> Object:
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

    def get(self, key: Key) -> Object | None:
        """One object, or None."""
        return self[key] if key in self._kept else None

    def peek(self, key: Key) -> Object | None:
        """As ``get``, for who looks at an object once, such as what replaces it: it does not count as asked for."""
        return self.read(key, self._kept[key]) if key in self._kept else None

    def is_recent(self, key: Key) -> bool:
        """Whether an object was asked for lately."""
        return key in self._young or key in self._old

    def keys(self) -> KeysView[Key]:
        """Of all."""
        return self._kept.keys()

    def handles(self) -> Handles:
        """By which ``read`` gives each object of now, whatever comes later."""
        return [*self._kept.items()]

    def read(self, key: Key, kept: Kept) -> Object:
        """What a handle stands for. It does not count as asked for lately: who reads all asks for none again."""
        if not isinstance(kept, bytes):
            return kept
        same = self._kept.get(key) is kept
        live = self._live.get(key) if same else None
        if live is None:
            live = self._packer.unpack(kept)
            if same:
                self._live[key] = live
        return live

    def unpacked(self, kept: Kept) -> Object:
        """What a handle stands for, decoded anew. Thread-safe."""
        return self._packer.unpack(kept) if isinstance(kept, bytes) else kept

    def put(self, key: Key, obj: Object) -> None:
        """Keep an object that is not here."""
        if isinstance(obj, Trimmed):
            try:
                self._kept[key] = self._packer.pack(obj)
                self._live[key] = obj
                return
            except (TypeError, ValueError):
                _log.warning("%s is kept as it is, since it is no JSON", "/".join(key))
        self._kept[key] = obj

    def pop(self, key: Key) -> Object:
        """Keep it no longer; what it was."""
        obj = self.read(key, self._kept[key])
        if (young := self._young.pop(key, None)) is not None:
            self._length -= young.length
        for known in (self._kept, self._live, self._old):
            known.pop(key, None)
        return obj

    def handle(self, key: Key) -> Kept:
        """By which ``read`` gives the object of now, whatever comes later."""
        return self._kept[key]

    def packed(self, obj: Object) -> Kept:
        """What ``read`` gives an object from that is not kept here."""
        return self._packer.pack(obj) if isinstance(obj, Trimmed) else obj

    def age(self) -> None:
        """Let go decoded objects that nobody asked for since this was called last; those of now are old now."""
        self._old, self._young, self._length = self._young, {}, 0

    def _remember(self, key: Key, obj: Trimmed) -> None:
        if self._length >= self._recent:
            self.age()
        self._young[key] = obj
        self._length += obj.length


class PackedObjects(Sequence[Object]):
    """Objects as they were at one moment, each decoded when somebody looks and let go after that."""

    __slots__ = ("_kept", "_read")

    def __init__(self, read: Callable[[Kept], Object], kept: tuple[Kept, ...]) -> None:
        self._read, self._kept = read, kept

    def __len__(self) -> int:
        return len(self._kept)

    @classmethod
    def of(cls, found: Iterable[Object]) -> PackedObjects:
        """Of objects that come one by one, so that they need not be in memory together. Raises ValueError or TypeError
        for what is no JSON."""
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
