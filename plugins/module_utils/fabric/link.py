# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One manager at one address: requests paced, trust renewed when a mounted certificate was, no secret in a text."""

from __future__ import annotations

import base64
import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from .config import FabricConfig
from .errors import BadConfiguration, FabricError, Unavailable, Uncertain
from .redaction import Redactor
from .transport import Lost, Reply, Transport, trusted
from .verdicts import Call

JSON: t.Final = "application/json"


class Pace:
    """At most so many requests a second, evenly, over all threads; None: no limit."""

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1.0 / per_second if per_second else 0.0
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Seconds to wait for one's turn, which is taken."""
        if not self._gap:
            return 0.0
        with self._lock:
            now = self._clock()
            mine = max(self._next, now)
            self._next = mine + self._gap
        return mine - now


class Link:
    """Sends; thread-safe. ``endpoint``: another one than the configuration's."""

    def __init__(self, config: FabricConfig, endpoint: str | None = None) -> None:
        self.config = config
        self.endpoint = endpoint or config.endpoint
        self.redact = Redactor()
        self.learn(config)
        self._pace = Pace(config.requests_per_second)
        self._transport = Transport(config, self.endpoint)
        self._renewal = threading.Lock()

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: float | None
    ) -> Reply:
        """One request, repeated only when a renewed certificate lets it through. Raises Lost."""
        if wait := self._pace.turn():
            time.sleep(wait)
        used, seconds = self._transport, timeout or self.config.read_timeout
        try:
            return used.send(method, path, headers, body, seconds)
        except Lost as lost:
            if not (lost.certificate and self._trust_renewed(used)):
                raise
        return self._transport.send(method, path, headers, body, seconds)

    def ask(self, call: Call, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """The same, a lost reply told as a FabricError."""
        try:
            return self.send(call.method, call.path, headers, body, call.timeout)
        except Lost as lost:
            raise self._unanswered(call, lost) from None

    def current(self) -> FabricConfig:
        """The configuration with a renewed Secret; as it was when that cannot be read."""
        try:
            config = self.config.refreshed()
        except BadConfiguration:
            return self.config
        self.learn(config)
        return config

    def learn(self, config: FabricConfig) -> None:
        """Blank the configuration's secrets in every text from now on."""
        for secret in (config.password, config.client_secret):
            self.redact.learn(secret)
        if config.password:
            self.redact.learn(basic(config))

    def foreign(self, reply: Reply) -> str:
        """What came in place of the manager's own form."""
        kind = reply.headers.get("Content-Type", "no content type")
        start = self.redact(reply.body[:200].decode("utf-8", "replace"))
        return f"{kind}, not the form that is expected: {start!r}" if start else f"an empty body ({kind})"

    def close(self) -> None:
        """Close kept connections."""
        self._transport.close()

    def _trust_renewed(self, used: Transport) -> bool:
        """Whether a certificate's file was replaced since the transport read it; if so, a new transport is in place."""
        with self._renewal:
            if self._transport is not used:
                return True
            config = self.current()
            if trusted(config) == used.trusted:
                return False
            try:
                self._transport = Transport(config, self.endpoint)
            except BadConfiguration:
                return False
            return True

    def _unanswered(self, call: Call, lost: Lost) -> FabricError:
        text = f"cannot {call.purpose}: {self.endpoint}: {lost}"
        if lost.sent and call.effect:
            return Uncertain(f"{text}; it may have taken effect")
        return Unavailable(text, passing=lost.passing, code="certificate" if lost.certificate else None)


def basic(config: FabricConfig) -> str:
    """User and password as HTTP's basic authentication writes them (RFC 7617)."""
    return base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
