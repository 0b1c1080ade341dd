# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of several pages, with a second client at work between two of them."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    Emulators,
    document,
)
from ansible_collections.composable.infra.tests.conformance.stories.told import APPLIES, PAGES, Meanwhile, clients, rows

# The collection that loses a member when a device leaves, so that those behind it move up by one.
SHRINKS = "Connections"
# Applies on one page of NEC's list.
APPLIES_OF_A_PAGE = 20


@pytest.mark.parametrize("row", rows(PAGES))
def test_a_list_of_several_pages_is_whole_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    paged = dataclasses.replace(ROWS[row], settings={**ROWS[row].settings, "page": 2})
    with Emulator.run(document(paged), tmp_path) as emulator, clients(emulator, row, 2) as (ours, other):
        first, *mine = sorted(ours.attach(MACHINE, MODEL).devices[0].uid for _each in range(5))
        second = Meanwhile(lambda: other.detach(MACHINE, first))
        read = Service.read

        def between(self: Service, kind: t.Any, uri: str) -> t.Any:
            if "skip=" in uri and f"/{SHRINKS}" in uri:
                second()
            return read(self, kind, uri)

        with monkeypatch.context() as patched:
            patched.setattr(Service, "read", between)
            shown = {machine.uid: [d.uid for d in machine.devices] for machine in ours.machines()}
        assert second.happened
        assert set(mine) <= set(shown[MACHINE])  # what has just left may be shown still
        assert [d.uid for d in ours.machine(MACHINE).devices] == mine
        for html in (False, True):
            emulator.set_faults({"kind": "status", "status": 404, "html": html, "contains": "skip="})
            with pytest.raises(Unavailable):
                ours.machines()


@pytest.mark.parametrize("row", rows(APPLIES))
def test_an_apply_without_a_reply_is_found_on_any_page(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    with clients(emulator, row) as (fabric,):
        while sum(entry["method"] == "POST" for entry in emulator.log()) <= APPLIES_OF_A_PAGE:
            fabric.detach(MACHINE, fabric.attach(MACHINE, MODEL).devices[0].uid)
        emulator.set_timing(0.3, 0)
        emulator.set_faults({"kind": "lost_reply", "purpose": "attach"})
        try:
            device, = fabric.attach(MACHINE, MODEL).devices
        finally:
            emulator.set_timing(0, 0)
        assert [d.uid for d in fabric.machine(MACHINE).devices] == [device.uid]
    assert any(entry["query"].get("fields") == "procedures" for entry in emulator.log())
    assert truth.doubled(emulator) == []
