# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store that has a value of each object: what decisions need of it, read once when it comes."""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Hashable, Iterable, Mapping

from ...model.value import Unreadable, Value
from ..api_resources import Object
from .index import Indexer
from .keys import key_of
from .store import BaseStore

_log = logging.getLogger(__name__)
V = t.TypeVar("V", bound=Value)


class ValueStore(BaseStore, t.Generic[V]):
    """A store of values, which keeps nothing else of an object. The indexers get values.

    ``read`` returns the value of an object. An object that it cannot read stays in the store
    without a value. ``unread`` has for some indexes a function that returns the places of such an
    object. The other indexes do not find it.
    """

    def __init__(self, indexers: Mapping[str, Indexer], read: Callable[[Object], V],
                 unread: Mapping[str, Callable[[Object], Iterable[Hashable]]] | None = None) -> None:
        raw = unread or {}
        super().__init__({name: _of_both(indexer, raw.get(name)) for name, indexer in indexers.items()})
        self._read = read

    def trimmed(self, obj: Object | Value) -> Value:
        """Return the value of an object."""
        if isinstance(obj, Value):
            return obj
        obj["metadata"].pop("managedFields", None)
        try:
            return self._read(obj)
        except Exception as error:
            (namespace, name), problem = key_of(obj), error.with_traceback(None)  # its frames would keep their objects
            _log.warning("%s/%s cannot be read: %s", namespace, name, type(error).__name__)
            return Unreadable(namespace, name, str(obj["metadata"].get("resourceVersion") or ""), problem, obj)

    def value(self, name: str, namespace: str = "") -> V | None:
        """Return the value of one object, or None if it is absent or cannot be read."""
        found = self.stored(name, namespace)
        return None if isinstance(found, Unreadable) else found

    def checked_value(self, name: str, namespace: str = "") -> V | None:
        """Return the value of one object, or None if it is absent. Raise the error of one that cannot
        be read."""
        found = self.stored(name, namespace)
        if isinstance(found, Unreadable):
            raise found.error.with_traceback(None)  # else it would grow with each raise
        return t.cast("V | None", found)

    def values(self, index: str, place: Hashable) -> list[V]:
        """Return the values for which the indexer ``index`` returned ``place``, without objects that
        cannot be read. Raise KeyError for an unknown index."""
        with self._lock:
            objects = self._objects
            return [found for key in self._keys(index, place) if not isinstance(found := objects[key], Unreadable)]

    def first_value(self, index: str, place: Hashable) -> V | None:
        """Return one of the values that ``values`` finds, or None."""
        with self._lock:
            for key in self._keys(index, place):
                if not isinstance(found := self._objects[key], Unreadable):
                    return t.cast(V, found)
        return None

    def checked(self, index: str, place: Hashable) -> list[V]:
        """Return the values that ``values`` finds. Raise the error of an object that cannot be read."""
        found = self.at(index, place)
        for each in found:
            if isinstance(each, Unreadable):
                raise each.error.with_traceback(None)  # else it would grow with each raise
        return t.cast("list[V]", found)

    def each_value(self) -> list[V]:
        """Return the values of all objects that can be read."""
        with self._lock:
            return [found for found in self._objects.values() if not isinstance(found, Unreadable)]

    def places(self, index: str, found: Value) -> list[Hashable]:
        """Return the places of a value in an index, or those that can be read of an object without a value."""
        try:
            return [*self._indexes[index].indexer(found)]
        except Exception:
            return []

    def unreadable(self) -> list[str]:
        """Return the names of the objects without a value, sorted."""
        with self._lock:
            return sorted(found.name for found in self._objects.values() if isinstance(found, Unreadable))


def _of_both(indexer: Indexer, unread: Indexer | None) -> Indexer:
    """Return an indexer of values and of objects without one."""
    def places(found: t.Any) -> Iterable[Hashable]:
        if isinstance(found, Unreadable):
            return unread(found.whole) if unread else ()
        return indexer(found)

    return places
