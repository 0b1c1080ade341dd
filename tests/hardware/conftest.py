# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU under test; without one, or without what the suite needs, every test is skipped with one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import bus, pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.tests.hardware.node import (
    OPTIONS,
    ROOT,
    chosen,
    no_gpu,
    refusal,
    touch,
    unusable,
)


@pytest.fixture(scope="session")
def host() -> Host:
    """This node."""
    missing = no_gpu(ROOT) or unusable(ROOT, os.geteuid())
    if missing:
        pytest.skip(missing)
    return Host(ROOT)


@pytest.fixture(scope="session")
def evidence(host: Host) -> Evidence:
    """What the product writes down about the GPU's first use. GPU: its address or UUID, where a node has several."""
    return touch(host, chosen(ROOT, os.environ.get("GPU", "")))


@pytest.fixture
def gpu(evidence: Evidence) -> pci.PciDevice:
    """The GPU as sysfs and the driver show it now."""
    return pci.need(ROOT, evidence.address)


@pytest.fixture
def expendable(host: Host, gpu: pci.PciDevice) -> Iterator[pci.PciDevice]:
    """The GPU, proven idle, for tests that take it away; it is back on its driver afterwards."""
    if os.environ.get("DESTRUCTIVE") != "1":
        pytest.skip("DESTRUCTIVE=1 is not set: make hardware DESTRUCTIVE=1 unbinds, removes and rescans the GPU")
    refused = refusal(host, gpu)
    if refused:
        pytest.fail(refused)
    yield gpu
    if pci.find(ROOT, gpu.address) is None:
        bus.rescan(ROOT, OPTIONS.patience)
    touch(host, pci.need(ROOT, gpu.address))
