# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of devices that CM was asked for, read off its document, and the handles that outlive a process."""

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
    """What CM keeps one counter for."""

    machine: str
    kind: str
    model: str


def slots_of(spec: Spec, before: frozenset[str], count: int, *, few: bool) -> tuple[str, ...]:
    """Uids of the new devices once all are named, in an order that a later process finds too.

    ``few``: the fewer that there are will do, when CM is no longer at work on any.
    """
    fresh = sorted(e.uid for e in spec.entries if e.device and e.uid not in before)
    if len(fresh) >= count or (few and all(e.ended for e in spec.entries)):
        return tuple(fresh[:count])
    return ()


def finish_added(operation: PendingOperation[t.Any], key: Key, entry: Entry | None) -> None:
    """Finish by what became of the device; None: it is not listed any more."""
    if entry is None or entry.device is None:
        operation.fail(Refused(f"a {key.model} was being attached to machine {key.machine} and is gone again"))
    elif entry.status == ADD_FAILED or entry.device.health not in ("OK", "Warning"):
        operation.fail(_failed(key, entry, entry.device.health))
    else:
        operation.fulfil(entry.device)


def _failed(key: Key, entry: Entry, health: str) -> Refused:
    why = f"{ADD_FAILED}: {entry.reason or 'no reason'}" if entry.status == ADD_FAILED else (
        f"it is {health} (res_op_status {entry.op_status!r})"
    )
    refusal = Refused(
        f"cannot attach device {entry.uid} ({key.model}) to machine {key.machine}: {why}; it must be returned",
        detail=entry.reason or None,
    )
    refusal.device = entry.device
    return refusal


def nameless(key: Key, reasons: tuple[str, ...]) -> Refused:
    """CM could not attach a device and named none."""
    why = "; ".join(dict.fromkeys(reasons))
    return Refused(f"cannot attach a {key.model} to machine {key.machine}: {ADD_FAILED}: {why}", detail=why)


def overcounted(key: Key, spec: Spec) -> Refused:
    """Nothing is asked for, since the number would be too high by devices that failed and have no name."""
    why = "; ".join(dict.fromkeys(spec.nameless_failures))
    return Refused(f"cannot attach a {key.model} to machine {key.machine}: CM counts {spec.counted_failures} "
                   f"that failed without a name ({why}), so a request for one more could bring several; have its "
                   "administrator remove what failed. Nothing was requested", detail=why)


def stuck(key: Key, entry: Entry) -> Refused:
    """A removal failed."""
    return Refused(
        f"cannot detach device {entry.uid} from machine {key.machine}: {REMOVE_FAILED}: {entry.reason or 'no reason'}",
        detail=entry.reason or None,
    )


def not_done(key: Key, what: str, seconds: float) -> Uncertain:
    """CM has accepted and was waited for long enough."""
    return Uncertain(f"a {key.model} of machine {key.machine} is not {what} after {seconds:g} s; it may still happen")


def handle(key: Key, **more: t.Any) -> str:
    """What a later process needs to find the operation again."""
    told = {"version": VERSION, "machine": key.machine, "kind": key.kind, "model": key.model, **more}
    return json.dumps(told, separators=(",", ":"), sort_keys=True)
