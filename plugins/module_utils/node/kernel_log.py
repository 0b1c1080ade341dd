# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New lines of a node's kernel log, and what they say of a device.

The log tells why a step failed; it is never a proof that one went well. So a log that cannot be read is an empty one.
Formats: ``Documentation/ABI/testing/dev-kmsg`` of Linux, and the messages of the NVIDIA driver and of the PCI core.
Standard library only, Python 3.8: it travels to nodes.
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
# Priority and facility together. The kernel's own facility is 0, and what programs write has another.
_PREFIX = re.compile(r"^(\d+),\d+,\d+,[^;]*;")
_KERNEL_FACILITY = range(8)
_ADDRESS = r"(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?"
# Each matches from the beginning of a message up to its fault. What follows may be the name of a program or a file,
# which anybody can choose, and so may be the first 15 bytes of a message.
_FAULTS = tuple((kind, re.compile(pattern.replace("ADDRESS", _ADDRESS), re.IGNORECASE)) for kind, pattern in (
    # In the brackets the driver also names the partition (MIG) that an error is about.
    (XID, r"NVRM: Xid \(PCI:ADDRESS(?: GPU-C?I:[0-9a-f]+)*\): (?P<xid>\d+)"),
    (INIT_FAILED, r"NVRM: GPU ADDRESS: RmInitAdapter failed"),
    (NO_SPACE, r"[\w-]+ ADDRESS: BAR \d+(?: \[[^]]*\])?: (?:no space for|failed to assign|can't assign; no space)"),
    (IN_USE, r"NVRM: Attempting to remove device ADDRESS with non-zero usage count"),
    # Before and after Linux 6.8.
    (PROBE_FAILED, r"[\w-]+: probe of ADDRESS failed with error"),
    (PROBE_FAILED, r"[\w-]+ ADDRESS: probe with driver [\w-]+ failed with error")))


@dataclass(frozen=True)
class Fault:
    """A line that tells of a fault: its kind (XID, INIT_FAILED, NO_SPACE, ...), and the Xid's number, else 0."""

    kind: str
    line: str
    xid: int = 0


class KernelLog:
    """The kernel log from the moment this is made, or the ``whole``. ``root`` is where the node's ``/`` is seen."""

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
        """Let go of the log; it has no more lines."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def new_lines(self) -> list[str]:
        """The kernel's whole lines since the last call, without what it puts before them."""
        while self._fd >= 0:
            part = self._read()
            if not part:
                break
            self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        # A line that begins with a space belongs to the record before it: names and values for programs.
        texts = (_message(line.decode("utf-8", "replace")) for line in lines if not line.startswith(b" "))
        return [text for text in texts if text]

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _RECORD)
        except BrokenPipeError:  # records were overwritten before they were read; the next read goes on after them
            return self._read()
        except OSError:
            return b""


def _message(line: str) -> str:
    """Return the text of a record of the kernel, empty for one that a program wrote."""
    prefix = _PREFIX.match(line)
    if prefix and int(prefix.group(1)) not in _KERNEL_FACILITY:
        return ""
    return line[prefix.end():] if prefix else line


def faults(lines: list[str], address: str) -> list[Fault]:
    """What the lines say of the device at this PCI address, in their order."""
    told = (_fault(line, address) for line in lines)
    return [fault for fault in told if fault is not None]


def _fault(line: str, address: str) -> Fault | None:
    """Return the fault that the line reports of the device, None for none.

    The NVIDIA driver leaves out the device's function, and may write a longer domain.
    """
    for kind, pattern in _FAULTS:
        found = pattern.match(line)
        if found and _slot(found.group("address")) == _slot(address):
            return Fault(kind, line.strip(), int(found.groupdict().get("xid") or 0))
    return None


def _slot(address: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in address.partition(".")[0].split(":"))
