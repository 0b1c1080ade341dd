# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timelines of claims that this process has seen: those under way, those to be written down, and those of claims
that were served and are still there."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...kube.objects.claim_ref import ClaimRef
from .timeline import MOST_HOPS, START, Span, Timeline

# Claims under way, and claims that are served and not written down yet; the oldest are forgotten first.
MOST = 20_000
# Claims that were served and are still there, about 2 KiB each; what is forgotten here is found on its device.
MOST_SERVED = 4000
# Seconds for which the start of a served claim's pod is waited for, before its timeline is written.
START_SECONDS = 10.0


class TimelineRecorder:
    """Takes what ``Hops`` measures. ``due(node, when)``: told when a timeline of a node may be written down, in seconds
    since the epoch. ``clock``: the same seconds. ``counted``: told of each timeline that is written down, once.
    Thread-safe."""

    def __init__(self, due: Callable[[str, float], object] = lambda node, when: None,
                 clock: Callable[[], float] = time.time,
                 counted: Callable[[Timeline], object] = lambda timeline: None) -> None:
        self._due, self._clock, self._counted, self._lock = due, clock, counted, threading.Lock()
        self._under_way: OrderedDict[str, Timeline] = OrderedDict()
        self._served: OrderedDict[str, tuple[Timeline, float]] = OrderedDict()
        self._written: OrderedDict[str, Timeline] = OrderedDict()

    def note(self, claims: Iterable[ClaimRef], hop: str, began: float, ended: float) -> None:
        """A hop of these claims is over. A served claim may have one more: one that the scheduler allocated anew is
        served before its pod is bound."""
        span = Span(hop, began, ended)
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
        """A claim has what it asked for; its timeline is due when its pod runs, or after START_SECONDS."""
        with self._lock:
            if (known := self._under_way.pop(claim.uid, None)) is None:
                return
            when = self._clock() + START_SECONDS
            self._served[claim.uid] = (replace(known, node=node, created=created), when)
            if len(self._served) > MOST:
                self._served.popitem(last=False)
        self._due(node, when)

    def running(self, claims: Iterable[ClaimRef]) -> None:
        """The pod of these claims runs now."""
        now = self._clock()
        with self._lock:
            known = {claim.uid: found[0] for claim in claims if (found := self._served.get(claim.uid))}
            for uid, timeline in known.items():
                if not any(span.hop == START for span in timeline.spans):
                    self._served[uid] = (_with(timeline, Span(START, min(timeline.ended, now), now)), now)
        for timeline in known.values():
            self._due(timeline.node, now)

    def unserved(self, uid: str) -> None:
        """A claim (its uid) is not served, or is gone: nobody writes its timeline, and nobody asks for it."""
        with self._lock:
            for known in (self._under_way, self._served, self._written):
                known.pop(uid, None)

    def gone(self, uid: str) -> None:
        """A claim (its uid) is deleted. If it was served, it is counted now: no timeline of it will be written."""
        with self._lock:
            served = self._served.pop(uid, None)
        self.unserved(uid)
        if served:
            self._counted(served[0])

    def next_due(self, node: str) -> float | None:
        """Return when the next timeline of a node is due, in seconds since the epoch; None if there is none."""
        with self._lock:
            return min((when for timeline, when in self._served.values() if timeline.node == node), default=None)

    def to_write(self, node: str) -> list[Timeline]:
        """Those of a node that are due."""
        now = self._clock()
        with self._lock:
            return [timeline for timeline, when in self._served.values() if timeline.node == node and when <= now]

    def written(self, timeline: Timeline) -> None:
        """One is written down. Nothing is kept of a claim that went meanwhile."""
        with self._lock:
            first = self._served.pop(timeline.uid, None) is not None
            if first:
                self._written[timeline.uid] = timeline
                if len(self._written) > MOST_SERVED:
                    self._written.popitem(last=False)
        if first:
            self._counted(timeline)

    def of(self, uid: str) -> Timeline | None:
        """What is known of a claim (its uid) that is under way or was served."""
        with self._lock:
            served = self._served.get(uid)
            return self._under_way.get(uid) or (served[0] if served else self._written.get(uid))


def _with(timeline: Timeline, span: Span) -> Timeline:
    return replace(timeline, spans=(*timeline.spans, span)[-MOST_HOPS:])
