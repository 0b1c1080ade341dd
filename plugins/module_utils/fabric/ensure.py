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


def attach_missing(fabric: Fabric, machine_uid: str, model: str, count: int, settle: float,
                   kind: str = "gpu") -> list[Device]:
    """Attach until the machine has ``count`` devices of the model; returns the new ones.

    A lost reply is resolved by looking at the machine for up to ``settle`` seconds before anything is asked again, and
    only so often. Raises FabricError; what was attached until then stays attached and is counted by the next call,
    except for a device that the manager attached although it refused: that one is given back.
    """
    known = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
    before, lost = set(known), 0
    while len(known) < count:
        try:
            known.update(d.uid for d in fabric.attach(machine_uid, model, count - len(known), kind=kind).devices)
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


def detach_present(fabric: Fabric, machine_uid: str, device_uid: str, settle: float) -> Device | None:
    """Detach a device if the machine has it; returns what was detached.

    After a lost reply the machine is watched for up to ``settle`` seconds, and asked again if it kept the device.
    """
    found = _on(fabric, machine_uid, device_uid)
    lost, there = 0, found
    while there is not None:
        try:
            fabric.detach(machine_uid, device_uid)
            break
        except Uncertain:
            there, lost = _gone(fabric, machine_uid, device_uid, settle), lost + 1
            if there and lost >= LOST_REPLIES:
                raise
    return found


def _gone(fabric: Fabric, machine_uid: str, device_uid: str, settle: float) -> Device | None:
    """The device if the machine still has it when the wait is over."""
    deadline = time.monotonic() + settle
    while (there := _on(fabric, machine_uid, device_uid)) is not None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return there


def _on(fabric: Fabric, machine_uid: str, device_uid: str) -> Device | None:
    return next((d for d in fabric.machine(machine_uid).devices if d.uid == device_uid), None)


def _settled(fabric: Fabric, machine_uid: str, model: str, count: int, settle: float) -> set[str]:
    """Uids of the model on the machine once there are enough, or when none can come any more."""
    deadline = time.monotonic() + settle
    while True:
        found = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
        if len(found) >= count or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_SECONDS)
