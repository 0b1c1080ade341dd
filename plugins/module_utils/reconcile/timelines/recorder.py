# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the timelines of claims: in flight, served but not written yet, and written."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...kube.objects.claim_ref import ClaimRef
from .timeline import MOST_STEPS, START, Span, Timeline

# Number of claims that are in flight, and of served claims not written yet. The oldest are
# forgotten first.
MOST = 20_000
# Number of served claims that still exist, about 2 KiB each. Forgotten timelines are still on their
# devices.
MOST_SERVED = 4000
# Seconds to wait for the start of a served claim's pod before its timeline is written.
START_SECONDS = 10.0


class TimelineRecorder:
    """Records what ``Hops`` measures. Thread-safe.

    ``due(node, when)`` is called when a timeline of a node may be written at ``when``, in seconds
    since the epoch. ``clock`` returns the same seconds. ``counted`` is called once for each written
    timeline.
    """

    def __init__(self, due: Callable[[str, float], object] = lambda node, when: None,
                 clock: Callable[[], float] = time.time,
                 counted: Callable[[Timeline], object] = lambda timeline: None) -> None:
        self._due, self._clock, self._counted, self._lock = due, clock, counted, threading.Lock()
        self._under_way: OrderedDict[str, Timeline] = OrderedDict()
        self._served: OrderedDict[str, tuple[Timeline, float]] = OrderedDict()
        self._written: OrderedDict[str, Timeline] = OrderedDict()

    def note(self, claims: Iterable[ClaimRef], step: str, began: float, ended: float) -> None:
        """Add a step of these claims that has ended.

        A served claim may have one more step. A claim that the scheduler allocates again is served
        before its pod is bound.
        """
        span = Span(step, began, ended)
        with self._lock:
            for claim in claims:
                if found := self._served.get(claim.uid):
                    self._served[claim.uid] = (_with(found[0], span), found[1])
                    continue
                known = self._under_way.get(claim.uid) or Timeline(claim.key, claim.uid, "", 0.0)
                self._under_way[claim.uid] = _with(known, span)
                if len(self._under_way) > MOST:
                    self._under_way.popitem(last=False)

    def served(self, claim: ClaimRef, node: str, created: float) -> None:
        """Note that a claim has its devices. Its timeline is due when its pod runs, or after
        START_SECONDS."""
        with self._lock:
            if (known := self._under_way.pop(claim.uid, None)) is None:
                return
            when = self._clock() + START_SECONDS
            self._served[claim.uid] = (replace(known, node=node, created=created), when)
            if len(self._served) > MOST:
                self._served.popitem(last=False)
        self._due(node, when)

    def running(self, claims: Iterable[ClaimRef]) -> None:
        """Note that the pod of these claims runs now."""
        now = self._clock()
        with self._lock:
            known = {claim.uid: found[0] for claim in claims if (found := self._served.get(claim.uid))}
            for uid, timeline in known.items():
                if not any(span.step == START for span in timeline.spans):
                    self._served[uid] = (_with(timeline, Span(START, min(timeline.ended, now), now)), now)
        for timeline in known.values():
            self._due(timeline.node, now)

    def unserved(self, uid: str) -> None:
        """Forget a claim (its UID) that is not served or is gone. Its timeline is not written."""
        with self._lock:
            for known in (self._under_way, self._served, self._written):
                known.pop(uid, None)

    def gone(self, uid: str) -> None:
        """Forget a deleted claim (its UID). If it was served, count it now, because its timeline is
        not written."""
        with self._lock:
            served = self._served.pop(uid, None)
        self.unserved(uid)
        if served:
            self._counted(served[0])

    def next_due(self, node: str) -> float | None:
        """Return when the next timeline of a node is due, in seconds since the epoch, or None."""
        with self._lock:
            return min((when for timeline, when in self._served.values() if timeline.node == node), default=None)

    def to_write(self, node: str) -> list[Timeline]:
        """Return the timelines of a node that are due."""
        now = self._clock()
        with self._lock:
            return [timeline for timeline, when in self._served.values() if timeline.node == node and when <= now]

    def written(self, timeline: Timeline) -> None:
        """Note that a timeline is written, and count it. Ignore a claim that has gone."""
        with self._lock:
            first = self._served.pop(timeline.uid, None) is not None
            if first:
                self._written[timeline.uid] = timeline
                if len(self._written) > MOST_SERVED:
                    self._written.popitem(last=False)
        if first:
            self._counted(timeline)

    def of(self, uid: str) -> Timeline | None:
        """Return the timeline of a claim (its UID), or None if it is unknown."""
        with self._lock:
            served = self._served.get(uid)
            return self._under_way.get(uid) or (served[0] if served else self._written.get(uid))


def _with(timeline: Timeline, span: Span) -> Timeline:
    return replace(timeline, spans=(*timeline.spans, span)[-MOST_STEPS:])
