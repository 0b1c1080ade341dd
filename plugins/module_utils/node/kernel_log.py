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
_PREFIX = re.compile(r"^\d+,\d+,\d+,[^;]*;")
_XID = re.compile(r"Xid \(PCI:(?P<slot>[0-9a-f:]+)(?:\.\d)?\): (?P<number>\d+)", re.IGNORECASE)
_OTHERS = ((INIT_FAILED, re.compile(r"RmInitAdapter failed")),
           (NO_SPACE, re.compile(r"no space for|failed to assign|can't assign; no space")),
           (IN_USE, re.compile(r"non-zero usage count")),
           # Before and after Linux 6.8.
           (PROBE_FAILED, re.compile(r"probe (?:of|with driver) .*failed with error")))
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", re.IGNORECASE)


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
        """The whole lines since the last call, without what the kernel puts before them."""
        while self._fd >= 0:
            part = self._read()
            if not part:
                break
            self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        texts = (line.decode("utf-8", "replace") for line in lines)
        # A line that begins with a space belongs to the record before it: names and values for programs.
        return [_PREFIX.sub("", text) for text in texts if text and not text.startswith(" ")]

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _RECORD)
        except BrokenPipeError:  # records were overwritten before they were read; the next read goes on after them
            return self._read()
        except OSError:
            return b""


def faults(lines: list[str], address: str) -> list[Fault]:
    """What the lines say of the device at this PCI address, in their order."""
    told = (_fault(line) for line in lines if _is_of(line, address))
    return [fault for fault in told if fault is not None]


def _fault(line: str) -> Fault | None:
    xid = _XID.search(line)
    if xid:
        return Fault(XID, line.strip(), int(xid.group("number")))
    return next((Fault(kind, line.strip()) for kind, pattern in _OTHERS if pattern.search(line)), None)


def _is_of(line: str, address: str) -> bool:
    """Whether the line names the device; the NVIDIA driver leaves out the function, and may write a longer domain."""
    return any(_slot(found) == _slot(address) for found in _ADDRESS.findall(line))


def _slot(address: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in address.partition(".")[0].split(":"))
