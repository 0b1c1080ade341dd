# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the steps of a claim's timeline, for metrics and optional traces.

A step begins where the one before ended. This process remembers beginnings by the UID or name of
their object. ``HOPS`` of ``metrics`` describes each step.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from ...fabric.errors import Busy, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain, Withdrawn
from ...kube.objects.claim_ref import ClaimRef
from ...model.claim import ResourceClaim
from ...runtime.tracing import NoTracer, Tracer
from ..timelines.recorder import TimelineRecorder
from ..values.claim_values import claim_ref
from .metrics import OF_NO_CLAIM, Metrics, NoMetrics

# Number of steps in flight to remember. The oldest are forgotten first and not measured.
MOST = 20_000
WAY, UNSERVED = "claim", "unserved"
_REASONS: t.Final = ((Missing, "missing"), (Busy, "busy"), (Unavailable, "unavailable"), (Unauthorized, "unauthorized"),
                     (Uncertain, "uncertain"), (Withdrawn, "withdrawn"))
Attribute: t.TypeAlias = "str | int | float"


class ClaimSteps:
    """Measures the steps of an engine. Thread-safe.

    ``manager`` is the name of the CDI Manager in the configuration. ``clock`` returns seconds since
    the epoch. ``timelines`` collects the steps of each claim.
    """

    def __init__(self, metrics: Metrics | None = None, tracer: Tracer | None = None, manager: str = "",
                 clock: Callable[[], float] = time.time, timelines: TimelineRecorder | None = None) -> None:
        self.timelines = timelines or TimelineRecorder(clock=clock)
        self.metrics, self.tracer, self.manager = metrics or NoMetrics(), tracer or NoTracer(), manager
        self._clock = clock
        self._began: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, step: str, what: str, when: float = 0.0) -> None:
        """Begin a step of an object now, or at ``when``. A step that has already begun goes on."""
        with self._lock:
            self._began.setdefault((step, what), when or self._clock())
            if len(self._began) > MOST:
                self._began.popitem(last=False)

    def began(self, step: str, what: str) -> float:
        """Return when a step began, or 0.0 if unknown."""
        with self._lock:
            return self._began.get((step, what), 0.0)

    def forget(self, step: str, what: str) -> float:
        """Forget a step, and return when it began, or 0.0 if unknown."""
        with self._lock:
            return self._began.pop((step, what), 0.0)

    def end(self, step: str, what: str, claims: Iterable[ClaimRef], handover: str = "", *, then: str = "",
            **attributes: Attribute) -> None:
        """End a step. Do nothing if its beginning is unknown.

        ``handover`` is that of the claims, empty if there are none. ``then`` is the next step,
        which begins at the same moment. The first caller to end the step begins the next one.
        """
        claims = [*claims]
        with self._lock:
            now = self._clock()
            if (began := self._began.pop((step, what), 0.0)) and then:
                self._began.setdefault((then, what), now)
            if began:  # before another thread ends the next step and reports the claims as served
                self.timelines.note(claims, step, began, now)
        if began:
            self._took(step, claims, began, now, handover, "", attributes)

    def took(self, step: str, claims: Iterable[ClaimRef], began: float, ended: float = 0.0, *, handover: str = "",
             error: str = "", **attributes: Attribute) -> None:
        """Record a step that ended now, or at ``ended``.

        ``handover`` is that of the claims, empty if there are none. ``error`` says why the step
        failed. Failed steps are not in the metrics.
        """
        claims, ended = [*claims], ended or self._clock()
        if not error:
            self.timelines.note(claims, step, began, ended)
        self._took(step, claims, began, ended, handover, error, attributes)

    def _took(self, step: str, claims: Iterable[ClaimRef], began: float, ended: float, handover: str, error: str,
              attributes: Mapping[str, Attribute]) -> None:
        if not error:
            self.metrics.observe("step_duration_seconds", max(0.0, ended - began), step=step,
                                 handover=handover or OF_NO_CLAIM)
        if self.tracer.enabled:
            for claim in claims:
                self.tracer.span(claim.uid, step, began, ended, {**attributes, **_named(claim)}, error)

    def over(self, claims: Iterable[ResourceClaim], error: str = "", **attributes: Attribute) -> None:
        """End the timelines of these ResourceClaims: they are served, or not served because of
        ``error``.

        A claim that is not served now may be served later. A trace has only one root, so record a
        span ``unserved`` instead.
        """
        for claim in claims:
            created, ref = claim.created, claim_ref(claim)
            named = {**attributes, **_named(ref)}
            if error:
                self.timelines.unserved(ref.uid)
            else:
                self.timelines.served(ref, str(attributes.get("node") or ""), created)
            if not self.tracer.enabled:
                continue
            if error:
                self.tracer.span(ref.uid, UNSERVED, created, self._clock(), named, error)
            else:
                self.tracer.root(ref.uid, WAY, created, self._clock(), named)

    def asked(self, what: str, model: str, error: FabricError | None = None) -> None:
        """Count a request to ``attach`` or ``detach`` a device. ``error`` is set if it failed."""
        outcome = "failed" if error else "succeeded"
        self.metrics.count(f"{what}es_total", manager=self.manager, model=model, outcome=outcome,
                           reason=_reason(error) if error else "none")

    def refused(self, model: str, reason: str) -> None:
        """Count a detach that was not requested. ``reason`` is one of REASONS_DETACH."""
        self.metrics.count("detaches_total", manager=self.manager, model=model, outcome="refused", reason=reason)


def _reason(error: FabricError) -> str:
    """Return the value of REASONS_ATTACH for an error."""
    if isinstance(error, Refused):
        return "exhausted" if error.exhausted else "refused"
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "unexpected")


def _named(claim: ClaimRef) -> dict[str, Attribute]:
    namespace, _unused, name = claim.key.partition("/")
    return {"k8s.namespace.name": namespace, "composable.claim.name": name, "composable.claim.uid": claim.uid}
