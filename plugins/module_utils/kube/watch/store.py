# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a watch has seen, indexed: every reconcile reads from here instead of asking the API server."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from ..api_resources import Object
from .parts import Trimmed

Key = tuple[str, str]
Indexer = Callable[[Object], Iterable[Hashable]]
Trim = Callable[[Object], Object]
Objects = list[Object]

_log = logging.getLogger(__name__)
_TOMBSTONES = 2000


def key_of(obj: Object) -> Key:
    """(namespace, name); the namespace of a cluster-scoped object is ""."""
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def version_of(obj: Object) -> int:
    """The resourceVersion as a number, -1 when it is absent or not one (it then always counts as newer)."""
    return version_number(obj["metadata"].get("resourceVersion"))


def version_number(text: object) -> int:
    """Kubernetes promises comparable resourceVersions (KEP-5504); anything else cannot be ordered: -1."""
    return int(text) if isinstance(text, str) and text.isdigit() else -1


class Changes:
    """Keys of the objects that came into a store, were replaced or left it since ``take`` was called last. Those that
    are there in the beginning count as just come."""

    def __init__(self, keys: Indexer, lock: threading.RLock) -> None:
        self._keys, self._lock = keys, lock
        self._found: set[Hashable] = set()

    def note(self, obj: Object) -> None:
        """An object comes or goes; one of which no key can be read is left out, as an index does."""
        with contextlib.suppress(Exception):
            self._found.update(self._keys(obj))

    def take(self) -> set[Hashable]:
        """They are the caller's from now on."""
        with self._lock:
            found, self._found = self._found, set()
            return found


