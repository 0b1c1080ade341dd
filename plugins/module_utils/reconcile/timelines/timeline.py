# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of one claim as moments and durations, and as it is kept on a ComposableResource.

The annotation ``composable.infra/timelines`` is on the ComposableResource whose device the claim uses. It has the last
claims of that device, the newest last, as versioned JSON. It goes with the ComposableResource, when the device is given
back to the fabric.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

from ...kube.times import format_micro_time, parse_time
from ...node.evidence import STEPS_UP, Evidence

Json = dict[str, t.Any]
ANNOTATION: t.Final = "composable.infra/timelines"
VERSION: t.Final = 1
KEPT, MOST_HOPS = 8, 64
# Who a hop waits for: this collection, the CDI Manager with its hardware, the node, kube-scheduler.
ENGINE, FABRIC, NODE, SCHEDULER = "engine", "fabric", "node", "scheduler"
START: t.Final = "start"
"""From the binding of the pod until it runs. Not among the HOPS of the metrics: the kubelet has metrics of its own."""
SHARES: t.Final[dict[str, str]] = {"plan": ENGINE, "request": ENGINE, "attach": FABRIC, "slice": NODE, "gate": ENGINE,
                                   "bind": SCHEDULER, "handover": SCHEDULER, START: NODE}
WORDS: t.Final[dict[str, str]] = {
    "plan": "node chosen", "request": "attach asked for", "attach": "attached by the fabric",
    "slice": "on the bus, driver, in the slice", "gate": "gate removed", "bind": "bound by the scheduler",
    "handover": "reallocated by the scheduler", START: "pod started"}
SHARE_WORDS: t.Final[dict[str, str]] = {ENGINE: "composable.infra", FABRIC: "fabric", NODE: "node",
                                        SCHEDULER: "scheduler"}


@dataclass(frozen=True, slots=True)
class Span:
    """One hop: a key of SHARES; times in seconds since the epoch."""

    hop: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0.0, self.ended - self.began)

    @property
    def share(self) -> str:
        """Who it waited for."""
        return SHARES.get(self.hop, ENGINE)


@dataclass(frozen=True, slots=True)
class Timeline:
    """``claim``: namespace/name; ``created``: of the claim, which the API server rounds down to seconds; ``steps``:
    what was done on the node, (name, moment) as evidence.py names them. All in their order."""

    claim: str
    uid: str
    node: str
    created: float
    spans: tuple[Span, ...] = ()
    steps: tuple[tuple[str, float], ...] = ()

    @property
    def began(self) -> float:
        """The first moment that is known well: that of the claim itself is rounded."""
        return min((span.began for span in self.spans), default=self.created)

    @property
    def ended(self) -> float:
        """The last moment."""
        return max((span.ended for span in self.spans), default=self.created)

    @property
    def seconds(self) -> float:
        """How long it took in all."""
        return max(0.0, self.ended - self.began)

    def merged(self) -> tuple[Span, ...]:
        """One span a hop, from the first of several devices to the last, in the order in which they began."""
        found: dict[str, Span] = {}
        for span in self.spans:
            known = found.get(span.hop, span)
            found[span.hop] = Span(span.hop, min(known.began, span.began), max(known.ended, span.ended))
        return tuple(sorted(found.values(), key=lambda span: (span.began, span.ended)))


def dump(timelines: Iterable[Timeline]) -> str:
    """The annotation's text, with the newest KEPT of them."""
    return json.dumps({"version": VERSION, "claims": [_told(each) for each in [*timelines][-KEPT:]]},
                      separators=(",", ":"))


def parse(text: str) -> tuple[Timeline, ...]:
    """Timelines of an annotation's text; () for none, for another version, and for what cannot be read. Hops that are
    not known are left out."""
    try:
        told = json.loads(text or "{}")
        return tuple(_read(each) for each in told["claims"][-KEPT:]) if told.get("version") == VERSION else ()
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def of_resource(raw: Json) -> tuple[Timeline, ...]:
    """Those on a ComposableResource."""
    return parse(str((raw["metadata"].get("annotations") or {}).get(ANNOTATION) or ""))


def node_steps(evidence: Evidence | None, since: float) -> tuple[tuple[str, float], ...]:
    """What was done on the node to bring a device up, after a moment."""
    moments = ((step.step, parse_time(step.at)) for step in (evidence.steps if evidence else ()))
    return tuple((name, at) for name, at in moments if name in STEPS_UP and at >= since)


def _told(timeline: Timeline) -> Json:
    return {"claim": timeline.claim, "uid": timeline.uid, "node": timeline.node,
            "created": format_micro_time(timeline.created),
            "hops": [{"hop": span.hop, "began": format_micro_time(span.began), "ended": format_micro_time(span.ended)}
                     for span in timeline.spans[:MOST_HOPS]],
            "steps": [{"step": name, "at": format_micro_time(at)} for name, at in timeline.steps]}


def _read(told: Json) -> Timeline:
    spans = [Span(each["hop"], parse_time(each["began"]), parse_time(each["ended"]))
             for each in told["hops"][:MOST_HOPS] if each["hop"] in SHARES]
    steps = [(str(each["step"]), parse_time(each["at"])) for each in told.get("steps") or ()]
    return Timeline(_text(told["claim"]), _text(told["uid"]), _text(told["node"]), parse_time(told["created"]),
                    tuple(span for span in spans if span.began and span.ended),
                    tuple((name, at) for name, at in steps if name in STEPS_UP and at))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
