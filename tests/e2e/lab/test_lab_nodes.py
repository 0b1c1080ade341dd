# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated nodes on a real API server: nothing is announced, removed or brought back that nobody cared for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.node.bus import port_address
from ansible_collections.composable.infra.lab.pytest_plugin import LabFactory
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.e2e.support.lab_support import (
    create_pod_with_claim,
    phase,
    wait_for,
)

FIRST = "0000:10:00.0"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    """A lab of this file's own: its nodes keep what was on their buses."""
    return lab_factory(nodes=2)


@pytest.fixture
def fabric(lab: Lab, tmp_path: Path) -> Iterator[FakeFabric]:
    fake = FakeFabric(tmp_path / "fabric")
    lab.attach_hardware(fake.url, fake.ca, plugin_start=0.0, plugin_grace=0.3)
    yield fake
    clear(lab, fake)
    lab.detach_hardware()
    fake.stop()


def clear(lab: Lab, fabric: FakeFabric) -> None:
    """Empty the nodes as it should be done."""
    for node in lab.nodes:
        folder = lab.node_folder(node)
        for kind in faults.read(folder):
            lab.switch_fault(node, kind, on=False)
        for address in by_hand.gpus(folder):
            (folder / "sys/bus/pci/devices" / address / "remove").write_text("1")
        by_hand.restart_plugin(lab, node)
        wait_for("an empty slice", partial(_silent, lab, node))
    fabric.show()


def _silent(lab: Lab, node: str) -> bool:
    return not by_hand.announced(lab, node)


def test_device_is_announced_after_its_first_use_by_a_plugin_that_starts_anew(
    lab: Lab, lab_namespace: str, fabric: FakeFabric
) -> None:
    folder = lab.node_folder("node-0")
    fabric.show(("a", "node-0"), ("b", "node-1"))
    wait_for("bound devices", lambda: by_hand.bound(folder) == [FIRST] == by_hand.bound(lab.node_folder("node-1")))
    # The other node's plugin starts again. It announces a device that nobody has used, and can give it to nobody.
    by_hand.restart_plugin(lab, "node-1")
    wait_for("the other slice", lambda: by_hand.announced(lab, "node-1") == ["GPU-b"])
    wait_for("its record", lambda: by_hand.empty(lab.node_folder("node-1")) == ["GPU-b"])
    assert by_hand.run(folder, "nvidia-smi", "-L") == "GPU 0: H100 (UUID: GPU-a)\n"
    by_hand.restart_plugin(lab, "node-0")
    wait_for("the slice", lambda: by_hand.announced(lab, "node-0") == ["GPU-a"])
    create_pod_with_claim(lab, lab_namespace, "uses-gpu")
    wait_for("a running pod", lambda: phase(lab, lab_namespace, "uses-gpu") == "Running")
    assert by_hand.empty(folder) == []


def test_slice_goes_with_the_plugin_and_comes_back_with_it(lab: Lab, fabric: FakeFabric) -> None:
    folder = lab.node_folder("node-0")
    fabric.show(("a", "node-0"))
    wait_for("a bound device", lambda: by_hand.bound(folder) == [FIRST])
    by_hand.run(folder, "nvidia-smi")
    by_hand.restart_plugin(lab, "node-0")
    wait_for("the slice", lambda: by_hand.announced(lab, "node-0") == ["GPU-a"])
    daemon_set = "/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets/dra-driver-nvidia-gpu-kubelet-plugin"
    aside = {"spec": {"template": {"spec": {"nodeSelector": {"lab.composable.infra/aside": "true"}}}}}
    lab.api.request("PATCH", daemon_set, aside, "application/merge-patch+json")
    wait_for("no slice", lambda: by_hand.announced(lab, "node-0") is None)
    back = {"spec": {"template": {"spec": {"nodeSelector": {"lab.composable.infra/aside": None}}}}}
    lab.api.request("PATCH", daemon_set, back, "application/merge-patch+json")
    wait_for("the slice again", lambda: by_hand.announced(lab, "node-0") == ["GPU-a"])


def test_pulled_device_taints_the_node_and_is_dead_until_it_is_removed(lab: Lab, fabric: FakeFabric) -> None:
    folder = lab.node_folder("node-0")
    fabric.show(("a", "node-0"), ("b", "node-0"))
    wait_for("bound devices", lambda: len(by_hand.bound(folder)) == 2)
    by_hand.run(folder, "nvidia-smi")
    by_hand.restart_plugin(lab, "node-0")
    wait_for("the slice", lambda: by_hand.announced(lab, "node-0") == ["GPU-a", "GPU-b"])
    fabric.show(("b", "node-0"))
    wait_for("Xid 79", lambda: "Xid (PCI:0000:10:00): 79" in by_hand.kernel_log(folder))
    wait_for("taints on both", lambda: taints(lab) == ["gpu.nvidia.com/gpu-lost"] * 2)
    assert by_hand.announced(lab, "node-0") == ["GPU-a", "GPU-b"]
    (folder / "sys/bus/pci/devices" / FIRST / "remove").write_text("1")
    by_hand.restart_plugin(lab, "node-0")
    wait_for("the other device alone", lambda: by_hand.announced(lab, "node-0") == ["GPU-b"])
    assert taints(lab) == []


def taints(lab: Lab) -> list[str]:
    """Keys of the taints on the devices of node-0."""
    spec = by_hand.slice_spec(lab, "node-0") or {}
    return [taint["key"] for device in spec.get("devices") or [] for taint in device.get("taints") or []]


def test_simulator_that_is_killed_goes_on_where_it_was(lab: Lab, fabric: FakeFabric) -> None:
    folder = lab.node_folder("node-0")
    fabric.show(("a", "node-0"))
    wait_for("a bound device", lambda: by_hand.bound(folder) == [FIRST])
    by_hand.run(folder, "nvidia-smi")
    by_hand.restart_plugin(lab, "node-0")
    wait_for("the slice", lambda: by_hand.announced(lab, "node-0") == ["GPU-a"])
    lab.processes.stop("hardware", number=signal.SIGKILL)
    fabric.show(("a", "node-0"), ("b", "node-0"))
    lab.start_component("hardware")
    wait_for("the second device", lambda: len(by_hand.bound(folder)) == 2)
    by_hand.run(folder, "nvidia-smi")
    assert by_hand.announced(lab, "node-0") == ["GPU-a"]
    by_hand.restart_plugin(lab, "node-0")
    wait_for("both", lambda: by_hand.announced(lab, "node-0") == ["GPU-a", "GPU-b"])


def test_faults_are_shown_and_take_effect_while_the_node_runs(lab: Lab, fabric: FakeFabric) -> None:
    lab.switch_fault("node-0", faults.NO_EVENT)
    assert lab.faults() == {"node-0": {faults.NO_EVENT}}
    folder = lab.node_folder("node-0")
    fabric.show(("a", "node-0"), ("b", "node-1"))
    wait_for("the other node's device", lambda: by_hand.bound(lab.node_folder("node-1")) == [FIRST])
    assert by_hand.gpus(folder) == []
    (folder / "sys/bus/pci/devices" / port_address(0) / "rescan").write_text("1")
    assert by_hand.gpus(folder) == [FIRST]
