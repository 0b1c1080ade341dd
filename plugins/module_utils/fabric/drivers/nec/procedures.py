# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Procedures of a layout-apply: planned from a layout, written as JSON, and their progress."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import Missing, Refused
from ...operations.batches import PendingOperation
from ...operations.handles import VERSION, check_version
from ..shared.replies import Unreadable, about
from .wire import CPU, KINDS, Layout, Part, total

CONNECT: t.Final = "connect"
DISCONNECT: t.Final = "disconnect"
# Keys of a procedure for the connection point of a device, and for the device.
ADAPTERS: t.Final = ("sourceDeviceID", "destinationDeviceID")
CPUS: t.Final = ("targetCPUID", "targetDeviceID")
_GOING: t.Final = ("IN_PROGRESS", "CANCELING", "")


@dataclass(frozen=True, slots=True)
class WantedDevice:
    """A request for one more ``model`` on a machine, or to detach ``device``."""

    machine: str
    model: str = ""
    kind: str = "gpu"
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One procedure of an apply for one operation.

    ``source`` is the connection point of the device.
    """

    pending: PendingOperation[WantedDevice]
    operation: str
    source: Part
    part: Part

    @property
    def machine(self) -> str:
        """Uid of the machine."""
        return self.pending.what.machine

    def is_done(self, layout: Layout) -> bool:
        """Return whether the layout shows the wanted state."""
        there = self.part.uid in layout.parts and same(layout.owner(self.part.uid), self.machine)
        return there == (self.operation == CONNECT)

    def is_anothers(self, layout: Layout) -> bool:
        """Return whether the device of an attach is on another machine."""
        owner = layout.owner(self.part.uid) if self.part.uid in layout.parts else None
        return self.operation == CONNECT and owner is not None and not same(owner, self.machine)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an apply. ``results`` has the reported status of procedures by operationID."""

    status: str
    rollback: str
    results: dict[int, str] = field(default_factory=dict)

    @property
    def going(self) -> bool:
        """Whether CDIM is still working on the apply or its rollback."""
        return self.status in _GOING or (self.status == "CANCELED" and self.rollback == "IN_PROGRESS")

    def words(self) -> str:
        """Return the text for a message."""
        return f"{self.status}, rollback {self.rollback}" if self.rollback else self.status


def plan(
    layout: Layout, operations: Iterable[PendingOperation[WantedDevice]], failed: Mapping[str, float]
) -> list[Step]:
    """Return the steps of the operations. Finish operations that need none or cannot succeed.

    ``failed`` is the time of the last failure by device. The most recently failed devices are used
    last.
    """
    steps: list[Step] = []
    for pending in operations:
        try:
            taken = {s.part.uid for s in steps}
            step = _away(layout, pending) if pending.what.device else _more(layout, pending, taken, failed)
        except (Missing, Refused) as error:
            pending.fail(error)
            continue
        if step is None:
            pending.fulfil()
        else:
            steps.append(step)
    return steps


def is_away(layout: Layout, want: WantedDevice) -> bool:
    """Return whether a device to detach is not on the machine."""
    uid = want.device
    return bool(uid) and (uid not in layout.parts or not same(layout.owner(str(uid)), want.machine))


def _away(layout: Layout, pending: PendingOperation[WantedDevice]) -> Step | None:
    if is_away(layout, pending.what):
        return None
    part = layout.parts[str(pending.what.device)]
    node = layout.node(pending.what.machine)
    source = layout.parts.get(part.connected_to or "") or (layout.source(node) if node else None)
    if source is None:
        raise Refused(
            f"cannot detach device {part.uid} from machine {pending.what.machine}: the CDI Manager does not show its "
            "connection"
        )
    return Step(pending, DISCONNECT, source, part)