class Store:
    """The objects of one resource, with indexes, as client-go's ThreadSafeStore. Thread-safe.

    Objects are raw JSON and must not be changed by anybody once they are in here. ``metadata.managedFields`` is left
    out. ``indexers``: by the name of an index, what gives the keys under which ``by`` finds an object; the same object
    always gives the same. An indexer that raises leaves that one object out of its index. ``trim`` gives what is kept
    of an object (client-go's transform): name, namespace, uid and resourceVersion at least; one that raises leaves the
    object whole.
    """

    def __init__(self, indexers: Mapping[str, Indexer], trim: Trim | None = None) -> None:
        self._indexers = dict(indexers)
        self._trim = trim
        self._lock = threading.RLock()
        self._objects: dict[Key, Object] = {}
        self._indexes: dict[str, dict[Hashable, Key | dict[Key, None]]] = {name: {} for name in indexers}
        self._tombstones: dict[Key, int] = {}
        self._followers: list[Changes] = []

    def follow(self, keys: Indexer) -> Changes:
        """From now on the keys that ``keys`` gives of each changed object are collected; for ever."""
        with self._lock:
            made = Changes(keys, self._lock)
            for obj in self._objects.values():
                made.note(obj)
            self._followers.append(made)
            return made

    def upsert(self, obj: Object) -> bool:
        """Put in an object, from a watch or from the answer to a write.

        Returns False, and does nothing, when what is known of it is as new or newer: versions are compared as numbers
        (KEP-5504). ``obj`` is the store's from then on.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            if not self._is_newer(key, version):
                return False
            self._put(key, self.trimmed(obj))
            return True

    def trimmed(self, obj: Object) -> Object:
        """What is kept of an object, which is trimmed once; ``obj`` itself is the caller's no more."""
        if isinstance(obj, Trimmed):
            return obj
        obj["metadata"].pop("managedFields", None)
        if self._trim is None:
            return obj
        try:
            return Trimmed(self._trim(obj))
        except Exception as problem:
            _log.warning("%s is kept whole: %s", "/".join(key_of(obj)), type(problem).__name__)
            return obj

    def kept(self, obj: Object) -> Object:
        """What is in here already of the very same version, else what is kept of it: a list that is read once more is
        not in memory twice. ``obj`` itself is the caller's no more."""
        known = self.known(obj)
        return self.trimmed(obj) if known is None else known

    def known(self, obj: Object) -> Object | None:
        """What is in here of the very same version of an object, or None."""
        namespace, name = key_of(obj)
        known = self.get(name, namespace)
        return known if known is not None and version_of(known) == version_of(obj) >= 0 else None

    def remove(self, obj: Object) -> bool:
        """Take out the object as of ``obj``'s resourceVersion; False when a newer one is here or none is.

        Remembered, so that a late write-through of an older version does not bring it back.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            self._bury(key, version)
            known = self._objects.get(key)
            if known is None or 0 <= version < version_of(known):
                return False
            self._take(key)
            return True

    def replace_all(self, items: Iterable[Object], resource_version: str = "") -> set[Key]:
        """Make the content that of a list taken at ``resource_version``; the keys that changed.

        What was written through after the list was taken (it is newer) stays.
        """
        taken = version_number(resource_version)
        with self._lock:
            listed = {key_of(obj): obj for obj in items}
            changed = {key for key in set(self._objects) - listed.keys() if self._drop_unlisted(key, taken)}
            changed.update(key for key, obj in listed.items() if self.upsert(obj))
            return changed

    def get(self, name: str, namespace: str = "") -> Object | None:
        """One object, or None."""
        with self._lock:
            return self._objects.get((namespace, name))

    def list(self) -> Objects:
        """All objects, in no order."""
        with self._lock:
            return [*self._objects.values()]

    def by(self, index: str, key: Hashable) -> Objects:
        """The objects for which the indexer ``index`` gave ``key``. KeyError for an unknown index."""
        with self._lock:
            return [self._objects[each] for each in _keys(self._indexes[index].get(key))]

    def first(self, index: str, key: Hashable) -> Object | None:
        """One of the objects that ``by`` finds, or None; for keys that one object has, such as a uid."""
        with self._lock:
            return next((self._objects[each] for each in _keys(self._indexes[index].get(key))), None)

    def keys(self, index: str) -> tuple[Hashable, ...]:
        """The keys under which ``by`` finds something."""
        with self._lock:
            return (*self._indexes[index],)

    def __len__(self) -> int:
        return len(self._objects)

    def _is_newer(self, key: Key, version: int) -> bool:
        if version < 0:
            return True
        known = self._objects.get(key)
        return version > (version_of(known) if known is not None else self._tombstones.get(key, -1))

    def _put(self, key: Key, obj: Object) -> None:
        self._take(key)
        self._objects[key] = obj
        self._tombstones.pop(key, None)
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj):
            there = self._indexes[index].setdefault(place, key)
            if isinstance(there, dict):
                there[key] = None
            elif there != key:
                self._indexes[index][place] = {there: None, key: None}

    def _take(self, key: Key) -> None:
        obj = self._objects.pop(key, None)
        if obj is None:
            return
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj, said=True):
            places = self._indexes[index]
            there = places.get(place)
            if isinstance(there, dict):
                there.pop(key, None)
            if there == key or not there:
                places.pop(place, None)

    def _drop_unlisted(self, key: Key, taken: int) -> bool:
        known = version_of(self._objects[key])
        if 0 <= taken < known:
            return False
        self._bury(key, max(taken, known))
        self._take(key)
        return True

    def _bury(self, key: Key, version: int) -> None:
        self._tombstones[key] = max(version, self._tombstones.pop(key, -1))
        while len(self._tombstones) > _TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def _places(self, obj: Object, *, said: bool = False) -> Iterator[tuple[str, Hashable]]:
        """(index, key) of an object; ``said``: what is wrong with it was said before."""
        for name, indexer in self._indexers.items():
            try:
                yield from [(name, place) for place in set(indexer(obj))]
            except Exception as problem:
                if not said:
                    who = "/".join(key_of(obj))
                    _log.warning("index %s leaves out %s: %s", name, who, type(problem).__name__)


def _keys(there: Key | dict[Key, None] | None) -> Iterable[Key]:
    """One object is the rule where an index finds a uid or a device."""
    if isinstance(there, dict):
        return there
    return () if there is None else (there,)
