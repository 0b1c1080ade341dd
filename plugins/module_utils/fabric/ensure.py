# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wanted number of devices on a machine, made true once however often it is asked for."""

from __future__ import annotations

import time

from .errors import FabricError, Uncertain
from .types import Device, Fabric, Machine

LOOK_SECONDS = 0.5
LOST_REPLIES = 3


def of_model(machine: Machine, model: str) -> list[Device]:
    """Devices of one model on a machine, by uid."""
    return sorted((d for d in machine.devices if d.model == model), key=lambda d: d.uid)


def attach_missing(fabric: Fabric, machine_uid: str, model: str, count: int, settle: float) -> list[Device]:
    """Attach until the machine has ``count`` devices of the model; returns the new ones.

    A lost reply is resolved by looking at the machine for up to ``settle`` seconds before anything is asked again, and
    only so often. Raises FabricError; what was attached until then stays attached and is counted by the next call,
    except for a device that the manager attached although it refused: that one is given back.
    """
    known = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
    before, lost = set(known), 0
    while len(known) < count:
        try:
            known.update(d.uid for d in fabric.attach(machine_uid, model, count - len(known)).devices)
        except Uncertain:
            found = _settled(fabric, machine_uid, model, count, settle)
            lost = 0 if found - known else lost + 1
            known |= found
            if lost >= LOST_REPLIES:
                raise
        except FabricError as error:
            if error.device is not None:
                fabric.detach(machine_uid, error.device.uid)
            raise
    return [d for d in of_model(fabric.machine(machine_uid), model) if d.uid not in before]


def _settled(fabric: Fabric, machine_uid: str, model: str, count: int, settle: float) -> set[str]:
    """Uids of the model on the machine once there are enough, or when none can come any more."""
    deadline = time.monotonic() + settle
    while True:
        found = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
        if len(found) >= count or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_SECONDS)
