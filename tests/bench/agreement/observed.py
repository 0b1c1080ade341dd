# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of the pods of a lab, by the times in the API server's audit log."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    Timeline,
    parse,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.durations import measured
from ansible_collections.composable.infra.tests.bench import audit

Json = dict[str, t.Any]
NEVER: t.Final = -1.0


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod and its claim. Times are seconds since the capture, NEVER for events that did not
    happen.

    ``lifetime``: seconds for which it ran, or was to run.
    """

    name: str
    devices: int
    came: float
    bound: float
    ran: float
    ended: float
    lifetime: float

    def waited(self, end: float) -> float:
        """Return how long it waited until it ran, or until ``end``."""
        return (self.ran if NEVER < self.ran <= end else end) - self.came

    def used(self, end: float) -> float:
        """Return the device-seconds from the capture until ``end``."""
        if self.bound == NEVER:
            return 0.0
        until = min(end, self.ended) if self.ended != NEVER else end
        return self.devices * max(0.0, until - max(0.0, self.bound))


@dataclass(frozen=True, slots=True)
class Recording:
    """The history of a lab after the capture.

    ``end``: seconds since the capture. ``stays``: of all pods of the lab. ``attaches``: devices
    requested since the capture. ``returns``: seconds from the deletion of a ComposableResource
    until it was gone, before the capture. ``steps``: duration of each step for each claim since the
    capture. ``later_returns``: returns since the capture.
    """

    end: float
    stays: tuple[Stay, ...]
    attaches: int
    returns: tuple[float, ...]
    steps: Mapping[str, tuple[float, ...]]
    later_returns: tuple[float, ...]

    @property
    def came(self) -> tuple[Stay, ...]:
        """Return the pods that came after the capture."""
        return tuple(stay for stay in self.stays if 0.0 <= stay.came < self.end)

    def as_document(self) -> Json:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def of_document(cls, told: Mapping[str, t.Any]) -> Recording:
        """Read plain data."""
        steps = {step: tuple(found) for step, found in told["steps"].items()}
        return cls(told["end"], tuple(Stay(**each) for each in told["stays"]), told["attaches"],
                   tuple(told["returns"]), steps, tuple(told["later_returns"]))


def recording(log: Path, began: float, end: float, lifetimes: Mapping[str, float]) -> Recording:
    """Read an audit log.

    ``began``, ``end``: epoch seconds. ``lifetimes``: how long pods were to run.
    """
    entries = [*audit.entries(log)]
    marks = {name: _Marks() for name in lifetimes}
    for entry in entries:
        _mark(marks, entry)
    stays = tuple(mark.stay(name, began, lifetimes[name]) for name, mark in marks.items() if mark.came)
    returned = [*_returns(entries)]
    return Recording(end - began, stays, sum(began <= at < end for at in _attaches(entries)),
                     tuple(seconds for at, seconds in returned if at < began),
                     measured(each for each in _timelines(entries) if began <= each.began < end),
                     tuple(seconds for at, seconds in returned if began <= at < end))


@dataclass
class _Marks:
    devices: int = 0
    came: float = 0.0
    bound: float = 0.0
    ran: float = 0.0
    ended: float = 0.0

    def stay(self, name: str, began: float, lifetime: float) -> Stay:
        """Return the times relative to ``began``."""
        at = [each - began if each else NEVER for each in (self.bound, self.ran, self.ended)]
        ran_for = self.ended - self.ran if self.ended and self.ran else lifetime
        return Stay(name, self.devices, self.came - began, at[0], at[1], at[2], ran_for)


def _mark(marks: Mapping[str, _Marks], entry: Json) -> None:
    ref, verb = entry["objectRef"], entry["verb"]
    mark, body = marks.get(ref.get("name", "")), entry.get("requestObject") or {}
    if mark is None:
        return
    if ref["resource"] == "resourceclaims" and verb == "create":
        mark.devices = body["spec"]["devices"]["requests"][0]["exactly"]["count"]
    elif ref["resource"] != "pods":
        return
    elif ref.get("subresource") == "binding":
        mark.bound = audit.moment(entry)
    elif ref.get("subresource") == "status" and (body.get("status") or {}).get("phase") == "Running":
        mark.ran = mark.ran or audit.moment(entry)
    elif verb == "create":
        mark.came = audit.moment(entry)
    elif verb == "delete":
        mark.ended = mark.ended or audit.moment(entry)


def _attaches(entries: Iterable[Json]) -> Iterator[float]:
    return (audit.moment(entry) for entry in entries
            if (entry["verb"], entry["objectRef"]["resource"]) == ("create", "composableresources"))


def _timelines(entries: Iterable[Json]) -> Iterator[Timeline]:
    """Yield timelines as they were written to ComposableResources."""
    for entry in entries:
        notes = ((entry.get("requestObject") or {}).get("metadata") or {}).get("annotations") or {}
        if entry["objectRef"]["resource"] == "composableresources" and notes.get(ANNOTATION):
            yield from parse(notes[ANNOTATION])


def _returns(entries: Iterable[Json]) -> Iterator[tuple[float, float]]:
    """Yield (moment, seconds) from each deletion to the removal of the last finalizer."""
    deleted: dict[str, float] = {}
    for entry in entries:
        ref, body = entry["objectRef"], entry.get("requestObject") or {}
        if ref["resource"] != "composableresources":
            continue
        if entry["verb"] == "delete":
            deleted[ref["name"]] = audit.moment(entry)
        elif ref.get("name") in deleted and (body.get("metadata") or {}).get("finalizers", ...) in ([], None):
            yield audit.moment(entry), audit.moment(entry) - deleted.pop(ref["name"])
