# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of CM's operations, read from its document, and their handles for later processes."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ...errors import Refused, Uncertain
from ...operations.batches import PendingOperation
from ...operations.handles import VERSION
from .wire import ADD_FAILED, REMOVE_FAILED, Entry, Spec


@dataclass(frozen=True, slots=True)
class Key:
    """The machine, kind and model that CM counts together."""

    machine: str
    kind: str
    model: str


def slots_of(spec: Spec, before: frozenset[str], count: int, *, few: bool) -> tuple[str, ...]:
    """Return the uids of the new devices once all are named, in an order that never changes.

    With ``few``, accept fewer than ``count`` devices once CM has ended all operations.
    """
    fresh = sorted(e.uid for e in spec.entries if e.device and e.uid not in before)
    if len(fresh) >= count or (few and all(e.ended for e in spec.entries)):
        return tuple(fresh[:count])
    return ()


def finish_added(operation: PendingOperation[t.Any], key: Key, entry: Entry | None) -> None:
    """Finish an operation by its device. ``entry`` is None if the device is not listed any more."""
    if entry is None or entry.device is None:
        operation.fail(Refused(f"a {key.model} was attaching to machine {key.machine} and disappeared"))
    elif entry.status == ADD_FAILED or entry.device.health not in ("OK", "Warning"):
        operation.fail(_failed(key, entry, entry.device.health))
    else:
        operation.fulfil(entry.device)


def _failed(key: Key, entry: Entry, health: str) -> Refused:
    why = f"CM reported {ADD_FAILED}: {entry.reason or 'no reason'}" if entry.status == ADD_FAILED else (
        f"it is {health} (res_op_status {entry.op_status!r})"
    )
    refusal = Refused(
        f"cannot attach device {entry.uid} ({key.model}) to machine {key.machine}: {why}. Return it",
        detail=entry.reason or None,
    )
    refusal.device = entry.device
    return refusal


def nameless(key: Key, reasons: tuple[str, ...]) -> Refused:
    """Return the error for a failed attach without a device name."""
    why = "; ".join(dict.fromkeys(reasons))
    return Refused(f"cannot attach a {key.model} to machine {key.machine}: CM reported {ADD_FAILED}: {why}",
                   detail=why)


def overcounted(key: Key, spec: Spec) -> Refused:
    """Return the error for an unsent request, as failed devices without names count too."""
    why = "; ".join(dict.fromkeys(spec.nameless_failures))
    return Refused(f"cannot attach a {key.model} to machine {key.machine}: CM's count includes failed devices without "
                   f"a name ({spec.counted_failures}: {why}), so a request for one more could attach several. Nothing "
                   "was requested. Have the administrator of CM remove the failed devices", detail=why)


def stuck(key: Key, entry: Entry) -> Refused:
    """Return the error for a failed removal."""
    return Refused(
        f"cannot detach device {entry.uid} from machine {key.machine}: CM reported {REMOVE_FAILED}: "
        f"{entry.reason or 'no reason'}. Remove the cause at CM, then detach the device again",
        detail=entry.reason or None,
    )


def not_done(key: Key, what: str, seconds: float) -> Uncertain:
    """Return the error for an accepted operation that did not end in time."""
    return Uncertain(f"a {key.model} of machine {key.machine} is not {what} after {seconds:g} s. It may still happen")


def handle(key: Key, **more: t.Any) -> str:
    """Return the text with which a later process finds the operation."""
    told = {"version": VERSION, "machine": key.machine, "kind": key.kind, "model": key.model, **more}
    return json.dumps(told, separators=(",", ":"), sort_keys=True)
