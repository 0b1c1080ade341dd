# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the caller takes back right before the request is not asked of any manager; what was asked is not taken back."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Withdrawn
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    Emulators,
    client,
    params,
)


class Proof:
    """Fails from the moment that the test says so; ``asked``: how often it was."""

    def __init__(self) -> None:
        self.fails, self.asked = False, 0

    def __call__(self) -> None:
        self.asked += 1
        if self.fails:
            raise Withdrawn("a claim has it")


@pytest.mark.parametrize("row", params(ROWS))
def test_nothing_is_asked_without_the_proof(emulators: Emulators, row: str) -> None:
    emulator, proof = emulators.get(row), Proof()
    fabric = client(emulator, ROWS[row])
    try:
        proof.fails = True
        before = states(emulator)
        with pytest.raises(Withdrawn, match="a claim has it"):
            fabric.attach(MACHINE, MODEL, proof=proof)
        assert states(emulator) == before
        proof.fails = False
        device, = fabric.attach(MACHINE, MODEL, proof=proof).devices
        proof.fails = True
        with_it = states(emulator)
        with pytest.raises(Withdrawn, match="a claim has it"):
            fabric.detach(MACHINE, device.uid, proof=proof)
        assert states(emulator) == with_it != before
        proof.fails = False
        fabric.detach(MACHINE, device.uid, proof=proof)
        assert proof.asked >= 4
    finally:
        fabric.close()


def states(emulator: t.Any) -> list[tuple[str, str]]:
    """State of each device, as the emulator has it."""
    return sorted((d["uid"], d["state"]) for d in emulator.state()["devices"])