def _more(
    layout: Layout, pending: PendingOperation[WantedDevice], taken: set[str], failed: Mapping[str, float]
) -> Step:
    want = pending.what
    purpose = f"cannot attach a {want.model} to machine {want.machine}"
    node = layout.node(want.machine)
    if node is None:
        raise Missing(f"{purpose}: the CDI Manager knows no such machine")
    if want.kind not in KINDS.values():
        raise Refused(f"{purpose}: it cannot attach kind {want.kind!r}. Allowed are {', '.join(KINDS.values())}")
    source = layout.source(node)
    if source is None:
        raise Refused(f"{purpose}: it has no adapter (eesv, linked to eeio) and no CPU to connect a device to")
    free = (p for p in layout.free(want.model, layout.fabric(node), want.kind) if p.uid not in taken)
    if part := min(free, key=lambda p: (failed.get(p.uid, 0.0), p.uid), default=None):
        return Step(pending, CONNECT, source, part)
    raise Refused(f"{purpose}: no free {want.kind} of this model is left that is enabled and healthy", exhausted=True)


def same(one: str | None, other: str | None) -> bool:
    """Return whether two ids mean the same machine. CDIM and Kubernetes may differ in case."""
    return one is not None and other is not None and one.casefold() == other.casefold()


def spelling(steps: Sequence[Step]) -> tuple[str, str]:
    """Return the keys that fit the connection point of the devices."""
    return CPUS if steps[0].source.type == CPU else ADAPTERS


def body(steps: Sequence[Step], keys: tuple[str, str]) -> dict[str, t.Any]:
    """Return the body of POST /layout-apply. No procedure depends on another."""
    return {"procedures": [
        {"operationID": n, "operation": s.operation, keys[0]: s.source.uid, keys[1]: s.part.uid, "dependencies": []}
        for n, s in enumerate(steps, 1)
    ]}


def apply_id(reply: t.Any) -> str:
    """Return the ApplyID of a reply. Raise Unreadable."""
    found = reply.get("applyID") if isinstance(reply, dict) else None
    if not isinstance(found, str) or not found:
        raise Unreadable("it has no applyID")
    return found


def progress(reply: t.Any, asked: str = "") -> Progress:
    """Read the reply to GET /layout-apply/{applyID}.

    Raise Unreadable, also if the reply is about another apply than ``asked``.
    """
    if not isinstance(reply, dict) or not isinstance(reply.get("status", ""), str):
        raise Unreadable("it has no status")
    if asked and reply.get("applyID"):
        about(asked, str(reply["applyID"]), "layout apply")
    results = reply.get("applyResult")
    single = [r for r in results if isinstance(r, dict)] if isinstance(results, list) else []
    told = {r["operationID"]: str(r.get("status") or "").upper() for r in single if "operationID" in r}
    return Progress(reply.get("status", "").upper(), str(reply.get("rollbackStatus") or "").upper(), told)


def found_apply(reply: t.Any, steps: Sequence[Step]) -> str | None:
    """Return the ApplyID of a running apply with exactly these procedures, or None."""
    wanted = {(s.operation, s.part.uid) for s in steps}
    for entry in reply.get("applyResults") or () if isinstance(reply, dict) else ():
        if not isinstance(entry, dict) or not progress(entry).going:
            continue
        named = {
            (p.get("operation"), p.get(ADAPTERS[1]) or p.get(CPUS[1]))
            for p in entry.get("procedures") or () if isinstance(p, dict)
        }
        if named == wanted:
            return apply_id(entry)
    return None


def page(reply: t.Any, steps: Sequence[Step]) -> tuple[str | None, int, int]:
    """Return ``found_apply`` of one page, its number of entries, and that of all pages."""
    body = reply if isinstance(reply, dict) else {}
    return found_apply(reply, steps), len(body.get("applyResults") or ()), total(body)


def handle(apply: str, step: Step, number: int) -> str:
    """Return the text with which a later process finds the operation."""
    told = {"version": VERSION, "apply": apply, "number": number, "operation": step.operation}
    told |= {"machine": step.machine, "device": step.part.uid}
    return json.dumps(told, separators=(",", ":"), sort_keys=True)


def told(text: str) -> dict[str, t.Any]:
    """Read a handle from ``handle``. Raise Missing, and Uncertain for another version."""
    try:
        found = json.loads(text)
        check_version(found)
        if {"apply", "operation", "number", "machine", "device"} <= found.keys():
            return t.cast("dict[str, t.Any]", found)
    except (ValueError, AttributeError):
        pass
    raise Missing(f"cannot wait for operation {text!r}: it is no handle of NEC CDIM")
