# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node agents' own driver on a real node with a device that is no GPU: attached by hand, announced, and used.

It has no UUID and no tool of a vendor: its driver shows a render node of DRM, by its PCI address it is known.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.names import OWN_DRIVER, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support import real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

Json = dict[str, t.Any]
MODEL, NODE = "Example-Accelerator", "real-0"


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """A real node whose agent offers any PCI device; one is attached by hand."""
    made = stage_factory(nodes=0, real_nodes=1, devices={MODEL: 1}, attach=0.1, driver=OWN_DRIVER)
    Installed(made, controllers_agent_dra_kinds=["generic-pci"])
    connect(EngineConfig.load(str(made.config_path)).fabric).attach(machine_uuid(NODE), MODEL)
    return made


def offered(stage: Stage) -> list[Json]:
    """Devices in the slices of the node."""
    return [device for item in stage.client.list(SLICES).items if slices.node(item) == NODE
            for device in slices.devices(item)]


def address(stage: Stage) -> str:
    """PCI address of the only device of its class."""
    found = (path for path in (stage.lab.node_folder(NODE) / "sys/bus/pci/devices").iterdir() if _is_accelerator(path))
    return next((path.name for path in found), "")


def _is_accelerator(device: Path) -> bool:
    return (device / "class").read_text(encoding="utf-8").startswith("0x12")


def test_any_pci_device_comes_from_the_fabric_into_a_container(stage: Stage) -> None:
    there = wait_for("the device is on the bus", lambda: address(stage))
    (device,) = wait_for("the device is announced", lambda: offered(stage))
    attributes = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
    assert device["name"] == f"pci-{there.replace(':', '-').replace('.', '-')}"
    assert (attributes["type"], attributes["resource.kubernetes.io/pciBusID"]) == ("pci", there)
    assert (attributes["pciVendor"], attributes["pciDevice"]) == ("1234", "0001")
    request = {"name": "gpu", "exactly": {"deviceClassName": OWN_DRIVER}}
    claim = {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}}
    stage.lab.api.request("POST", real_pods.CLAIMS, claim)
    stage.pod_only("one", NODE)
    assert stage.first_line("one", "work", 60.0) == f"devices: PCI_DEVICE_{there.translate({58: 95, 46: 95})}={there}"
    assert "dri" in stage.printed("one").split()
    assert stage.first_line("one", "beside") == "devices: "
    assert "dri" not in stage.printed("one", "beside").split()
    real_pods.delete_with_claims(stage.lab, "one")
