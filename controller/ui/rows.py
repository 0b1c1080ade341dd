# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows, as values: one row for each fabric, box, switch, node, claim, and one for the process itself.

A row goes to browsers as JSON without its empty fields. Times are seconds since the epoch, 0.0 for never.
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
    """A device of a machine. ``name``: its ComposableResource, or the CDI Manager's uid where it has none.

    ``state``: of STATES. ``claim``: namespace/name of the one that uses it, or that it is kept or attached for;
    ``pods``: those of the claim. ``until``: when an idle device's hold ends. ``trouble``: what is wrong, in a sentence;
    ``warning``: what is not as it should be, though the device is used. ``box``: id of the chassis that it is in, empty
    where the CDI Manager does not tell it.
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
    """A node, or a machine that is none (``is_node`` false; its name is the CDI Manager's).

    ``ready``: the node's condition Ready; ``problem``: why it is given no devices, in a sentence.
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
    """Devices of one model on one fabric. ``free``: as the CDI Manager counts; None: it does not say. ``in_pool``:
    shown to the scheduler; ``states``: those that machines have, by state."""

    model: str
    free: int | None
    in_pool: int
    states: t.Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FabricRow:
    """A fabric: its machines, and its devices by model. ``problems``: what could not be counted, one sentence each."""

    fabric: int
    machines: int
    models: tuple[ModelCount, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoxRow:
    """A box (chassis) of a fabric. ``free``: devices by model, as the CDI Manager counts; ``states``: its devices that
    machines have, by state."""

    fabric: int
    box: str
    free: t.Mapping[str, int]
    states: t.Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Where ports of a switch lead: ``kind`` machine, box, switch or device, ``to``: its uid or id. ``ports``: how
    many, ``down``: those whose link is not up; ``gbps``: what the others carry one way, in Gbit/s."""

    kind: str
    to: str
    ports: int
    down: int = 0
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch of a fabric, as the CDI Manager tells it. ``trouble``: what is wrong, in a sentence."""

    fabric: int
    switch: str
    name: str
    trouble: str = ""
    links: tuple[LinkRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A ResourceClaim for devices of the fabric. ``state``: waiting, preparing (allocated, devices on their way),
    served, or unused (served, but reserved for no pod). ``waits_for``: the sentence of claim_info; ``refused``: why the
    fabric cannot serve it, whatever becomes free; ``wants``: 2 x gpu; ``position``: its place among ``of`` pods that
    wait for devices."""

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
    """The process that shows the page. ``leader``: identities of the processes that lead; ``troubles``: what the
    watches, the CDI Manager and the publisher complain about now. ``hold``: seconds that an idle device stays
    attached. ``docs``: address of the documentation. ``read``: when the CDI Manager was last read, 0.0 if this process
    does not; ``old_after``: seconds after which that is old. ``concerns``: what each of the troubles is about, as
    ``ControllerManager.troubles`` names it."""

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
    """A row as what JSON knows, without fields that are empty. The number 0 is none of these, but no moment is."""
    if hasattr(value, "__dataclass_fields__"):
        told = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: plain(each) for name, each in told.items() if each or _is_number(each)}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
