# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the last notification, if they differ from those in the store.

The answer to a write is in the store before its event comes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...model.value import Value
from ..api_resources import Object
from .keys import Key, version_of


class Undelivered:
    """By key, the object of the last notification. None: never notified, or notified of the
    deletion.

    Not thread-safe: callers have the store's lock.
    """

    def __init__(self, objects: Mapping[Key, t.Any]) -> None:
        self._objects = objects
        self._told: dict[Key, Object | Value | None] = dict.fromkeys(objects)

    def changes(self, key: Key) -> None:
        """Record an object that the store is about to add, to replace or to remove."""
        if key not in self._told:
            self._told[key] = self._objects.get(key)

    def gone(self, key: Key) -> None:
        """Record that the store has removed an object. Forget it if the listener never knew it."""
        if key in self._told and self._told[key] is None:
            del self._told[key]

    def told(self, key: Key) -> t.Any:
        """Return the object of the last notification, None if the listener knows of none."""
        return self._told[key] if key in self._told else self._objects.get(key)

    def tell(self, key: Key, obj: Object | Value | None) -> None:
        """Record a notification. ``obj`` is None for a deletion."""
        there = self._objects.get(key)
        if there is obj or (there is not None and obj is not None and 0 <= version_of(obj) == version_of(there)):
            self._told.pop(key, None)
            self._told = self._told or {}  # a dict does not shrink by itself
        else:
            self._told[key] = obj

    def keys(self) -> set[Key]:
        """Return the keys of objects that differ from their last notification, and of unreported
        deletions.
        """
        return {key for key, kept in self._told.items() if kept is not None or key in self._objects}
