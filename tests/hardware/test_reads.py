# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real node shows of its GPU: sysfs, the driver's own files, NVML through nvidia-smi, and the kernel log."""

from __future__ import annotations

import os
import re

import pytest

from ansible_collections.composable.infra.controller.agent.host_operations import HostOperations
from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import LINK_DEGRADED, TOUCHED, Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.kernel_log import XID, KernelLog, faults
from ansible_collections.composable.infra.tests.hardware.node import OPTIONS, ROOT


def test_nvidia_smi_lists_the_gpu(host: Host, evidence: Evidence, gpu: pci.PciDevice) -> None:
    """Its UUID is the one in the driver's own files, and the agent sees it."""
    assert evidence.has(TOUCHED)
    assert evidence.trouble is None or evidence.trouble.reason == LINK_DEGRADED, evidence.trouble
    assert evidence.uuid.startswith("GPU-")
    assert gpu.uuid == evidence.uuid
    assert evidence.uuid in (HostOperations(host, OPTIONS).uuids() or ())


def test_numbers_of_its_files(gpu: pci.PciDevice) -> None:
    """The idle proof goes by the numbers that sysfs and the driver's files give. They must be those in /dev."""
    found = [os.stat(ROOT / file.lstrip("/")).st_rdev for file in pci.device_files(ROOT, gpu)]
    assert sorted(f"{os.major(number)}:{os.minor(number)}" for number in found) == sorted(
        pci.device_numbers(ROOT, gpu))


def test_it_answers_and_has_a_link(gpu: pci.PciDevice) -> None:
    assert not pci.is_lost(ROOT, gpu.address)
    link = pci.link(ROOT, gpu.address)
    assert link is not None
    assert 0 < link.width <= link.max_width


def test_it_has_its_memory_windows(gpu: pci.PciDevice) -> None:
    assert pci.bars_without_room(ROOT, gpu.address) == []


def test_room_behind_its_bridge(gpu: pci.PciDevice) -> None:
    """The room that plans keep to holds at least the windows of the GPU that is there."""
    entry = (ROOT / "sys/bus/pci/devices" / gpu.address).resolve()
    if not (entry.parent / "resource").exists():
        pytest.skip(f"sysfs shows no bridge above {gpu.address}, as in a virtual machine: test on the host itself")
    lines = [line.split() for line in (entry / "resource").read_text(encoding="ascii").splitlines()[:6]]
    windows = [int(end, 16) - int(start, 16) + 1 for start, end, _flags in lines if int(end, 16)]
    assert pci.memory_windows(ROOT, [entry.parent.name]) >= sum(windows) > 0


def test_kernel_log_is_readable(host: Host) -> None:
    with KernelLog(ROOT, whole=True) as log:
        assert log.new_lines()


def test_every_xid_is_understood(host: Host) -> None:
    with KernelLog(ROOT, whole=True) as log:
        lines = [line for line in log.new_lines() if line.startswith("NVRM: Xid (")]
    if not lines:
        pytest.skip("the kernel log has no Xid: test again on a node that had one since its boot")
    assert [line for line in lines if not is_understood(line)] == []


def is_understood(line: str) -> bool:
    """Whether the product sees an Xid of the device whose address is in the line."""
    address = re.search(r"[0-9a-f]{4,8}(:[0-9a-f]{2}){2}", line)
    return address is not None and [fault.kind for fault in faults([line], address.group())] == [XID]
