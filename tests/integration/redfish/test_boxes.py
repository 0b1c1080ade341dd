# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boxes through the whole driver: told by blocks and endpoints, kept when a device moves, and not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.tests.integration.redfish.conftest import GPU, NODE_0, Client, document

WAYS = ["AddResourceBlock", "Connections", "Zones", "Compose"]


@pytest.fixture
def emulator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Emulator]:
    """Three GPUs in box-a and one in box-b; the service offers the way that the test names."""
    spec = document(["redfish"], gpus=0, memory=0, settings={"redfish": {"dialects": [request.param]}})
    spec["boxes"] = [{"id": "box-a", "fabric": 1}, {"id": "box-b", "fabric": 1}]
    spec["fabrics"][0]["devices"] = [{"model": GPU, "serials": [f"GPU-a{n}" for n in range(3)], "box": "box-a"},
                                     {"model": GPU, "serials": ["GPU-b0"], "box": "box-b"}]
    with Emulator.run(spec, tmp_path / "emulator") as running:
        yield running


def paths(emulator: Emulator) -> list[str]:
    """What was asked for."""
    return [str(entry["path"]).rstrip("/") for entry in emulator.log()]


@pytest.mark.parametrize("emulator", WAYS, indirect=True)
def test_boxes_are_told_and_stay_when_a_device_moves(emulator: Emulator, client: Client) -> None:
    fabric = client(emulator)
    before = {device.uid: device.box for device in fabric.devices()}
    assert sorted(box or "" for box in before.values()) == ["box-a", "box-a", "box-a", "box-b"]
    assert fabric.snapshot([GPU]).free_in_boxes == {(GPU, 1, "box-a"): 3, (GPU, 1, "box-b"): 1}
    (came,) = fabric.attach(NODE_0, GPU).devices
    assert came.box == before[came.uid]
    assert [device.box for device in fabric.machine(NODE_0).devices] == [came.box]
    seen = fabric.snapshot([GPU])
    assert [device.box for device in seen.machines[NODE_0].devices] == [came.box]
    assert sum(seen.free_in_boxes.values()) == seen.free[GPU, 1] == 3
    assert {device.uid: device.box for device in fabric.devices()} == before


@pytest.mark.parametrize(("emulator", "read"), [
    ("AddResourceBlock", {"CompositionService", "CompositionService/ResourceBlocks",
                          "CompositionService/ResourceZones", "Systems"}),
    ("Connections", {"Fabrics", "Fabrics/1/Connections", "Fabrics/1/Endpoints", "Fabrics/1/Zones", "Systems",
                     "Fabrics/1/Switches", "Fabrics/1/Switches/switch-1/Ports"}),
], indirect=["emulator"])
def test_a_look_reads_no_chassis(emulator: Emulator, client: Client, read: set[str]) -> None:
    """What it reads of blocks, endpoints and switches tells the boxes."""
    assert len(client(emulator).snapshot([GPU]).free_in_boxes) == 2
    asked = {path.removeprefix("/redfish/v1").strip("/") for path in paths(emulator)}
    assert asked - {"", "SessionService/Sessions"} == read
