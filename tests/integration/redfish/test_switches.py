# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches and their links through the whole driver, from a fabric with two switches and two boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager, Link, Switch
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    GPU,
    NODE_0,
    NODE_1,
    Client,
    document,
)

LINKS = [("node-0", "switch-a"), ("node-1", "switch-b"), ("box-a", "switch-a"), ("box-a", "switch-a"),
         ("box-b", "switch-b"), ("switch-a", "switch-b")]
WANTED = (
    Switch("switch-a", 1, "switch-a", "OK", (Link("box", "box-a", 2), Link("machine", NODE_0),
                                             Link("switch", "switch-b"))),
    Switch("switch-b", 1, "Switch B", "OK", (Link("box", "box-b"), Link("machine", NODE_1),
                                             Link("switch", "switch-a"))))


def cabled(folder: Path, manager: str = "redfish", **settings: object) -> Emulator:
    """Two switches with a box and a machine each; box-a hangs on its switch by two cables."""
    spec = document([manager], gpus=0, memory=0, settings={manager: settings})
    spec["boxes"] = [{"id": "box-a", "fabric": 1}, {"id": "box-b", "fabric": 1}]
    spec["switches"] = [{"id": "switch-a", "fabric": 1}, {"id": "switch-b", "name": "Switch B", "fabric": 1}]
    spec["links"] = [{"from": one, "to": other} for one, other in LINKS]
    spec["fabrics"][0]["devices"] = [{"model": GPU, "serials": ["GPU-a0", "GPU-a1"], "box": "box-a"},
                                     {"model": GPU, "serials": ["GPU-b0"], "box": "box-b"}]
    return Emulator.run(spec, folder)


@pytest.mark.parametrize(("manager", "settings"), [
    ("redfish", {"dialects": ["Connections"]}), ("redfish", {"dialects": ["Zones"], "page": 1, "expand": False}),
    ("redfish", {"dialects": ["AddResourceBlock", "Connections", "Compose"]}),
    ("sunfish", {"dialects": ["Connections"]})])
def test_switches_and_what_they_lead_to(manager: str, settings: dict[str, object], tmp_path: Path) -> None:
    with cabled(tmp_path, manager, **settings) as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        try:
            seen = fabric.snapshot([GPU])
            assert seen.switches == WANTED
            switch_of = {device.box: seen.switches_of[device.uid] for device in fabric.devices()}
        finally:
            fabric.close()
    assert switch_of == {"box-a": ("switch-a",), "box-b": ("switch-b",)}


def test_they_are_the_same_when_a_device_has_moved(tmp_path: Path, client: Client) -> None:
    with cabled(tmp_path, dialects=["Connections"]) as emulator:
        fabric = client(emulator)
        before = fabric.snapshot([GPU])
        (came,) = fabric.attach(NODE_0, GPU).devices
        after = fabric.snapshot([GPU])
    assert (after.switches, after.switches_of) == (before.switches, before.switches_of)
    assert came.uid in after.switches_of


@pytest.mark.parametrize(("manager", "settings"), [
    ("redfish", {"dialects": ["AddResourceBlock"]}), ("sunfish", {"agents": False}), ("fm", {}), ("cm", {}),
    ("nec", {})])
def test_where_nothing_is_told_there_are_none(manager: str, settings: dict[str, object], tmp_path: Path) -> None:
    """Blocks alone name no switch, and the other protocols have none."""
    with cabled(tmp_path, manager, **settings) as emulator:
        fabric: FabricManager = connect(FabricConfig.from_dict(emulator.fabric_config()))
        try:
            seen = fabric.snapshot([GPU])
        finally:
            fabric.close()
    assert set(seen.machines) >= {NODE_0, NODE_1}
    assert (seen.switches, seen.switches_of) == ((), {})
