# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done with a device on its node, as the annotation ``composable.infra/node`` says it.

Only who acts on the node writes it (the node agent, or the playbooks over SSH). It is about one device of the CDI
Manager; evidence about another device proves nothing. Standard library only, Python 3.8: it travels to nodes.
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
# Of CXL memory that offers it, between Idle and Drained.
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
    """A step on the node could not be done. ``reason`` is one of REASONS, ``message`` one sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def moment(at: float) -> str:
    """Seconds since the epoch as RFC 3339 with microseconds, UTC."""
    seconds, micros = divmod(round(at * 1e6), 1000000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z"


@dataclass(frozen=True)
class Step:
    """A step that is done; ``at`` is the moment, RFC 3339."""

    step: str
    at: str


@dataclass(frozen=True)
class Link:
    """The PCIe link: lanes and speeds as sysfs writes them, now and at most."""

    width: int
    max_width: int
    speed: str = ""
    max_speed: str = ""


@dataclass(frozen=True)
class Trouble:
    """Why a step is not done; ``since`` is the moment it was first met, RFC 3339."""

    reason: str
    message: str
    since: str


@dataclass(frozen=True)
class Evidence:
    """What was done with one device. ``device`` is its uid at the CDI Manager, ``by`` agent or ssh.

    ``uuid`` is the GPU's, empty when not known; ``address`` the PCI address, empty when it was never on the bus.
    ``steps`` are in the order they were done: first those up, then those down. ``release``: what the node was asked to
    let go by, the value of the annotation ``composable.infra/release``; what was removed for an ask that was taken back
    does not answer the next one.
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
        """Whether all that the node's hands can do for this very device is done."""
        return self.phase == READY and self.device == device

    def is_removed(self, device: str) -> bool:
        """Whether this very device is off the node's bus."""
        return self.phase == REMOVED and self.device == device

    def has(self, step: str) -> bool:
        """Whether the step was done, on the way that the phase is on: up, or down."""
        return any(s.step == step for s in self._way())

    def has_ever(self, step: str) -> bool:
        """Whether the step was done on either way."""
        return any(s.step == step for s in self.steps)

    def with_step(self, step: str, at: float) -> Evidence:
        """With this step done at ``at``, seconds since the epoch; a step that was done keeps its moment."""
        return self if self.has(step) else replace(self, steps=(*self.steps, Step(step, moment(at))))

    def with_phase(self, phase: str) -> Evidence:
        """In this phase. Back to Preparing or Ready, the steps of a release are taken off."""
        kept = self.steps if phase in (RELEASING, REMOVED) else self.steps[:self._turn()]
        return replace(self, phase=phase, steps=kept)

    def with_trouble(self, reason: str, message: str, at: float) -> Evidence:
        """With this trouble, met at ``at``; the same reason keeps the moment when it was first met."""
        since = self.trouble.since if self.trouble and self.trouble.reason == reason else moment(at)
        return replace(self, trouble=Trouble(reason, message, since))

    def without_trouble(self) -> Evidence:
        """With the trouble over."""
        return replace(self, trouble=None)

    def _turn(self) -> int:
        """Number of the first step down."""
        return next((n for n, s in enumerate(self.steps) if s.step in _ONLY_DOWN), len(self.steps))

    def _way(self) -> tuple[Step, ...]:
        return self.steps[self._turn():] if self.phase in (RELEASING, REMOVED) else self.steps[:self._turn()]

    def to_json(self) -> str:
        """The annotation's text. What is not known is left out, but ``uuid`` and ``address`` are always there."""
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
        """Evidence from an annotation's text; keys that are not known are passed over.

        None for what proves nothing: no JSON object, another version, a phase that is not known, a field of a wrong
        type.
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
    """One that most devices have alike: it is in memory once."""
    return sys.intern(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class Progress:
    """Evidence that grows; every change is told to ``note`` at once."""

    def __init__(self, evidence: Evidence, options: Options, note: Callable[[Evidence], None]) -> None:
        self.evidence, self._clock, self._note = evidence, options.clock, note

    def become(self, evidence: Evidence) -> None:
        """This is the evidence now."""
        if evidence != self.evidence:
            self.evidence = evidence
            self._note(evidence)

    def step(self, step: str, **known: t.Any) -> None:
        """This step is done, and these fields of the evidence are known by it."""
        self.become(replace(self.evidence.with_step(step, self._clock()), **known))

    def trouble(self, trouble: NodeTrouble) -> None:
        """This was met; the evidence keeps its phase."""
        self.become(self.evidence.with_trouble(trouble.reason, trouble.message, self._clock()))
