# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes' hardware on a real API server: devices appear, are announced, used, removed, and survive restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.e2e.lab_support import SLICES, create_pod_with_claim, phase, wait_for


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[FakeFabric]:
    fake = FakeFabric(tmp_path / "fabric")
    yield fake
    fake.stop()


def announced(lab: Lab, node: str) -> list[str] | None:
    """UUIDs in the node's slice; None when it has none."""
    items = lab.api.get(f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    if not items:
        return None
    assert len(items) == 1
    return [device["attributes"]["uuid"]["string"] for device in items[0]["spec"].get("devices") or []]


def test_hardware_appears_is_announced_used_and_goes(lab: Lab, lab_namespace: str, fabric: FakeFabric) -> None:
    lab.attach_hardware(fabric.url, fabric.ca, announce_delay=0.01)
    fabric.show(("a", "node-0"), ("b", None))
    wait_for("the slice", lambda: announced(lab, "node-0") == ["GPU-a"])
    tree = lab.node_folder("node-0")
    (folder,) = (tree / "sys/bus/pci/devices").iterdir()
    information = (tree / "proc/driver/nvidia/gpus" / folder.name / "information").read_text()
    create_pod_with_claim(lab, lab_namespace, "uses-gpu")
    wait_for("a running pod", lambda: phase(lab, lab_namespace, "uses-gpu") == "Running")
    fabric.show(("a", None), ("b", None))
    wait_for("the empty slice", lambda: announced(lab, "node-0") == [])
    assert (tree / "sys/bus/pci/devices").exists()
    assert "GPU UUID: \t GPU-a\n" in information
    assert "Device Minor: \t 0\n" in information
    assert not list((tree / "sys/bus/pci/devices").iterdir())
    assert announced(lab, "node-1") is None
    lab.detach_hardware()


def test_manual_rescan_and_removal(lab: Lab, fabric: FakeFabric) -> None:
    lab.attach_hardware(fabric.url, fabric.ca, announce_delay=0.01, rescan="manual")
    tree = lab.node_folder("node-0")
    # The other node's device, found by its own rescan, shows that the simulator has seen this state.
    fabric.show(("m", "node-0"), ("n", "node-1"))

    def rescan(node: str) -> bool:
        (lab.node_folder(node) / "sys/bus/pci/rescan").write_text("1")
        return announced(lab, node) not in (None, [])

    wait_for("node-1's device", lambda: rescan("node-1"))
    before = announced(lab, "node-0")
    wait_for("node-0's device", lambda: rescan("node-0"))
    (folder,) = (tree / "sys/bus/pci/devices").iterdir()
    (folder / "remove").write_text("1")
    wait_for("the empty slice", lambda: announced(lab, "node-0") == [])
    assert before in (None, [])
    fabric.show()
    wait_for("no device", lambda: announced(lab, "node-1") == [])
    lab.detach_hardware()


def test_simulator_survives_restart_and_absence_of_the_fabric(lab: Lab, fabric: FakeFabric) -> None:
    lab.attach_hardware(fabric.url, fabric.ca, announce_delay=0.0)
    fabric.show(("r", "node-1"))
    wait_for("the first device", lambda: announced(lab, "node-1") == ["GPU-r"])
    lab.stop_component("hardware")
    fabric.show(("r", "node-1"), ("s", "node-1"))
    lab.start_component("hardware")
    wait_for("the second device", lambda: announced(lab, "node-1") == ["GPU-r", "GPU-s"])
    fabric.stop()
    fabric.show(("s", "node-1"))
    fabric.start()
    wait_for("what changed meanwhile", lambda: announced(lab, "node-1") == ["GPU-s"], 60)
    fabric.show()
    wait_for("no device", lambda: announced(lab, "node-1") == [])
    lab.detach_hardware()
