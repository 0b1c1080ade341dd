# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a store equal to the state of the API server, and notify one listener of every change.

List, then watch from the list's resourceVersion. After a lost connection, resume from the last
version. If that version is too old (410) or in the future, list again, and report the missed
changes. If the API server supports it, the watch itself begins with the list, object by object
(WatchList, KEP-3157), so that a large list is nowhere whole in memory.

The last version is in the future after etcd was restored from a backup. The API server answers a
watch from there with silence. The reflector therefore checks before each resumption whether the
server is behind. A watch ends after ``silence`` or ``watch_timeout`` at the latest.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import typing as t
from collections.abc import Callable, Set

from ...model.value import Value
from ...net.backoff import Backoff
from ..api_resources import ApiResource, Object
from ..client.verbs import Client
from ..errors import ApiError, Gone, NotServed, TooManyRequests, Unavailable, Unreachable
from .keys import Key, key_of
from .store import BaseStore
from .stream import WatchStream

OnChange = Callable[[str, t.Any, t.Any], None]

_log = logging.getLogger(__name__)
_FIRST_DELAY = 0.1
_SHORT_WATCH = 1.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Reflector:
    """One thread that lists and watches one resource, as client-go's Reflector does.

    ``on_change(type, object, old)`` is called in that thread once per change, after the store was
    updated. ``type`` is ADDED, MODIFIED or DELETED. ``object`` is what the store keeps
    (its ``trim``). ``old`` is the object of the last notification, None for the first. Exceptions
    of the listener are logged. ``on_echo`` is called instead if the store had this version already,
    because the answer to a write was stored there. Only the order of such an event is new.

    ``namespace``, ``label_selector``, ``field_selector``: limit what is listed and watched, None
    for all. ``silence``: seconds without a byte after which a watch's connection counts as dead.
    ``watch_timeout``: seconds after which the server is requested to end a watch.
    ``longest_delay``: longest wait after failures, in seconds. ``streaming``: request streamed
    lists, and lists in pages after the server refused one or did not complete it.

    No failure ends the thread. ``last_error`` is its sentence until it is over. ``not_served`` says
    that the API server does not know the resource. ``synced`` is set once the first list was
    reported. ``relists`` counts the lists, and ``restarts`` the failures
    after which the thread began again.
    """

    def __init__(
        self,
        client: Client,
        resource: ApiResource,
        store: BaseStore,
        on_change: OnChange,
        label_selector: str | None = None,
        field_selector: str | None = None,
        *,
        namespace: str | None = None,
        silence: float = 90.0,
        watch_timeout: float = 300.0,
        longest_delay: float = 5.0,
        streaming: bool = False,
        on_echo: OnChange | None = None,
    ) -> None:
        self.client, self.resource, self.store = client, resource, store
        self.synced = threading.Event()
        self.last_error: str | None = None
        self.not_served = False
        self.relists = self.restarts = 0
        self._on_change, self._on_echo = on_change, on_echo or on_change
        self._selectors = (namespace, label_selector, field_selector)
        self._silence, self._watch_timeout, self._streaming = silence, watch_timeout, streaming
        self._backoff = Backoff(_FIRST_DELAY, longest=longest_delay, jitter=0.5)
        store.note_told()
        self._version = ""
        self._relisting = self._restored = False
        self._failures = 0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._stream: WatchStream | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{resource.plural}", daemon=True)

    def start(self) -> None:
        """Start the thread. ``synced`` is set once the first list has been reported."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the watch, and wait up to ``timeout`` seconds for the thread."""
        self._stopping.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread is not threading.current_thread():
            self.join(timeout)

    def relist(self) -> None:
        """List again, if a list was read. ``synced`` is set when the new list was reported."""
        with self._lock:
            if not self.synced.is_set():
                return
            self.synced.clear()
            self._relisting, stream = True, self._stream
        if stream is not None:
            stream.close()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end. Return False if it did not within ``timeout`` seconds."""
        if self.alive:
            self._thread.join(timeout)
        return not self.alive

    @property
    def version(self) -> str:
        """Return the resourceVersion up to which all changes are in the store, empty before the
        first list."""
        return self._version

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch(self._list_if_due())
            except Gone as gone:
                self._version = ""
                self._note(gone.message)
            except ApiError as error:
                self._note(error.message)
                self.not_served = isinstance(error, NotServed)
                self._wait(error.retry_after or 0.0)
            except Exception as problem:
                self._version = ""
                _log.exception("watching %s: unexpected answer", self.resource.plural)
                self._note(f"unexpected answer: {type(problem).__name__}: {problem}")
                self._wait(0.0)

    def _list_if_due(self) -> WatchStream | None:
        """Take a list, unless the watch can continue from the last version.

        Return the watch that continues a streamed list.
        """
        with self._lock:
            if self._relisting:
                self._relisting, self._version = False, ""
        if self._version and self.client.is_behind(self.resource, self._version, *self._selectors):
            _log.warning("Listing %s again: the API server is behind version %s, as after a "
                         "restore of etcd", self.resource.plural, self._version)
            self.restarts += 1
            self._restored, self._version = True, ""
        return None if self._version else self._list()

    def _list(self) -> WatchStream | None:
        """Take a list. Return the watch that continues it if it was streamed."""
        self.store.rewind(restored=self._restored)
        try:
            if self._streaming and (stream := self._opened(initial=True)):
                return self._streamed(stream)
        except (Unreachable, Unavailable, TooManyRequests):
            raise
        except ApiError:  # such as Invalid without the feature gate, or with an older etcd
            self._streaming = False
        namespace, labels, fields = self._selectors
        listed = self.client.list(self.resource, namespace, labels, fields, trim=self.store.take_listed)
        self._take_list({key_of(obj) for obj in listed.items}, listed.resource_version)
        return None

    def _streamed(self, stream: WatchStream) -> WatchStream:
        """Take a streamed list, as client-go's ``watchList``. Close the stream and raise ApiError
        on a failure.
        """
        listed = set[Key]()
        try:
            stream.open()
            for event in stream:
                obj = event["object"]
                if event["type"] == "DELETED":
                    self.store.remove(obj)
                    listed.discard(key_of(obj))
                elif event["type"] != "BOOKMARK":
                    listed.add(self.store.take(obj))
                elif (obj["metadata"].get("annotations") or {}).get(INITIAL_EVENTS_END) == "true":
                    self._take_list(listed, _version(obj))
                    return stream
            self._streaming = self._relisting  # this process ended it
            raise Unreachable("the streamed list ended early", sent=True)
        except BaseException:
            stream.close()
            raise

    def _take_list(self, listed: Set[Key], version: str) -> None:
        """Notify the listener of all that is new or gone after a list was read into the store."""
        self.relists += 1
        self.store.retain(listed, version)
        for key in sorted(self.store.undelivered(), key=lambda key: (key in listed, key)):  # first the deleted objects
            self._tell_listed(key, listed)
        self._version, self._restored = version, False
        self._healthy()
        with self._lock:
            if not self._relisting:
                self.synced.set()

    def _tell_listed(self, key: Key, listed: Set[Key]) -> None:
        """Notify the listener of one key. Objects written after the list have their own event."""
        namespace, name = key
        old, new = self.store.told(key), self.store.stored(name, namespace)
        if key not in listed:
            if old is not None:
                self._tell("DELETED", key, old, old=old)
        elif new is not None and old is not None and _version(old) == _version(new) and not self._restored:
            self.store.tell(key, new)
        elif new is not None:
            self._tell("ADDED" if old is None else "MODIFIED", key, new, old=old)

    def _watch(self, begun: WatchStream | None) -> None:
        stream = begun or self._opened()
        if stream is None:
            return
        began, quiet = time.monotonic(), True
        try:
            stream.open()
            self.last_error = None
            for event in stream:
                quiet = False
                self._take(event)
        finally:
            with self._lock:
                self._stream = None
            stream.close()
        if quiet and time.monotonic() - began < _SHORT_WATCH:
            self._wait(0.0)

    def _opened(self, *, initial: bool = False) -> WatchStream | None:
        namespace, labels, fields = self._selectors
        timeout = self._watch_timeout * random.uniform(1.0, 2.0)
        stream = self.client.watch(
            self.resource, self._version, namespace, labels, fields, timeout=timeout, silence=self._silence,
            initial=initial,
        )
        with self._lock:
            if self._stopping.is_set() or self._relisting:
                return None
            self._stream = stream
        return stream

    def _take(self, event: Object) -> None:
        obj = event["object"]
        version = str(obj["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            self._change(event["type"], obj)
        self._version = version
        self._healthy()

    def _change(self, kind: str, obj: Object) -> None:
        key = key_of(obj)
        if kind == "DELETED":
            gone = self.store.trimmed(obj)
            old = self.store.told(key)
            self.store.remove(gone)
            self._tell("DELETED", key, gone, old=old)
            return
        old = self.store.told(key)
        kind = "ADDED" if old is None else "MODIFIED"
        if (known := self.store.known(obj)) is not None:
            self._tell(kind, key, known, self._on_echo, old)
            return
        kept = self.store.trimmed(obj)
        self.store.upsert(kept)
        self._tell(kind, key, kept, old=old)

    def _tell(self, kind: str, key: Key, obj: Object | Value, told: OnChange | None = None,
              old: Object | Value | None = None) -> None:
        self.store.tell(key, None if kind == "DELETED" else obj)
        try:
            (told or self._on_change)(kind, obj, old)
        except Exception:
            _log.exception("a listener failed on %s of %s %s", kind, self.resource.kind, "/".join(key))

    def _healthy(self) -> None:
        self.last_error = None
        self.not_served = False
        self._failures = 0

    def _note(self, message: str) -> None:
        if self._stopping.is_set():
            return
        self.restarts += 1
        if message != self.last_error:
            _log.warning("watching %s: %s", self.resource.plural, message)
        self.last_error = message

    def _wait(self, at_least: float) -> None:
        self._failures += 1
        self._stopping.wait(self._backoff.delay(self._failures, at_least))


def _version(obj: Object | Value) -> str:
    return obj.version if isinstance(obj, Value) else str(obj["metadata"].get("resourceVersion"))
