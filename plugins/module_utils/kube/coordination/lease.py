# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One holder at a time by a ``coordination.k8s.io/v1`` Lease, as in client-go's leader election.

Clocks of different hosts are never compared. A holder counts as gone if its record has not changed
for its own duration on the local clock. A holder that was a process of this host is looked up at
once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...net.backoff import Backoff
from ..api_resources import LEASES, ApiResource, Object
from ..client.server_clock import boot_clock
from ..client.transport import Limits
from ..client.verbs import Client
from ..errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests, Unreachable
from ..times import format_micro_time, parse_time
from .process_identity import is_dead, process_identity

__all__ = ["Lease", "Observed", "may_take", "observe", "process_identity"]

_log = logging.getLogger(__name__)
# As in client-go: the period does not grow, since a lease may become free at any moment.
_RETRY = Backoff(0.5, factor=1.0)
# A holder stops this part of the duration before others may take over, so that its last requests
# have arrived by then.
_MARGIN = 0.2
_PASSING = (Conflict, AlreadyExists, TooManyRequests, Unreachable)
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Observed:
    """A holder's record, and since when it has not changed (local clock, seconds)."""

    holder: str
    acquired: str
    renewed: str
    transitions: int
    duration: float
    since: float


def observe(lease: Object, before: Observed | None, now: float) -> Observed:
    """Return the present record of a Lease. ``since`` stays if the record equals ``before``."""
    spec = lease.get("spec") or {}
    fresh = Observed(
        str(spec.get("holderIdentity") or ""),
        str(spec.get("acquireTime") or ""),
        str(spec.get("renewTime") or ""),
        int(spec.get("leaseTransitions") or 0),
        float(spec.get("leaseDurationSeconds") or 0),
        before.since if before else now,
    )
    return fresh if fresh == before else replace(fresh, since=now)


def may_take(seen: Observed, identity: str, acquired: str, now: float, dead: Callable[[str, str], bool]) -> bool:
    """Return whether ``identity`` may take the lease: it is free, its own, expired, or its holder's
    process ended.

    It is its own if it has this identity and the acquireTime that was written. Another part of this
    process has another acquireTime.
    """
    if not seen.holder or (seen.holder == identity and seen.acquired == acquired):
        return True
    return now - seen.since >= seen.duration or dead(seen.holder, identity)


