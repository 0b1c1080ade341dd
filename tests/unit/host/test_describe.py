# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says of itself, and which packages bring its driver."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter import driver_packages as plugin
from ansible_collections.composable.infra.plugins.plugin_utils.host.describe import describe
from ansible_collections.composable.infra.plugins.plugin_utils.host.packages import Unsupported, driver_packages
from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import lookup

SLES = 'NAME="SLES"\nID="sles"\nVERSION_ID="15.6"\n# comment\nEMPTY=\n'


def test_a_host_is_described() -> None:
    found = describe(
        "node-0",
        {
            "os_release": SLES,
            "cmdline": "quiet\n",
            "modules": "nouveau 1 0 - Live 0x0\nnvme 2 1\n",
            "modeset": "Y\n",
            "persistenced": "12\n",
            "gpus": "GPU 0: NVIDIA A100 (UUID: GPU-0a-1)\nGPU 1: NVIDIA A100 (UUID: GPU-0b-2)\n",
        },
    )
    assert found == {
        "name": "node-0",
        "system": "SLES",
        "system_version": "15.6",
        "cmdline": "quiet",
        "nouveau": True,
        "nvidia": False,
        "modeset": "Y",
        "persistenced": True,
        "gpus": ["GPU-0a-1", "GPU-0b-2"],
    }


def test_a_host_that_says_nothing() -> None:
    found = describe("x", {})
    assert (found["system"], found["nouveau"], found["persistenced"], found["gpus"]) == ("unknown", False, False, None)


def test_an_empty_bus_means_no_gpus_though_the_driver_cannot_say() -> None:
    assert describe("x", {"pci": "\n"})["gpus"] == []
    assert describe("x", {"pci": "0000:01:00.0 3D controller [0302]: NVIDIA [10de:20b5]\n"})["gpus"] is None


@pytest.mark.parametrize(
    ("identity", "system"), [("sles", "SLES"), ("rhel", "RedHat"), ("ubuntu", "Ubuntu"), ("rhcos", "RHCOS")]
)
def test_systems(identity: str, system: str) -> None:
    assert describe("x", {"os_release": f"ID={identity}\nVERSION_ID='1'\n"})["system"] == system


def host(system: str, version: str) -> dict[str, str]:
    return {"system": system, "system_version": version}


@pytest.mark.parametrize(
    ("system", "version", "packages"),
    [
        ("SLES", "15.6", ["nv-prefer-signed-open-driver", "nvidia-compute-utils-G06=580.173.02"]),
        ("RedHat", "9.6", ["@nvidia-driver:580-open", "nvidia-driver-cuda", "libnvidia-ml"]),
        ("RedHat", "10.1", ["kmod-nvidia-open-dkms", "nvidia-driver-cuda", "libnvidia-ml"]),
        (
            "Ubuntu",
            "24.04",
            [
                "nvidia-headless-580-server-open",
                "nvidia-utils-580-server",
                "linux-modules-nvidia-580-server-open-generic",
            ],
        ),
    ],
)
def test_packages(system: str, version: str, packages: list[str]) -> None:
    assert driver_packages(host(system, version), 580, lookup("driver")) == packages


def test_every_system_of_the_matrix_has_packages() -> None:
    driver = lookup("driver")
    for system, versions in driver["systems"].items():
        for version in versions:
            assert driver_packages(host(system, version), driver["default_branch"], driver)


@pytest.mark.parametrize(
    ("system", "branch", "says"),
    [
        ("Debian", 580, "no driver packages are known for Debian: use one of RedHat, SLES, Ubuntu"),
        ("SLES", 570, "the matrix has no full version of branch 570 for SLES: use one of 580, 595, 610"),
    ],
)
def test_what_is_unknown_is_explained(system: str, branch: int, says: str) -> None:
    with pytest.raises(Unsupported) as raised:
        driver_packages(host(system, "15"), branch, lookup("driver"))
    assert str(raised.value) == says
    with pytest.raises(AnsibleFilterError, match=says.partition(":")[0]):
        plugin.FilterModule().filters()["driver_packages"](host(system, "15"), branch, lookup("driver"))
