# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a claim with their times, and their form on a ComposableResource.

The annotation ``composable.infra/timelines`` is on the ComposableResource of the claim's device. It
has the last claims of that device, the newest last, as versioned JSON. It is deleted with the
ComposableResource when the device returns to the fabric.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

from ...kube.times import format_micro_time, parse_time
from ...model.value import Json
from ...node.evidence import STEPS_UP, Evidence

ANNOTATION: t.Final = "composable.infra/timelines"
VERSION: t.Final = 1
KEPT, MOST_STEPS = 8, 64
# A step waits for this collection, the CDI Manager with its hardware, the node, or kube-scheduler.
ENGINE, FABRIC, NODE, SCHEDULER = "engine", "fabric", "node", "scheduler"
START: t.Final = "start"
"""From the binding of the pod until it runs. The metrics omit this step, because the kubelet has
its own."""
SHARES: t.Final[dict[str, str]] = {"plan": ENGINE, "request": ENGINE, "attach": FABRIC, "slice": NODE, "gate": ENGINE,
                                   "bind": SCHEDULER, "handover": SCHEDULER, START: NODE}
WORDS: t.Final[dict[str, str]] = {
    "plan": "node chosen", "request": "attach requested", "attach": "attached by the fabric",
    "slice": "on the bus, driver, in the slice", "gate": "gate removed", "bind": "bound by the scheduler",
    "handover": "reallocated by the scheduler", START: "pod started"}
SHARE_WORDS: t.Final[dict[str, str]] = {ENGINE: "composable.infra", FABRIC: "fabric", NODE: "node",
                                        SCHEDULER: "scheduler"}


@dataclass(frozen=True, slots=True)
class Span:
    """One step, a key of SHARES, with times in seconds since the epoch."""

    step: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Return how many seconds the step took."""
        return max(0.0, self.ended - self.began)

    @property
    def share(self) -> str:
        """Return which part of the system the step waited for."""
        return SHARES.get(self.step, ENGINE)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Timeline of a claim.

    ``claim`` is namespace/name. ``created`` is the claim's creation, which the API server rounds
    down to seconds. ``steps`` are node operations as (name, time), named as in evidence.py. Spans
    and steps are in their order.
    """

    claim: str
    uid: str
    node: str
    created: float
    spans: tuple[Span, ...] = ()
    steps: tuple[tuple[str, float], ...] = ()

    @property
    def began(self) -> float:
        """Return the first exact time. The creation time of the claim is rounded."""
        return min((span.began for span in self.spans), default=self.created)

    @property
    def ended(self) -> float:
        """Return the last time."""
        return max((span.ended for span in self.spans), default=self.created)

    @property
    def seconds(self) -> float:
        """Return the total duration in seconds."""
        return max(0.0, self.ended - self.began)

    def merged(self) -> tuple[Span, ...]:
        """Return one span for each step, from the first of several devices to the last, ordered by
        their begin."""
        found: dict[str, Span] = {}
        for span in self.spans:
            known = found.get(span.step, span)
            found[span.step] = Span(span.step, min(known.began, span.began), max(known.ended, span.ended))
        return tuple(sorted(found.values(), key=lambda span: (span.began, span.ended)))


def dump(timelines: Iterable[Timeline]) -> str:
    """Return the annotation's text with the newest KEPT timelines."""
    return json.dumps({"version": VERSION, "claims": [_told(each) for each in [*timelines][-KEPT:]]},
                      separators=(",", ":"))


def parse(text: str) -> tuple[Timeline, ...]:
    """Return the timelines in an annotation's text, without unknown steps.

    Return nothing for an empty text, another version, or a text that cannot be read.
    """
    try:
        told = json.loads(text or "{}")
        return tuple(_read(each) for each in told["claims"][-KEPT:]) if told.get("version") == VERSION else ()
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def of_resource(raw: Json) -> tuple[Timeline, ...]:
    """Return the timelines on a ComposableResource."""
    return parse(str((raw["metadata"].get("annotations") or {}).get(ANNOTATION) or ""))


def node_steps(evidence: Evidence | None, since: float) -> tuple[tuple[str, float], ...]:
    """Return the steps of the node to bring a device up, from ``since`` on."""
    moments = ((step.step, parse_time(step.at)) for step in (evidence.steps if evidence else ()))
    return tuple((name, at) for name, at in moments if name in STEPS_UP and at >= since)


def _told(timeline: Timeline) -> Json:
    return {"claim": timeline.claim, "uid": timeline.uid, "node": timeline.node,
            "created": format_micro_time(timeline.created),
            "hops": [{"hop": span.step, "began": format_micro_time(span.began), "ended": format_micro_time(span.ended)}
                     for span in timeline.spans[:MOST_STEPS]],
            "steps": [{"step": name, "at": format_micro_time(at)} for name, at in timeline.steps]}


def _read(told: Json) -> Timeline:
    spans = [Span(each["hop"], parse_time(each["began"]), parse_time(each["ended"]))
             for each in told["hops"][:MOST_STEPS] if each["hop"] in SHARES]
    steps = [(str(each["step"]), parse_time(each["at"])) for each in told.get("steps") or ()]
    return Timeline(_text(told["claim"]), _text(told["uid"]), _text(told["node"]), parse_time(told["created"]),
                    tuple(span for span in spans if span.began and span.ended),
                    tuple((name, at) for name, at in steps if name in STEPS_UP and at))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
