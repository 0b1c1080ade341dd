# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sanitize the content of CXL memory by the kernel, if the device supports it.

Sources: Linux since 6.5, `Documentation/ABI/testing/sysfs-bus-cxl` (`memX/security/state`,
`sanitize` and `erase`) and `drivers/cxl/core/mbox.c` (`cxl_mem_sanitize`). The kernel answers EBUSY
while a decoder of the memory is committed, and while the driver `cxl_mem` does not have it, as
after `cxl disable-memdev`. It sanitizes in the background, and `state` reads `sanitize` meanwhile.
Without one of these files, the device does not support it. CXL 3.0, 8.2.9.8.5.1: memory with a
failed or interrupted sanitizing gives no content until a later one succeeds.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

from pathlib import Path

from . import bus, pci
from .evidence import COMMAND_FAILED, NOT_PROVEN, OPEN_ON_NODE, SANITIZING, NodeTrouble
from .probe import NotProven

# An erasure changes the keys of the memory's encryption, and is done when the write returns.
_FILES = ("sanitize", "erase")
_UNDER_WAY, _BUSY = "sanitize", "Device or resource busy"


def offered(root: Path, address: str) -> str:
    """Return the path below ``root`` of the file that sanitizes the memory, or empty.

    ``address`` is the PCI address of any device.
    """
    name = pci.memdev(root, address)
    security = root / "sys/bus/pci/devices" / address / name / "security"
    found = (security / file for file in _FILES if name)
    return next((str(path.relative_to(root)) for path in found if path.exists()), "")


def is_under_way(root: Path, address: str) -> bool:
    """Return whether the kernel is sanitizing the memory. Raise NotProven if that is unknown."""
    path = (root / offered(root, address)).parent / "state"
    try:
        return path.read_text(encoding="ascii").strip() == _UNDER_WAY
    except (OSError, UnicodeDecodeError) as error:
        raise NotProven(f"{path} cannot be read: {error}") from None


def start(root: Path, address: str, patience: float) -> None:
    """Request that the kernel sanitize memory that supports it. The caller must prove it is idle.

    ``patience`` is the time limit of the write in seconds. The sanitizing continues after it. Raise
    NodeTrouble: OpenOnNode while the memory is in use, else CommandFailed.
    """
    try:
        bus.ask(root, root / offered(root, address), "1", patience)
    except bus.NotDone as error:
        reason = OPEN_ON_NODE if _BUSY in error.message else COMMAND_FAILED
        raise NodeTrouble(reason, f"the memory of {address} cannot be sanitized: {error.message}") from None


def await_end(root: Path, address: str, patience: float) -> None:
    """Return when the kernel is not sanitizing the memory.

    Raise NodeTrouble: Sanitizing after ``patience`` seconds, NotProven.
    """
    try:
        ended = bus.until(lambda: not is_under_way(root, address), patience)
    except NotProven as error:
        raise NodeTrouble(NOT_PROVEN, f"cannot find out whether the memory is sanitized: {error}") from None
    if not ended:
        raise NodeTrouble(SANITIZING, f"the kernel is sanitizing the memory of {address}, which may take hours. Wait")


def not_offered(address: str) -> str:
    """Return the sentence about memory that the kernel cannot sanitize."""
    return (f"the kernel offers no way to sanitize the memory of {address}. A claim gets the memory only "
            "in a namespace that the node agents' option --unsanitized-memory names")
