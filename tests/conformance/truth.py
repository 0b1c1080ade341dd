# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What really happened on the fabric, as the emulator wrote it down: who had which device, twice or not."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.tests.conformance.managers import MACHINE, SECOND

AT_REST: t.Final = ("free", "attached", "vanished")


def leaked(emulator: Emulator) -> list[str]:
    """Devices that are still on the machines that the suite works with, or on their way."""
    return [
        f"{d['uid']} ({d['model']}) is {d['state']} on {d['machine']}" for d in emulator.state()["devices"]
        if d["machine"] in (MACHINE, SECOND) or d["state"] not in AT_REST
    ]


def doubled(emulator: Emulator) -> list[str]:
    """Devices that came to a machine while they were on one, or left one that did not have them."""
    on: dict[str, str] = {}
    wrong = []
    for effect in emulator.effects():
        verb, uid, _to, machine = effect["effect"].split(" ")
        if verb == "attached" and uid in on:
            wrong.append(f"{uid} came to {machine} while it was on {on[uid]}")
        if verb != "attached" and on.get(uid) not in (machine, None):
            wrong.append(f"{uid} left {machine} while it was on {on[uid]}")
        on.pop(uid, None)
        if verb == "attached":
            on[uid] = machine
    return wrong
