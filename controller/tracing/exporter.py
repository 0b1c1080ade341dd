# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends spans to a collector in batches, on a thread of its own: whoever makes a span waits for nothing.

Sizes and times are those of OpenTelemetry's batch processor (OTEL_BSP_... in its specification), retries those of OTLP:
429, 502, 503, 504 and a lost connection, and nothing else. What cannot be sent in time is dropped and counted.
"""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
import typing as t
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Response, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy, proxy_of_environment
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

from .settings import TraceSettings
from .spans import is_sampled, request, span, trace_id

log = logging.getLogger("composable.infra")
Json = dict[str, t.Any]
QUEUE, BATCH, DELAY_SECONDS = 2048, 512, 5.0
# For how long one batch is tried, and how long the last ones may take when the process stops.
TRY_SECONDS, STOP_SECONDS = 60.0, 5.0
RETRY = Backoff(1.0, longest=15.0, jitter=0.5)
REPEATED = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a request. ``trouble``: empty for none; ``again``: seconds to wait at least before it is sent again,
    None for never; ``lost``: how many spans did not arrive, None for all."""

    trouble: str
    again: float | None = None
    lost: int | None = None


class OtlpTracer:
    """A ``Tracer`` that exports. Thread-safe; ``stop`` it once. ``version``: of the collection."""

    enabled = True

    def __init__(self, settings: TraceSettings, version: str) -> None:
        """Raises BadConfig for a proxy that cannot be used."""
        self._settings, self._version = settings, version
        self._client = HttpClient(settings.url, context=settings.context, proxy=_proxy(settings.url), kept=1)
        self._path = "" if urlsplit(settings.url).path.strip("/") else "/"
        self._spans: deque[Json] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._deadline = float("inf")
        self._said = ""
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """One hop of a claim."""
        self._add(claim, name, began, ended, attributes, error, root=False)

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """The whole way of a claim."""
        self._add(claim, name, began, ended, attributes, error, root=True)

    def stop(self) -> None:
        """Send what is left, for a few seconds at most."""
        with self._changed:
            self._stopping, self._deadline = True, time.monotonic() + STOP_SECONDS
            self._changed.notify()
        self._thread.join(STOP_SECONDS + self._settings.timeout)
        self._client.close()

    def _add(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str, root: bool) -> None:
        if not is_sampled(trace_id(claim), self._settings.ratio):
            return
        made = span(claim, name, began, ended, attributes, error, root)
        with self._changed:
            if len(self._spans) >= QUEUE:
                self.dropped += 1
                return
            self._spans.append(made)
            if len(self._spans) == BATCH:
                self._changed.notify()

    def _run(self) -> None:
        while batch := self._next():
            self._send(batch)

    def _next(self) -> list[Json]:
        """The next batch, full or after a while; none when all was sent and the process stops."""
        with self._changed:
            while not self._stopping:
                self._changed.wait_for(lambda: self._stopping or len(self._spans) >= BATCH, DELAY_SECONDS)
                if self._spans:
                    break
            return [self._spans.popleft() for _unused in range(min(BATCH, len(self._spans)))]

    def _send(self, batch: list[Json]) -> None:
        body, headers = self._encoded(batch)
        until, failures = time.monotonic() + TRY_SECONDS, 0
        while True:
            found = self._post(headers, body)
            failures += 1
            if found.again is None or not self._pause(RETRY.delay(failures, found.again), until):
                lost = len(batch) if found.lost is None else found.lost
                with self._changed:
                    self.dropped += lost
                self._tell(found.trouble)
                return

    def _post(self, headers: Mapping[str, str], body: bytes) -> _Outcome:
        timeout = max(0.1, min(self._settings.timeout, self._deadline - time.monotonic()))
        try:
            answer = self._client.request("POST", self._path, headers, body, Timeouts(timeout, timeout))
        except NoResponse as error:
            return _Outcome(str(error), again=0.0)
        if answer.status == 200:
            return _taken(answer)
        again = _retry_after(answer) if answer.status in REPEATED else None
        return _Outcome(f"the collector answered {answer.status}", again)

    def _pause(self, seconds: float, until: float) -> bool:
        """Wait before the next try; False when there is none."""
        if time.monotonic() + seconds > min(until, self._deadline):
            return False
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)
        return True

    def _encoded(self, batch: list[Json]) -> tuple[bytes, dict[str, str]]:
        body = json.dumps(request(batch, self._settings.resource, self._version), separators=(",", ":")).encode()
        headers = {**self._settings.headers, "Content-Type": "application/json"}
        if self._settings.gzip:
            return gzip.compress(body, 5), {**headers, "Content-Encoding": "gzip"}
        return body, headers

    def _tell(self, trouble: str) -> None:
        """Said when it begins, when it changes, and when it is over."""
        if trouble and trouble != self._said:
            log.warning("traces are not sent to %s: %s", self._settings.url, trouble)
        elif self._said and not trouble:
            log.info("traces are sent again; %d spans were dropped until now", self.dropped)
        self._said = trouble


def _proxy(url: str) -> Proxy | None:
    named = proxy_of_environment(url)
    try:
        return Proxy.parse(named) if named else None
    except ValueError as error:
        raise BadConfig(f"the proxy for traces is not usable: {error}") from None


def _taken(answer: Response) -> _Outcome:
    """A batch that was taken may have been rejected in part (``partialSuccess``); it is never sent again."""
    try:
        partial = json.loads(answer.body or b"{}").get("partialSuccess") or {}
        count = int(partial.get("rejectedSpans") or 0)
    except (ValueError, AttributeError, TypeError):
        return _Outcome("", lost=0)
    if not count:
        return _Outcome("", lost=0)
    return _Outcome(f"the collector rejected spans: {str(partial.get('errorMessage'))[:200]!r}", lost=count)


def _retry_after(answer: Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), TRY_SECONDS) if text.isdecimal() else 0.0
