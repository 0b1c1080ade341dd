# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device in the pool, the errors of its operations, and the faults for its operations."""

from __future__ import annotations

import typing as t
from collections.abc import Container, Iterable
from contextvars import ContextVar
from dataclasses import dataclass

from .parts import DeviceSpec

FREE: t.Final = "free"
ATTACHING: t.Final = "attaching"
ATTACHED: t.Final = "attached"
DETACHING: t.Final = "detaching"
VANISHED: t.Final = "vanished"


class PoolError(Exception):
    """The fabric cannot carry out the request."""


class UnknownMachine(PoolError):
    """There is no such machine."""


class UnknownDevice(PoolError):
    """The machine, or the fabric, has no such device."""


class Exhausted(PoolError):
    """No free device of that model is left on the machine's fabric."""


class DeviceBusy(PoolError):
    """The device is being attached or detached."""


class DeviceTaken(PoolError):
    """The requested device belongs to a machine already. ``machine``: uid of the machine."""

    def __init__(self, message: str, machine: str | None) -> None:
        super().__init__(message)
        self.machine = machine


class OperationFailed(PoolError):
    """The fabric tried and could not. ``device`` is where it was before."""

    def __init__(self, message: str, device: PooledDevice) -> None:
        super().__init__(message)
        self.device = device


@dataclass(slots=True)
class Mischief:
    """The faults of one request's operations. ``failures``: number of devices that fail."""

    failures: int = 0
    health: str | None = None
    vanish: bool = False

    def fails(self) -> bool:
        """Count an operation. Return whether it fails."""
        self.failures -= 1
        return self.failures >= 0


MISCHIEF: t.Final[ContextVar[Mischief | None]] = ContextVar("mischief", default=None)


@dataclass(slots=True)
class PooledDevice:
    """A device and its place.

    ``changed``: generation of its last change. ``due``: end of its operation, in seconds since
    1970.
    """

    spec: DeviceSpec
    kind: str
    health: str
    state: str = FREE
    machine: str | None = None
    changed: int = 0
    due: float = 0.0

    @property
    def moved(self) -> bool:
        """Whether its state differs from the document."""
        return record(self) != record(at_first(self.spec, self.kind))

    def recall(self, entry: t.Mapping[str, t.Any], machines: Container[str]) -> None:
        """Restore the state of a record. A device of a machine that no longer exists is free."""
        self.state, self.health, self.due = entry["state"], entry["health"], entry["due"]
        self.machine = entry["machine"] if entry["machine"] in machines else None
        if self.machine is None and self.state != VANISHED:
            self.state = FREE


def recall(
    records: Iterable[t.Mapping[str, t.Any]], devices: t.Mapping[str, PooledDevice], machines: Container[str]
) -> tuple[float, float] | None:
    """Restore devices from records.

    Return the times for attach and detach if they were set, else None.
    """
    timing = None
    for entry in records:
        if "timing" in entry:
            timing = (entry["timing"][0], entry["timing"][1])
        elif device := devices.get(entry.get("device", "")):
            device.recall(entry, machines)
    return timing


def at_first(spec: DeviceSpec, kind: str) -> PooledDevice:
    """Return a device as in the document."""
    return PooledDevice(spec, kind, spec.health, ATTACHED if spec.on else FREE, spec.on)


def record(device: PooledDevice) -> dict[str, t.Any]:
    """Return the journal's record of a device."""
    return {
        "device": device.spec.uid, "state": device.state, "machine": device.machine, "health": device.health,
        "due": device.due if device.state in (ATTACHING, DETACHING) else 0.0,
    }
