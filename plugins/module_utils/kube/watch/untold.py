# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the listener of a watch was told last, where that is not what the store has: the answer to a write is there
before its event comes."""

from __future__ import annotations

from ..api_resources import Object
from .contents import Contents, Kept
from .keys import Key, version_of


class Untold:
    """By key, as it was told; None: it was never told, or told as gone. Not thread-safe: the store's lock is held."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._told: dict[Key, Kept | None] = dict.fromkeys(contents.keys())

    def changes(self, key: Key) -> None:
        """The store is about to take, to replace or to give up an object."""
        if key not in self._told:
            self._told[key] = self._contents.handle(key) if key in self._contents else None

    def gone(self, key: Key) -> None:
        """The store has given up an object: of one that was never told nothing need be known."""
        if self._told.get(key, b"") is None:
            del self._told[key]

    def told(self, key: Key) -> Object | None:
        """What was told last, None when the listener knows of none."""
        if key not in self._told:
            return self._contents.peek(key)
        kept = self._told[key]
        return None if kept is None else self._contents.read(key, kept)

    def tell(self, key: Key, obj: Object | None) -> None:
        """It is told now; None: that there is none any more."""
        there = self._contents.peek(key)
        if there is obj or (there is not None and obj is not None and 0 <= version_of(obj) == version_of(there)):
            self._told.pop(key, None)
            self._told = self._told or {}  # a dict does not shrink by itself
        else:
            self._told[key] = None if obj is None else self._contents.packed(obj)

    def keys(self) -> set[Key]:
        """Of what is there and was told otherwise, and of what was told and is gone."""
        return {key for key, kept in self._told.items() if kept is not None or key in self._contents}
