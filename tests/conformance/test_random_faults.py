# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random attaches and detaches under random faults and crashes: no device too many, none left in the end."""

from __future__ import annotations

import os
import random
import typing as t
import uuid
from collections.abc import Callable, Sequence

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.steady import (
    adopt,
    gain,
    give_back,
    held,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    SECOND,
    Emulators,
    rows_of,
    subject,
)

# Of each manager, shared by its rows; `make conformance FULL=1` takes 200.
RUNS = int(os.environ.get("CONFORMANCE_RUNS", "10"))
PARTS = 10
# Eight free devices for both machines together: a device that fails or doubles must not exhaust them.
MOST = 2
KINDS: t.Final[dict[str, Callable[[random.Random], dict[str, t.Any]]]] = {
    "latency": lambda rng: {"distribution": "exponential", "seconds": 0.004, "after": rng.random() < 0.5},
    "lost_request": lambda rng: {},
    "lost_reply": lambda rng: {},
    "doubled": lambda rng: {},
    "status": lambda rng: {"status": rng.choice((409, 429, 500, 502, 503)), "after": rng.random() < 0.3,
                           "html": rng.random() < 0.3},
    "revoked_token": lambda rng: {},
    "truncated": lambda rng: {"keep": rng.uniform(0, 0.9)},
    "not_json": lambda rng: {},
    "slow_drip": lambda rng: {"seconds": 0.02},
    "reset": lambda rng: {"after": rng.random() < 0.5},
    "operation_failed": lambda rng: {},
    "health": lambda rng: {"health": rng.choice(("Warning", "Critical"))},
    "restart": lambda rng: {},
    "certificate": lambda rng: {"publish": True},
}
RARE: t.Final = ("restart", "certificate")
# Whoever is refused twice in a row is not logged in with the right words.
ONCE: t.Final = ("revoked_token",)
# Whoever is refused three times gives up, so one of these a run.
REFUSING: t.Final = ("operation_failed", "health")
CHANGES: t.Final = ("attach", "detach")


def rules(rng: random.Random) -> list[dict[str, t.Any]]:
    """One to four faults, each struck at most twice, most of them at changes."""
    drawn = rng.choices(list(KINDS), [1 if kind in RARE else 10 for kind in KINDS], k=rng.randint(1, 4))
    refusing = [kind for kind in drawn if kind in REFUSING]
    return [_rule(rng, kind) for kind in dict.fromkeys(drawn) if kind not in REFUSING or kind == refusing[0]]


def _rule(rng: random.Random, kind: str) -> dict[str, t.Any]:
    purpose = rng.choice((*CHANGES, *CHANGES, "read", "poll", "login", ""))
    purpose = rng.choice(CHANGES) if kind in (*RARE, "operation_failed", "health") else purpose
    when = {"nth": rng.randint(1, 4)} if rng.random() < 0.6 else {"probability": rng.uniform(0.1, 0.6), "times": 2}
    if kind in ONCE:
        when = {"nth": rng.randint(1, 4)}
    return {"kind": kind, **({"purpose": purpose} if purpose else {}), **when, **KINDS[kind](rng)}


class Caller:
    """Brings each machine to a number of devices. It knows only what it reads from the manager."""

    def __init__(self, examined: Subject, rng: random.Random) -> None:
        self.subject, self.rng = examined, rng

    def bring_to(self, machine: str, count: int) -> None:
        """Have exactly so many there."""
        have = sorted(held(self.subject, MODEL, machine).values(), key=lambda device: device.uid)
        if len(have) > count:
            give_back(self.subject, self.rng.sample(have, len(have) - count), machine)
        elif len(have) < count and machine == MACHINE and self.rng.random() < 0.3:
            self._die_asking({d.uid for d in have})
            self._trim(count)
        missing = count - len(held(self.subject, MODEL, machine))
        if missing > 0:
            gain(self.subject, MODEL, missing, machine=machine)

    def _die_asking(self, before: set[str]) -> None:
        """Ask for one and die at once: only the operation's handle was written down."""
        accepted: list[str] = []

        def started(handles: tuple[str, ...]) -> None:
            accepted.extend(handles)

        fabric = self.subject.connect()
        try:
            fabric.attach(MACHINE, MODEL, token=str(uuid.uuid4()), started=started)
        except FabricError:
            pass
        finally:
            fabric.close()
        adopt(self.subject, MODEL, before, tuple(accepted))

    def _trim(self, count: int) -> None:
        """What came twice is given back."""
        have: list[Device] = list(held(self.subject, MODEL).values())
        give_back(self.subject, have[count:])


def history(emulator: Emulator, name: str, rng: random.Random) -> str:
    """One run; returns what is wrong, empty when nothing is."""
    emulator.reset(log=True)
    with subject(emulator, ROWS[name]) as examined:
        emulator.set_faults(*rules(rng), seed=rng.randrange(2**32))
        caller = Caller(examined, rng)
        wrong = []
        for _unused in range(rng.randint(2, 4)):
            machine, count = rng.choice((MACHINE, SECOND)), rng.randint(0, min(MOST, examined.at_most))
            caller.bring_to(machine, count)
            if len(held(examined, MODEL, machine)) != count:
                wrong.append(f"{count} were wanted on {machine}: {sorted(held(examined, MODEL, machine))}")
        for machine in (MACHINE, SECOND):
            caller.bring_to(machine, 0)
    return "; ".join([*wrong, *truth.leaked(emulator), *truth.doubled(emulator)])


def shares() -> list[t.Any]:
    """Every row with its share of its manager's runs, in parts; those of one row for one worker."""
    return [
        pytest.param(name, share[part::PARTS], marks=pytest.mark.xdist_group(name), id=f"{name}-{part}")
        for name, row in ROWS.items()
        for share in [range(rows_of(row.manager).index(name), RUNS, len(rows_of(row.manager)))]
        for part in range(min(PARTS, len(share)))
    ]


@pytest.mark.parametrize(("row", "numbers"), shares())
def test_random_histories_leave_no_device_too_many(
    emulators: Emulators, seed: int, row: str, numbers: Sequence[int]
) -> None:
    emulator = emulators.get(row)
    for number in numbers:
        rng = random.Random(f"{seed} {row} {number}")
        try:
            wrong = history(emulator, row, rng)
        except Exception as error:
            raise AssertionError(f"run {number} of seed {seed}: {error!r}; faults: {emulator.faults()}") from error
        assert not wrong, f"run {number} of seed {seed}: {wrong}; faults: {emulator.faults()}"


def test_every_run_of_a_manager_is_made_once() -> None:
    made = [(ROWS[row].manager, number) for row, numbers in (case.values for case in shares()) for number in numbers]
    assert sorted(made) == sorted((manager, number) for manager in MANAGERS for number in range(RUNS))


def test_random_faults_cover_all_kinds(rng: random.Random) -> None:
    drawn = {rule["kind"] for _unused in range(200) for rule in rules(rng)}
    assert set(KINDS) - set(RARE) <= drawn
