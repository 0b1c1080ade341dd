# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the work on a device on its node, in the annotation ``composable.infra/node``.

Only the program that works on the node writes it (the node agent, or the playbooks over SSH). It is
about one device of the CDI Manager and proves nothing about another device. Standard library only,
Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, replace

from .options import Options

VERSION = 1

PREPARING, READY, RELEASING, REMOVED = "Preparing", "Ready", "Releasing", "Removed"
PHASES = (PREPARING, READY, RELEASING, REMOVED)

ON_BUS, BOUND, TOUCHED, PLUGIN_RESTARTED, ANNOUNCED = "OnBus", "Bound", "Touched", "PluginRestarted", "Announced"
IDLE, DRAINED, REMOVED_FROM_BUS, WITHDRAWN = "Idle", "Drained", "RemovedFromBus", "Withdrawn"
STEPS_UP = (ON_BUS, BOUND, TOUCHED, PLUGIN_RESTARTED, ANNOUNCED)
STEPS_DOWN = (IDLE, DRAINED, REMOVED_FROM_BUS, PLUGIN_RESTARTED, WITHDRAWN)
# Steps between Idle and Drained for CXL memory that can be sanitized.
SANITIZE_STARTED, SANITIZED = "SanitizeStarted", "Sanitized"
STEPS_OF_MEMORY = (SANITIZE_STARTED, SANITIZED)

NOT_ON_BUS, NO_ROOM_FOR_BARS, LINK_DEGRADED = "NotOnBus", "NoRoomForBars", "LinkDegraded"
DRIVER_NOT_BOUND, DRIVER_FAILED, NOT_ANNOUNCED = "DriverNotBound", "DriverFailed", "NotAnnounced"
CLAIM_IN_USE, OPEN_ON_NODE, NOT_PROVEN = "ClaimInUse", "OpenOnNode", "NotProven"
REMOVAL_HUNG, LOST_ON_BUS, COMMAND_FAILED = "RemovalHung", "LostOnBus", "CommandFailed"
SANITIZING, NOT_SANITIZABLE = "Sanitizing", "NotSanitizable"
REASONS = (NOT_ON_BUS, NO_ROOM_FOR_BARS, LINK_DEGRADED, DRIVER_NOT_BOUND, DRIVER_FAILED, NOT_ANNOUNCED,
           CLAIM_IN_USE, OPEN_ON_NODE, NOT_PROVEN, REMOVAL_HUNG, LOST_ON_BUS, COMMAND_FAILED,
           SANITIZING, NOT_SANITIZABLE)
# A device with one of these becomes Ready all the same.
WARNINGS = (LINK_DEGRADED, NOT_SANITIZABLE)

_ONLY_DOWN = (IDLE, SANITIZE_STARTED, DRAINED, REMOVED_FROM_BUS, WITHDRAWN)


