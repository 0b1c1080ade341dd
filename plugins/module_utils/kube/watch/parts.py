# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a watched object that are kept. Equal parts of many objects are in memory once.

No code changes such a part, so several objects can share it.
"""

from __future__ import annotations

import marshal
import sys
import typing as t

T = t.TypeVar("T")
Object = t.Mapping[str, t.Any]


class SharedParts:
    """Remembers parts by value. Thread-safe.

    There are two generations of ``size`` parts. The older one is dropped when the younger is full.
    A part that repeats is therefore always found, and a part that came once does not stay.
    """

    def __init__(self, size: int = 2000) -> None:
        self._size = size
        self._young: dict[bytes, t.Any] = {}
        self._old: dict[bytes, t.Any] = {}

    def __call__(self, part: T) -> T:
        """Return the first part of the same value and types, the part itself if there is none."""
        value = marshal.dumps(t.cast(t.Any, part), 2)  # from version 3 on the same value may have several texts
        known: T | None = self._young.get(value)
        if known is not None:
            return known
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        kept: T = self._old.get(value, part)
        self._young[value] = kept
        return kept

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


shared = SharedParts()


def interned(part: T) -> T:
    """Return an equal part with each text in memory once. For parts with few texts of their own."""
    found: t.Any = part
    if isinstance(part, str):
        found = sys.intern(part)
    elif isinstance(part, dict):
        found = {sys.intern(name): interned(value) for name, value in part.items()}
    elif isinstance(part, list):
        found = [interned(each) for each in part]
    return t.cast(T, found)


class Trimmed(dict[str, t.Any]):
    """The kept part of an object. The class marks that it is already trimmed."""

    __slots__ = ()


def picked(part: Object, names: t.Iterable[str]) -> dict[str, t.Any]:
    """Return those fields of a part that exist."""
    return {name: part[name] for name in names if name in part}


def metadata(obj: Object, *names: str) -> dict[str, t.Any]:
    """Return the fields of the metadata that are read of every object, and its fields ``names``."""
    return picked(obj["metadata"], ("name", "namespace", "uid", "resourceVersion", "creationTimestamp",
                                    "deletionTimestamp", *names))


def header(obj: Object) -> dict[str, t.Any]:
    """Return kind and version, if the object has them."""
    return {name: sys.intern(obj[name]) for name in ("apiVersion", "kind") if name in obj}
