# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the page as values.

There is one for each fabric, box, switch, node and claim, and one for the process.

Browsers get a row as JSON without its empty fields. Times are seconds since the epoch, 0.0 for
never.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields

# A device is free (counted, not listed), or in one of these states.
RESERVED, ATTACHING, IDLE, IN_USE = "reserved", "attaching", "idle", "in-use"
LEAVING, FAULTY, UNMANAGED = "leaving", "faulty", "unmanaged"
STATES = (IN_USE, IDLE, RESERVED, ATTACHING, LEAVING, FAULTY, UNMANAGED)
WAITING, PREPARING, SERVED, UNUSED = "waiting", "preparing", "served", "unused"


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device of a machine.

    ``name``: its ComposableResource, or the CDI Manager's UID if it has none.

    ``state``: of STATES. ``claim``: namespace/name of the claim that uses the device, or for which
    it is reserved or attached. ``pods``: of the claim. ``until``: when the hold of an idle device
    ends. ``trouble``: the problem, in a sentence. ``warning``: a lesser problem of a device that is
    used. ``box``: id of its chassis, empty if the CDI Manager does not report it.
    """

    name: str
    model: str
    state: str
    uid: str = ""
    serial: str = ""
    claim: str = ""
    pods: tuple[str, ...] = ()
    until: float = 0.0
    trouble: str = ""
    warning: str = ""
    box: str = ""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, or a machine that is no node (``is_node`` is False, and the name is the CDI
    Manager's).

    ``ready``: the node's condition Ready. ``problem``: why it gets no devices, in a sentence.
    """

    name: str
    is_node: bool = True
    machine: str = ""
    fabric: int | None = None
    ready: bool = False
    cordoned: bool = False
    power: str = ""
    problem: str = ""
    devices: tuple[DeviceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCount:
    """The devices of one model on one fabric.

    ``free``: by the CDI Manager's count, None if it reports none. ``in_pool``: published to the
    scheduler. ``states``: devices of machines by state.
    """

    model: str
    free: int | None
    in_pool: int
    states: t.Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FabricRow:
    """A fabric with its machines and its devices by model.

    ``problems``: sentences about devices that could not be counted.
    """

    fabric: int
    machines: int
    models: tuple[ModelCount, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoxRow:
    """A box (chassis) of a fabric.

    ``free``: devices by model, by the CDI Manager's count. ``states``: devices of machines by
    state.
    """

    fabric: int
    box: str
    free: t.Mapping[str, int]
    states: t.Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LinkRow:
    """The links of a switch to one target.

    ``kind``: machine, box, switch or device. ``to``: uid or id of the target. ``ports``: number of
    ports. ``down``: ports with a link that is not up. ``gbps``: what the other ports carry one way,
    in Gbit/s.
    """

    kind: str
    to: str
    ports: int
    down: int = 0
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch of a fabric, as the CDI Manager reports it.

    ``trouble``: the problem, in a sentence.
    """

    fabric: int
    switch: str
    name: str
    trouble: str = ""
    links: tuple[LinkRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A ResourceClaim for devices of the fabric.

    ``state``: waiting, preparing (allocated, devices still to come), served, or unused (served, but
    reserved for no pod). ``waits_for``: the sentence of claim_info. ``refused``: why the fabric can
    never serve the claim, even with all devices free. ``wants``: such as 2 x gpu. ``position``: its
    place among ``of`` pods that wait for devices.
    """

    namespace: str
    name: str
    uid: str
    state: str
    wants: str = ""
    waits_for: str = ""
    refused: str = ""
    position: int | None = None
    of: int | None = None
    since: float = 0.0
    created: float = 0.0
    node: str = ""
    pods: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The process that shows the page.

    ``leader``: identities of the leading processes. ``troubles``: current problems of the watches,
    the CDI Manager and the publisher. ``concerns``: the subject of each problem, as
    ``Engine.troubles`` names it. ``hold``: seconds that an idle device stays attached.
    ``docs``: address of the documentation. ``read``: when this process last polled the CDI Manager,
    0.0 if it does not. ``old_after``: seconds after which that is old.
    """

    version: str
    manager: str
    handover: str
    hold: float
    ready: bool
    leads: bool
    leader: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    docs: str = ""
    read: float = 0.0
    old_after: float = 0.0
    concerns: tuple[str, ...] = ()


def plain(value: t.Any) -> t.Any:
    """Convert a row to plain JSON values, without empty fields.

    The number 0 stays, an unset time does not.
    """
    if hasattr(value, "__dataclass_fields__"):
        told = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: plain(each) for name, each in told.items() if each or _is_number(each)}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