class Lease:
    """One party to one Lease, as client-go's LeaderElector. Thread-safe.

    ``identity``: name of this party, usually ``process_identity()``. ``duration``: seconds. The
    Lease is renewed five times within it. ``on_lost``: called once, in the renewing thread, when a
    held lease is lost. An exception of it is logged. ``clock``: returns seconds, and must not stop
    while the machine sleeps. ``wall``: returns the times that are written, which no holder reads.
    ``dead(holder, identity)``: returns whether a holder is certainly gone. ``kind``: kind of the
    object, with the ``spec`` of a Lease.

    ``held`` becomes False by the clock alone, a fifth of the duration before others may take the
    lease. It is reliable even while a renewal hangs. An expired lease is lost even if no other
    process took it, because a frozen process cannot know what others did meanwhile. ``last_error``
    is the sentence of the last failure.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        duration: float = 15,
        *,
        on_lost: Callable[[], object] | None = None,
        clock: Callable[[], float] | None = None,
        wall: Callable[[], float] = time.time,
        dead: Callable[[str, str], bool] = is_dead,
        kind: ApiResource = LEASES,
    ) -> None:
        self.namespace, self.name, self.identity, self.duration = namespace, name, identity, duration
        self.on_lost = on_lost
        self.last_error: str | None = None
        self._client, self._dead, self._kind = client, dead, kind
        self._clock, self._wall = clock or boot_clock, wall
        self._limits = Limits(duration / 5, duration / 3, duration / 3)
        self._seen: Observed | None = None
        self._stored: Object | None = None
        self._acquired = ""
        self._until = 0.0
        self._holding = False
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Return True while no other process can have the lease."""
        return self._holding and self._clock() < self._until

    @property
    def holder(self) -> str | None:
        """Return the identity of the last observed holder, None if there was none."""
        return (self._seen.holder or None) if self._seen else None

    def acquire(self, timeout: float | None = None) -> bool:
        """Take the lease, and renew it in a thread from then on.

        Wait up to ``timeout`` seconds (None: without limit). Return False if the lease is not taken
        by then. If the API server does not answer, or has an internal error, for example because
        etcd is full, wait and try again. Raise ApiError for a refusal, such as Forbidden or a
        missing namespace.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.held and not self._try():
            left = math.inf if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_RETRY.delay(1), left))
        self._keep_renewing()
        return True

    def look(self) -> None:
        """Read the holder and since when it holds the lease. Ignore an API server that does not
        answer.
        """
        with self._lock, contextlib.suppress(ApiError):
            self._seen = observe(self._client.raw("GET", self._path, limits=self._limits), self._seen, self._clock())

    def live_holder(self, now: float) -> str:
        """Return the identity of the holder by its record, empty if it was not renewed within its
        duration.

        ``now``: epoch seconds by the API server's clock. Raise ApiError.
        """
        try:
            seen = observe(self._client.raw("GET", self._path, limits=self._limits), None, now)
        except NotFound:
            return ""
        alive = parse_time(seen.renewed) + seen.duration > now and not self._dead(seen.holder, self.identity)
        return seen.holder if alive else ""

    def release(self) -> None:
        """Stop renewing, and release a held lease, so that the next holder need not wait. Never
        raise.
        """
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(self.duration)
        with self._lock:
            held, self._holding = self.held, False
            if held:
                self._give_up()

    def _try(self) -> bool:
        with self._lock:
            try:
                return self._take_if_free()
            except ApiError as error:
                if not isinstance(error, _PASSING) and error.status < _SERVER_ERROR:
                    raise
                self.last_error = error.message
                return False

    def _take_if_free(self) -> bool:
        try:
            current = self._client.raw("GET", self._path, limits=self._limits)
        except NotFound:
            self._write(None)
            return True
        self._seen = observe(current, self._seen, self._clock())
        if not may_take(self._seen, self.identity, self._acquired, self._clock(), self._dead):
            self.last_error = None
            return False
        self._write(current)
        return True

    def _write(self, current: Object | None) -> None:
        began = self._clock()
        body = self._body(current)
        if current is None:
            collection = self._kind.path(namespace=self.namespace)
            self._stored = self._client.raw("POST", collection, body, limits=self._limits)
        else:
            self._stored = self._client.raw("PUT", self._path, body, limits=self._limits)
        self._seen = observe(self._stored, self._seen, began)
        self._until, self._holding, self.last_error = began + self.duration * (1 - _MARGIN), True, None

    def _body(self, current: Object | None) -> Object:
        now = format_micro_time(self._wall())
        meta = current["metadata"] if current else {"name": self.name, "namespace": self.namespace}
        spec = dict((current or {}).get("spec") or {})
        if spec.get("holderIdentity") != self.identity or spec.get("acquireTime") != self._acquired:
            # Set it before the request. If the reply is lost, this value identifies the lease as
            # held by this party.
            self._acquired = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if current else 0)
        spec |= {"holderIdentity": self.identity, "acquireTime": self._acquired, "renewTime": now}
        spec["leaseDurationSeconds"] = max(1, round(self.duration))
        return {"apiVersion": self._kind.group_version, "kind": self._kind.kind, "metadata": meta, "spec": spec}

    def _give_up(self) -> None:
        stored = self._stored or {}
        spec = {**(stored.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        spec["renewTime"] = format_micro_time(self._wall())
        try:
            self._client.raw("PUT", self._path, {**stored, "spec": spec}, limits=self._limits)
        except ApiError as error:
            self.last_error = error.message

    def _keep_renewing(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
                return
            self._stop = threading.Event()
            name = f"lease-{self.name}"
            self._thread = threading.Thread(target=self._renew, args=(self._stop,), name=name, daemon=True)
            self._thread.start()

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(max(0.0, min(self._pause(), self._until - self._clock()))):
            if self.held:
                self._renew_once()
            if not self.held:
                self._lose()
                return

    def _pause(self) -> float:
        """Return the seconds between renewals, fewer after an error.

        A restarted API server refuses all requests for a second or two, so several tries must fit
        in.
        """
        return self.duration / (20 if self.last_error else 5)

    def _renew_once(self) -> None:
        with self._lock:
            try:
                self._write(self._stored)
            except (Conflict, NotFound) as changed:
                self.last_error = changed.message
                self._look_again()
            except ApiError as error:
                self.last_error = error.message

    def _look_again(self) -> None:
        # Another process wrote to the Lease. That alone does not mean that it took the lease.
        try:
            self._holding = self._renew_if_ours()
        except ApiError as error:
            self.last_error = error.message

    def _renew_if_ours(self) -> bool:
        try:
            current = self._client.raw("GET", self._path, limits=self._limits)
        except NotFound:
            self._write(None)
            return True
        self._seen = observe(current, self._seen, self._clock())
        if (self._seen.holder, self._seen.acquired) != (self.identity, self._acquired):
            return False
        self._write(current)
        return True

    def _lose(self) -> None:
        self._holding, self._thread = False, None
        _log.warning("lost the lease %s/%s: %s", self.namespace, self.name, self.last_error)
        try:
            if self.on_lost is not None:
                self.on_lost()
        except Exception:
            _log.exception("The callback for the loss of lease %s failed", self.name)

    @property
    def _path(self) -> str:
        return self._kind.path(self.name, self.namespace)
