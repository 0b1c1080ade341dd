# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy in between answers with a page of its own, on every sort of request: it says nothing about the fabric."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable, Uncertain
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import MACHINE, MODEL, Emulators
from ansible_collections.composable.infra.tests.conformance.stories.told import PROXY, clients, rows

NO_ANSWER = (Unavailable, Uncertain)


@pytest.mark.parametrize("row", rows(PROXY))
@pytest.mark.parametrize("status", [404, 503])
def test_a_page_of_a_proxy_is_no_answer(emulators: Emulators, row: str, status: int) -> None:
    emulator = emulators.get(row)
    page = {"kind": "status", "status": status, "html": True}
    with clients(emulator, row, 2, attach_timeout=0.3) as (fabric, stranger):
        device, = fabric.attach(MACHINE, MODEL).devices
        # All requests: of one who has to log in first too.
        emulator.set_faults(page)
        for ask in (stranger.machines, fabric.machines, fabric.devices, lambda: fabric.machine(MACHINE),
                    lambda: fabric.attach(MACHINE, MODEL), lambda: fabric.detach(MACHINE, device.uid)):
            with pytest.raises(NO_ANSWER):
                ask()
        # Changes alone.
        emulator.set_faults({**page, "purpose": "attach"}, {**page, "purpose": "detach"})
        with pytest.raises(NO_ANSWER):
            fabric.attach(MACHINE, MODEL)
        with pytest.raises(NO_ANSWER):
            fabric.detach(MACHINE, device.uid)
        emulator.set_faults()
        assert [d.uid for d in fabric.machine(MACHINE).devices] == [device.uid]
        # The following of an operation, where there is one.
        emulator.set_faults({**page, "purpose": "poll", "times": 1})
        fabric.detach(MACHINE, device.uid)
    came = [effect["effect"].split(" ")[0] for effect in emulator.effects()]
    assert came == ["attached", "detached"]
    assert truth.leaked(emulator) == []
