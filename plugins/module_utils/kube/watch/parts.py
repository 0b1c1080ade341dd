# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a watched object, and parts that many decoded objects have alike: those are kept once. Nobody changes
such a part, so that it may be that of another."""

from __future__ import annotations

import marshal
import sys
import typing as t

T = t.TypeVar("T")
Object = t.Mapping[str, t.Any]


class SharedParts:
    """Remembers parts by their value. Of two generations of ``size`` parts the older one is forgotten when the younger
    is full, so that a part which is alike goes on being found and one that came once does not stay. Thread-safe."""

    def __init__(self, size: int = 2000) -> None:
        self._size = size
        self._young: dict[bytes, t.Any] = {}
        self._old: dict[bytes, t.Any] = {}

    def __call__(self, part: T) -> T:
        """The first part of the same value, of the same types throughout; the part itself when there is none."""
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


class Trimmed(dict[str, t.Any]):
    """What is kept of an object: it is trimmed once, however often it is put into a store. ``length``: of its text."""

    __slots__ = ("__weakref__", "length")
    length: int


def picked(part: Object, names: t.Iterable[str]) -> dict[str, t.Any]:
    """Those fields of a part that are there."""
    return {name: part[name] for name in names if name in part}


def metadata(obj: Object, *names: str) -> dict[str, t.Any]:
    """What is read of every object's metadata, and its fields ``names``."""
    return picked(obj["metadata"], ("name", "namespace", "uid", "resourceVersion", "creationTimestamp",
                                    "deletionTimestamp", *names))


def header(obj: Object) -> dict[str, t.Any]:
    """Kind and version, where an object says them."""
    return {name: sys.intern(obj[name]) for name in ("apiVersion", "kind") if name in obj}
