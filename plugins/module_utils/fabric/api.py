# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every CDI Manager must offer, and what is said of machines, devices and free devices."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """A composable device. ``uid`` is the manager's, ``serial`` what the node sees (a GPU's UUID).

    ``kind``: ``gpu``, ``memory``, …; ``state``: ``free``, ``attaching``, ``attached``, ``detaching`` or
    ``unavailable``; ``health``: ``OK``, ``Warning``, ``Critical`` or ``Unknown``; ``machine``: uid of the machine that
    has it; ``size``: MiB of a memory device; ``box``: the manager's id of the chassis that it sits in, None where the
    manager does not tell it. ``shared``: the manager shows that another machine has it too.
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
    box: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the tenant and the composable devices attached to it; ``fabric`` None: on no fabric. ``devices``: a
    tuple, or packed (``packed_devices.py``).

    ``power``: On, Off, PoweringOn, PoweringOff or Paused; None where the manager does not tell it.
    """

    uid: str
    name: str
    fabric: int | None
    devices: Sequence[Device] = ()
    power: str | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """How many devices of a model one machine must and may have; None: not limited."""

    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """What one end of a switch's ports is: ``kind`` machine, box, switch, or device where its box is not told.

    ``to``: uid of a machine or a device, id of a box or a switch. ``ports``: how many ports of the switch lead there,
    ``down``: those of them whose link is not up. ``gbps``: what the others carry one way, in Gbit/s; 0.0: not told.
    """

    kind: str
    to: str
    ports: int = 1
    down: int = 0
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of a fabric and what it is linked to; ``uid``: the manager's id of it."""

    uid: str
    fabric: int
    name: str
    health: str = "Unknown"
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class FabricSnapshot:
    """What a manager showed: ``machines`` by uid, ``free`` devices by (model, fabric).

    A count that could not be had is absent from ``free``; the reason is in ``problems`` under
    ``"<model>/<fabric>"``. ``taken``: seconds since the epoch, before the first question was asked; ``read``: after
    the last answer, 0 when nobody noted it. ``sizes``: by machine uid and model, where the manager limits them.
    ``free_in_boxes``: of the ``free`` ones those whose box the manager told, by (model, fabric, box). ``switches``:
    those that the manager tells; ``switches_of``: uids of the switches that a device is linked to, by its uid.
    ``unconfirmed``: why the list of machines may be incomplete; empty when two readings in a row show the same ones.
    ``shared``: uids of the machines by uid of a device that several have, as far as these machines are shown.
    """

    machines: Mapping[str, Machine]
    free: Mapping[tuple[str, int], int]
    taken: float
    problems: Mapping[str, str] = field(default_factory=dict)
    read: float = 0.0
    sizes: Mapping[str, Mapping[str, Size]] = field(default_factory=dict)
    free_in_boxes: Mapping[tuple[str, int, str], int] = field(default_factory=dict)
    switches: tuple[Switch, ...] = ()
    switches_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unconfirmed: str = ""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a manager can do, as data that plans are made with.

    ``asynchronous``: accepts before the device is attached, so a caller need not wait for the end. ``batch``: attaches
    several devices by one request. ``lists_free``: lists free devices one by one. ``counts_free``: says how many are
    free; where it does not, nothing is refused beforehand for want of devices. ``kinds``: of devices that it attaches.
    ``powers``: switches machines on and off, see ``PowerManager``.
    """

    asynchronous: bool
    batch: bool
    lists_free: bool = False
    counts_free: bool = True
    kinds: tuple[str, ...] = ("gpu",)
    powers: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """Outcome of attach, detach or resume.

    ``devices`` that came or left. ``handles``: texts by which an asynchronous manager knows the operations, one for
    each; empty where it answered at once.
    """

    done: bool
    devices: tuple[Device, ...] = ()
    handles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachinePower:
    """Power of one machine. ``state``: On, Off, PoweringOn, PoweringOff or Paused, empty where it is not shown.

    ``reset_types``: the resets that the machine offers, in Redfish's words (Resource.ResetType). ``last_reset``: when
    it last came on, in the manager's own form; empty where it is not told.
    """

    machine: str
    name: str
    state: str
    reset_types: tuple[str, ...] = ()
    last_reset: str = ""


# Hears the handles of the operations that a manager has accepted.
Started = t.Callable[[tuple[str, ...]], None]
# Called right before a manager is asked for a change, each time, on any thread; what it raises (Withdrawn) ends the
# operation, and the manager is not asked.
Proof = t.Callable[[], None]


class FabricManager(t.Protocol):
    """One CDI Manager, for one tenant where it knows tenants.

    All calls block, and may be made from any number of threads at once. All raise FabricError; its class says what a
    caller may do: ask again (Unavailable, Busy), give up (Refused, Missing, Unauthorized), or look before anything
    else (Uncertain: the change may have happened). Devices and machines are named by the manager's uids. The
    protocols behind it are described with each driver.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this manager can do. May become more exact with the first call; asks nothing by itself."""

    def machines(self) -> tuple[Machine, ...]:
        """All machines of the tenant, each once, with the composable devices attached to it."""

    def machine(self, uid: str) -> Machine:
        """One machine, read anew, with its devices. Raises Missing when the manager does not know it."""

    def free(self, machine_uid: str, model: str) -> int:
        """How many devices of ``model`` (the manager's own name of it) could be attached to the machine now.

        Raises Missing for an unknown machine, Refused where free devices are not counted (``counts_free``).
        """

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """All machines, and how many devices of each of ``models`` are free on each fabric.

        A count that fails is a problem of the snapshot and no error; only machines that cannot be listed are one.
        """

    def devices(self) -> tuple[Device, ...]:
        """Every device that the manager shows: the attached ones, and the free ones where ``lists_free``."""

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices of ``model`` and ``kind``; returns with them when all are attached.

        ``token``: a text of the caller's for this one attach, by which a manager that can recognises a repeated one.
        ``started`` is called once, on the caller's thread or another, with the handles that an asynchronous manager
        gave, before their end is waited for; a manager that answers when it is done never calls it. ``proof`` is asked
        right before each request that changes something, however long the operation waited for others.

        Raises Refused (``exhausted``: no free device is left; ``device``: it was attached all the same and must be
        detached), Missing for an unknown machine, Busy and Unavailable when nothing was done, Uncertain when the reply
        was lost or the end was not seen in time. When only some of several came the error has them as ``devices``.
        """

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device; returns when it is gone. A device that is not on the machine is done.

        ``started``, ``proof``: as for ``attach``. Raises Refused, Busy, Unavailable when the device stays, Uncertain
        when that is not known.
        """

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for operations that an earlier process began; returns with what they attached, as far as it is known.

        ``handles``: as ``started`` told them. Raises Missing when the manager knows one no more or it is none of its
        handles, and else what the operation failed with.
        """

    def close(self) -> None:
        """Log out where there was a login, and close all connections. Calls under way may fail."""


@t.runtime_checkable
class PowerManager(t.Protocol):
    """What a manager with the capability ``powers`` offers beside. Both calls raise FabricError as the others do."""

    def power(self, machine_uid: str) -> MachinePower:
        """Power of a machine, read anew. Raises Missing."""

    def reset(self, machine_uid: str, reset_type: str) -> None:
        """Ask for a reset in Redfish's words; returns when it is accepted, which says nothing about the power yet.

        Raises Refused, Busy when the machine is switching, Uncertain when the reply was lost.
        """
