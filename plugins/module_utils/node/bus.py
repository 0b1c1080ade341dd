# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes to a node's PCI bus: rescan, bind and unbind a driver, remove a device.

Standard library only, Python 3.8, because the file runs on nodes. Each write has its own process,
because a process that hangs in the kernel cannot be ended. ``patience`` is always in seconds.
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
# A driver is bound when the write returns, or never. Other devices of the node wait meanwhile.
BIND_SECONDS = 3.0
_WRITER = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())"


class NotDone(NodeTrouble):
    """The kernel did not do the written request. Its reason is CommandFailed."""

    def __init__(self, message: str) -> None:
        super().__init__(COMMAND_FAILED, message)


class Hangs(NotDone):
    """The kernel does not answer. The write is still in flight."""


def rescan(root: Path, patience: float) -> list[pci.PciDevice]:
    """Request a rescan of the whole bus.

    Return the devices that appeared meanwhile. More may follow (``await_device``). Raise NotDone if
    the kernel refuses or does not answer, and NotProven if the bus cannot be read.
    """
    return _appeared(root, root / "sys/bus/pci/rescan", patience)


def rescan_port(root: Path, bridge: str, patience: float) -> list[pci.PciDevice]:
    """Request a rescan behind one bridge. ``bridge`` is its PCI address.

    This does not affect other devices. Return and raise as ``rescan``.
    """
    return _appeared(root, root / "sys/bus/pci/devices" / bridge / "rescan", patience)


def _appeared(root: Path, path: Path, patience: float) -> list[pci.PciDevice]:
    before = {d.address for d in pci.devices(root)}
    ask(root, path, "1", patience)
    return [d for d in pci.devices(root) if d.address not in before]


def await_device(root: Path, wanted: str, patience: float) -> pci.PciDevice | None:
    """Wait for the device with this UUID or address. Return None after ``patience``."""
    until(lambda: pci.find(root, wanted) is not None, patience)
    return pci.find(root, wanted)


def bind(root: Path, address: str, driver: str, patience: float) -> bool:
    """Request that the kernel bind the device to ``driver``, or to any driver if it is empty.

    Return True if it is bound. Raise NotDone if the kernel refuses or does not answer.
    """
    entry = root / "sys/bus/pci/devices" / address
    if driver and (entry / "driver_override").exists():
        ask(root, entry / "driver_override", driver, patience)
    ask(root, root / "sys/bus/pci/drivers_probe", address, patience)
    return until((entry / "driver").is_symlink, min(patience, BIND_SECONDS))


def unbind(root: Path, device: pci.PciDevice, patience: float) -> bool:
    """Unbind the device's driver. Return True if it is unbound. Raise NotDone."""
    entry = root / "sys/bus/pci/devices" / device.address
    if device.driver is None:
        return True
    ask(root, root / "sys/bus/pci/drivers" / device.driver / "unbind", device.address, patience)
    return until(lambda: not (entry / "driver").is_symlink(), patience)


def remove(root: Path, address: str, patience: float) -> None:
    """Remove the device from the bus and return when it is gone. The caller must prove it is idle.

    Raise Hangs if the kernel does not answer within ``patience``. Then the write remains and may
    still take effect. Raise NotDone if the kernel refuses, and Hangs if the device stays on the
    bus.
    """
    deadline = time.monotonic() + patience
    ask(root, removal_file(root, address), "1", patience)
    await_gone(root, address, max(0.0, deadline - time.monotonic()))


def await_gone(root: Path, address: str, patience: float) -> None:
    """Wait until the device is off the bus. Raise Hangs."""
    entry = root / "sys/bus/pci/devices" / address
    if not until(lambda: not entry.exists(), patience):
        raise Hangs(f"{address} is still on the bus {patience:g} s after the request to remove it")


def removal_file(root: Path, address: str) -> Path:
    """Return the file to which a removal is written."""
    return root / "sys/bus/pci/devices" / address / "remove"


def removing(root: Path, address: str) -> str:
    """Return the process that is still writing to the removal file, or empty."""
    return left_behind.running(root, str(removal_file(root, address).relative_to(root)))


def until(done: Callable[[], bool], patience: float) -> bool:
    """Return True as soon as the condition is true, or False after ``patience``."""
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def ask(root: Path, path: Path, text: str, patience: float) -> None:
    """Write to a file of the kernel, unless an earlier write is in flight. Raise as ``write``."""
    work = str(path.relative_to(root))
    earlier = left_behind.running(root, work)
    if earlier:
        raise Hangs(f"{path}: the kernel has not answered an earlier write of process {earlier}. The device may hang")
    write(path, text, patience, lambda pid: left_behind.note(root, work, pid))


def write(path: Path, text: str, patience: float, begun: Callable[[int], None] = lambda pid: None) -> None:
    """Write ``text`` to a file of the kernel in a separate process.

    ``begun`` receives the number of the process. Raise NotDone, or Hangs if the kernel does not
    answer.
    """
    writer = subprocess.Popen([sys.executable, "-I", "-S", "-c", _WRITER, str(path), text], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        begun(writer.pid)
        said = writer.communicate(timeout=patience)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        raise Hangs(f"{path}: the kernel has not answered for {patience:g} s. The device may hang") from None
    except OSError as error:
        raise Hangs(f"{path}: process {writer.pid} writes to it and cannot be recorded: {error}") from None
    if writer.returncode:
        raise NotDone(f"{path} cannot be written: {said.splitlines()[-1] if said else 'no reason given'}")
