# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to a node's PCI bus: look for devices, bind and unbind a driver, take a device away.

Standard library only, Python 3.8: it travels to nodes. Each write is done by a process of its own, since one that hangs
in the kernel cannot be ended, only left behind. ``patience`` is always seconds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import left_behind, pci
from .evidence import COMMAND_FAILED, NodeTrouble

POLL_SECONDS = 0.02
# A driver is bound when the write returns, or not at all; other devices of the node wait meanwhile.
BIND_SECONDS = 3.0
_WRITER = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())"


class NotDone(NodeTrouble):
    """The kernel did not do what was written to it; the message says what was seen. Its reason is CommandFailed."""

    def __init__(self, message: str) -> None:
        super().__init__(COMMAND_FAILED, message)


class Hangs(NotDone):
    """The kernel does not answer; what was written is still under way."""


def rescan(root: Path, patience: float) -> list[pci.PciDevice]:
    """Have the kernel look for new devices on the whole bus.

    Returns the devices that appeared meanwhile; others may follow, see ``await_device``. Raises NotDone when the kernel
    refuses or does not answer, NotProven when the bus cannot be read.
    """
    return _appeared(root, root / "sys/bus/pci/rescan", patience)


def rescan_port(root: Path, bridge: str, patience: float) -> list[pci.PciDevice]:
    """The same behind one bridge only, which leaves all other devices alone. ``bridge``: its PCI address."""
    return _appeared(root, root / "sys/bus/pci/devices" / bridge / "rescan", patience)


def _appeared(root: Path, path: Path, patience: float) -> list[pci.PciDevice]:
    before = {d.address for d in pci.devices(root)}
    ask(root, path, "1", patience)
    return [d for d in pci.devices(root) if d.address not in before]


def await_device(root: Path, wanted: str, patience: float) -> pci.PciDevice | None:
    """The device with this UUID or address as soon as the node shows it, None when it does not within ``patience``."""
    until(lambda: pci.find(root, wanted) is not None, patience)
    return pci.find(root, wanted)


def bind(root: Path, address: str, driver: str, patience: float) -> bool:
    """Have the kernel bind the device to a driver; ``driver`` empty: to the one that it finds.

    True when it is bound. Raises NotDone when the kernel refuses or does not answer.
    """
    entry = root / "sys/bus/pci/devices" / address
    if driver and (entry / "driver_override").exists():
        ask(root, entry / "driver_override", driver, patience)
    ask(root, root / "sys/bus/pci/drivers_probe", address, patience)
    return until((entry / "driver").is_symlink, min(patience, BIND_SECONDS))


def unbind(root: Path, device: pci.PciDevice, patience: float) -> bool:
    """Have the device's driver let go of it. True when it has; raises NotDone."""
    entry = root / "sys/bus/pci/devices" / device.address
    if device.driver is None:
        return True
    ask(root, root / "sys/bus/pci/drivers" / device.driver / "unbind", device.address, patience)
    return until(lambda: not (entry / "driver").is_symlink(), patience)


def remove(root: Path, address: str, patience: float) -> None:
    """Take the device off the bus; returns when it is gone. Whether it is idle is the caller's to prove.

    Raises Hangs when the kernel does not answer within ``patience``: the write is left behind, and may still be done.
    Raises NotDone when the kernel refuses, or the device stays on the bus.
    """
    deadline = time.monotonic() + patience
    ask(root, removal_file(root, address), "1", patience)
    await_gone(root, address, max(0.0, deadline - time.monotonic()))


def await_gone(root: Path, address: str, patience: float) -> None:
    """Wait until the device is off the bus. Raises Hangs."""
    entry = root / "sys/bus/pci/devices" / address
    if not until(lambda: not entry.exists(), patience):
        raise Hangs(f"{address} is still on the bus {patience:g} s after its removal was asked for")


def removal_file(root: Path, address: str) -> Path:
    """The file that a removal is written to."""
    return root / "sys/bus/pci/devices" / address / "remove"


def removing(root: Path, address: str) -> str:
    """Return the process that writes to that file and has not ended, empty for none."""
    return left_behind.running(root, str(removal_file(root, address).relative_to(root)))


def until(done: Callable[[], bool], patience: float) -> bool:
    """Whether the condition holds within ``patience``; returns as soon as it does."""
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def ask(root: Path, path: Path, text: str, patience: float) -> None:
    """Write to a file of the kernel, unless an earlier write to it has not ended. Raises as ``write`` does."""
    work = str(path.relative_to(root))
    earlier = left_behind.running(root, work)
    if earlier:
        raise Hangs(f"{path}: the kernel has not answered an earlier write, process {earlier}; the device may hang")
    write(path, text, patience, lambda pid: left_behind.note(root, work, pid))


def write(path: Path, text: str, patience: float, begun: Callable[[int], None] = lambda pid: None) -> None:
    """Write ``text`` to a file of the kernel, in a process of its own. Raises NotDone, or Hangs when none answers.

    ``begun`` gets the number of that process.
    """
    writer = subprocess.Popen([sys.executable, "-I", "-S", "-c", _WRITER, str(path), text], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        begun(writer.pid)
        said = writer.communicate(timeout=patience)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        raise Hangs(f"{path}: the kernel has not answered for {patience:g} s; the device may hang") from None
    except OSError as error:
        raise Hangs(f"{path}: process {writer.pid} writes to it and cannot be noted: {error}") from None
    if writer.returncode:
        raise NotDone(f"{path} cannot be written: {said.splitlines()[-1] if said else 'no reason given'}")
