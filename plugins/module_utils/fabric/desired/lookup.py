# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the object that a user named. If it is missing or ambiguous, list the possible names."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ..api import Device, FabricManager, Machine
from ..errors import BadConfiguration, FabricError, Missing, Refused

SHOWN: t.Final = 8


def several(names: Iterable[str]) -> str:
    """Return the first few of many names in words."""
    found = list(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more if found else "none, there are none"


def pick(machines: Sequence[Machine], wanted: str, option: str = "machine") -> Machine:
    """Return the machine with this uid or name.

    Raise Missing, and BadConfiguration if several machines have the name.
    """
    for machine in machines:
        if machine.uid == wanted:
            return machine
    found = [m for m in machines if m.name == wanted]
    if len(found) > 1:
        raise BadConfiguration(option, wanted, f"{len(found)} machines have this name. Give the uid of one: "
                                               f"{several(m.uid for m in found)}")
    if not found:
        known = several(f"{m.name} ({m.uid})" if m.name != m.uid else m.uid for m in machines)
        raise Missing(f"{option}: the CDI Manager knows no machine {wanted}. Allowed are {known}")
    return found[0]


def machine(fabric: FabricManager, wanted: str, option: str = "machine") -> Machine:
    """Read a machine by uid, or list all to find it by name. Raise as ``pick``, and FabricError."""
    try:
        return fabric.machine(wanted)
    except Missing:
        return pick(fabric.machines(), wanted, option)


def models(devices: Iterable[Device]) -> list[str]:
    """Return the names of all models of the devices."""
    return sorted({d.model for d in devices if d.model})


def not_enough(fabric: FabricManager, model: str, error: Refused, option: str = "model") -> FabricError:
    """Return the error for too few devices, or for a model that the fabric does not have.

    Only a manager that lists free devices can tell. For other managers, return ``error`` unchanged.
    """
    if not fabric.capabilities.lists_free:
        return error
    known = models(fabric.devices())
    if model in known:
        return error
    close = [m for m in known if model.casefold() in m.casefold()]
    if len(close) > 1:
        return BadConfiguration(option, model, f"it may mean {several(close)}. Give the whole name")
    return BadConfiguration(option, model, f"allowed are {several(close or known)}")
