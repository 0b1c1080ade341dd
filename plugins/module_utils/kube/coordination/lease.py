# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One holder at a time by a coordination.k8s.io/v1 Lease, in the way of client-go's leader election.

Clocks of different hosts are never compared: a holder counts as gone when its record has not changed for its
own duration on our clock. A holder that was a process of this very host is looked up instead of waited for.
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
# As in client-go: a period that does not grow, since a lease may be free at any moment.
_RETRY = Backoff(0.5, factor=1.0)
# A holder stops so much of the duration before others may take over: what it sent last has arrived by then.
_MARGIN = 0.2
_PASSING = (Conflict, AlreadyExists, TooManyRequests, Unreachable)
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Observed:
    """A holder's record and since when (own clock, seconds) it has been looking like this."""

    holder: str
    acquired: str
    renewed: str
    transitions: int
    duration: float
    since: float


def observe(lease: Object, before: Observed | None, now: float) -> Observed:
    """What a Lease says now; ``since`` stays when it says the same as ``before``."""
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
    """Whether the lease is free for ``identity``: unheld, ours already, its holder's process ended, or expired.

    It is ours when it names us and the acquireTime that we wrote: another part of this process has another one.
    """
    if not seen.holder or (seen.holder == identity and seen.acquired == acquired):
        return True
    return now - seen.since >= seen.duration or dead(seen.holder, identity)


class Lease:
    """One party to one Lease, as client-go's LeaderElector. Thread-safe.

    ``identity`` names this party, usually ``process_identity()``. ``duration`` in seconds: the Lease is renewed five
    times within it. ``on_lost`` is called once, in the renewing thread, when a held lease is lost; what it raises is
    logged. ``clock`` gives seconds and must not stand still while the machine sleeps; ``wall`` gives the times that are
    written, which no holder reads. ``dead(holder, identity)`` says whether a holder is certainly gone. ``kind``: of the
    object, whose ``spec`` is that of a Lease.

    ``held`` turns False by the clock alone, so it can be trusted even while a renewal hangs, and a fifth of the
    duration before others may take the lease. One that ended is lost, also when nobody took it: a process that was
    frozen knows nothing of what others did meanwhile. ``last_error`` has the sentence of the last failure.
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
        """True while nobody else can have it."""
        return self._holding and self._clock() < self._until

    @property
    def holder(self) -> str | None:
        """Identity of the last holder seen; None when there was none."""
        return (self._seen.holder or None) if self._seen else None

    def acquire(self, timeout: float | None = None) -> bool:
        """Take the lease, and renew it in a thread from then on.

        Waits up to ``timeout`` seconds (None: for ever); returns False when it is not ours by then.
        An API server that does not answer, or that has an internal error as when etcd is full, is
        waited for. Raises ApiError for a refusal, such as Forbidden or a missing namespace.
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
        """See who holds it, and since when; an API server that does not answer is asked another time."""
        with self._lock, contextlib.suppress(ApiError):
            self._seen = observe(self._client.raw("GET", self._path, limits=self._limits), self._seen, self._clock())

    def live_holder(self, now: float) -> str:
        """Identity of who holds it, by its record alone: empty when it was not renewed within its duration.

        ``now``: seconds since the epoch by the API server's clock. Raises ApiError.
        """
        try:
            seen = observe(self._client.raw("GET", self._path, limits=self._limits), None, now)
        except NotFound:
            return ""
        alive = parse_time(seen.renewed) + seen.duration > now and not self._dead(seen.holder, self.identity)
        return seen.holder if alive else ""

    def release(self) -> None:
        """Stop renewing and, if it is ours, give it up so that the next one need not wait. Never raises."""
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
            # Set before it is sent: when the reply is lost, this is how we know it for ours.
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
        """An API server that has started again refuses everybody for a second or two: then several trials must fit."""
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
        # Somebody wrote to it; that alone does not mean that somebody took it.
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
            _log.exception("the listener for the loss of lease %s failed", self.name)

    @property
    def _path(self) -> str:
        return self._kind.path(self.name, self.namespace)
