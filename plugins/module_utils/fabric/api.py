# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface that every CDI Manager driver offers, with the data types of machines and devices."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """A composable device.

    ``uid`` is the id that the CDI Manager uses. ``serial`` is the id that the node sees, for
    example the UUID of a GPU. ``kind`` is ``gpu``, ``memory`` and so on. ``state`` is ``free``,
    ``attaching``, ``attached``, ``detaching`` or ``unavailable``. ``health`` is ``OK``,
    ``Warning``, ``Critical`` or ``Unknown``. ``machine`` is the uid of the machine that has the
    device. ``size`` is the size of a memory device in MiB. ``box`` is the manager's id of the
    chassis, or None if the manager does not report it. ``shared`` is true if the manager shows the
    device on another machine too.
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
    """A machine of the tenant with its composable devices.

    ``fabric`` is None if the machine is on no fabric. ``power`` is On, Off, PoweringOn, PoweringOff
    or Paused, or None if the manager does not report it.
    """

    uid: str
    name: str
    fabric: int | None
    devices: Sequence[Device] = ()
    power: str | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Limits to the devices of one model on one machine. None means no limit."""

    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """The ports of a switch that lead to one neighbor.

    ``kind`` is the kind of the neighbor: machine, box, switch, or device if its box is not
    reported. ``to`` is the uid of a machine or device, or the id of a box or switch. ``ports`` is
    the number of ports that lead there. ``down`` counts the ports with a link that is not up.
    ``gbps`` is the bandwidth of the other ports in one direction in Gbit/s, or 0.0 if it is not
    reported.
    """

    kind: str
    to: str
    ports: int = 1
    down: int = 0
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of a fabric and its links. ``uid`` is the manager's id of the switch."""

    uid: str
    fabric: int
    name: str
    health: str = "Unknown"
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class FabricSnapshot:
    """The inventory that one poll of a CDI Manager returned.

    ``machines`` are by uid, and ``free`` counts devices by (model, fabric). If a count cannot be
    read, it is absent from ``free``, and ``problems`` has the reason under ``"<model>/<fabric>"``.
    ``taken`` is the time before the first request in seconds since the epoch. ``read`` is the time
    after the last answer, or 0 if it was not recorded. ``sizes`` has the limits by machine uid and
    model, if the manager sets limits. ``free_in_boxes`` counts free devices in known boxes by
    (model, fabric, box). ``switches`` are the reported switches. ``switches_of`` has the uids of
    the linked switches by device uid. ``unconfirmed`` says why the list of machines may be
    incomplete. It is empty if two readings in a row show the same machines. ``shared`` has the uids
    of the machines by the uid of a device that several of these machines have.
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
    """Abilities of a CDI Manager, as input for planning.

    ``asynchronous``: the manager accepts a request before the device is attached, so a caller need
    not wait for the end. ``batch``: one request attaches several devices. ``lists_free``: the
    manager lists each free device. ``counts_free``: the manager counts free devices. If it does
    not, callers cannot refuse a request in advance for lack of devices. ``kinds``: the kinds of
    devices that the manager attaches. ``powers``: the manager switches machines on and off
    (``PowerManager``).
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

    ``devices`` are the attached or detached devices. ``handles`` are the names of the operations of
    an asynchronous manager. They are empty if the manager answered at once.
    """

    done: bool
    devices: tuple[Device, ...] = ()
    handles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachinePower:
    """Power of one machine.

    ``state`` is On, Off, PoweringOn, PoweringOff or Paused, or empty if it is not shown.
    ``reset_types`` are the resets that the machine offers, as values of Redfish's
    Resource.ResetType. ``last_reset`` is the time of the last power-on in the manager's own format,
    or empty if it is not reported.
    """

    machine: str
    name: str
    state: str
    reset_types: tuple[str, ...] = ()
    last_reset: str = ""


# Receives the handles of the operations that a manager has accepted.
Started = t.Callable[[tuple[str, ...]], None]
# Called on any thread right before each request that changes something. If it raises Withdrawn, the
# operation ends and the manager gets no request.
Proof = t.Callable[[], None]


class FabricManager(t.Protocol):
    """One CDI Manager, for one tenant if the manager supports tenants.

    All calls block, and any number of threads may call at once. All raise FabricError. The class of
    the error tells a caller what to do: repeat the request (Unavailable, Busy), give up (Refused,
    Missing, Unauthorized), or read the state first (Uncertain, because the change may have
    happened). Devices and machines are named by the manager's uids. Each driver describes the
    protocol of its manager.
    """

    @property
    def capabilities(self) -> Capabilities:
        """Return the abilities of this manager without a request.

        The first call of another method may make them more exact.
        """

    def machines(self) -> tuple[Machine, ...]:
        """Return each machine of the tenant once, with its attached composable devices."""

    def machine(self, uid: str) -> Machine:
        """Read one machine with its devices again. Raise Missing if it is unknown."""

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of ``model`` can be attached to the machine now.

        ``model`` is the manager's name of the model.

        Raise Missing for an unknown machine, and Refused if free devices are not counted
        (``counts_free``).
        """

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return all machines, and the number of free devices of each of ``models`` on each fabric.

        If a count fails, add it to ``problems`` of the snapshot. Raise FabricError only if the
        machines cannot be listed.
        """

    def devices(self) -> tuple[Device, ...]:
        """Return all attached devices, and the free devices too if the manager ``lists_free``."""

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices of ``model`` and ``kind``. Return when all are attached.

        ``token`` is the caller's name for this attach. A manager that supports tokens recognizes a
        repeated request by it. ``started`` is called once, on any thread, with the handles of an
        asynchronous manager, before the wait for their end. A manager that answers at the end never
        calls it. ``proof`` is called right before each request that changes something, however long
        the operation waited.

        Raise Refused (``exhausted`` means that no device is free, ``device`` is a device that was
        attached all the same and must be detached), Missing for an unknown machine, Busy and
        Unavailable if nothing was done, and Uncertain if the reply was lost or the end was not seen
        in time. If only some of several devices were attached, the error has them as ``devices``.
        """

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device and return when it is gone. Do nothing if the machine does not have it.

        ``started`` and ``proof`` are as for ``attach``. Raise Refused, Busy or Unavailable if the
        device stays, and Uncertain if the outcome is unknown.
        """

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for operations of an earlier process. Return the devices they attached, if known.

        ``handles`` are those that ``started`` received. Raise Missing if the manager does not know
        a handle, and otherwise the error of the operation.
        """

    def close(self) -> None:
        """Log out if there was a login, and close all connections. Calls in flight may fail."""


@t.runtime_checkable
class PowerManager(t.Protocol):
    """Extra calls of a manager with the capability ``powers``. Both raise FabricError."""

    def power(self, machine_uid: str) -> MachinePower:
        """Read the power of a machine again. Raise Missing if the machine is unknown."""

    def reset(self, machine_uid: str, reset_type: str) -> None:
        """Request a reset. Return when it is accepted, before the power changes.

        Raise Refused, Busy if the machine is switching, and Uncertain if the reply was lost.
        """
