# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log: which lines are new, what they say of a device, and a log that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node.kernel_log import Fault, KernelLog, faults

A = "0000:10:00.0"
XID = "NVRM: Xid (PCI:0000:10:00): 79, pid=4711, name=python, GPU has fallen off the bus."
INIT = "NVRM: GPU 0000:10:00.0: RmInitAdapter failed! (0x26:0x56:1474)"
OLD_SPACE = "pci 0000:10:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]"
FAILED = "pci 0000:10:00.0: BAR 1: failed to assign [mem size 0x1000000000 64bit pref]"
NEW_SPACE = "pci 0000:10:00.0: BAR 1 [mem size 0x1000000000 64bit pref]: can't assign; no space"
OLD_PROBE = "nvidia: probe of 0000:10:00.0 failed with error -1"
NEW_PROBE = "nvidia 0000:10:00.0: probe with driver nvidia failed with error -1"
USED = "NVRM: Attempting to remove device 0000:10:00.0 with non-zero usage count!"


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    """A log with a line of long ago."""
    path = tmp_path / "dev/kmsg"
    path.parent.mkdir()
    path.write_text(f"4,1,1,-;{USED}\n", encoding="utf-8")
    return path


def add(path: Path, text: str) -> None:
    """The kernel writes."""
    with path.open("a", encoding="utf-8") as log:
        log.write(text)


def test_only_new_lines_count_and_each_once(kmsg: Path, tmp_path: Path) -> None:
    with KernelLog(tmp_path) as log:
        assert log.new_lines() == []
        add(kmsg, f"4,815,162342,-;{XID}\n SUBSYSTEM=pci\n DEVICE=+pci:{A}\nwithout a prefix\n")
        assert log.new_lines() == [XID, "without a prefix"]
        assert log.new_lines() == []


def test_whole_log_has_the_old_lines(kmsg: Path, tmp_path: Path) -> None:
    with KernelLog(tmp_path, whole=True) as log:
        assert log.new_lines() == [USED]


def test_line_counts_when_it_is_whole(kmsg: Path, tmp_path: Path) -> None:
    with KernelLog(tmp_path) as log:
        add(kmsg, f"4,2,2,-;{XID[:20]}")
        assert log.new_lines() == []
        add(kmsg, f"{XID[20:]}\n")
        assert log.new_lines() == [XID]


def test_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    with KernelLog(tmp_path) as log:
        assert log.new_lines() == []


@pytest.mark.parametrize(("line", "fault"), [
    (XID, Fault("Xid", XID, 79)), (INIT, Fault("RmInitAdapter", INIT)), (OLD_SPACE, Fault("no space", OLD_SPACE)),
    (FAILED, Fault("no space", FAILED)), (NEW_SPACE, Fault("no space", NEW_SPACE)), (USED, Fault("in use", USED)),
    (OLD_PROBE, Fault("probe failed", OLD_PROBE)), (NEW_PROBE, Fault("probe failed", NEW_PROBE))],
    ids=lambda value: value.kind if isinstance(value, Fault) else "")
def test_faults_of_a_device(line: str, fault: Fault) -> None:
    assert faults(["pci 0000:10:00.0: enabling device", line], A) == [fault]
    assert faults([line], "0000:11:00.0") == []
    assert faults([line], "0001:10:00.0") == []


def test_domain_may_be_written_longer() -> None:
    line = "NVRM: Xid (PCI:00000000:0a:00): 119, pid=1, Timeout after 6s of waiting for RPC response"
    assert faults([line], "0000:0a:00.0") == [Fault("Xid", line, 119)]


@pytest.mark.parametrize("partition", [" GPU-I:05", " GPU-I:05 GPU-CI:00"])
def test_fault_of_a_partition_is_one_of_its_gpu(partition: str) -> None:
    """Source: the comments of NVIDIA's open kernel modules on contained errors (Xid 94) with MIG."""
    line = f"NVRM: Xid (PCI:0000:10:00{partition}): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"
    assert faults([line], A) == [Fault("Xid", line, 94)]


def test_lines_without_an_address_are_nobodys() -> None:
    assert faults(["NVRM: No NVIDIA GPU found.", "RmInitAdapter failed"], A) == []


# What a program's name, the name of its file, or another device's line can bring into the log. The kernel writes the
# name of a process first, cut after 15 bytes, and then its number.
CRASH = "[31337]: segfault at 0 ip 0000000000401136 sp 00007ffd0f5c1a10 error 6 in {name}[401000+1000]"


@pytest.mark.parametrize("name", [
    XID, INIT, USED, OLD_SPACE, FAILED, NEW_SPACE, OLD_PROBE, NEW_PROBE], ids=lambda line: line[:12])
@pytest.mark.parametrize("process", ["a.out", ""], ids=["any name", "the beginning of the line"])
def test_name_of_a_program_that_crashed_is_no_fault(name: str, process: str) -> None:
    assert faults([f"{process or name[:15]}{CRASH.format(name=name)}"], A) == []


def test_process_that_another_devices_fault_names_says_nothing_of_a_device() -> None:
    line = "NVRM: Xid (PCI:0000:11:00): 31, pid=4711, name=0000:10:00.0, Ch 00000010"
    assert faults([line], A) == []
    assert faults([line], "0000:11:00.0") == [Fault("Xid", line, 31)]


def test_line_of_a_program_that_writes_to_the_log_is_not_the_kernels(kmsg: Path, tmp_path: Path) -> None:
    """The kernel gives it another facility than its own, which is 0, the numbers below 8."""
    with KernelLog(tmp_path) as log:
        add(kmsg, f"12,2,2,-;{XID}\n DEVICE=+pci:{A}\n3,3,3,-,caller=T7;{INIT}\n30,4,4,-;systemd[1]: Started.\n")
        assert log.new_lines() == [INIT]