class NodeTrouble(Exception):
    """A step on the node failed.

    ``reason`` is one of REASONS, and ``message`` is one sentence for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def moment(at: float) -> str:
    """Return seconds since the epoch as RFC 3339 with microseconds in UTC."""
    seconds, micros = divmod(round(at * 1e6), 1000000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z"


@dataclass(frozen=True)
class Step:
    """A completed step. ``at`` is its time in RFC 3339."""

    step: str
    at: str


@dataclass(frozen=True)
class Link:
    """The PCIe link: present and maximum lanes and speeds, as in sysfs."""

    width: int
    max_width: int
    speed: str = ""
    max_speed: str = ""


@dataclass(frozen=True)
class Trouble:
    """Why a step is not done. ``since`` is the time of its first failure in RFC 3339."""

    reason: str
    message: str
    since: str


@dataclass(frozen=True)
class Evidence:
    """The work on one device.

    ``device`` is its uid at the CDI Manager. ``by`` is agent or ssh. ``uuid`` is the UUID of the
    GPU, or empty if unknown. ``address`` is the PCI address, or empty if it was never on the bus.
    ``steps`` are in the order of the work, first those of bring-up, then those of release.
    ``release`` is the value of the annotation ``composable.infra/release`` that requested the
    release. A removal for a withdrawn request does not answer the next request.
    """

    phase: str
    device: str
    by: str = "agent"
    uuid: str = ""
    address: str = ""
    numa_node: int | None = None
    link: Link | None = None
    steps: tuple[Step, ...] = ()
    trouble: Trouble | None = None
    release: str = ""

    def is_ready(self, device: str) -> bool:
        """Return whether node operations have finished the bring-up of this device."""
        return self.phase == READY and self.device == device

    def has(self, step: str) -> bool:
        """Return whether the step was done in the direction of the phase, bring-up or release."""
        return any(s.step == step for s in self._way())

    def has_ever(self, step: str) -> bool:
        """Return whether the step was done in either direction."""
        return any(s.step == step for s in self.steps)

    def with_step(self, step: str, at: float) -> Evidence:
        """Add a step done at ``at``, seconds since the epoch. A known step keeps its time."""
        return self if self.has(step) else replace(self, steps=(*self.steps, Step(step, moment(at))))

    def with_phase(self, phase: str) -> Evidence:
        """Set the phase. Back in Preparing or Ready, remove the steps of the release."""
        kept = self.steps if phase in (RELEASING, REMOVED) else self.steps[:self._turn()]
        return replace(self, phase=phase, steps=kept)

    def with_trouble(self, reason: str, message: str, at: float) -> Evidence:
        """Set the problem, met at ``at``. The same reason keeps the time of its first failure."""
        since = self.trouble.since if self.trouble and self.trouble.reason == reason else moment(at)
        return replace(self, trouble=Trouble(reason, message, since))

    def without_trouble(self) -> Evidence:
        """Remove the problem."""
        return replace(self, trouble=None)

    def _turn(self) -> int:
        """Return the index of the first step of the release."""
        return next((n for n, s in enumerate(self.steps) if s.step in _ONLY_DOWN), len(self.steps))

    def _way(self) -> tuple[Step, ...]:
        return self.steps[self._turn():] if self.phase in (RELEASING, REMOVED) else self.steps[:self._turn()]

    def to_json(self) -> str:
        """Return the text of the annotation.

        Leave out unknown values, except ``uuid`` and ``address``.
        """
        told: dict[str, t.Any] = {"version": VERSION, "phase": self.phase, "device": self.device, "by": self.by,
                                  "uuid": self.uuid, "address": self.address}
        if self.numa_node is not None:
            told["numaNode"] = self.numa_node
        if self.link:
            told["link"] = {"width": self.link.width, "maxWidth": self.link.max_width, "speed": self.link.speed,
                            "maxSpeed": self.link.max_speed}
        if self.release:
            told["release"] = self.release
        told["steps"] = [{"step": s.step, "at": s.at} for s in self.steps]
        if self.trouble:
            told["trouble"] = {"reason": self.trouble.reason, "message": self.trouble.message,
                               "since": self.trouble.since}
        return json.dumps(told)

    @staticmethod
    def parse(text: str) -> Evidence | None:
        """Read evidence from an annotation's text. Ignore unknown keys.

        Return None if the text is no JSON object, or has another version, an unknown phase or a
        field of a wrong type.
        """
        try:
            told = json.loads(text)
            if told["version"] != VERSION or told["phase"] not in PHASES:
                return None
            return _evidence(told)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _evidence(told: dict[str, t.Any]) -> Evidence:
    link, trouble, numa = told.get("link"), told.get("trouble"), told.get("numaNode")
    return Evidence(
        phase=_word(told["phase"]), device=_text(told["device"]), by=_word(told.get("by", "")),
        uuid=_text(told.get("uuid", "")), address=_text(told.get("address", "")),
        numa_node=None if numa is None else int(numa),
        link=Link(int(link["width"]), int(link["maxWidth"]), _word(link.get("speed", "")),
                  _word(link.get("maxSpeed", ""))) if link else None,
        steps=tuple(Step(_word(s["step"]), _text(s["at"])) for s in told.get("steps") or ()),
        trouble=Trouble(*(_text(trouble[k]) for k in ("reason", "message", "since"))) if trouble else None,
        release=_text(told.get("release", "")))


def _word(value: object) -> str:
    """Intern a text that many devices share."""
    return sys.intern(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class Progress:
    """Evidence that grows. ``note`` receives every change at once."""

    def __init__(self, evidence: Evidence, options: Options, note: Callable[[Evidence], None]) -> None:
        self.evidence, self._clock, self._note = evidence, options.clock, note

    def become(self, evidence: Evidence) -> None:
        """Replace the evidence."""
        if evidence != self.evidence:
            self.evidence = evidence
            self._note(evidence)

    def step(self, step: str, **known: t.Any) -> None:
        """Add a completed step and the fields that it made known."""
        self.become(replace(self.evidence.with_step(step, self._clock()), **known))

    def trouble(self, trouble: NodeTrouble) -> None:
        """Record a problem without changing the phase."""
        self.become(self.evidence.with_trouble(trouble.reason, trouble.message, self._clock()))
