# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a watch with indexes. Every reconcile reads here, not from the API server."""

from __future__ import annotations

import contextlib
import logging
import threading
import typing as t
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from ...model.value import Value
from ..api_resources import Object, Trim
from .index import Index, Indexer
from .keys import Key, kept_key, key_of, version_number, version_of
from .parts import Trimmed
from .undelivered import Undelivered

Objects = list[Object]

_log = logging.getLogger(__name__)
_TOMBSTONES = 2000


class Changes:
    """Keys of objects that were added, replaced or removed since the last ``take``."""

    def __init__(self, keys: Indexer, lock: threading.RLock) -> None:
        self._keys, self._lock = keys, lock
        self._found: set[Hashable] = set()

    def note(self, obj: Object | Value) -> None:
        """Record an object that comes or goes. Ignore an object without a readable key, as an index
        does.
        """
        with contextlib.suppress(Exception):
            self._found.update(self._keys(obj))

    def take(self) -> set[Hashable]:
        """Return the keys, and begin a new set."""
        with self._lock:
            found, self._found = self._found, set()
            return found


class BaseStore:
    """The objects of one resource, with indexes, as client-go's ThreadSafeStore. Thread-safe.

    Objects must not change once they are here. ``metadata.managedFields`` is dropped.
    ``indexers``: for each index a function that returns the keys under which the index finds an
    object. The same object always has the same keys. If an indexer raises, that object is missing
    in its index. ``changes`` counts the objects that came or went.
    """

    def __init__(self, indexers: Mapping[str, Indexer]) -> None:
        self._indexes = {name: Index(indexer) for name, indexer in indexers.items()}
        self._lock = threading.RLock()
        self._objects: dict[Key, t.Any] = {}
        self._tombstones: dict[Key, int] = {}
        self._rewound: set[Key] = set()
        self._same_is_other = False
        self._followers: list[Changes] = []
        self.changes = 0
        self._undelivered: Undelivered | None = None

    def follow(self, keys: Indexer, *, known: bool = True) -> Changes:
        """Collect the keys that ``keys`` returns for each changed object, from now on.

        ``known``: include the present objects as if they had just come.
        """
        with self._lock:
            made = Changes(keys, self._lock)
            for obj in self._objects.values() if known else ():
                made.note(obj)
            self._followers.append(made)
            return made

    def note_told(self) -> None:
        """Begin to record what the listener of a watch knows. It knows no present object."""
        with self._lock:
            self._undelivered = Undelivered(self._objects)

    def told(self, key: Key) -> t.Any:
        """Return an object as of the last notification, None if the listener knows none."""
        with self._lock:
            return self._undelivered.told(key) if self._undelivered else None

    def tell(self, key: Key, obj: Object | Value | None) -> None:
        """Record that the listener was notified of an object, or of its deletion (None)."""
        with self._lock:
            if self._undelivered:
                self._undelivered.tell(key, obj)

    def undelivered(self) -> set[Key]:
        """Return keys of objects with changes of which the listener was not notified, including
        deletions.
        """
        with self._lock:
            return self._undelivered.keys() if self._undelivered else set()

    def upsert(self, obj: Object | Value) -> bool:
        """Put in an object from a watch or from the answer to a write.

        Return False and do nothing if the known version is as new or newer. Versions are compared
        as numbers (KEP-5504). The store owns ``obj`` from then on.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            if not self._is_newer(key, version):
                return False
            self._put(key, self.trimmed(obj))
            return True

    def rewind(self, *, restored: bool = False) -> None:
        """Begin to take a list that is later than all present objects, whatever their versions are.

        It ends with ``retain``. After etcd was restored from a backup, an object has an older
        version than before. ``restored``: etcd was restored, and a known version may have another
        content. Writes in the meantime are compared as always.
        """
        with self._lock:
            self._rewound = {*self._objects.keys(), *self._tombstones}
            self._same_is_other = restored
            if restored:
                self._tombstones.clear()

    def take(self, obj: Object) -> Key:
        """Put in an object of a list. Return its key, which is in memory once if the object was
        new.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            wanted = self._went_back(key, version) if key in self._rewound else self._is_newer(key, version)
            return self._put(key, self.trimmed(obj)) if wanted else key

    def trimmed(self, obj: Object | Value) -> Object | Value:
        """Return what is kept of an object. An object is trimmed once. The caller must not use
        ``obj`` again.
        """
        raise NotImplementedError

    def known(self, obj: Object) -> t.Any:
        """Return the stored object if it has the same version as ``obj``, else None."""
        with self._lock:
            known = self._objects.get(key_of(obj))
        return known if known is not None and version_of(known) == version_of(obj) >= 0 else None

    def take_listed(self, obj: Object) -> Object:
        """Put in an object of a list, and return only its key as an object, to save memory."""
        namespace, name = self.take(obj)
        return {"metadata": {"namespace": namespace, "name": name}}

    def remove(self, obj: Object | Value) -> bool:
        """Remove an object with the version of ``obj``. Return False if a newer one is here or none
        is.

        The version is remembered, so that a late write of an older version does not bring the
        object back.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            self._bury(key, version)
            known = self._objects.get(key)
            if known is None or 0 <= version < version_of(known):
                return False
            self._give_up(key)
            return True

    def replace_all(self, items: Iterable[Object], resource_version: str = "") -> set[Key]:
        """Replace the content by a list that was taken at ``resource_version``. Return the changed
        keys.

        Objects that were written after the list (newer versions) stay.
        """
        with self._lock:
            listed = {key_of(obj): obj for obj in items}
            changed = self.retain(listed, resource_version)
            changed.update(key for key, obj in listed.items() if self.upsert(obj))
            return changed

    def retain(self, listed: Collection[Key], resource_version: str = "") -> set[Key]:
        """Remove objects that a list taken at ``resource_version`` does not have. Return their
        keys.

        Objects that were written after the list stay.
        """
        taken = version_number(resource_version)
        with self._lock:
            gone = {key for key in self._objects.keys() - listed if self._drop_unlisted(key, taken)}
            self._rewound, self._same_is_other = set(), False
            return gone

    def stored(self, name: str, namespace: str = "") -> t.Any:
        """Return what is kept of one object, or None."""
        with self._lock:
            return self._objects.get((namespace, name))

    def at(self, index: str, key: Hashable) -> list[t.Any]:
        """Return what is kept of the objects for which the indexer ``index`` returned ``key``.

        It is the same object as long as nothing has changed. Raise KeyError for an unknown index.
        """
        with self._lock:
            return [self._objects[each] for each in self._keys(index, key)]

    def list(self) -> Objects:
        """Return all objects as JSON, unordered."""
        return [*self.each()]

    def each(self) -> Iterator[Object]:
        """Iterate over the present objects as JSON, unordered."""
        with self._lock:
            found = [*self._objects.values()]
        return (obj.as_object() if isinstance(obj, Value) else obj for obj in found)

    def all_keys(self) -> set[Key]:
        """Return the keys of all objects."""
        with self._lock:
            return {*self._objects}

    def count(self, index: str, key: Hashable) -> int:
        """Return how many objects ``at`` finds."""
        with self._lock:
            return len(self._keys(index, key))

    def has(self, index: str, key: Hashable) -> bool:
        """Return whether ``at`` finds an object."""
        with self._lock:
            return bool(self._indexes[index].at(key))

    def keys(self, index: str) -> tuple[Hashable, ...]:
        """Return the keys for which ``at`` finds objects."""
        with self._lock:
            return self._indexes[index].places()

    def names(self) -> set[str]:
        """Return the names of all objects."""
        with self._lock:
            return {name for _namespace, name in self._objects}

    def names_at(self, index: str, key: Hashable) -> tuple[str, ...]:
        """Return the names of the objects that ``at`` finds."""
        with self._lock:
            return tuple(name for _namespace, name in self._keys(index, key))

    def __len__(self) -> int:
        return len(self._objects)

    def _is_newer(self, key: Key, version: int) -> bool:
        if version < 0:
            return True
        known = self._objects.get(key)
        return version > (version_of(known) if known is not None else self._tombstones.get(key, -1))

    def _went_back(self, key: Key, version: int) -> bool:
        """Return whether a listed object differs from the object that was known when the list
        began.
        """
        known = self._objects.get(key)
        return known is None or self._same_is_other or version_of(known) != version

    def _put(self, key: Key, obj: Object | Value) -> Key:
        key = kept_key(key)
        self._rewound.discard(key)
        if self._undelivered and key not in self._objects:
            self._undelivered.changes(key)
        self._take(key)
        self._objects[key] = obj
        self.changes += 1
        self._tombstones.pop(key, None)
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj):
            index.add(place, key)
        return key

    def _take(self, key: Key) -> None:
        if key not in self._objects:
            return
        if self._undelivered:
            self._undelivered.changes(key)
        obj = self._objects.pop(key)
        self.changes += 1
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj, said=True):
            index.discard(place, key)

    def _drop_unlisted(self, key: Key, taken: int) -> bool:
        known = version_of(self._objects[key])
        if 0 <= taken < known and key not in self._rewound:
            return False
        self._bury(key, taken if taken >= 0 else known)
        self._give_up(key)
        return True

    def _give_up(self, key: Key) -> None:
        self._take(key)
        if self._undelivered:
            self._undelivered.gone(key)

    def _bury(self, key: Key, version: int) -> None:
        self._tombstones[key] = max(version, self._tombstones.pop(key, -1))
        while len(self._tombstones) > _TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def _keys(self, index: str, place: Hashable) -> Collection[Key]:
        return self._indexes[index].at(place)

    def _places(self, obj: Object | Value, *, said: bool = False) -> Iterator[tuple[Index, Hashable]]:
        """Yield (index, key) of an object. ``said``: do not log its problems again."""
        for name, index in self._indexes.items():
            try:
                yield from [(index, place) for place in set(index.indexer(obj))]
            except Exception as problem:
                if not said:
                    who = "/".join(key_of(obj))
                    _log.warning("index %s leaves out %s: %s", name, who, type(problem).__name__)


class Store(BaseStore):
    """A store of raw JSON.

    ``trim``: returns the part of an object that is kept, with at least name, namespace, UID and
    resourceVersion. If it raises, the whole object is kept.
    """

    def __init__(self, indexers: Mapping[str, Indexer], trim: Trim | None = None) -> None:
        super().__init__(indexers)
        self._trim = trim

    def trimmed(self, obj: Object | Value) -> Object | Value:
        """Return the part of an object that is kept."""
        if isinstance(obj, (Trimmed, Value)):
            return obj
        obj["metadata"].pop("managedFields", None)
        if self._trim is None:
            return obj
        try:
            return Trimmed(self._trim(obj))
        except Exception as problem:
            _log.warning("%s is kept whole: %s", "/".join(key_of(obj)), type(problem).__name__)
            return obj

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object, or None."""
        found: Object | None = self.stored(name, namespace)
        return found
