# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New lines of a node's kernel log about a device.

The log shows why a step failed, but never proves success. So an unreadable log counts as empty.
Formats: ``Documentation/ABI/testing/dev-kmsg`` of Linux, and the messages of the NVIDIA driver and
of the PCI core. Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

XID, INIT_FAILED, NO_SPACE, IN_USE = "Xid", "RmInitAdapter", "no space", "in use"
PROBE_FAILED = "probe failed"
LOST_XID = 79

_RECORD = 8192
# Priority and facility together. The kernel's own facility is 0. Programs have another facility.
_PREFIX = re.compile(r"^(\d+),\d+,\d+,[^;]*;")
_KERNEL_FACILITY = range(8)
_ADDRESS = r"(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?"
# Each pattern matches a message from its start up to the fault. The text after the fault may be a
# program's or file's name, which any user can choose. So may the first 15 bytes of a message.
_FAULTS = tuple((kind, re.compile(pattern.replace("ADDRESS", _ADDRESS), re.IGNORECASE)) for kind, pattern in (
    # In the brackets the driver also names the partition (MIG) of an error.
    (XID, r"NVRM: Xid \(PCI:ADDRESS(?: GPU-C?I:[0-9a-f]+)*\): (?P<xid>\d+)"),
    (INIT_FAILED, r"NVRM: GPU ADDRESS: RmInitAdapter failed"),
    (NO_SPACE, r"[\w-]+ ADDRESS: BAR \d+(?: \[[^]]*\])?: (?:no space for|failed to assign|can't assign; no space)"),
    (IN_USE, r"NVRM: Attempting to remove device ADDRESS with non-zero usage count"),
    # Before and after Linux 6.8.
    (PROBE_FAILED, r"[\w-]+: probe of ADDRESS failed with error"),
    (PROBE_FAILED, r"[\w-]+ ADDRESS: probe with driver [\w-]+ failed with error")))


@dataclass(frozen=True)
class Fault:
    """A line about a fault.

    ``kind`` is XID, INIT_FAILED, NO_SPACE and so on. ``xid`` is the number of an Xid, or 0.
    """

    kind: str
    line: str
    xid: int = 0


class KernelLog:
    """The kernel log from now on, or the ``whole`` log. ``root`` is the node's ``/``."""

    def __init__(self, root: Path, whole: bool = False) -> None:
        self._rest, self._fd = b"", -1
        try:
            self._fd = os.open(str(root / "dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_SET if whole else os.SEEK_END)
        except OSError:
            self.close()

    def __enter__(self) -> KernelLog:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the log. It has no more lines."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def new_lines(self) -> list[str]:
        """Return the kernel's complete lines since the last call, without their prefixes."""
        while self._fd >= 0:
            part = self._read()
            if not part:
                break
            self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        # A line that begins with a space has names and values of the previous record.
        texts = (_message(line.decode("utf-8", "replace")) for line in lines if not line.startswith(b" "))
        return [text for text in texts if text]

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _RECORD)
        # Records were overwritten before this read. The next read continues after them.
        except BrokenPipeError:
            return self._read()
        except OSError:
            return b""


def _message(line: str) -> str:
    """Return the text of a kernel record, or empty for a program's record."""
    prefix = _PREFIX.match(line)
    if prefix and int(prefix.group(1)) not in _KERNEL_FACILITY:
        return ""
    return line[prefix.end():] if prefix else line


def faults(lines: list[str], address: str) -> list[Fault]:
    """Return the faults in the lines about the device at this PCI address, in their order."""
    told = (_fault(line, address) for line in lines)
    return [fault for fault in told if fault is not None]


def _fault(line: str, address: str) -> Fault | None:
    """Return the fault that the line reports about the device, or None.

    The NVIDIA driver omits the function of the device, and may write a longer domain.
    """
    for kind, pattern in _FAULTS:
        found = pattern.match(line)
        if found and _slot(found.group("address")) == _slot(address):
            return Fault(kind, line.strip(), int(found.groupdict().get("xid") or 0))
    return None


def _slot(address: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in address.partition(".")[0].split(":"))
