# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish core/v1 Events on the objects of users, without delaying the caller."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from uuid import uuid4

from .api_resources import EVENTS, Object
from .client.transport import Limits
from .client.verbs import MERGE_PATCH, Client
from .errors import ApiError, NotFound
from .times import format_time

_SAME_WITHIN = 600.0
REMEMBERED = 4096
QUEUED = 4096
# Events must not compete with requests that pods wait for. Seconds between two events, and from the
# call to the sending.
PACE, DELAY = 0.1, 0.5
_MESSAGE_LIMIT = 1024
_REFERENCE = ("apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath")
_LIMITS = Limits(connect=3.0, read=5.0, patience=10.0)


@dataclass(slots=True)
class _Sent:
    namespace: str
    name: str
    count: int
    last: float


@dataclass(frozen=True, slots=True)
class _Told:
    regarding: Object
    reason: str
    message: str
    type_: str
    related: Object | None
    moment: float

    def key(self) -> bytes:
        """Return a digest. The texts of thousands of remembered events would take most of the
        memory.
        """
        subject = tuple(self.regarding.get(name) for name in ("kind", "namespace", "name", "uid"))
        return blake2b(repr((*subject, self.reason, self.message, self.type_)).encode(), digest_size=16).digest()


def reference(obj: Object) -> Object:
    """Return the ObjectReference of a whole object. An ObjectReference is returned unchanged."""
    if "metadata" not in obj:
        return {name: obj[name] for name in _REFERENCE if obj.get(name)}
    source = {**obj["metadata"], "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    return {name: source[name] for name in _REFERENCE if source.get(name)}


class Recorder:
    """Sends core/v1 Events in one daemon thread, as client-go's EventRecorder.

    ``component``, ``instance``: reporting component and instance of the events. ``delay``: seconds
    from the call to the sending. ``pace``: seconds between two events. ``clock``: returns epoch
    seconds. If the queue is full, the event is dropped (counted in ``dropped``). If the API server
    refuses it, it is lost (counted in ``failed``). Neither raises. The same event within ten
    minutes raises the count of the existing event.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        clock: Callable[[], float] = time.time,
        pace: float = PACE,
        delay: float = DELAY,
    ) -> None:
        self._client, self._component, self._instance = client, component, instance
        self._clock, self._pace, self._delay = clock, pace, delay
        self._queue: deque[_Told] = deque()
        self._sent: OrderedDict[bytes, _Sent] = OrderedDict()
        self._changed = threading.Condition()
        self._busy = False
        self._closing = False
        self.dropped = 0
        self.failed = 0
        self.last_error: str | None = None
        self._closing_soon = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def event(
        self,
        regarding: Object,
        reason: str,
        message: str,
        type_: str = "Normal",
        related: Object | None = None,
    ) -> None:
        """Queue one event. Return at once and never raise.

        ``regarding``, ``related``: whole objects or ObjectReferences. The event goes to the
        namespace of ``regarding``. ``reason``: one word in CamelCase. ``message``: a sentence of
        which 1024 characters are kept. ``type_``: Normal or Warning.
        """
        about = reference(related) if related else None
        told = _Told(reference(regarding), reason, message[:_MESSAGE_LIMIT], type_, about, self._clock())
        with self._changed:
            if self._closing or len(self._queue) >= QUEUED:
                self.dropped += 1
                return
            self._queue.append(told)
            self._changed.notify_all()

    @property
    def remembered(self) -> int:
        """Return how many events are remembered to count repetitions."""
        return len(self._sent)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until everything queued is sent. Return False if ``timeout`` seconds were not
        enough.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Send the queued events, then end the thread. Return False if ``timeout`` seconds were not
        enough.
        """
        self._closing_soon.set()
        done = self.flush(timeout)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        return done and not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._closing)
                if self._closing:
                    return
                told = self._queue.popleft()
                self._busy = True
            self._closing_soon.wait(told.moment + self._delay - self._clock())
            self._deliver(told)
            self._closing_soon.wait(self._pace)

    def _deliver(self, told: _Told) -> None:
        try:
            self._send(told)
        except ApiError as error:
            self.failed += 1
            self.last_error = error.message
        except Exception as problem:
            self.failed += 1
            self.last_error = f"{type(problem).__name__}: {problem}"

    def _send(self, told: _Told) -> None:
        self._forget(told.moment)
        key = told.key()
        known = self._sent.get(key)
        if known is not None:
            try:
                self._repeat(known, told.moment)
                self._sent.move_to_end(key)
                return
            except NotFound:
                del self._sent[key]
        self._sent[key] = self._create(told)

    def _forget(self, now: float) -> None:
        # The event that was repeated longest ago is the first.
        while self._sent:
            key, oldest = next(iter(self._sent.items()))
            if len(self._sent) < REMEMBERED and now - oldest.last < _SAME_WITHIN:
                return
            del self._sent[key]

    def _repeat(self, known: _Sent, moment: float) -> None:
        body = {"count": known.count + 1, "lastTimestamp": format_time(moment)}
        path = EVENTS.path(known.name, known.namespace)
        self._client.raw("PATCH", path, body, content_type=MERGE_PATCH, limits=_LIMITS)
        known.count += 1
        known.last = moment

    def _create(self, told: _Told) -> _Sent:
        body = self._body(told)
        meta = body["metadata"]
        self._client.raw("POST", EVENTS.path(namespace=meta["namespace"]), body, limits=_LIMITS)
        return _Sent(meta["namespace"], meta["name"], 1, told.moment)

    def _body(self, told: _Told) -> Object:
        moment = format_time(told.moment)
        body: Object = {
            "apiVersion": EVENTS.group_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{told.regarding['name']}.{uuid4().hex[:16]}",
                "namespace": told.regarding.get("namespace") or "default",
            },
            "involvedObject": told.regarding,
            "reason": told.reason,
            "message": told.message,
            "type": told.type_,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        return body | ({"related": told.related} if told.related else {})
