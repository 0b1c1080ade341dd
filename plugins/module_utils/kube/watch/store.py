# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a watch has seen, indexed: every reconcile reads from here instead of asking the API server."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from ..api_resources import Object
from .contents import Contents, Handles, PackedObjects
from .index import Index, Indexer
from .keys import Key, kept_key, key_of, version_number, version_of
from .parts import Trimmed
from .untold import Untold

Trim = Callable[[Object], Object]
Objects = list[Object]

_log = logging.getLogger(__name__)
_TOMBSTONES = 2000


class Changes:
    """Keys of the objects that came into a store, were replaced or left it since ``take`` was called last."""

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
    always gives the same. An indexer that raises leaves that one object out of its index; one that is ``ByHash`` keeps
    hashes of what it gives, so that ``keys`` is not for it. ``trim`` gives what is kept
    of an object (client-go's transform): name, namespace, uid and resourceVersion at least; one that raises leaves the
    object whole. What was trimmed is kept packed (``packed.py``) and is the same dict for all who ask as long as
    somebody holds it.
    """

    def __init__(self, indexers: Mapping[str, Indexer], trim: Trim | None = None) -> None:
        self._indexes = {name: Index(indexer) for name, indexer in indexers.items()}
        self._trim = trim
        self._lock = threading.RLock()
        self._objects = Contents()
        self._tombstones: dict[Key, int] = {}
        self._rewound: set[Key] = set()
        self._same_is_other = False
        self._followers: list[Changes] = []
        self._untold: Untold | None = None

    def follow(self, keys: Indexer, *, known: bool = True) -> Changes:
        """From now on the keys that ``keys`` gives of each changed object are collected; for ever. ``known``: as if
        those that are here had just come."""
        with self._lock:
            made = Changes(keys, self._lock)
            for obj in self._objects if known else ():
                made.note(obj)
            self._followers.append(made)
            return made

    def note_told(self) -> None:
        """From now on ``told`` says what the listener of a watch knows; it knows nothing of what is here already."""
        with self._lock:
            self._untold = Untold(self._objects)

    def told(self, key: Key) -> Object | None:
        """An object as the listener was told it last, None when it knows none."""
        with self._lock:
            return self._untold.told(key) if self._untold else None

    def tell(self, key: Key, obj: Object | None) -> None:
        """The listener is told an object, or that there is none any more."""
        with self._lock:
            if self._untold:
                self._untold.tell(key, obj)

    def untold(self) -> set[Key]:
        """Keys of those that are others than the listener was told last, or that it was told and are gone."""
        with self._lock:
            return self._untold.keys() if self._untold else set()

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

    def rewind(self, *, restored: bool = False) -> None:
        """Begin to take a list that is later than all that is here now, whatever the versions say.

        It ends with ``retain``. After etcd was restored from a backup, an object has an older
        version than before. ``restored``: it was, and a known version may be that of another
        content. What is written through meanwhile is compared as always.
        """
        with self._lock:
            self._rewound = {*self._objects.keys(), *self._tombstones}
            self._same_is_other = restored
            if restored:
                self._tombstones.clear()

    def take(self, obj: Object) -> Key:
        """Put in an object of a list; its key, which is in memory once where the object was new."""
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            wanted = self._went_back(key, version) if key in self._rewound else self._is_newer(key, version)
            return self._put(key, self.trimmed(obj)) if wanted else key

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

    def known(self, obj: Object) -> Object | None:
        """What is in here of the very same version of an object, or None."""
        with self._lock:
            known = self._objects.peek(key_of(obj))
        return known if known is not None and version_of(known) == version_of(obj) >= 0 else None

    def take_listed(self, obj: Object) -> Object:
        """Put in an object of a list, of which nothing else need be in memory; its key, as ``key_of`` reads it."""
        namespace, name = self.take(obj)
        return {"metadata": {"namespace": namespace, "name": name}}

    def remove(self, obj: Object) -> bool:
        """Take out the object as of ``obj``'s resourceVersion; False when a newer one is here or none is.

        Remembered, so that a late write-through of an older version does not bring it back.
        """
        key, version = key_of(obj), version_of(obj)
        with self._lock:
            self._bury(key, version)
            known = self._objects.peek(key)
            if known is None or 0 <= version < version_of(known):
                return False
            self._give_up(key)
            return True

    def replace_all(self, items: Iterable[Object], resource_version: str = "") -> set[Key]:
        """Make the content that of a list taken at ``resource_version``; the keys that changed.

        What was written through after the list was taken (it is newer) stays.
        """
        with self._lock:
            listed = {key_of(obj): obj for obj in items}
            changed = self.retain(listed, resource_version)
            changed.update(key for key, obj in listed.items() if self.upsert(obj))
            return changed

    def retain(self, listed: Collection[Key], resource_version: str = "") -> set[Key]:
        """Take out what a list taken at ``resource_version`` does not have, but for what was written through later; the
        keys that are gone."""
        taken = version_number(resource_version)
        with self._lock:
            gone = {key for key in self._objects.keys() - listed if self._drop_unlisted(key, taken)}
            self._rewound, self._same_is_other = set(), False
            return gone

    def get(self, name: str, namespace: str = "") -> Object | None:
        """One object, or None."""
        with self._lock:
            return self._objects.get((namespace, name))

    def peek(self, name: str, namespace: str = "") -> Object | None:
        """As ``get``, for who looks at an object once and asks for it no more."""
        with self._lock:
            return self._objects.peek((namespace, name))

    def list(self) -> Objects:
        """All objects at once, in no order; ``each`` where there may be many."""
        return [*self.each()]

    def each(self) -> Iterator[Object]:
        """Those of now one by one, in no order, so that they need not be in memory together."""
        with self._lock:
            found = self._objects.handles()
        for key, kept in found:
            with self._lock:
                obj = self._objects.read(key, kept)
            yield obj

    def by(self, index: str, key: Hashable) -> Objects:
        """The objects for which the indexer ``index`` gave ``key``. KeyError for an unknown index."""
        with self._lock:
            return [self._objects[each] for each in self._keys(index, key)]

    def each_by(self, index: str, key: Hashable) -> Iterator[Object]:
        """As ``by``, one by one, so that they need not be in memory together."""
        for where, kept in self.handles(index, key):
            with self._lock:
                obj = self._objects.read(where, kept)
            yield obj

    def handles(self, index: str, key: Hashable) -> Handles:
        """What ``by`` finds as it is kept: the same bytes as long as the object is the same."""
        with self._lock:
            return [(each, self._objects.handle(each)) for each in self._keys(index, key)]

    def all_handles(self) -> Handles:
        """As ``handles``, of all objects."""
        with self._lock:
            return self._objects.handles()

    def packed(self, handles: Handles) -> Sequence[Object]:
        """What handles stand for, decoded each time that somebody looks."""
        return PackedObjects(self._objects.unpacked, tuple(kept for _key, kept in handles))

    def count(self, index: str, key: Hashable) -> int:
        """How many objects ``by`` finds."""
        with self._lock:
            return len(self._keys(index, key))

    def first(self, index: str, key: Hashable) -> Object | None:
        """One of the objects that ``by`` finds, or None; for keys that one object has, such as a uid."""
        with self._lock:
            return next((self._objects[each] for each in self._keys(index, key)), None)

    def has(self, index: str, key: Hashable) -> bool:
        """Whether ``by`` finds something; by its hash alone where that is what is kept: nothing is decoded."""
        with self._lock:
            return bool(self._indexes[index].at(key))

    def keys(self, index: str) -> tuple[Hashable, ...]:
        """The keys under which ``by`` finds something. TypeError where they are kept by hash."""
        with self._lock:
            return self._indexes[index].places()

    def names(self) -> set[str]:
        """Of all objects."""
        with self._lock:
            return {name for (_namespace, name), _kept in self._objects.handles()}

    def age(self) -> None:
        """Keep no longer decoded what nobody asked for since this was called last."""
        with self._lock:
            self._objects.age()

    def __len__(self) -> int:
        return len(self._objects)

    def _is_newer(self, key: Key, version: int) -> bool:
        if version < 0:
            return True
        known = self._objects.peek(key)
        return version > (version_of(known) if known is not None else self._tombstones.get(key, -1))

    def _went_back(self, key: Key, version: int) -> bool:
        """Whether a listed object is another one than what was known when the list began."""
        known = self._objects.peek(key)
        return known is None or self._same_is_other or version_of(known) != version

    def _put(self, key: Key, obj: Object) -> Key:
        key = kept_key(key)
        self._rewound.discard(key)
        if self._untold and key not in self._objects:
            self._untold.changes(key)
        recent = self._objects.is_recent(key)
        self._take(key)
        self._objects.put(key, obj)
        if recent:  # whoever asked for the one before asks for this one, too
            self._objects.get(key)
        self._tombstones.pop(key, None)
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj):
            index.add(place, key)
        return key

    def _take(self, key: Key) -> None:
        if key not in self._objects:
            return
        if self._untold:
            self._untold.changes(key)
        obj = self._objects.pop(key)
        for follower in self._followers:
            follower.note(obj)
        for index, place in self._places(obj, said=True):
            index.discard(place, key)

    def _drop_unlisted(self, key: Key, taken: int) -> bool:
        known = version_of(self._objects.read(key, self._objects.handle(key)))
        if 0 <= taken < known and key not in self._rewound:
            return False
        self._bury(key, taken if taken >= 0 else known)
        self._give_up(key)
        return True

    def _give_up(self, key: Key) -> None:
        self._take(key)
        if self._untold:
            self._untold.gone(key)

    def _bury(self, key: Key, version: int) -> None:
        self._tombstones[key] = max(version, self._tombstones.pop(key, -1))
        while len(self._tombstones) > _TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def _keys(self, index: str, place: Hashable) -> Collection[Key]:
        found = self._indexes[index]
        keys = found.at(place)
        if not found.by_hash:
            return keys
        return [key for key in keys if place in found.indexer(self._objects[key])]

    def _places(self, obj: Object, *, said: bool = False) -> Iterator[tuple[Index, Hashable]]:
        """(index, key) of an object; ``said``: what is wrong with it was said before."""
        for name, index in self._indexes.items():
            try:
                yield from [(index, place) for place in set(index.indexer(obj))]
            except Exception as problem:
                if not said:
                    who = "/".join(key_of(obj))
                    _log.warning("index %s leaves out %s: %s", name, who, type(problem).__name__)
