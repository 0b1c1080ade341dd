# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the fabric side: devices, machines, what is free, and what every CDI Manager must offer."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """A composable device. ``uid`` is the manager's, ``serial`` what the node sees (a GPU's UUID).

    ``kind``: ``gpu``, ``memory``, …; ``state``: ``free``, ``attaching``, ``attached``, ``detaching`` or
    ``unavailable``; ``health``: ``OK``, ``Warning``, ``Critical`` or ``Unknown``; ``machine``: uid of the machine that
    has it; ``size``: MiB of a memory device.
    """

    uid: str
    model: str
    kind: str = "gpu"
    fabric: int | None = None
    machine: str | None = None
    state: str = "attached"
    health: str = "Unknown"
    serial: str | None = None
    name: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the tenant and the composable devices attached to it; ``fabric`` None: on no fabric."""

    uid: str
    name: str
    fabric: int | None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class FabricSnapshot:
    """What a manager showed: ``machines`` by uid, ``free`` devices by (model, fabric).

    A count that could not be had is absent from ``free``; the reason is in ``problems`` under
    ``"<model>/<fabric>"``. ``taken``: seconds since the epoch, before the first question was asked; ``read``: after
    the last answer, 0 when nobody noted it.
    """

    machines: Mapping[str, Machine]
    free: Mapping[tuple[str, int], int]
    taken: float
    problems: Mapping[str, str] = field(default_factory=dict)
    read: float = 0.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a manager can do, as data that the engine plans with.

    ``asynchronous``: replies before the device is attached. ``batch``: several devices by one request.
    ``concurrent_per_machine``: several requests for one machine at once. ``names_device``: a given device can
    be asked for. ``lists_all``: lists attached devices of all machines. ``lists_free``: free devices are listed one by
    one, not only counted. ``kinds``: of devices that it attaches. ``counts_free``: says how many are free.
    """

    asynchronous: bool
    batch: bool
    concurrent_per_machine: bool
    names_device: bool
    lists_all: bool
    lists_free: bool = False
    kinds: tuple[str, ...] = ("gpu",)
    counts_free: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """Outcome of attach or detach; ``handle``: by which an asynchronous manager knows the operation."""

    done: bool
    devices: tuple[Device, ...] = ()
    handle: str | None = None


Started = t.Callable[[str], None]


class Fabric(t.Protocol):
    """A CDI Manager. All calls block, may be made from any number of threads at once, raise FabricError."""

    @property
    def capabilities(self) -> Capabilities:
        """What this manager can do."""

    def machines(self) -> tuple[Machine, ...]:
        """All machines of the tenant with the devices attached to them."""

    def machine(self, uid: str) -> Machine:
        """One machine; Missing when the manager does not know it."""

    def free(self, machine_uid: str, model: str) -> int:
        """How many devices of ``model`` could be attached to the machine now."""

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Machines, and free devices of each of ``models`` per fabric."""

    def devices(self) -> tuple[Device, ...]:
        """Every device that the manager shows: attached ones, and free ones where it lists them."""

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None,
    ) -> Task:
        """Attach ``count`` devices; returns when they are attached.

        ``token`` marks the wish where the manager can tell a repeated one by it. ``started`` is called with the
        operation's handle once an asynchronous manager has accepted it, before it is waited for.
        """

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None) -> Task:
        """Detach one device; returns when it is gone. A device that is not there is done."""

    def resume(self, handle: str) -> Task:
        """Wait for an operation that an earlier process began; Missing when the manager knows it no more."""

    def close(self) -> None:
        """Close all connections."""
